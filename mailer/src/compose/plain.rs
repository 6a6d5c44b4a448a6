//! The invite as plain text.

use super::letter::Letter;

/// Writes the text. A paragraph is one line, because mail readers break lines.
pub(super) fn write(letter: &Letter) -> String {
    let words = &letter.words;
    let mut parts = vec![words.hello.clone(), words.invitation.clone()];
    if let Some(note) = &letter.note {
        parts.push(words.note.clone());
        parts.push(quoted_note(note));
    }
    parts.push(link_line(words.button, words.colon, &letter.form_url));
    // Mail readers take the text after "-- " for a signature.
    let leave = link_line(words.leave, words.colon, &letter.unsubscribe_url);
    parts.push(format!("-- \n{}\n{leave}\n", words.why));
    parts.join("\n\n")
}

fn quoted_note(note: &str) -> String {
    let lines: Vec<_> = note.split('\n').map(|line| format!("> {line}")).collect();
    lines.join("\n")
}

fn link_line(label: &str, colon: &str, url: &str) -> String {
    format!("{label}{colon}\n{url}")
}
