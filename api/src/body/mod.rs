//! Request bodies (rulings 7 and 12; cases A1–A11 and A22). A body is read whole within a limit,
//! decoded by [`json`], and taken apart by [`fields`].
//!
//! An error names a position or a field, and never quotes the body.

pub(crate) mod fields;
pub(crate) mod json;

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use futures::StreamExt;

use crate::error::Error;
pub(crate) use fields::BodyFields;
pub(crate) use json::JsonValue;

/// Limits on the size of a body and on its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit {
    /// Most bytes.
    pub(crate) bytes: usize,
    /// Longest time from the first read to the last.
    pub(crate) time: Duration,
}

impl BodyLimit {
    /// The public API: 64 KiB (ruling 7), closed within 15 s (case A22).
    pub(crate) const PUBLIC: Self = Self { bytes: 64 << 10, time: Duration::from_secs(12) };
    /// The internal API: a batch of 8 MiB (ruling "Internal codes").
    pub(crate) const INTERNAL: Self = Self { bytes: 8 << 20, time: Duration::from_secs(60) };
}

/// Reason why a body was refused, as a sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// Longer than the limit.
    #[error("the body is too large")]
    TooLarge,
    /// The connection ended first, or its framing is broken.
    #[error("the body was cut short")]
    CutShort,
    /// Not complete within the limit.
    #[error("the body took too long to arrive")]
    TooSlow,
    /// A content type other than JSON.
    #[error("the content type must be application/json")]
    NotJsonType,
    /// A charset other than UTF-8.
    #[error("the charset must be utf-8")]
    Charset,
    /// Compressed or encoded in another way.
    #[error("the body must be sent without a content encoding")]
    Encoded,
    /// Bytes that are not UTF-8.
    #[error("the body is not UTF-8")]
    NotUtf8,
    /// Not JSON, with the position of the fault.
    #[error("the body is not valid JSON: {0}")]
    Malformed(String),
    /// JSON that can be read in two ways.
    #[error("the body is not valid JSON: {0}")]
    Ambiguous(&'static str),
    /// JSON with more levels than a request needs.
    #[error("the body has more than {} levels", json::LEVELS_MAX)]
    TooDeep,
    /// JSON, but an array or a scalar.
    #[error("the body must be a JSON object")]
    NotAnObject,
}

impl From<BodyError> for Error {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::BodyTooLarge,
            BodyError::CutShort
            | BodyError::TooSlow
            | BodyError::NotJsonType
            | BodyError::Charset
            | BodyError::Encoded
            | BodyError::NotUtf8
            | BodyError::Malformed(_)
            | BodyError::Ambiguous(_)
            | BodyError::TooDeep
            | BodyError::NotAnObject => Self::invalid(error.to_string()),
        }
    }
}

/// A body of the public API: a JSON object.
pub(crate) struct JsonBody(pub(crate) BodyFields);

impl<S: Sync> FromRequest<S> for JsonBody {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        let bytes = read_bytes(&parts.headers, body, BodyLimit::PUBLIC).await?;
        Ok(Self(json::parse_object(&bytes)?))
    }
}

/// A body that may be missing. A missing body is an object without properties.
pub(crate) struct OptionalJsonBody(pub(crate) BodyFields);

impl<S: Sync> FromRequest<S> for OptionalJsonBody {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        let bytes = read_of_any_type(&parts.headers, body, BodyLimit::PUBLIC).await?;
        if bytes.is_empty() {
            return Ok(Self(BodyFields::default()));
        }
        check_type_header(&parts.headers)?;
        Ok(Self(json::parse_object(&bytes)?))
    }
}

/// Reads a body whole, and no byte past the limit.
pub(crate) async fn read_bytes(
    headers: &HeaderMap,
    body: Body,
    limit: BodyLimit,
) -> Result<Vec<u8>, BodyError> {
    check_type_header(headers)?;
    read_of_any_type(headers, body, limit).await
}

/// Reads a body whose content type the caller has checked.
pub(crate) async fn read_of_any_type(
    headers: &HeaderMap,
    body: Body,
    limit: BodyLimit,
) -> Result<Vec<u8>, BodyError> {
    check_encoding(headers)?;
    if content_length(headers).is_some_and(|length| length > limit.bytes as u64) {
        return Err(BodyError::TooLarge);
    }
    tokio::time::timeout(limit.time, collect_bytes(body, limit.bytes))
        .await
        .unwrap_or(Err(BodyError::TooSlow))
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
            && !is_utf8(value)
        {
            return Err(BodyError::Charset);
        }
    }
    Ok(())
}

/// Whether a charset is UTF-8. Many clients write `utf8` (WHATWG Encoding, section 4.2).
pub(crate) fn is_utf8(charset: &str) -> bool {
    let charset = charset.trim_matches('"');
    charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("utf8")
}

/// Whether a type is `application/json` or declares JSON by its suffix (RFC 6839, section 3.1).
fn is_json(essence: &str) -> bool {
    let essence = essence.to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Number of bytes that the caller announces.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn collect_bytes(body: Body, limit: usize) -> Result<Vec<u8>, BodyError> {
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

#[cfg(test)]
mod tests;
