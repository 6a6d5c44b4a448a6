//! Secrets in files. Every local user sees a secret on the command line, and none sees one in a
//! file.

use std::path::Path;

use anyhow::Context;

/// The secret, or the content of its file without the line break at its end.
pub(crate) fn read_secret(
    given: Option<String>,
    file: Option<&Path>,
) -> anyhow::Result<Option<String>> {
    let Some(path) = file else {
        return Ok(given);
    };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}
