//! The door's own answers, in the shape of every error of the service (contract, section Errors;
//! ruling 12, unlisted statuses). No other file makes such an answer.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use telemetry::metrics::DOOR_REFUSALS;
use telemetry::request_id::current_request_id;

use crate::roster::Evictions;

/// The most header lines of a request (case A22). A refusal's sentence names the number.
pub(crate) const HEADER_LINES_MAX: usize = 100;

/// Counts a refused request, or a connection that the door ended. The reason is a fixed word.
pub(crate) fn count_refusal(door: &'static str, reason: &'static str) {
    DOOR_REFUSALS.count(&[("door", door), ("reason", reason)]);
}

/// Counts connections that were evicted.
pub(crate) fn count_evictions(door: &'static str, evictions: Evictions) {
    let labels = [("door", door), ("reason", evictions.rank.metric_reason())];
    DOOR_REFUSALS.add(&labels, evictions.count as u64);
}

/// Why the door refused a request. The sentences are for a person. They have no quotation marks or
/// backslashes, and quote nothing of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the request's headers are too large")]
    HeadTooLarge,
    #[error("a request has at most {HEADER_LINES_MAX} header lines")]
    TooManyLines,
    #[error("the request's head took too long to arrive")]
    HeadTooSlow,
    #[error("a line of the request's head must end with CR and LF")]
    LineEnd,
    #[error("the request line must be a method, a target and HTTP/1.1, one space apart")]
    RequestLine,
    #[error("the request's target must be a path")]
    Target,
    #[error("a header must not go on in the next line")]
    Fold,
    #[error("a header must be a name, a colon and a value of permitted characters")]
    Header,
    #[error("a request has one Host header")]
    Host,
    #[error("a request has at most one Content-Length, and it is a number")]
    ContentLength,
    #[error("the only transfer encoding is chunked, in HTTP/1.1 and without a Content-Length")]
    TransferEncoding,
    #[error("the service cannot answer right now; try again in a moment")]
    AnswerTooSlow,
}

impl Refusal {
    const fn status_and_code(self) -> (StatusCode, &'static str) {
        match self {
            Self::HeadTooLarge | Self::TooManyLines => {
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "invalid_request")
            }
            Self::HeadTooSlow => (StatusCode::REQUEST_TIMEOUT, "invalid_request"),
            Self::LineEnd
            | Self::RequestLine
            | Self::Target
            | Self::Fold
            | Self::Header
            | Self::Host
            | Self::ContentLength
            | Self::TransferEncoding => (StatusCode::BAD_REQUEST, "invalid_request"),
            Self::AnswerTooSlow => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        }
    }

    /// The word of this refusal in the metric of refusals.
    pub(crate) const fn metric_reason(self) -> &'static str {
        match self {
            Self::HeadTooLarge => "head_too_large",
            Self::TooManyLines => "too_many_lines",
            Self::HeadTooSlow => "head_too_slow",
            Self::LineEnd => "line_end",
            Self::RequestLine => "request_line",
            Self::Target => "target",
            Self::Fold => "fold",
            Self::Header => "header",
            Self::Host => "host",
            Self::ContentLength => "content_length",
            Self::TransferEncoding => "transfer_encoding",
            Self::AnswerTooSlow => "answer_too_slow",
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        let id = current_request_id().filter(|_| status == StatusCode::SERVICE_UNAVAILABLE);
        let id = id.map(|id| format!(" (request {id})")).unwrap_or_default();
        let body = format!(r#"{{"error":"{self}{id}","code":"{code}"}}"#);
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(Refusal::HeadTooLarge, 431, "invalid_request")]
    #[case(Refusal::TooManyLines, 431, "invalid_request")]
    #[case(Refusal::HeadTooSlow, 408, "invalid_request")]
    #[case(Refusal::LineEnd, 400, "invalid_request")]
    #[case(Refusal::RequestLine, 400, "invalid_request")]
    #[case(Refusal::Target, 400, "invalid_request")]
    #[case(Refusal::Fold, 400, "invalid_request")]
    #[case(Refusal::Header, 400, "invalid_request")]
    #[case(Refusal::Host, 400, "invalid_request")]
    #[case(Refusal::ContentLength, 400, "invalid_request")]
    #[case(Refusal::TransferEncoding, 400, "invalid_request")]
    #[case(Refusal::AnswerTooSlow, 503, "unavailable")]
    #[tokio::test]
    async fn every_refusal_has_status_code_and_sentence(
        #[case] refusal: Refusal,
        #[case] status: u16,
        #[case] code: &str,
    ) {
        let response = refusal.into_response();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers().contains_key("retry-after"), status == 503);
        let body = to_bytes(response.into_body(), 1_024).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body, json!({ "error": refusal.to_string(), "code": code }));
    }
}
