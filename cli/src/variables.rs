//! Variables of the environment that look like settings and are none.

use std::collections::BTreeSet;

use crate::help;
use crate::nearest::nearest_name;

/// The beginning of each of our variables.
const BEGINS: &str = "FIRMFORMS_";

/// Variables that no option has: for the programs of PostgreSQL, for builds and for tests.
const OTHERS: [&str; 3] = ["FIRMFORMS_PG_SEARCH", "FIRMFORMS_COMMIT", "FIRMFORMS_TEST_PATIENCE"];

/// Warns of each variable that seems to be a misspelt setting.
pub(crate) fn warn_of_misspelt() {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (name, meant) in misspelt_names(names, &help::option_variables()) {
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        tracing::warn!("the variable {name} is no setting, and is ignored{meant}");
    }
}

/// Warns of each flag that has a secret as its value.
pub(crate) fn warn_of_shown_secrets(flags: &[String]) {
    for flag in flags {
        tracing::warn!(
            "every local user sees the value of --{flag} in the list of processes: give it by \
             --{flag}-file, by its variable or as a credential"
        );
    }
}

/// The misspelt names, each with the setting that was probably meant.
fn misspelt_names(
    names: impl Iterator<Item = String>,
    known: &BTreeSet<String>,
) -> Vec<(String, Option<String>)> {
    let unknown = names.filter(|name| {
        looks_like_ours(name) && !known.contains(name) && !OTHERS.contains(&name.as_str())
    });
    let with_meant = |name: String| {
        let meant = nearest_name(&name, known.iter()).cloned();
        (name, meant)
    };
    unknown.map(with_meant).collect()
}

/// Whether the first word has the letters of ours, in any order.
fn looks_like_ours(name: &str) -> bool {
    let letters = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let first = name.split_once('_').map_or(name, |(first, _)| first);
    letters(first) == letters(BEGINS.trim_end_matches('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_setting_names_the_meant_one() {
        let known = BTreeSet::from(["FIRMFORMS_ROLE", "FIRMFORMS_PERMITS"].map(str::to_owned));
        let found = |name: &str| misspelt_names(std::iter::once(name.to_owned()), &known).pop();
        let meant = |name: &str| Some((name.to_owned(), Some("FIRMFORMS_ROLE".to_owned())));
        for name in ["FIRMFROMS_ROLE", "FIRMFORMS_ROL", "FIRMFORMS_RLOE"] {
            assert_eq!(found(name), meant(name));
        }
        assert_eq!(found("FIRMFORMS_WHATEVER"), Some(("FIRMFORMS_WHATEVER".into(), None)));
        for name in ["FIRMFORMS_ROLE", "FIRMFORMS_PG_SEARCH", "PATH", "FIRM_ROLE"] {
            assert_eq!(found(name), None);
        }
    }
}
