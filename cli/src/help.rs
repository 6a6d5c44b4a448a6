//! The command line as a person meets it: `--help`, usage, completions and manual pages.
//!
//! Examples and exit codes stand below the options. Commands that open no database do not show the
//! options of a connection. The usage line of an error names only the command's own options, not
//! each one that the environment sets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;

use crate::args::{CONNECTION, CliArgs};
use crate::output::Output;

/// The name of the program.
const NAME: &str = "firmforms";

/// The commands that open no database.
const WITHOUT_DATABASE: [&str; 7] =
    ["generate", "health", "listen", "cells", "openapi", "completions", "man"];

/// Words below the options, by command.
const AFTER: &[(&str, &str)] = &[
    (
        "serve",
        "Examples:
  firmforms serve
  firmforms serve --role deliverer --internal-addr 127.0.0.1:8082
  firmforms serve --allow-targets 127.0.0.0/8 --allow-http-targets --mail-dir mails
  firmforms serve --config /etc/firmforms.toml --check

Exit codes:
  0  stopped by a signal
  1  a setting is wrong, or a database refuses
  2  wrong usage",
    ),
    (
        "listen",
        "Examples:
  firmforms listen --answers 200,410,410,429:30,slow:11
  firmforms listen --at 127.0.0.1:9000 --webhook-secret whsec_… --bodies

A service on this machine reaches it with --allow-targets 127.0.0.0/8 --allow-http-targets.",
    ),
    (
        "cells haproxy",
        "Examples:
  firmforms cells haproxy cells.toml > /etc/haproxy/haproxy.cfg

The file:
  public = \"0.0.0.0:443\"
  internal = \"10.0.0.5:8081\"
  certificate = \"/etc/haproxy/forms.pem\"

  [[cells]]
  cell = 0
  servers = [{ public = \"10.0.0.11:8080\", internal = \"10.0.0.11:8081\" }]",
    ),
    (
        "config show",
        "Examples:
  firmforms config show
  firmforms config show --config /etc/firmforms.toml --json",
    ),
    (
        "migrate",
        "Examples:
  firmforms migrate
  firmforms migrate --roles",
    ),
    (
        "ingest",
        "Examples:
  firmforms ingest activity.ndjson
  firmforms generate --firms 1 | firmforms ingest -",
    ),
    (
        "keyring init",
        "Examples:
  firmforms keyring init
  firmforms keyring init --wrapping-key-file /etc/firmforms/wrapping.key",
    ),
    (
        "keys create",
        "Examples:
  firmforms keys create --firm \"Harrow Lane\" --member MEMBER --name Zapier
  KEY=$(firmforms keys create --quiet --firm d6e48e62 --member MEMBER --name Zapier)",
    ),
    (
        "keys revoke",
        "Examples:
  firmforms keys revoke --firm \"Harrow Lane\" ffk_jhUf3kQ2 --reason \"found in a mail\"
  firmforms keys revoke --firm d6e48e62 01a20f92 --yes

Exit codes:
  0  revoked
  1  no such key
  2  wrong usage, or no consent",
    ),
    (
        "tokens create",
        "Examples:
  firmforms tokens create --role product --name backend
  firmforms tokens create --role auditor --name \"Kay & Co\" --expires 90d --firm \"Harrow Lane\"",
    ),
    (
        "secrets rotate",
        "Examples:
  firmforms secrets rotate --firm \"Harrow Lane\" --reason \"shared by mistake\"",
    ),
    (
        "deliveries list",
        "Examples:
  firmforms deliveries list --firm \"Harrow Lane\" --state failed --since yesterday
  firmforms deliveries list --firm d6e48e62 --hook 01a20f92 --json
  firmforms deliveries list --firm d6e48e62 --as-of 2026-03-01",
    ),
    (
        "deliveries show",
        "Examples:
  firmforms deliveries show --firm \"Harrow Lane\" 062d1e5f
  firmforms deliveries show --firm d6e48e62 062d1e5f --show-target \"ticket 4711\"
  firmforms deliveries show --firm d6e48e62 062d1e5f --body --answer --reason \"ticket 4711\"",
    ),
    (
        "deliveries pause",
        "Examples:
  firmforms deliveries pause --host hooks.example.com --reason \"they asked for a rest\"
  firmforms deliveries resume --host hooks.example.com",
    ),
    (
        "members list",
        "Examples:
  firmforms members list --firm \"Harrow Lane\"",
    ),
    (
        "forms list",
        "Examples:
  firmforms forms list --firm \"Harrow Lane\"",
    ),
    (
        "access",
        "Examples:
  firmforms access --firm \"Harrow Lane\" --as-of 2026-03-14",
    ),
    (
        "keys why",
        "Examples:
  firmforms keys why ffk_jhUf3kQ2",
    ),
    (
        "deliveries why",
        "Examples:
  firmforms deliveries why 062d1e5f",
    ),
    (
        "deliveries export",
        "Examples:
  firmforms deliveries export --firm \"Harrow Lane\" --since 2026-03-01 --until 2026-04-01 --out march.csv
  firmforms deliveries export --firm d6e48e62 --host hooks.example.com --format ndjson",
    ),
    (
        "hooks test",
        "Examples:
  firmforms hooks test 01a20f92 --reason \"the receiver was mended\"

The sample leaves from this machine, with the targets that this command allows.

Exit codes:
  0  the answer was 2xx
  1  it was not, or nothing was sent
  2  wrong usage",
    ),
    (
        "receivers",
        "Examples:
  firmforms receivers
  firmforms receivers --host hooks.example.com --json",
    ),
    (
        "find",
        "Examples:
  firmforms find 062d1e5f
  firmforms find ffk_jhUf
  firmforms find hooks.example.com",
    ),
    (
        "events show",
        "Examples:
  firmforms events show 61",
    ),
    (
        "events of",
        "Examples:
  firmforms events of 01a20f92
  firmforms events of \"Harrow Lane\" --kind Firm",
    ),
    (
        "people show",
        "Examples:
  firmforms people show ann@example.com --firm \"Harrow Lane\" --reason \"asked for access\"",
    ),
    (
        "replay show",
        "Examples:
  firmforms replay show 5eed422a
  firmforms replay show 5eed422a --watch",
    ),
    (
        "replay list",
        "Examples:
  firmforms replay list --firm \"Harrow Lane\"",
    ),
    (
        "stats",
        "Examples:
  firmforms stats --json",
    ),
    (
        "replay start",
        "Examples:
  firmforms replay start --firm \"Harrow Lane\" --since 2h --reason \"outage\" --dry-run
  firmforms replay start --all-firms --state failed --since 2026-11-21 --reason \"incident 4711\"",
    ),
    (
        "hooks list",
        "Examples:
  firmforms hooks list --firm \"Harrow Lane\"
  firmforms hooks list --firm d6e48e62 --removed --since 2026-03-01 --until 2026-04-01",
    ),
    (
        "hooks why",
        "Examples:
  firmforms hooks why 01a20f92",
    ),
    (
        "audit list",
        "Examples:
  firmforms audit list --firm \"Harrow Lane\" --action hook_removed --since 2026-03-01",
    ),
    (
        "audit export",
        "Examples:
  firmforms audit export --firm \"Harrow Lane\" --since 2026-03-01 --until 2026-04-01 --out march.bundle
  firmforms audit verify --bundle march.bundle --public-keys published-keys.txt",
    ),
    (
        "audit verify",
        "Examples:
  firmforms audit verify
  firmforms audit verify --bundle march.bundle --public-keys published-keys.txt

Exit codes:
  0  intact
  1  broken: the first flaw is named
  2  not decided",
    ),
    (
        "backup",
        "Examples:
  firmforms backup /backups/2026-11-26
  firmforms backup - --without-keys > backup.tar
  firmforms backup verify /backups/2026-11-26",
    ),
    (
        "restore",
        "Examples:
  firmforms restore --public-keys published.txt /backups/2026-11-26
  firmforms restore --wrapping-key-file wrapping.key - < backup.tar

Exit codes:
  0  restored and verified
  1  not restored, or restored with a fault that is named
  2  wrong usage",
    ),
    (
        "doctor",
        "Exit codes:
  0  no fault
  1  a fault
  2  a check could not be made",
    ),
    (
        "health",
        "Examples:
  firmforms health
  firmforms health --internal-addr unix:/run/firmforms/door.sock --live

Exit codes:
  0  ready, or alive
  1  not ready, or no answer
  2  wrong usage",
    ),
    (
        "projections rebuild",
        "Examples:
  firmforms projections rebuild hooks

Exit codes:
  0  done
  1  refused: an entry of the audit log or a seal would have changed
  2  not done",
    ),
    (
        "projections verify",
        "Examples:
  firmforms projections verify --all

Exit codes:
  0  all equal the log
  1  one differs: its first differing row is named
  2  not decided",
    ),
    (
        "verify deliveries",
        "Examples:
  firmforms verify deliveries --since yesterday
  firmforms verify deliveries --repair --reason \"restored from a backup\"

Exit codes:
  0  proven, or all repaired
  1  a fault
  2  the check or the repair could not finish",
    ),
    (
        "completions",
        "Examples:
  firmforms completions bash > /etc/bash_completion.d/firmforms
  firmforms completions zsh > \"${fpath[1]}/_firmforms\"
  firmforms completions fish > ~/.config/fish/completions/firmforms.fish",
    ),
    (
        "man",
        "Examples:
  firmforms man /usr/local/share/man/man1",
    ),
];

/// The whole command line.
pub(crate) fn whole_command() -> Command {
    let root = CliArgs::command();
    let usages = usage_lines(root.clone());
    finish_command(root, "", &usages).mut_subcommands(without_connection(&CliArgs::command()))
}

/// Hides the options of a connection where no database is opened. A command's own option takes the
/// place of a global one.
fn without_connection(root: &Command) -> impl Fn(Command) -> Command + use<> {
    let of_connection = |argument: &&Arg| argument.get_help_heading() == Some(CONNECTION);
    let hidden = root.get_arguments().filter(of_connection);
    let hidden: Vec<Arg> = hidden.map(|argument| argument.clone().hide(true)).collect();
    move |command| {
        if WITHOUT_DATABASE.contains(&command.get_name()) {
            command.args(hidden.clone())
        } else {
            command
        }
    }
}

/// The variables of all options.
pub(crate) fn option_variables() -> BTreeSet<String> {
    let mut waiting = vec![CliArgs::command()];
    let mut variables = BTreeSet::new();
    while let Some(command) = waiting.pop() {
        let named = command.get_arguments().filter_map(Arg::get_env);
        variables.extend(named.map(|name| name.to_string_lossy().into_owned()));
        waiting.extend(command.get_subcommands().cloned());
    }
    variables
}

/// The argument that an error of clap names.
pub(crate) fn find_argument(named: &str) -> Option<Arg> {
    let mut root = whole_command();
    root.build();
    let mut waiting = vec![root];
    while let Some(command) = waiting.pop() {
        if let Some(found) = command.get_arguments().find(|one| one.to_string() == named) {
            return Some(found.clone());
        }
        waiting.extend(command.get_subcommands().cloned());
    }
    None
}

/// The usage line of each command, without the options that the environment sets.
fn usage_lines(mut root: Command) -> BTreeMap<String, String> {
    root.build();
    let mut usages = BTreeMap::new();
    let mut waiting = vec![root];
    while let Some(mut command) = waiting.pop() {
        waiting.extend(command.get_subcommands().cloned());
        let usage = command.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").trim().to_owned();
        usages.insert(command.get_bin_name().unwrap_or(NAME).to_owned(), usage);
    }
    usages
}

/// The command with its usage and the words below its options, and so its parts.
fn finish_command(command: Command, path: &str, usages: &BTreeMap<String, String>) -> Command {
    let parts: Vec<String> =
        command.get_subcommands().map(|part| part.get_name().to_owned()).collect();
    let mut command = command;
    for part in parts {
        let path = format!("{path} {part}");
        command = command.mut_subcommand(part, |part| finish_command(part, &path, usages));
    }
    let path = path.trim();
    if let Some((_, after)) = AFTER.iter().find(|(of, _)| *of == path) {
        command = command.after_help(*after);
    }
    match usages.get(format!("{NAME} {path}").trim()) {
        Some(usage) => command.override_usage(usage.clone()),
        None => command,
    }
}

/// Prints the completions of a shell.
pub(crate) fn print_completions(shell: Shell) {
    clap_complete::generate(shell, &mut whole_command(), NAME, &mut Output::new());
}

/// Writes a manual page for each command.
pub(crate) fn write_manual(directory: &Path) -> anyhow::Result<()> {
    let named = || directory.display().to_string();
    clap_mangen::generate_to(whole_command(), directory).with_context(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(path: &[&str]) -> String {
        let mut command = whole_command();
        command.build();
        let mut found = &mut command;
        for part in path {
            found = found.find_subcommand_mut(part).unwrap();
        }
        found.render_long_help().to_string()
    }

    #[test]
    fn the_command_line_is_consistent() {
        whole_command().debug_assert();
    }

    #[test]
    fn each_text_belongs_to_a_command() {
        for (path, words) in AFTER {
            let path: Vec<&str> = path.split(' ').collect();
            let help = help(&path);
            assert!(help.contains(words.lines().next().unwrap()), "{path:?}: {help}");
        }
    }

    #[test]
    fn only_database_commands_show_connection_options() {
        let list = help(&["deliveries", "list"]);
        let place = |text: &str| list.find(text).unwrap();
        assert!(place("--state") < place("Connection:"), "its own options come first: {list}");
        assert!(place("Connection:") < place("--database-url"));
        for name in WITHOUT_DATABASE {
            let help = help(&[name]);
            assert!(!help.contains("--database-url") && !help.contains("Connection:"), "{help}");
        }
    }

    /// `find` names commands: each is one, and takes its words.
    #[test]
    fn each_named_command_exists() {
        let firm = uuid::Uuid::from_u128(1);
        for kind in explain::commands::KINDS.into_iter().chain(["occurrence"]) {
            let id = if kind == "event" { "61" } else { "01a20f92" };
            for look in explain::commands::where_to_look(kind, id, Some(firm)) {
                let parsed = whole_command().try_get_matches_from(look.split(' '));
                assert!(parsed.is_ok(), "{kind}: {look}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn usage_leaves_out_options_of_the_environment() {
        let error = whole_command().try_get_matches_from([
            "firmforms",
            "deliveries",
            "list",
            "--data-dir",
            "/x",
        ]);
        let said = error.unwrap_err().to_string();
        assert!(
            said.contains("Usage: firmforms deliveries list [OPTIONS] --firm <FIRM>"),
            "{said}"
        );
    }
}
