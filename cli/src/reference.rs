//! Reference pages written from the command line's own description, for `docs/reference`. A test
//! holds each page to its text here, so a changed flag cannot leave a page behind.

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::{Arg, Command};

use crate::help;

/// Variables that are read by a library, or before the command line is.
const OTHER_VARIABLES: [(&str, &str); 3] = [
    ("RUST_LOG", "The filter of the log, for example `info,sqlx=debug`."),
    ("OTEL_SERVICE_NAME", "The service's name in traces; by default `firmforms`."),
    ("OTEL_EXPORTER_OTLP_HEADERS", "Headers for the collector, its credentials too."),
];

/// The page of settings: every flag that has an environment variable.
#[must_use]
pub fn settings_page() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         Made from the command line's description by `tests/under_test/reference.rs`; do not edit. A flag \
         overrides its variable, and a variable the file of `--config`. A switch is `true` or \
         `false`.\n\n\
         |Flag|Variable|Default|Meaning|\n|-|-|-|-|\n",
    );
    let mut written = BTreeSet::new();
    for command in all_commands() {
        for argument in command.get_arguments() {
            let Some(variable) = argument.get_env() else { continue };
            let variable = variable.to_string_lossy().into_owned();
            if written.insert(variable.clone()) {
                write_row(
                    &mut page,
                    &[
                        &flag_cell(argument),
                        &code_span(&variable),
                        &default(argument),
                        &help_cell(argument),
                    ],
                );
            }
        }
    }
    page.push_str("\nThese variables have no flag:\n\n|Variable|Meaning|\n|-|-|\n");
    for (variable, meaning) in OTHER_VARIABLES {
        write_row(&mut page, &[&code_span(variable), meaning]);
    }
    page
}

/// The page of commands: every command and each of its parts, in the order of `--help`.
#[must_use]
pub fn commands_page() -> String {
    let mut page = String::from(
        "# Commands\n\n\
         Made from the command line's description by `tests/under_test/reference.rs`; do not edit. \
         `firmforms help` names the flags of a command.\n\n\
         |Command|Meaning|\n|-|-|\n",
    );
    for command in all_commands().iter().skip(1) {
        let name = command.get_bin_name().unwrap_or_default();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        write_row(&mut page, &[&code_span(name), &full_sentence(&about)]);
    }
    page
}

/// Every command with its full name: the program itself, then each command before its parts.
fn all_commands() -> Vec<Command> {
    let mut root = help::whole_command();
    root.build();
    let mut found = Vec::new();
    let mut waiting = vec![root];
    while let Some(command) = waiting.pop() {
        let parts = command.get_subcommands().filter(|part| part.get_name() != "help");
        let parts: Vec<Command> = parts.cloned().collect();
        waiting.extend(parts.into_iter().rev());
        found.push(command);
    }
    found
}

fn flag_cell(argument: &Arg) -> String {
    argument.get_long().map(|name| code_span(&format!("--{name}"))).unwrap_or_default()
}

fn default(argument: &Arg) -> String {
    let is_switch = !argument.get_action().takes_values();
    let values = argument.get_default_values().iter().filter(|_| !is_switch);
    values.map(|value| code_span(&value.to_string_lossy())).collect::<Vec<_>>().join(", ")
}

fn help_cell(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    full_sentence(&help.map(ToString::to_string).unwrap_or_default())
}

fn full_sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.ends_with('.') { text } else { text + "." }
}

fn code_span(text: &str) -> String {
    format!("`{text}`")
}

fn write_row(page: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(page, "|{}|", cells.join("|"));
}
