//! Request bodies: the one strict decoder (ruling 7).
//!
//! Takes JSON as RFC 8259 has it and nothing looser, and refuses what JSON leaves open but no two
//! programs read alike: a property twice, U+0000, half a surrogate pair. Nothing of a body is
//! quoted in an error: where it went wrong, and a field's name, must do.

use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use domain::ids::parse_id;
use futures::StreamExt;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use uuid::Uuid;

use crate::error::Error;

/// How much of a body is read, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Bytes.
    pub(crate) bytes: usize,
    /// From the first read to the last.
    pub(crate) time: Duration,
}

impl Limit {
    /// The public door: 64 KiB (ruling 7), closed within 15 s (case A22).
    pub(crate) const PUBLIC: Self = Self { bytes: 64 << 10, time: Duration::from_secs(12) };
    /// The internal door: a batch of 8 MiB (ruling "Internal codes").
    pub(crate) const INTERNAL: Self = Self { bytes: 8 << 20, time: Duration::from_secs(60) };
}

/// Why a body was not taken, in a sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// Longer than the door's limit.
    #[error("the body is too large")]
    TooLarge,
    /// The connection ended first, or its framing is broken.
    #[error("the body was cut short")]
    CutShort,
    /// Not there within the door's time.
    #[error("the body took too long to arrive")]
    TooSlow,
    /// A content type other than JSON.
    #[error("the content type must be application/json")]
    NotJsonType,
    /// A charset other than UTF-8.
    #[error("the charset must be utf-8")]
    Charset,
    /// Compressed, or otherwise not as it is.
    #[error("the body must be sent without a content encoding")]
    Encoded,
    /// Bytes that are not UTF-8.
    #[error("the body is not UTF-8")]
    NotUtf8,
    /// Not JSON, or JSON that can be read in two ways.
    #[error("the body is not valid JSON: {0}")]
    Malformed(String),
    /// JSON, but an array or a scalar.
    #[error("the body must be a JSON object")]
    NotAnObject,
}

/// A body of the public door: a JSON object, taken apart by the functions below.
pub(crate) struct Object(pub(crate) Map<String, Value>);

impl<S: Sync> FromRequest<S> for Object {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts.headers, body, Limit::PUBLIC).await?;
        Ok(Self(strict(&bytes)?))
    }
}

/// Reads a body whole, and no byte past the limit.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: Limit,
) -> Result<Vec<u8>, BodyError> {
    check_type_header(headers)?;
    read_of_any_type(headers, body, limit).await
}

/// Reads a body whose type the caller has looked at itself.
pub(crate) async fn read_of_any_type(
    headers: &HeaderMap,
    body: Body,
    limit: Limit,
) -> Result<Vec<u8>, BodyError> {
    check_encoding(headers)?;
    if announced(headers).is_some_and(|length| length > limit.bytes as u64) {
        return Err(BodyError::TooLarge);
    }
    tokio::time::timeout(limit.time, collect(body, limit.bytes))
        .await
        .unwrap_or(Err(BodyError::TooSlow))
}

/// Reads a body that must be an object, nothing else.
pub(crate) fn strict(bytes: &[u8]) -> Result<Map<String, Value>, BodyError> {
    match strict_value(bytes)? {
        Value::Object(map) => Ok(map),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(BodyError::NotAnObject)
        }
    }
}

/// Reads a body of any JSON value.
pub(crate) fn strict_value(bytes: &[u8]) -> Result<Value, BodyError> {
    let text = std::str::from_utf8(bytes).map_err(|_| BodyError::NotUtf8)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut json).map_err(malformed)?;
    json.end().map_err(malformed)?;
    Ok(value)
}

/// The parser's words name a place, never a value.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn malformed(error: serde_json::Error) -> BodyError {
    BodyError::Malformed(error.to_string())
}

fn check_encoding(headers: &HeaderMap) -> Result<(), BodyError> {
    let identity = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().all(identity) {
        Ok(())
    } else {
        Err(BodyError::Encoded)
    }
}

fn check_type_header(headers: &HeaderMap) -> Result<(), BodyError> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    match (types.next(), types.next()) {
        (None, _) => Ok(()),
        (Some(value), None) => check_type(value.to_str().map_err(|_| BodyError::NotJsonType)?),
        (Some(_), Some(_)) => Err(BodyError::NotJsonType),
    }
}

fn check_type(content_type: &str) -> Result<(), BodyError> {
    let mut parts = content_type.split(';').map(str::trim);
    if !parts.next().is_some_and(is_json) {
        return Err(BodyError::NotJsonType);
    }
    for parameter in parts {
        if let Some((name, value)) = parameter.split_once('=')
            && name.eq_ignore_ascii_case("charset")
            && !value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        {
            return Err(BodyError::Charset);
        }
    }
    Ok(())
}

/// `application/json`, or another type that says it is JSON (RFC 6839, section 3.1).
fn is_json(essence: &str) -> bool {
    let essence = essence.to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn collect(body: Body, limit: usize) -> Result<Vec<u8>, BodyError> {
    let mut read = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| BodyError::CutShort)?;
        if chunk.len() > limit - read.len() {
            return Err(BodyError::TooLarge);
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read)
}

/// Builds a value, and refuses what can be read in two ways. The parser itself refuses half a
/// surrogate pair, and more than 127 levels.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        without_nul(text)?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            without_nul(&key)?;
            if map.contains_key(&key) {
                return Err(A::Error::custom("a property is there twice"));
            }
            map.insert(key, entries.next_value_seed(Self)?);
        }
        Ok(Value::Object(map))
    }
}

/// PostgreSQL's text cannot hold it, and C strings end there.
fn without_nul<E: serde::de::Error>(text: &str) -> Result<(), E> {
    if text.contains('\0') { Err(E::custom("a text holds U+0000")) } else { Ok(()) }
}

/// A field that is missing or has another type, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldError {
    /// It must be there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// It must be a string.
    #[error("`{0}` must be a string")]
    NotAString(&'static str),
    /// It must be an id.
    #[error("`{0}` must be a hyphenated UUID")]
    NotAnId(&'static str),
}

/// A string that must be there.
pub(crate) fn string(
    map: &mut Map<String, Value>,
    name: &'static str,
) -> Result<String, FieldError> {
    optional_string(map, name)?.ok_or(FieldError::Missing(name))
}

/// A string that may be left out; null is not leaving out.
pub(crate) fn optional_string(
    map: &mut Map<String, Value>,
    name: &'static str,
) -> Result<Option<String>, FieldError> {
    match map.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(FieldError::NotAString(name)),
    }
}

/// An id that must be there.
pub(crate) fn id(map: &mut Map<String, Value>, name: &'static str) -> Result<Uuid, FieldError> {
    optional_id(map, name)?.ok_or(FieldError::Missing(name))
}

/// An id that may be left out or null.
pub(crate) fn optional_id(
    map: &mut Map<String, Value>,
    name: &'static str,
) -> Result<Option<Uuid>, FieldError> {
    match map.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => parse_id(&text).map(Some).ok_or(FieldError::NotAnId(name)),
        Some(_) => Err(FieldError::NotAnId(name)),
    }
}

#[cfg(test)]
mod tests;
