//! Cleans foreign text for a mail (case A16). A name or a title becomes one harmless line. A note
//! keeps its line breaks and no other control.

/// The longest written name or title. A longer one is cut. This is the contract's longest name
/// (section Limits).
const NAME_MAX: usize = 200;

/// The name in the greeting: the first name, else the first word of the full name (contract,
/// section POST /forms/{id}/send). `None` if no character is visible.
#[must_use]
pub fn greeting_name(first_name: Option<&str>, name: Option<&str>) -> Option<String> {
    let first_name = first_name.and_then(one_line);
    first_name.or_else(|| name?.split(is_gap).find_map(one_line))
}

/// The text as one line. Characters that break or turn a line become spaces; spaces are single, and
/// only inside. `None` if no character is visible.
pub(crate) fn one_line(text: &str) -> Option<String> {
    let words: Vec<_> = text.split(is_gap).filter(|word| !word.is_empty()).collect();
    let line: String = words.join(" ").chars().take(NAME_MAX).collect();
    line.chars().any(is_visible).then(|| line.trim_end().to_owned())
}

/// A note. Line breaks stay, other controls become spaces. `None` if no character is visible.
pub(crate) fn clean_note(text: &str) -> Option<String> {
    let text = text.replace("\r\n", "\n");
    let keep = |at: char| if at != '\n' && turns_or_breaks(at) { ' ' } else { at };
    let note: String = text.trim_matches(is_gap).chars().map(keep).collect();
    note.chars().any(is_visible).then_some(note)
}

/// A link without characters that no link holds.
pub(crate) fn clean_link(text: &str) -> String {
    text.chars().filter(|&at| !is_gap(at)).collect()
}

fn is_gap(at: char) -> bool {
    at.is_whitespace() || turns_or_breaks(at)
}

/// Controls, line and paragraph separators, and characters that override or isolate the direction
/// of text (Unicode Standard Annex 9, table 1).
fn turns_or_breaks(at: char) -> bool {
    at.is_control()
        || matches!(at, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Neither white space, nor a character that readers may ignore (`Default_Ignorable_Code_Point`),
/// nor the braille blank.
fn is_visible(at: char) -> bool {
    !is_gap(at)
        && !matches!(at,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{206F}'
            | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests;
