//! Foreign text on its way into a mail: names and titles become one harmless line, a note keeps
//! its line breaks and nothing else (case A16).

/// The longest name or title that is written; longer ones are cut. It is the contract's longest
/// name (section Limits).
const NAME_MAX: usize = 200;

/// By what name to greet: the first name, else the first word of the full name (contract, section
/// POST /forms/{id}/send); none when there is nothing to see.
#[must_use]
pub fn greeting(first_name: Option<&str>, name: Option<&str>) -> Option<String> {
    let first_name = first_name.and_then(one_line);
    first_name.or_else(|| name?.split(is_gap).find_map(one_line))
}

/// One line of it: what breaks or turns a line becomes a space, spaces are single and inside.
/// None when nothing of it can be seen.
pub(crate) fn one_line(text: &str) -> Option<String> {
    let words: Vec<_> = text.split(is_gap).filter(|word| !word.is_empty()).collect();
    let line: String = words.join(" ").chars().take(NAME_MAX).collect();
    line.chars().any(is_visible).then(|| line.trim_end().to_owned())
}

/// A note: its line breaks stay, other controls become spaces. None when there is nothing to see.
pub(crate) fn clean_note(text: &str) -> Option<String> {
    let text = text.replace("\r\n", "\n");
    let keep = |at: char| if at != '\n' && turns_or_breaks(at) { ' ' } else { at };
    let note: String = text.trim_matches(is_gap).chars().map(keep).collect();
    note.chars().any(is_visible).then_some(note)
}

/// A link, without what a link never holds.
pub(crate) fn clean_link(text: &str) -> String {
    text.chars().filter(|&at| !is_gap(at)).collect()
}

fn is_gap(at: char) -> bool {
    at.is_whitespace() || turns_or_breaks(at)
}

/// Controls, line and paragraph separators, and what overrides or isolates the direction of the
/// text after it (Unicode Standard Annex 9, table 1).
fn turns_or_breaks(at: char) -> bool {
    at.is_control()
        || matches!(at, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Not white space, not what Unicode lets a reader ignore (`Default_Ignorable_Code_Point`), and
/// not the braille blank.
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
