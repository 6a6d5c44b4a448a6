//! The version of this build.

use std::sync::LazyLock;

/// The version of this build, with its commit if the build was told it in `FIRMFORMS_COMMIT`.
pub(crate) fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| version_text(option_env!("FIRMFORMS_COMMIT")));
    &VERSION
}

/// The version, with its commit if that is known.
fn version_text(commit: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match commit.map(str::trim).filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_names_a_known_commit() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(version_text(Some("4caf981")), format!("{version} (4caf981)"));
        assert_eq!([None, Some("")].map(version_text), [version, version]);
    }
}
