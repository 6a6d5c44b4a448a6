//! Ids that a person shortens. A beginning of an id stands for all ids between two, so an index
//! finds them.

use uuid::Uuid;

/// Fewest digits of a shortened id.
const DIGITS_MIN: usize = 4;

/// Digits of a whole id.
const DIGITS: usize = 32;

/// The places of hyphens in an id.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The ids that begin with the same digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// The first of these ids.
    pub first: Uuid,
    /// The last of these ids.
    pub last: Uuid,
}

impl IdRange {
    /// Reads an id or its beginning: 4 hexadecimal digits at least, with the hyphens in their
    /// places or without any.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let hyphenated =
            text.bytes().enumerate().all(|(at, c)| (c == b'-') == HYPHENS.contains(&at));
        let digits: String = if hyphenated { text.replace('-', "") } else { text.to_owned() };
        let is_short = !(DIGITS_MIN..=DIGITS).contains(&digits.len());
        if is_short || !digits.bytes().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        let filled = |fill: &str| {
            let filled = digits.clone() + &fill.repeat(DIGITS - digits.len());
            Uuid::try_parse(&filled).ok()
        };
        Some(Self { first: filled("0")?, last: filled("f")? })
    }

    /// The id, if the text was a whole one.
    #[must_use]
    pub fn whole_id(self) -> Option<Uuid> {
        (self.first == self.last).then_some(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ids_beginning_is_a_range() {
        let range = IdRange::new("01A20f92-1").unwrap();
        assert_eq!(range.first.to_string(), "01a20f92-1000-0000-0000-000000000000");
        assert_eq!(range.last.to_string(), "01a20f92-1fff-ffff-ffff-ffffffffffff");
        assert_eq!(IdRange::new("01a20f921"), Some(range), "without hyphens");
        assert_eq!(range.whole_id(), None);
        let id = Uuid::from_u128(0x01a2);
        for text in [id.to_string(), id.simple().to_string()] {
            assert_eq!(IdRange::new(&text).unwrap().whole_id(), Some(id));
        }
    }

    #[test]
    fn other_texts_begin_no_id() {
        let long = "0".repeat(33);
        for text in ["", "abc", "Harrow Lane", "ffk_", "01a2-", "01-a20f92", "01a20f92é", &long] {
            assert_eq!(IdRange::new(text), None, "{text}");
        }
        assert!(IdRange::new("01a20f92-").is_some());
    }
}
