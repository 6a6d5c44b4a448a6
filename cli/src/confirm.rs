//! Consent to a command that cannot be taken back. The operator is told the consequences, and types
//! a word. Without a terminal only `--yes` is consent.

use std::io::{self, BufRead, IsTerminal, Write, stderr, stdin};

use clap::Args;
use domain::values::printable_text;

/// The consent that an operator gives beforehand.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ConsentArgs {
    /// Do not ask. Where the command asks, it needs this without a terminal.
    #[arg(long)]
    yes: bool,
}

/// The operator did not consent. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoConsent {
    /// Nobody can be asked.
    #[error("{0}: nothing was changed; repeat the command with --yes")]
    NotAsked(String),
    /// Another word was typed.
    #[error("that was another word: nothing was changed")]
    Refused,
    /// The answer cannot be read.
    #[error("reading the answer")]
    Unread(#[from] io::Error),
}

/// Requires consent to these consequences. The word is typed by a person who has read them.
pub(crate) fn require_consent(
    ConsentArgs { yes }: ConsentArgs,
    consequences: &str,
    word: &str,
) -> Result<(), NoConsent> {
    if yes {
        return Ok(());
    }
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(NoConsent::NotAsked(consequences.to_owned()));
    }
    let mut answer = String::new();
    write!(
        stderr(),
        "{}.\nType {} to go on: ",
        printable_text(consequences),
        printable_text(word)
    )?;
    stdin().lock().read_line(&mut answer)?;
    if is_consent(&answer, word) { Ok(()) } else { Err(NoConsent::Refused) }
}

/// Whether the answer is the word, or the word as it was shown. The shown word has escapes for
/// invisible characters, which nobody can type.
fn is_consent(answer: &str, word: &str) -> bool {
    let answer = answer.trim();
    answer == word.trim() || answer == printable_text(word.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name with invisible characters can be typed as it is shown.
    #[test]
    fn a_name_with_invisible_marks_is_typeable() {
        let name = "Harrow\u{200e} Lane\u{200f}";
        assert!(is_consent("Harrow\\u{200e} Lane\\u{200f}\n", name));
        assert!(is_consent(&format!("{name}\n"), name));
        for other in ["", "\n", "Harrow Lane", "harrow\\u{200e} lane\\u{200f}"] {
            assert!(!is_consent(other, name), "{other}");
        }
    }
}
