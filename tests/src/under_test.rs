//! The binary under test. The package `under-test` builds it beside the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

static PROGRAM: LazyLock<Result<PathBuf, String>> = LazyLock::new(find_program);

/// The binary under test, which is as new as its sources.
#[must_use]
pub fn program() -> &'static Path {
    PROGRAM.as_ref().unwrap_or_else(|why| panic!("{why}: run ./scripts/test --no-run"))
}

/// A run of one test target builds no other package, so the binary may be missing or old.
fn find_program() -> Result<PathBuf, String> {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("firmforms-under-test");
    let built = modified_at(&program).ok_or_else(|| format!("no {}", program.display()))?;
    let listed = fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let newer = sources(&listed).find(|source| modified_at(source).is_none_or(|at| at > built));
    match newer {
        Some(source) => Err(format!("{} is older than {}", program.display(), source.display())),
        None => Ok(program),
    }
}

/// The sources that Cargo lists for a program, as in a rule of `make`.
fn sources(listed: &str) -> impl Iterator<Item = PathBuf> {
    let (_, sources) = listed.trim_end().split_once(": ").unwrap_or_default();
    let separated = sources.replace("\\ ", "\0").replace(' ', "\n").replace('\0', " ");
    separated.lines().map(PathBuf::from).collect::<Vec<_>>().into_iter()
}

fn modified_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
