//! The text of a secret: a fixed prefix and 32 bytes in base64url (ruling 3; contract, section
//! Authentication). API keys and webhook signing secrets have this form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Number of characters after the prefix: 32 bytes in base64url without padding.
pub(crate) const SECRET_CHARS: usize = 43;

/// Writes 32 bytes as the text of a secret.
pub(crate) fn secret_text(prefix: &str, bytes: [u8; 32]) -> String {
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// Whether [`secret_text`] could have made this text. The last character must be canonical too, or
/// one secret would have four spellings.
pub(crate) fn is_secret(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix)
        .filter(|rest| rest.len() == SECRET_CHARS)
        .is_some_and(|rest| URL_SAFE_NO_PAD.decode(rest).is_ok())
}

/// Whether the text may be a secret without a prefix, as codes and cookies are.
#[must_use]
pub fn is_bare_secret(text: &str) -> bool {
    is_secret("", text)
}

/// Whether a secret's text may contain the character.
pub(crate) fn is_secret_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_secret_is_recognised() {
        for byte in [0, 1, 0x7f, 0xff] {
            let text = secret_text("x_", [byte; 32]);
            assert_eq!(text.len(), 2 + SECRET_CHARS);
            assert!(is_secret("x_", &text) && text[2..].chars().all(is_secret_char), "{text}");
            assert!(!is_secret("y_", &text));
        }
    }
}
