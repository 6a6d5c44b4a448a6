//! Cells: installations that share one public address (ruling 47). The first of the 43 characters
//! of a key names the key's cell, so a router needs no table of keys. The other 250 bits stay
//! random.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The largest number of cells: one for each digit of base64url.
pub const CELLS_MAX: u8 = 64;

/// The digits of base64url (RFC 4648, section 5).
const DIGITS: &[u8; CELLS_MAX as usize] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The number of a cell, from 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell(u8);

/// The text or number names no cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a cell is a number from 0 to 63")]
pub struct NoCell;

impl Cell {
    /// The number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The character that names the cell in keys.
    #[must_use]
    pub fn digit(self) -> char {
        char::from(DIGITS[usize::from(self.0)])
    }

    /// These random bytes, with the cell in the six bits that become the first character.
    #[must_use]
    pub const fn mark_bytes(self, mut bytes: [u8; 32]) -> [u8; 32] {
        bytes[0] = (self.0 << 2) | (bytes[0] & 0b11);
        bytes
    }
}

impl TryFrom<i64> for Cell {
    type Error = NoCell;

    fn try_from(number: i64) -> Result<Self, NoCell> {
        let number = u8::try_from(number).map_err(|_| NoCell)?;
        if number < CELLS_MAX { Ok(Self(number)) } else { Err(NoCell) }
    }
}

impl FromStr for Cell {
    type Err = NoCell;

    fn from_str(text: &str) -> Result<Self, NoCell> {
        text.parse::<i64>().map_err(|_| NoCell)?.try_into()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::api_key::{API_KEY_PREFIX, ApiKey};

    #[test]
    fn a_keys_first_character_names_its_cell() {
        for number in 0..i64::from(CELLS_MAX) {
            let cell = Cell::try_from(number).unwrap();
            for byte in [0, 0x55, 0xff] {
                let key = ApiKey::from_bytes(cell.mark_bytes([byte; 32]));
                let rest = key.as_str().strip_prefix(API_KEY_PREFIX).unwrap();
                assert_eq!(rest.chars().next(), Some(cell.digit()), "{number} {byte}");
                assert_eq!(ApiKey::parse(key.as_str()), Ok(key));
            }
        }
    }

    #[test]
    fn the_other_bits_stay() {
        let marked = "5".parse::<Cell>().unwrap().mark_bytes([0xff; 32]);
        assert_eq!(marked[0], 0b0001_0111);
        assert_eq!(marked[1..], [0xff; 31]);
    }

    #[test]
    fn other_numbers_name_no_cell() {
        for text in ["", "64", "-1", "1.5", "A", "256", "99999999999999999999"] {
            assert_eq!(text.parse::<Cell>(), Err(NoCell), "{text}");
        }
    }
}
