//! Texts that people read: names, titles, labels and reasons (ruling 37). Each has a greatest
//! length, in Unicode scalar values, and no control characters.

use thiserror::Error;

/// Longest name of a firm, in characters.
pub const FIRM_NAME_MAX: usize = 200;

/// Longest title of a form, a report or a booking, in characters.
pub const TITLE_MAX: usize = 500;

/// Longest name of a caller's own property that an error shows.
const SHOWN_PROPERTY_MAX: usize = 60;

/// Why a text is no label. The sentence never quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotALabel {
    /// The text is too long.
    #[error("longer than {0} characters")]
    TooLong(usize),
    /// The text has a control character, such as a line feed.
    #[error("has a control character")]
    Control,
}

/// Checks a text that may be empty.
///
/// # Errors
/// [`NotALabel`] names the fault.
pub fn check_label(text: &str, max: usize) -> Result<(), NotALabel> {
    if text.chars().count() > max {
        return Err(NotALabel::TooLong(max));
    }
    if text.chars().any(char::is_control) {
        return Err(NotALabel::Control);
    }
    Ok(())
}

/// The text without the space around it, if it is a label that is not empty.
#[must_use]
pub fn trimmed_label(text: &str, max: usize) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && check_label(text, max).is_ok()).then_some(text)
}

/// The name of a caller's property, if an error may show it: a short word of ASCII. Other names may
/// be values in the wrong place.
#[must_use]
pub fn shown_property(name: &str) -> Option<&str> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_shown = (1..=SHOWN_PROPERTY_MAX).contains(&name.len()) && name.bytes().all(is_word);
    is_shown.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_without_control_characters() {
        assert_eq!(check_label("", 2), Ok(()));
        assert_eq!(check_label("éé", 2), Ok(()));
        assert_eq!(check_label("ééé", 2), Err(NotALabel::TooLong(2)));
        for control in ["\n", "\0", "\u{1b}", "\u{7f}", "\u{85}"] {
            assert_eq!(check_label(control, 2), Err(NotALabel::Control), "{control:?}");
        }
    }

    #[test]
    fn a_trimmed_label_is_not_empty() {
        assert_eq!(trimmed_label(" Zapier\n", 6), Some("Zapier"));
        for other in ["", " \t ", "a\u{1b}[31mX", "sevenst"] {
            assert_eq!(trimmed_label(other, 6), None, "{other:?}");
        }
    }

    #[test]
    fn only_a_plain_property_is_shown() {
        assert_eq!(shown_property("hookUrl"), Some("hookUrl"));
        for other in ["", "ann@example.com", "a b", "\u{1b}", &"a".repeat(61)] {
            assert_eq!(shown_property(other), None, "{other:?}");
        }
    }
}
