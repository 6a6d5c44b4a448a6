//! Refusals: a page that says why, or the API's own error for a caller that wants data.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use maud::html;

use crate::document;

/// A call that gets no page.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    sentence: String,
    /// The error as the API wrote it.
    json: Option<Bytes>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, sentence: &str) -> Self {
        Self { status, sentence: sentence.to_owned(), json: None }
    }

    /// The service could not answer. The log tells why.
    pub(crate) fn unanswered(error: &api::Error) -> Self {
        error.log_failure();
        Self::new(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())
    }

    /// An address without a page.
    pub(crate) fn no_page() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such page, or it is not yours to see")
    }

    /// A form that no page of this session made.
    pub(crate) fn strange_form() -> Self {
        let why = "this form did not come from a page of your session: open the page again";
        Self::new(StatusCode::FORBIDDEN, why)
    }

    /// A form or an address that cannot be read.
    pub(crate) fn invalid(sentence: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, sentence)
    }

    /// A fault of the console itself.
    pub(crate) fn broken(detail: &str) -> Self {
        let why = format!("the console could not read an answer of the service: {detail}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, &why)
    }

    pub(crate) fn of_api(status: StatusCode, sentence: String, json: Bytes) -> Self {
        Self { status, sentence, json: Some(json) }
    }

    /// The refusal as data.
    pub(crate) fn into_data(self) -> Response {
        let json = self
            .json
            .unwrap_or_else(|| serde_json::json!({ "error": self.sentence }).to_string().into());
        (self.status, [(CONTENT_TYPE, "application/json")], json).into_response()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let content = html! {
            p.refused role="alert" { (self.sentence) }
            p { a href="/console" { "Home" } }
        };
        let title = self.status.canonical_reason().unwrap_or("Refused");
        document::bare_page(self.status, title, &content)
    }
}
