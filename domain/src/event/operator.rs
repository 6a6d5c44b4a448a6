//! Operators at a terminal (ruling 46): the name they give, and the evidence that the machine and
//! the database add.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Longest name of an operator, in characters.
const NAME_MAX: usize = 64;

/// The name of an operator at a terminal. An operator with a token has an id instead, so a name is
/// never a UUID.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OperatorName {
    bytes: [u8; NAME_MAX],
    length: u8,
}

/// The text is no name of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 64 of the characters A-Z a-z 0-9 . _ @ + - and is no UUID")]
pub struct NotAnOperatorName;

impl OperatorName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }

    /// The name for an account of the operating system. A character that no name may have becomes
    /// an underscore.
    #[must_use]
    pub fn of_account(account: &str) -> Option<Self> {
        let allowed = account.chars().map(|c| if is_name_char(c) { c } else { '_' });
        allowed.take(NAME_MAX).collect::<String>().parse().ok()
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '@' | '+' | '-')
}

impl FromStr for OperatorName {
    type Err = NotAnOperatorName;

    fn from_str(text: &str) -> Result<Self, NotAnOperatorName> {
        let fits = (1..=NAME_MAX).contains(&text.len()) && text.chars().all(is_name_char);
        if !fits || Uuid::parse_str(text).is_ok() {
            return Err(NotAnOperatorName);
        }
        let mut bytes = [0; NAME_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        let length = u8::try_from(text.len()).map_err(|_| NotAnOperatorName)?;
        Ok(Self { bytes, length })
    }
}

impl fmt::Display for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Where a command was given. The fields are in alphabetical order, as canonical JSON demands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// The name of the machine.
    pub host: String,
    /// The login at the database.
    pub login: String,
    /// The account of the operating system.
    pub user: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_plain_and_no_uuid() {
        for good in ["a", "ann", "ann.lee@example.com", "svc-ops_2", &"a".repeat(64)] {
            assert_eq!(good.parse::<OperatorName>().map(|name| name.to_string()), Ok(good.into()));
        }
        let uuid = "00000000-0000-0000-0000-000000000000";
        for bad in ["", "ann lee", "a:b", "é", "a\n", "\u{1b}[2J", uuid, &"a".repeat(65)] {
            assert_eq!(bad.parse::<OperatorName>(), Err(NotAnOperatorName), "{bad:?}");
        }
    }

    #[test]
    fn an_account_becomes_a_valid_name() {
        let of = |account: &str| OperatorName::of_account(account).map(|name| name.to_string());
        assert_eq!(of("DOMAIN\\ann lee").as_deref(), Some("DOMAIN_ann_lee"));
        assert_eq!(of(&"x".repeat(80)).unwrap().len(), 64);
        assert_eq!(of(""), None);
    }
}
