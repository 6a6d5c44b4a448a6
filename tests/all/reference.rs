//! Pages of `docs/reference` are equal to the code. `UPDATE=1` writes the generated ones.

use std::path::{Path, PathBuf};
use std::{env, fs};

use firmforms::reference;

/// Words of the generated pages together: a reader looks a setting up, and does not read a book.
const GENERATED_WORDS_MAX: usize = 2_080;

/// Words of the page of commands: a line for each.
const COMMANDS_WORDS_MAX: usize = 1_050;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub(crate) fn assert_page_is(name: &str, expected: &str) {
    assert_file_is(&Path::new("docs/reference").join(name), expected);
}

/// Holds a file, named from the root, to the text that the code makes.
pub(crate) fn assert_file_is(name: &Path, expected: &str) {
    let path = root().join(name);
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, expected).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let name = name.display();
    assert_eq!(written, expected, "{name} is not what the code says: run with UPDATE=1");
}

/// The names of all tables that migrations create.
fn tables() -> Vec<String> {
    let mut names = Vec::new();
    for set in ["migrations/main", "migrations/keyring"] {
        for entry in fs::read_dir(root().join(set)).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap().to_lowercase();
            let text = text.replace("create unlogged table ", "create table ");
            let after = text.split("create table ").skip(1);
            names.extend(after.map(|rest| {
                let rest = rest.trim_start_matches("if not exists ");
                rest.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
            }));
        }
    }
    names
}

#[test]
fn the_page_of_settings_is_what_the_command_line_says() {
    assert_page_is("settings.md", &reference::settings());
}

#[test]
fn the_page_of_commands_is_what_the_command_line_says() {
    assert_page_is("commands.md", &reference::commands());
}

#[test]
fn the_generated_pages_are_short() {
    let words = |page: String| page.split_whitespace().count();
    let commands = words(reference::commands());
    assert!(commands <= COMMANDS_WORDS_MAX, "{commands} words of commands");
    let both = commands + words(reference::settings());
    assert!(both <= GENERATED_WORDS_MAX, "{both} words of settings and commands");
}

#[test]
fn the_page_of_tables_names_every_table() {
    let page = fs::read_to_string(root().join("docs/reference/tables.md")).unwrap();
    let tables = tables();
    assert!(tables.len() > 30, "{tables:?}");
    let missing: Vec<_> =
        tables.into_iter().filter(|table| !page.contains(&format!("`{table}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/tables.md does not name {missing:?}");
}
