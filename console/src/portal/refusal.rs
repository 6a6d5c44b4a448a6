//! Refusals of the portal: a page in the visitor's language that says why.

use api::Error;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;

use super::look::{self, PortalLook};

/// A call that gets no page. Boxed, because an answer is large.
#[derive(Debug)]
pub(crate) struct PortalRefusal(Box<Response>);

impl PortalRefusal {
    /// A refusal by this sentence.
    pub(super) fn saying(status: StatusCode, sentence: &str, look: &PortalLook) -> Self {
        let content = html! {
            p.refused role="alert" { (sentence) }
            @if look.has_session() { p { a href="/portal" { (look.words.home) } } }
        };
        Self(Box::new(look::bare(status, look, look.words.refused, &content)))
    }

    /// The refusal of a call without a session.
    pub(super) fn over(look: &PortalLook) -> Self {
        Self::saying(StatusCode::UNAUTHORIZED, look.words.over, look)
    }

    /// The refusal by an error of the service.
    pub(super) fn of(error: Error, look: &PortalLook) -> Self {
        let words = look.words;
        let sentence = match &error {
            Error::Unauthorized
            | Error::NotAManager
            | Error::NoSuchMember
            | Error::FirmInactive => words.over.to_owned(),
            Error::NotFound | Error::DeliveryNotFound => words.nothing.to_owned(),
            Error::NotFailed => words.not_failed.to_owned(),
            Error::TooManyKeys => words.too_many_keys.to_owned(),
            Error::BodyPurged => words.purged.to_owned(),
            Error::Unavailable(_) => words.unavailable.to_owned(),
            Error::InvalidRequest(why) => format!("{} {why}", words.invalid),
            _ => words.broken.to_owned(),
        };
        // The answer of the API has the status, and it is logged once.
        Self::saying(error.into_response().status(), &sentence, look)
    }
}

impl IntoResponse for PortalRefusal {
    fn into_response(self) -> Response {
        *self.0
    }
}

impl From<Response> for PortalRefusal {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}
