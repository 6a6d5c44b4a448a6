//! The answer of a door, and assertions about it.

use std::borrow::Cow;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

/// The answer of a door.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it was sent.
    pub bytes: Bytes,
    /// The body as JSON; null when there is none.
    pub body: Value,
}

impl Answer {
    pub(crate) fn new(status: StatusCode, headers: HeaderMap, bytes: Bytes) -> Self {
        // Null too for a page.
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Self { status, headers, bytes, body }
    }

    /// The status and the error's code; an empty one when there is none.
    #[must_use]
    pub fn code(&self) -> (u16, &str) {
        let code = self.body["code"].as_str().unwrap_or_default();
        (self.status.as_u16(), code)
    }

    /// Asserts that the call succeeded; its answer.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.status.is_success(), "{}: {}", self.status, self.lossy_text());
        self
    }

    /// Asserts that the call was refused with this status and this code of the contract.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) {
        assert_eq!(self.code(), (status, code), "{}", self.lossy_text());
    }

    fn lossy_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// The headers, without those that differ from call to call.
    #[must_use]
    pub fn lasting_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        for name in ["x-request-id", "ratelimit"] {
            assert!(headers.remove(name).is_some(), "{name}");
        }
        headers
    }

    /// The body's text.
    #[must_use]
    pub fn text(&self) -> &str {
        str::from_utf8(&self.bytes).unwrap()
    }
}
