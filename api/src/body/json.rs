//! The one strict decoder of JSON (ruling 7). It accepts RFC 8259 and nothing looser. It refuses
//! texts that programs read differently: a repeated property, U+0000, half a surrogate pair. A
//! number stays the text that was sent (ruling 8).
//!
//! The JSON library checks the grammar first. One pass of this module checks the rest. Values are
//! then taken apart as text, level by level, because the library's numbers lose digits.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::{BodyError, BodyFields};

/// Most levels of a body (case A9).
pub(crate) const LEVELS_MAX: usize = 127;

/// A JSON value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonValue {
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
pub(crate) fn parse_object(bytes: &[u8]) -> Result<BodyFields, BodyError> {
    match parse_value(bytes)? {
        JsonValue::Object(fields) => Ok(BodyFields(fields)),
        JsonValue::Null
        | JsonValue::Bool(_)
        | JsonValue::Number(_)
        | JsonValue::String(_)
        | JsonValue::Array(_) => Err(BodyError::NotAnObject),
    }
}

/// Reads a body that must be an object, as the text of each of its properties.
pub(crate) fn parse_properties(bytes: &[u8]) -> Result<BTreeMap<String, &RawValue>, BodyError> {
    let text = checked_text(bytes)?.get();
    if !text.starts_with('{') {
        return Err(BodyError::NotAnObject);
    }
    serde_json::from_str(text).map_err(malformed_error)
}

/// Reads a body of any JSON value.
pub(crate) fn parse_value(bytes: &[u8]) -> Result<JsonValue, BodyError> {
    decode_value(checked_text(bytes)?.get()).map_err(malformed_error)
}

/// The body as text, if the decoder accepts it.
fn checked_text(bytes: &[u8]) -> Result<&RawValue, BodyError> {
    let text = std::str::from_utf8(bytes).map_err(|_| BodyError::NotUtf8)?;
    let whole: &RawValue = serde_json::from_str(text).map_err(malformed_error)?;
    refuse_ambiguous(whole.get())?;
    Ok(whole)
}

/// Refuses ambiguous JSON in a text whose grammar is right. The pass looks only at brackets and
/// strings.
fn refuse_ambiguous(text: &str) -> Result<(), BodyError> {
    // Names seen so far in each open object. An array has no names.
    let mut open: Vec<Option<BTreeSet<Cow<'_, str>>>> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| b"{}[]\"".contains(&byte)) {
        let mark = rest.as_bytes()[at];
        let after = &rest[at + 1..];
        rest = after;
        match mark {
            b'{' => open.push(Some(BTreeSet::new())),
            b'[' => open.push(None),
            b'"' => {
                let said;
                (said, rest) = decode_string(after)?;
                rest = rest.trim_ascii_start();
                if let Some(Some(names)) = open.last_mut()
                    && rest.starts_with(':')
                    && !names.insert(said)
                {
                    return Err(BodyError::Ambiguous("a property is there twice"));
                }
            }
            _ => _ = open.pop(),
        }
        if open.len() > LEVELS_MAX {
            return Err(BodyError::TooDeep);
        }
    }
    Ok(())
}

/// Decodes a string that begins after its first quote, and answers the rest of the text.
fn decode_string(text: &str) -> Result<(Cow<'_, str>, &str), BodyError> {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    let (said, rest) = text.split_at(end.unwrap_or(text.len()));
    let rest = rest.strip_prefix('"').unwrap_or(rest);
    if !said.contains('\\') {
        return Ok((said.into(), rest));
    }
    let said = serde_json::from_str(&format!("\"{said}\"")).map_err(ambiguous_error)?;
    Ok((without_nul(said)?.into(), rest))
}

/// Decodes a value of a checked text.
fn decode_value(text: &str) -> serde_json::Result<JsonValue> {
    Ok(match text.as_bytes().first() {
        Some(b'{') => {
            let entries: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
            let entries =
                entries.into_iter().map(|(name, value)| Ok((name, decode_value(value.get())?)));
            JsonValue::Object(entries.collect::<serde_json::Result<_>>()?)
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            let items = items.into_iter().map(|item| decode_value(item.get()));
            JsonValue::Array(items.collect::<serde_json::Result<_>>()?)
        }
        Some(b'"') => JsonValue::String(serde_json::from_str(text)?),
        Some(b't') => JsonValue::Bool(true),
        Some(b'f') => JsonValue::Bool(false),
        Some(b'n') => JsonValue::Null,
        _ => JsonValue::Number(text.to_owned()),
    })
}

/// Refuses U+0000, which PostgreSQL's text cannot hold and C strings end at. JSON has it as an
/// escape only.
fn without_nul(text: String) -> Result<String, BodyError> {
    if text.contains('\0') { Err(BodyError::Ambiguous("a text holds U+0000")) } else { Ok(text) }
}

/// Turns the parser's error into one that names a position. The parser's words quote no value.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn malformed_error(error: serde_json::Error) -> BodyError {
    BodyError::Malformed(error.to_string())
}

/// The grammar was right before, so only half a surrogate pair can be wrong.
fn ambiguous_error(_: serde_json::Error) -> BodyError {
    BodyError::Ambiguous("a text is not whole Unicode")
}
