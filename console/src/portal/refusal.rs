//! Refusals of the portal: a page in the visitor's language that says why.

use api::Error;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use domain::delivery::replay::ReplaySkip;
use maud::html;

use super::look::{self, PortalLook};

/// A call that gets no page. Boxed, because an answer is large.
#[derive(Debug)]
pub(crate) struct PortalRefusal(Box<Response>);

impl PortalRefusal {
    /// A refusal by this sentence.
    pub(super) fn with_sentence(status: StatusCode, sentence: &str, look: &PortalLook) -> Self {
        let content = html! {
            p.refused role="alert" { (sentence) }
            @if look.has_session() { p { a href="/portal" { (look.words.home) } } }
        };
        Self(Box::new(look::bare_page(status, look, look.words.refused, &content)))
    }

    /// The refusal of a call without a session.
    pub(super) fn session_over(look: &PortalLook) -> Self {
        Self::with_sentence(StatusCode::UNAUTHORIZED, look.words.over, look)
    }

    /// The refusal of a replay that cannot succeed.
    pub(super) fn of_skip(why: ReplaySkip, look: &PortalLook) -> Self {
        Self::with_sentence(StatusCode::CONFLICT, look.words.why_skipped(why), look)
    }

    /// The refusal by an error of the service.
    pub(super) fn new(error: Error, look: &PortalLook) -> Self {
        let words = look.words;
        let sentence = match &error {
            Error::Unauthorized
            | Error::NotAManager
            | Error::NoSuchMember
            | Error::FirmInactive => words.over,
            Error::NotFound | Error::DeliveryNotFound => words.nothing,
            Error::NotFailed => words.not_failed,
            Error::TooManyKeys => words.too_many_keys,
            Error::BodyPurged | Error::Archived => words.purged,
            Error::Unavailable(_) | Error::NoKeyring(_) | Error::DiskFull => words.unavailable,
            // The texts of the API are English.
            Error::InvalidRequest(_) => words.not_accepted,
            Error::RateLimited(_) => words.too_often,
            _ => words.broken,
        };
        // The answer of the API has the status and the wait, and it is logged once.
        let answer = error.into_response();
        let mut refusal = Self::with_sentence(answer.status(), sentence, look);
        if let Some(wait) = answer.headers().get(RETRY_AFTER) {
            refusal.0.headers_mut().insert(RETRY_AFTER, wait.clone());
        }
        refusal
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portal::words::words_in;
    use domain::values::Lang;

    /// A refusal named no wait.
    #[test]
    fn a_refusal_names_its_wait() {
        let look = PortalLook::without_session(words_in(Lang::Fr));
        for (error, status, wait) in [
            (Error::Unavailable("x".into()), 503, Some("1")),
            (Error::RateLimited(7), 429, Some("7")),
            (Error::InvalidRequest("`name` must be shorter".into()), 400, None),
        ] {
            let refusal = PortalRefusal::new(error, &look).into_response();
            assert_eq!(refusal.status(), status);
            let told = refusal.headers().get(RETRY_AFTER).map(|wait| wait.to_str().unwrap());
            assert_eq!(told, wait);
        }
    }
}
