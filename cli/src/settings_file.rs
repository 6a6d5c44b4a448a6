//! The settings file of `--config`: TOML, with the names of the flags.
//!
//! The file becomes arguments of the command line before they are read. So a value of the file is
//! checked like the value of a flag, and a wrong one is refused in the same words. A flag comes
//! before a variable, and a variable before the file. A secret and the file with that secret count
//! as one setting.
//!
//! Last come the credentials of systemd (`LoadCredential=wrapping-key:...`): files with the names
//! of secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Arg, Command};
use toml_edit::{DocumentMut, Item, Value};

use crate::nearest::nearest_name;

/// The flag that names the file.
const CONFIG: &str = "config";

/// The variable that names the file.
pub(crate) const CONFIG_VARIABLE: &str = "FIRMFORMS_CONFIG";

/// The variable by which systemd names the folder of credentials.
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// The end of the name of a setting whose value is in a file of its own.
const IN_A_FILE: &str = "-file";

/// The arguments of a process with its settings file among them.
#[derive(Debug, Default)]
pub(crate) struct ConfiguredArguments {
    /// The arguments, the program's name first.
    pub(crate) arguments: Vec<OsString>,
    /// The file, if one is named.
    pub(crate) file: Option<PathBuf>,
    /// The flags that have their value from the file.
    pub(crate) from_file: BTreeSet<String>,
    /// The flags that name a credential.
    pub(crate) from_credentials: BTreeSet<String>,
    /// The flags that had a secret as their value: every local user sees it.
    pub(crate) shown_secrets: Vec<String>,
}

impl ConfiguredArguments {
    /// The source to name for an argument: the settings file, the variable of the credentials, or
    /// else the argument's own variable.
    pub(crate) fn argument_source(&self, argument: &Arg) -> Option<String> {
        let is_from_file = argument.get_long().is_some_and(|name| self.from_file.contains(name));
        let is_credential =
            argument.get_long().is_some_and(|name| self.from_credentials.contains(name));
        match &self.file {
            Some(file) if is_from_file => Some(file.display().to_string()),
            _ if is_credential => Some(CREDENTIALS_VARIABLE.to_owned()),
            _ => argument.get_env().map(|name| name.to_string_lossy().into_owned()),
        }
    }
}

/// Adds the settings of the file, if one is named, and the credentials to the arguments.
pub(crate) fn add_settings(
    root: &Command,
    arguments: Vec<OsString>,
) -> anyhow::Result<ConfiguredArguments> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let given = GivenArguments::read(root, &arguments);
    let known = known_settings(root);
    let file = given.config.clone().or_else(|| variable(CONFIG_VARIABLE));
    let file = file.filter(|file| !file.is_empty()).map(PathBuf::from);
    let mut settings = BTreeMap::new();
    if let Some(file) = &file {
        let named = || format!("the settings file {}", file.display());
        let text = std::fs::read_to_string(file).with_context(named)?;
        settings = parse_settings(&text, &known).with_context(named)?;
    }
    let mut credentials = BTreeSet::new();
    if let Some(folder) = variable(CREDENTIALS_VARIABLE) {
        credentials = add_credentials(&mut settings, &known, Path::new(&folder));
    }
    let shown_secrets = given.shown_secrets();
    let is_set =
        |argument: &Arg| argument.get_env().is_some_and(|name| std::env::var_os(name).is_some());
    let (arguments, added) = given.with_settings(settings, arguments, is_set);
    let (from_credentials, from_file) =
        added.into_iter().partition(|name| credentials.contains(name));
    Ok(ConfiguredArguments { arguments, file, from_file, from_credentials, shown_secrets })
}

/// Adds the secrets that are files of this folder, unless the settings have them. Returns their
/// names.
fn add_credentials(
    settings: &mut BTreeMap<String, Vec<String>>,
    known: &BTreeMap<String, Arg>,
    folder: &Path,
) -> BTreeSet<String> {
    let mut added = BTreeSet::new();
    for name in known.keys() {
        let Some(secret) = name.strip_suffix(IN_A_FILE) else { continue };
        let file = folder.join(secret);
        let is_given = settings.contains_key(name) || settings.contains_key(secret);
        if is_given || is_blank(&file) {
            continue;
        }
        settings.insert(name.clone(), vec![file.to_string_lossy().into_owned()]);
        added.insert(name.clone());
    }
    added
}

/// Whether a credential is missing, or blank. systemd starts no unit without one of its
/// credentials, so a unit that serves many machines has a blank default for each.
fn is_blank(file: &Path) -> bool {
    !file.is_file() || std::fs::read(file).is_ok_and(|text| text.trim_ascii().is_empty())
}

/// The arguments as they were given, read only as far as the file needs it: clap reads them later.
struct GivenArguments<'a> {
    /// The command and those above it, the program first.
    commands: Vec<&'a Command>,
    /// The flags, each with its value if it takes one.
    flags: BTreeMap<String, Option<OsString>>,
    config: Option<OsString>,
    /// The number of arguments before `--`.
    before_end: usize,
}

impl<'a> GivenArguments<'a> {
    fn read(root: &'a Command, arguments: &[OsString]) -> Self {
        let mut given = Self {
            commands: vec![root],
            flags: BTreeMap::new(),
            config: None,
            before_end: arguments.len(),
        };
        let mut rest = arguments.iter().enumerate().skip(1);
        while let Some((index, argument)) = rest.next() {
            let text = argument.to_string_lossy();
            if text == "--" {
                given.before_end = index;
                break;
            }
            let Some(flag) = text.strip_prefix("--") else {
                let below = given.commands.last().and_then(|last| last.find_subcommand(&*text));
                given.commands.extend(below);
                continue;
            };
            let (name, value) = flag
                .split_once('=')
                .map_or((flag, None), |(name, value)| (name, Some(OsString::from(value))));
            let takes_value = given.find_flag(name).is_some_and(takes_value);
            let value = match value {
                None if takes_value => rest.next().map(|(_, value)| value.clone()),
                value => value,
            };
            if name == CONFIG {
                given.config.clone_from(&value);
            }
            given.flags.insert(name.to_owned(), value);
        }
        given
    }

    /// The flags that have a secret as their value. A URL without a password is none.
    fn shown_secrets(&self) -> Vec<String> {
        let is_secret = |name: &str, value: &str| {
            let argument = self.find_flag(name);
            let may_be_secret = argument.is_some_and(Arg::is_hide_env_values_set);
            may_be_secret && (!value.contains("://") || has_password(value))
        };
        let value = |value: &Option<OsString>| {
            value.as_ref().map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let shown = self.flags.iter().filter(|(name, given)| is_secret(name, &value(given)));
        shown.map(|(name, _)| name.clone()).collect()
    }

    /// The flag of the command, or of one above it.
    fn find_flag(&self, name: &str) -> Option<&'a Arg> {
        let mut flags = self.commands.iter().flat_map(|command| command.get_arguments());
        flags.find(|argument| argument.get_long() == Some(name))
    }

    /// The arguments with those settings that no argument and no variable gives.
    fn with_settings(
        &self,
        settings: BTreeMap<String, Vec<String>>,
        mut arguments: Vec<OsString>,
        is_set: impl Fn(&Arg) -> bool,
    ) -> (Vec<OsString>, BTreeSet<String>) {
        let is_given =
            |name: &str| self.flags.contains_key(name) || self.find_flag(name).is_some_and(&is_set);
        let mut added = BTreeSet::new();
        let mut place = self.before_end;
        for (name, values) in settings {
            let Some(argument) = self.find_flag(&name) else { continue };
            if is_given(&name) || is_given(&twin_name(&name)) {
                continue;
            }
            let text = if takes_value(argument) {
                format!("--{name}={}", values.join(","))
            } else if values == ["true"] {
                format!("--{name}")
            } else {
                continue;
            };
            arguments.insert(place, text.into());
            place += 1;
            added.insert(name);
        }
        (arguments, added)
    }
}

/// Whether a URL has a password, in its authority or among its parameters.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':')) || url.contains("password=")
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

/// The name of the other form of a setting: its value, or the file with its value.
fn twin_name(name: &str) -> String {
    name.strip_suffix(IN_A_FILE).map_or_else(|| format!("{name}{IN_A_FILE}"), str::to_owned)
}

/// The settings by name: all flags with a variable, switches too. `--config` is not among them.
fn known_settings(root: &Command) -> BTreeMap<String, Arg> {
    let mut waiting = vec![root];
    let mut known = BTreeMap::new();
    while let Some(command) = waiting.pop() {
        let settings = command.get_arguments().filter(|argument| argument.get_env().is_some());
        let named = settings.filter_map(|argument| Some((argument.get_long()?, argument)));
        known.extend(named.map(|(name, argument)| (name.to_owned(), argument.clone())));
        waiting.extend(command.get_subcommands());
    }
    known.remove(CONFIG);
    known
}

/// The settings of a text, each with its values.
fn parse_settings(
    text: &str,
    known: &BTreeMap<String, Arg>,
) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        // `Display` of this error quotes the line, which may hold a secret. `message` does not.
        let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        anyhow!("{line}{}", error.message())
    })?;
    let mut settings = BTreeMap::new();
    for (name, item) in document.iter() {
        let Some(argument) = known.get(name) else {
            let meant = nearest_name(name, known.keys());
            let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
            bail!("there is no setting {name}{meant}");
        };
        let values = value_texts(item).filter(|values| accepts_values(argument, values));
        let values = values.with_context(|| format!("{name}: {}", needed_values(argument)))?;
        settings.insert(name.to_owned(), values);
    }
    Ok(settings)
}

fn accepts_values(argument: &Arg, values: &[String]) -> bool {
    let is_list = argument.get_value_delimiter().is_some();
    match takes_value(argument) {
        true => is_list || values.len() == 1,
        false => values == ["true"] || values == ["false"],
    }
}

fn needed_values(argument: &Arg) -> &'static str {
    match (takes_value(argument), argument.get_value_delimiter()) {
        (false, _) => "true or false is needed",
        (true, Some(_)) => "a list of texts is needed",
        (true, None) => "a text or a number is needed",
    }
}

/// The texts of a value. A table or a time is no value of a setting.
fn value_texts(item: &Item) -> Option<Vec<String>> {
    match item.as_value()? {
        Value::Array(several) => several.iter().map(value_text).collect(),
        value => Some(vec![value_text(value)?]),
    }
}

fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Float(number) => Some(number.value().to_string()),
        Value::Boolean(is_on) => Some(is_on.value().to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::InlineTable(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use rstest::rstest;

    use super::*;
    use crate::help;

    fn settings(text: &str) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        parse_settings(text, &known_settings(&help::whole_command()))
    }

    /// The arguments after the file, where the environment sets these variables.
    fn joined(text: &str, arguments: &str, variables: &[&str]) -> String {
        let root = help::whole_command();
        let arguments: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
        let given = GivenArguments::read(&root, &arguments);
        let is_set = |argument: &Arg| {
            argument.get_env().is_some_and(|name| variables.iter().any(|one| name == *one))
        };
        let (arguments, _) = given.with_settings(settings(text).unwrap(), arguments, is_set);
        arguments.join(OsStr::new(" ")).into_string().unwrap()
    }

    /// Only its option is named.
    #[test]
    fn a_command_lines_secret_is_not_repeated() {
        let root = help::whole_command();
        let shown = |arguments: &str| {
            let arguments: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
            GivenArguments::read(&root, &arguments).shown_secrets()
        };
        assert_eq!(shown("firmforms serve --wrapping-key 07"), ["wrapping-key"]);
        assert_eq!(shown("firmforms serve --smtp-url=smtp://u:p@mail:587"), ["smtp-url"]);
        let url = "firmforms serve --database-url postgres://u:p@db/main";
        assert_eq!(shown(url), ["database-url"]);
        let parameter = "firmforms serve --keyring-url postgres://u@db/main?password=p";
        assert_eq!(shown(parameter), ["keyring-url"]);
        for harmless in [
            "firmforms serve --database-url postgres://u@db:5432/main",
            "firmforms serve --database-url-file /etc/firmforms/url",
            "firmforms serve --wrapping-key-file /etc/firmforms/key",
            "firmforms serve -- --wrapping-key 07",
        ] {
            assert!(shown(harmless).is_empty(), "{harmless}");
        }
    }

    const FILE: &str = "role = \"api\"\npermits = 7\npaused = true\ndata-dir = \"/d\"\n\
                        allow-targets = [\"127.0.0.0/8\", \"::1/128\"]\n";

    #[rstest]
    #[case("f firms list", &[], "f firms list --data-dir=/d")]
    #[case("f ingest -- -x", &[], "f ingest --data-dir=/d -- -x")]
    #[case("f --data-dir serve firms list", &[], "f --data-dir serve firms list")]
    #[case("f --data-dir=/e firms list", &[], "f --data-dir=/e firms list")]
    #[case("f firms list", &["FIRMFORMS_DATA_DIR"], "f firms list")]
    #[case(
        "f serve --role all",
        &["FIRMFORMS_PERMITS", "FIRMFORMS_PAUSED"],
        "f serve --role all --allow-targets=127.0.0.0/8,::1/128 --data-dir=/d"
    )]
    #[case(
        "f serve",
        &[],
        "f serve --allow-targets=127.0.0.0/8,::1/128 --data-dir=/d --paused --permits=7 --role=api"
    )]
    fn flags_beat_variables_and_variables_the_file(
        #[case] arguments: &str,
        #[case] variables: &[&str],
        #[case] expected: &str,
    ) {
        assert_eq!(joined(FILE, arguments, variables), expected);
    }

    #[test]
    fn secret_and_secret_file_are_one_setting() {
        let file = "database-url-file = \"/run/secrets/main\"";
        let added = "f firms list --database-url-file=/run/secrets/main";
        assert_eq!(joined(file, "f firms list", &[]), added);
        assert_eq!(joined(file, "f firms list", &["DATABASE_URL"]), "f firms list");
        let file = "database-url = \"postgres://u:p@h/d\"";
        let given = "f firms list --database-url-file /x";
        assert_eq!(joined(file, given, &[]), given);
    }

    #[test]
    fn a_secret_comes_last_from_credentials() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["database-url", "wrapping-key", "role"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        std::fs::write(folder.path().join("keyring-url"), "\n").unwrap();
        let known = known_settings(&help::whole_command());
        let mut of_file = settings("database-url = \"postgres://h/d\"").unwrap();
        let added = add_credentials(&mut of_file, &known, folder.path());
        assert_eq!(added, BTreeSet::from(["wrapping-key-file".to_owned()]));
        let place = folder.path().join("wrapping-key").display().to_string();
        assert_eq!(of_file["wrapping-key-file"], [place]);
        assert!(!of_file.contains_key("database-url-file") && !of_file.contains_key("role"));
    }

    #[rstest]
    #[case("rolle = \"api\"", "there is no setting rolle; did you mean role?")]
    #[case("keep_failed_days = 3", "did you mean keep-failed-days?")]
    #[case("config = \"x\"", "there is no setting config")]
    #[case("[serve]\nrole = \"api\"", "there is no setting serve")]
    #[case("permits = [1, 2]", "permits: a text or a number is needed")]
    #[case("paused = \"maybe\"", "paused: true or false is needed")]
    #[case("addr = 2026-03-01", "addr: a text or a number is needed")]
    #[case("role = \"api\"\nwrapping-key = \"secret", "line 2: ")]
    fn a_wrong_file_names_the_culprit(#[case] text: &str, #[case] expected: &str) {
        let error = settings(text).unwrap_err();
        let told = format!("{error:#}");
        assert!(told.contains(expected) && !told.contains("secret"), "{told}");
    }
}
