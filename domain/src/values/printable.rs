//! Foreign text that is safe to print. A terminal obeys control characters, and bidirectional marks
//! and line breaks make one text look like another.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal or a reader could take the character for something else than text: C0, DEL,
/// C1, marks of direction, and separators of lines.
#[must_use]
pub const fn is_unprintable(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with such characters escaped, on one line.
#[must_use]
pub fn printable_text(text: &str) -> Cow<'_, str> {
    escape_matching(text, is_unprintable, |to, c| to.extend(c.escape_default()))
}

/// JSON with such characters escaped, as JSON escapes them. The line breaks between its parts stay.
#[must_use]
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let unprintable = |c| is_unprintable(c) && c != '\n';
    // All these characters have four digits at most.
    escape_matching(json, unprintable, |to, c| {
        let _ = write!(to, "\\u{:04x}", u32::from(c));
    })
}

fn escape_matching(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            escape(&mut safe, c);
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn terminal_controls_are_escaped() {
        let hostile = "k\u{1b}]0;owned\u{7}\u{1b}[2J\nfake \u{9b}31m\u{202e}\u{2066}\u{2028}\r\té☃";
        assert_eq!(
            printable_text(hostile),
            "k\\u{1b}]0;owned\\u{7}\\u{1b}[2J\\nfake \\u{9b}31m\\u{202e}\\u{2066}\\u{2028}\\r\\té☃"
        );
        assert!(matches!(printable_text("Zoé's key"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn json_is_escaped_without_losing_meaning(
            text in "\\PC{0,8}[\u{0}-\u{9f}\u{2000}-\u{2070}]{0,8}",
        ) {
            let value = json!({"a": text, "b": [1, text]});
            let safe = printable_json(&format!("{value:#}")).into_owned();
            prop_assert!(!safe.contains(|c| is_unprintable(c) && c != '\n'));
            prop_assert_eq!(serde_json::from_str::<Value>(&safe).unwrap(), value);
            prop_assert!(!printable_text(&text).contains(is_unprintable));
        }
    }
}
