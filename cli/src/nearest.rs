//! The name that a misspelt one stands for.

/// The name that was probably meant.
pub(crate) fn nearest_name<'a>(
    name: &str,
    known: impl Iterator<Item = &'a String>,
) -> Option<&'a String> {
    let nearest = known.min_by_key(|known| edit_distance(name, known));
    nearest.filter(|meant| edit_distance(name, meant) <= 3)
}

/// The number of letters to change, add or remove (Levenshtein).
fn edit_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, another) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *another);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}
