//! The digest of an event: SHA-256 over its canonical bytes (RFC 8785).

use chrono::{DateTime, Utc};
use domain::time::Timestamp;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// What is digested: every column of the row but its position, in the order of their names. The two
/// that are JSON are [`canonical`].
#[derive(Debug, Serialize)]
pub struct Digested<'a> {
    /// The stream.
    pub aggregate_id: &'a str,
    /// What kind of stream it is.
    pub aggregate_type: &'a str,
    /// The id.
    pub event_id: Uuid,
    /// The name of what happened.
    pub event_type: &'a str,
    /// Which shape of it.
    pub event_version: &'a str,
    /// Whose it is.
    pub firm_id: Uuid,
    /// Who did it, and why.
    pub metadata: &'a RawValue,
    /// What happened.
    pub payload: &'a RawValue,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// Its place in the stream.
    pub sequence: i64,
}

/// SHA-256 over the canonical bytes of an event as it is stored.
///
/// # Errors
/// If the event cannot be written as JSON, which no event of ours is.
pub fn digest(event: &Digested<'_>) -> serde_json::Result<[u8; 32]> {
    Ok(Sha256::digest(serde_json::to_vec(event)?).into())
}

/// The canonical text of a value (RFC 8785). That of most is what is written anyway; the rest are
/// canonicalized.
///
/// # Errors
/// If the value has no canonical text: a number that is no double.
pub fn canonical(value: &Value) -> serde_json::Result<Box<RawValue>> {
    if is_plain(value) {
        return to_raw_value(value);
    }
    RawValue::from_string(serde_json_canonicalizer::to_string(value)?)
}

/// The greatest whole number that a double has exactly, and none of its neighbours.
const SAFE: i64 = (1 << 53) - 1;

/// Whether a value is written canonically as it is: keys in the order of their bytes, which is that of
/// UTF-16 while they are ASCII, and whole numbers that a double has exactly.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => number.as_i64().is_some_and(|n| (-SAFE..=SAFE).contains(&n)),
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(members) => {
            members.iter().all(|(key, value)| key.is_ascii() && is_plain(value))
                && members.keys().is_sorted()
        }
    }
}

/// Whole milliseconds: what the API shows is what the log keeps and what was digested.
pub(crate) fn to_timestamp(at: DateTime<Utc>) -> Timestamp {
    Timestamp::from(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_as_it_is_is_what_the_canonicalizer_writes() {
        let control: String = (0..=0x7f_u8).map(char::from).collect();
        let values = [
            json!(null),
            json!([true, "", -1, 0, SAFE, -SAFE, { "b": 1, "a": { "ä": 2, "a": [] } }]),
            json!(control),
            json!({ "text": "\u{2028} \u{10000} é /\\\"", "control": "\u{1}\n\t\u{8}\u{c}\r\u{1f}" }),
            json!({ "\u{10000}": 1, "\u{ffff}": 2 }),
            json!([SAFE + 1, u64::MAX, i64::MIN, 1.0, 1e21, 0.1, -0.0]),
        ];
        for value in values {
            let expected = serde_json_canonicalizer::to_string(&value).unwrap();
            assert_eq!(canonical(&value).unwrap().get(), expected);
        }
    }

    #[test]
    fn numbers_that_no_double_has_and_keys_beyond_ascii_are_not_plain() {
        assert!(is_plain(&json!({ "a": [1, { "b": "ä" }] })));
        for value in [json!(SAFE + 1), json!(1.0), json!({ "a": [{ "ä": 1 }] })] {
            assert!(!is_plain(&value), "{value}");
        }
    }
}
