//! `config show`: the settings as `serve` would read them, each with the source of its value.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Subcommand};
use serde_json::{Value, json};

use crate::output::{Column, ListTable, ReportArgs};
use crate::serve_args::ServeArgs;
use crate::settings_file::ConfiguredArguments;

const SETTINGS: ListTable = ListTable::new(
    &[Column::id("name"), Column::text("source"), Column::prose("value")],
    "there are no settings",
);

/// Shown in the place of a value that may hold a secret.
const HIDDEN: &str = "(hidden)";

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show each setting as `serve` would read it, and the source of its value.
    Show {
        #[command(flatten)]
        serve: Box<ServeArgs>,
        #[command(flatten)]
        how: ReportArgs,
    },
}

/// Prints the settings that `serve` would read. `config show` takes the flags of `serve`, so the
/// parsed command line of `config show` has all of them. A setting is an argument with a variable.
pub(crate) fn show(
    how: ReportArgs,
    root: &Command,
    matches: &ArgMatches,
    given: &ConfiguredArguments,
) {
    let mut root = root.clone();
    root.build();
    let path = ["config", "show"];
    let command = path.iter().try_fold(&root, |command, name| command.find_subcommand(name));
    let matches = path.iter().try_fold(matches, |matches, name| matches.subcommand_matches(name));
    let (Some(command), Some(matches)) = (command, matches) else {
        unreachable!("clap has parsed `config show`");
    };
    let settings = command.get_arguments().filter(|argument| argument.get_env().is_some());
    let rows = settings.filter_map(|argument| setting_row(argument, matches, given));
    SETTINGS.print(how.into(), rows.collect());
}

fn setting_row(argument: &Arg, matches: &ArgMatches, given: &ConfiguredArguments) -> Option<Value> {
    let name = argument.get_long()?;
    let id = argument.get_id().as_str();
    let texts = matches.get_raw(id).into_iter().flatten();
    let texts: Vec<_> = texts.map(|text| text.to_string_lossy().into_owned()).collect();
    let value = if texts.is_empty() {
        None
    } else if argument.is_hide_env_values_set() {
        Some(HIDDEN.to_owned())
    } else {
        Some(texts.join(","))
    };
    let source = match matches.value_source(id) {
        _ if given.from_file.contains(name) => "file",
        _ if given.from_credentials.contains(name) => "credential",
        Some(ValueSource::CommandLine) => "flag",
        Some(ValueSource::EnvVariable) => "variable",
        _ => "default",
    };
    let variable = argument.get_env().map(|name| name.to_string_lossy());
    Some(json!({"name": name, "value": value, "source": source, "variable": variable}))
}
