//! The page of tables in `docs/reference` names each table.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The names of all tables that migrations create.
fn tables() -> Vec<String> {
    let mut names = Vec::new();
    for set in ["migrations/main", "migrations/keyring"] {
        for entry in fs::read_dir(root().join(set)).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap().to_lowercase();
            let text = text.replace("create unlogged table ", "create table ");
            let after = text.split("create table ").skip(1);
            // Most ranges have computed names.
            let after = after.filter(|rest| !rest.starts_with(['%', '$']));
            let after = after.filter(|rest| !rest.starts_with("ranges."));
            names.extend(after.map(|rest| {
                let rest = rest.trim_start_matches("if not exists ").trim_start_matches("public.");
                rest.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
            }));
        }
    }
    names
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
