//! The one strict decoder (ruling 7): JSON as RFC 8259 has it and nothing looser. It refuses what
//! JSON leaves open but no two programs read alike: a property twice, U+0000, half a surrogate
//! pair. Numbers stay the text they were sent as (ruling 8).
//!
//! The JSON library checks the grammar of the whole; each level is then taken apart on its own, as
//! text, because the library's values lose digits and keep the last of two equal names.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{BodyError, Fields};

/// How deep a body may be nested (case A9).
pub(crate) const LEVELS_MAX: usize = 127;

/// A JSON value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// The number's own text.
    Number(String),
    /// A text.
    String(String),
    /// An array.
    Array(Vec<Self>),
    /// An object.
    Object(BTreeMap<String, Self>),
}

/// Reads a body that must be an object, nothing else.
pub(crate) fn object(bytes: &[u8]) -> Result<Fields, BodyError> {
    match value(bytes)? {
        Json::Object(fields) => Ok(Fields(fields)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Err(BodyError::NotAnObject)
        }
    }
}

/// Reads a body of any JSON value.
pub(crate) fn value(bytes: &[u8]) -> Result<Json, BodyError> {
    let text = std::str::from_utf8(bytes).map_err(|_| BodyError::NotUtf8)?;
    let raw: &RawValue = serde_json::from_str(text).map_err(malformed)?;
    level(raw.get(), LEVELS_MAX)
}

/// One value whose grammar is known to be right.
fn level(text: &str, levels: usize) -> Result<Json, BodyError> {
    match text.as_bytes().first() {
        Some(b'{') => entries(text, deeper(levels)?).map(Json::Object),
        Some(b'[') => items(text, deeper(levels)?).map(Json::Array),
        Some(b'"') => without_nul(serde_json::from_str(text).map_err(ambiguous)?).map(Json::String),
        Some(b't') => Ok(Json::Bool(true)),
        Some(b'f') => Ok(Json::Bool(false)),
        Some(b'n') => Ok(Json::Null),
        _ => Ok(Json::Number(text.to_owned())),
    }
}

fn deeper(levels: usize) -> Result<usize, BodyError> {
    levels.checked_sub(1).ok_or(BodyError::TooDeep)
}

fn items(text: &str, levels: usize) -> Result<Vec<Json>, BodyError> {
    let items: Vec<&RawValue> = serde_json::from_str(text).map_err(ambiguous)?;
    items.into_iter().map(|item| level(item.get(), levels)).collect()
}

fn entries(text: &str, levels: usize) -> Result<BTreeMap<String, Json>, BodyError> {
    let Entries(entries) = serde_json::from_str(text).map_err(ambiguous)?;
    let mut object = BTreeMap::new();
    for (name, raw) in entries {
        let value = level(raw.get(), levels)?;
        if object.insert(without_nul(name)?, value).is_some() {
            return Err(BodyError::Ambiguous("a property is there twice"));
        }
    }
    Ok(object)
}

/// PostgreSQL's text cannot hold it, and C strings end there.
fn without_nul(text: String) -> Result<String, BodyError> {
    if text.contains('\0') { Err(BodyError::Ambiguous("a text holds U+0000")) } else { Ok(text) }
}

/// The parser's words name a place, never a value.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn malformed(error: serde_json::Error) -> BodyError {
    BodyError::Malformed(error.to_string())
}

/// The grammar was right before: what is left is half a surrogate pair.
fn ambiguous(_: serde_json::Error) -> BodyError {
    BodyError::Ambiguous("a text is not whole Unicode")
}

/// An object's entries in order, its values still text. A map type would keep the last of two
/// equal names.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        json.deserialize_map(InOrder).map(Self)
    }
}

impl Serialize for Json {
    /// As it was written, but for space and the order of names.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(text) => number(text).map_err(S::Error::custom)?.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(entries) => serializer.collect_map(entries),
        }
    }
}

fn number(text: &str) -> Result<&RawValue, serde_json::Error> {
    serde_json::from_str(text)
}
