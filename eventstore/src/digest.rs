//! The digest of an event is SHA-256 over its canonical bytes (RFC 8785).

use std::fmt;

use chrono::{DateTime, Utc};
use domain::values::Timestamp;
use serde::de::{self, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The input of the digest: every column of the row but its position, ordered by column name. The
/// two JSON columns are [`canonical_json`].
#[derive(Debug, Serialize)]
pub struct DigestInput<'a> {
    /// The id of the stream.
    pub aggregate_id: &'a str,
    /// The kind of the stream.
    pub aggregate_type: &'a str,
    /// The name of the event.
    pub event_type: &'a str,
    /// The version of the event's shape.
    pub event_version: &'a str,
    /// The firm of the event.
    pub firm_id: Uuid,
    /// The actor and the cause of the event.
    pub metadata: &'a RawValue,
    /// The content of the event.
    pub payload: &'a RawValue,
    /// The time at which the event was recorded.
    pub recorded_at: Timestamp,
    /// The sequence in the stream.
    pub sequence: i64,
}

/// Computes SHA-256 over the canonical bytes of an event as it is stored.
///
/// # Errors
/// If the event cannot be written as JSON, which no event of ours is.
pub fn event_digest(event: &DigestInput<'_>) -> serde_json::Result<[u8; 32]> {
    Ok(Sha256::digest(canonical_event(event)?).into())
}

/// Returns the bytes that the digest covers: the event as canonical JSON.
///
/// # Errors
/// As [`event_digest`].
pub(crate) fn canonical_event(event: &DigestInput<'_>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(event)
}

/// Returns the canonical text of a value (RFC 8785). The text has no white space and keeps no
/// spelling of the input. Most values serialize to their canonical text directly. All others go
/// through the canonicalizer.
///
/// # Errors
/// If the value has no canonical text: a number that is no double.
pub fn canonical_json<T: Serialize>(value: &T) -> serde_json::Result<Box<RawValue>> {
    let written = to_raw_value(value)?;
    if serde_json::from_str::<CanonicalJson>(written.get()).is_ok() {
        return Ok(written);
    }
    RawValue::from_string(serde_json_canonicalizer::to_string(value)?)
}

/// The greatest integer `n` for which a double represents both `n` and `n + 1` exactly.
const SAFE_INTEGER_MAX: i64 = (1 << 53) - 1;

/// A value whose text is canonical as it is written. Its keys are sorted by their bytes, which is
/// the order of UTF-16 while all keys are ASCII. Its integers fit a double exactly. No other text
/// deserializes as this type.
struct CanonicalJson;

impl<'de> Deserialize<'de> for CanonicalJson {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for CanonicalJson {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that is canonical as it is written")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self, E> {
        if number >= -SAFE_INTEGER_MAX {
            Ok(self)
        } else {
            Err(E::invalid_type(Unexpected::Signed(number), &self))
        }
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self, E> {
        if number <= SAFE_INTEGER_MAX.unsigned_abs() {
            Ok(self)
        } else {
            Err(E::invalid_type(Unexpected::Unsigned(number), &self))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut last = None;
        // A key with an escape cannot be borrowed, so this line refuses it.
        while let Some(key) = members.next_key::<&str>()? {
            if !key.is_ascii() || last.is_some_and(|last| key <= last) {
                return Err(de::Error::invalid_value(Unexpected::Map, &self));
            }
            last = Some(key);
            members.next_value::<Self>()?;
        }
        Ok(self)
    }
}

/// The API shows whole milliseconds, the log keeps them, and the digest covers them.
pub(crate) fn to_timestamp(at: DateTime<Utc>) -> Timestamp {
    Timestamp::from(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_writing_equals_the_canonicalizers() {
        let control: String = (0..=0x7f_u8).map(char::from).collect();
        let values = [
            json!(null),
            json!([true, "", -1, 0, SAFE_INTEGER_MAX, -SAFE_INTEGER_MAX, { "b": 1, "a": { "ä": 2, "a": [] } }]),
            json!(control),
            json!({ "text": "\u{2028} \u{10000} é /\\\"", "control": "\u{1}\n\t\u{8}\u{c}\r\u{1f}" }),
            json!({ "\u{10000}": 1, "\u{ffff}": 2 }),
            json!([SAFE_INTEGER_MAX + 1, u64::MAX, i64::MIN, 1.0, 1e21, 0.1, -0.0]),
        ];
        for value in values {
            let expected = serde_json_canonicalizer::to_string(&value).unwrap();
            assert_eq!(canonical_json(&value).unwrap().get(), expected);
        }
    }

    /// No double has such numbers. Such keys are beyond ASCII, out of order or there twice.
    #[test]
    fn odd_numbers_and_keys_are_not_plain() {
        let is_plain = |text: &str| serde_json::from_str::<CanonicalJson>(text).is_ok();
        assert!(is_plain(r#"{"a":[1,{"b":"ä"}],"b":null}"#));
        let beyond = (SAFE_INTEGER_MAX + 1).to_string();
        for text in [
            &beyond,
            "-9007199254740992",
            "1.0",
            r#"{"a":[{"ä":1}]}"#,
            r#"{"b":1,"a":2}"#,
            r#"{"a":1,"a":1}"#,
        ] {
            assert!(!is_plain(text), "{text}");
        }
    }
}
