//! Ids in the service's own form: hyphenated UUIDs and no other (rulings 6 and 13).

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// Length of a hyphenated UUID. The other forms that the uuid crate reads (braces, `urn:uuid:`, 32
/// digits) have other lengths.
const HYPHENATED_LEN: usize = 36;

/// Reads a hyphenated UUID in either case. The nil id is an id of no object.
#[must_use]
pub fn parse_id(text: &str) -> Option<Uuid> {
    if text.len() == HYPHENATED_LEN { Uuid::try_parse(text).ok() } else { None }
}

/// An id in JSON. [`parse_id`] reads it, and it is written in lower case with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Id(pub Uuid);

/// The text is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a hyphenated UUID")]
pub struct NotAnId;

impl From<Uuid> for Id {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl From<Id> for Uuid {
    fn from(id: Id) -> Self {
        id.0
    }
}

impl TryFrom<String> for Id {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Self, NotAnId> {
        parse_id(&text).map(Self).ok_or(NotAnId)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const LOWER: &str = "0b7a4c7e-93a1-4a65-8c0c-2f1f3a9d5e01";

    /// Either case is read.
    #[test]
    fn ids_are_written_in_lower_case() {
        let id: Id = serde_json::from_str(&format!("\"{}\"", LOWER.to_uppercase())).unwrap();
        assert_eq!(id.to_string(), LOWER);
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{LOWER}\""));
    }

    #[test]
    fn the_nil_id_is_an_id() {
        assert_eq!(parse_id("00000000-0000-0000-0000-000000000000"), Some(Uuid::nil()));
    }

    #[rstest]
    #[case("")]
    #[case("abc")]
    #[case("0b7a4c7e93a14a658c0c2f1f3a9d5e01")]
    #[case("{0b7a4c7e-93a1-4a65-8c0c-2f1f3a9d5e01}")]
    #[case("urn:uuid:0b7a4c7e-93a1-4a65-8c0c-2f1f3a9d5e01")]
    #[case("0b7a4c7e-93a1-4a65-8c0c-2f1f3a9d5e0g")]
    #[case("0b7a4c7e-93a1-4a65-8c0c-2f1f3a9d5e0é")]
    #[case("0b7a4c7e-93a14-a65-8c0c-2f1f3a9d5e01")]
    #[case("0b7a4c7e-93a1-4a65-8c0c-2f1f3a9d5e01 ")]
    #[case("{b7a4c7e-93a1-4a65-8c0c-2f1f3a9d5e0}")]
    fn a18_other_forms_are_no_ids(#[case] text: &str) {
        assert_eq!(parse_id(text), None);
        assert!(serde_json::from_value::<Id>(text.into()).is_err());
    }
}
