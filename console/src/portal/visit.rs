//! A call with a session of the portal, and a form of such a session.

use api::Service;
use api::portal::sessions::{self, PortalSession, PortalStanding};
use axum::extract::{FromRequest, FromRequestParts, OriginalUri, Request};
use axum::http::header::ACCEPT_LANGUAGE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Redirect, Response};
use domain::ids::parse_id;
use domain::lang::Lang;
use domain::time::Timestamp;
use maud::Markup;
use uuid::Uuid;

use super::entrance;
use super::look::{self, PortalLook, PortalPage};
use super::refusal::PortalRefusal;
use super::words::{Words, words_in};
use super::{PortalState, SharedPortal};
use crate::act::{FORM_TOKEN, FormFields};
use crate::visit::{named_cookies, params, read_query, written};

/// A call with a session.
pub(crate) struct PortalVisit {
    pub(super) session: PortalSession,
    pub(super) words: &'static Words,
    /// The text that each form must carry.
    pub(super) form_token: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) now: Timestamp,
    /// A new id, for a command that is carried out once however often its form is sent.
    pub(super) request_id: Uuid,
    params: Vec<(String, String)>,
}

/// A form with its session.
pub(crate) struct PortalForm {
    pub(super) visit: PortalVisit,
    pub(super) fields: FormFields,
}

/// The answer of a page.
pub(super) type PortalAnswer = Result<Response, PortalRefusal>;

impl FromRequestParts<SharedPortal> for PortalVisit {
    type Rejection = PortalRefusal;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &SharedPortal,
    ) -> Result<Self, PortalRefusal> {
        let service = &state.service;
        let browser = browser_lang(&parts.headers);
        let look = PortalLook::bare(words_in(browser));
        let standing = standing(state, &parts.headers).await;
        let session = match standing.map_err(|why| PortalRefusal::of(why, &look))? {
            PortalStanding::Open(session) => session,
            PortalStanding::Over { frame_origin } => {
                return Err(PortalRefusal::over(&look.framed_by(frame_origin)));
            }
            PortalStanding::Unknown if entrance::is_from_elsewhere(parts) => {
                return Err(entrance::again(parts, &look).into());
            }
            PortalStanding::Unknown => return Err(PortalRefusal::over(&look)),
        };
        let words = words_in(session.lang().unwrap_or(browser));
        Ok(Self {
            words,
            form_token: session.form_token(service),
            path: path_of(parts).to_owned(),
            query: read_query(parts.uri.query().unwrap_or_default()),
            now: service.clock.now(),
            request_id: service.entropy.id(),
            params: params(parts).await,
            session,
        })
    }
}

impl FromRequest<SharedPortal> for PortalForm {
    type Rejection = PortalRefusal;

    async fn from_request(request: Request, state: &SharedPortal) -> Result<Self, PortalRefusal> {
        let (mut parts, body) = request.into_parts();
        let visit = PortalVisit::from_request_parts(&mut parts, state).await?;
        let fields = FormFields::of(Request::from_parts(parts, body)).await;
        let fields = fields.map_err(|fault| visit.refused(fault.status(), visit.words.strange))?;
        let token = fields.optional(FORM_TOKEN).unwrap_or_default();
        if !visit.session.has_form_token(&state.service, token) {
            return Err(visit.refused(StatusCode::FORBIDDEN, visit.words.strange));
        }
        Ok(Self { visit, fields })
    }
}

/// The name of the cookie. Behind TLS a browser takes it from this host alone.
pub(super) fn cookie_name(service: &Service) -> &'static str {
    if is_encrypted(service) { "__Host-firmforms_portal" } else { "firmforms_portal" }
}

/// Whether browsers reach the public door by TLS.
pub(super) fn is_encrypted(service: &Service) -> bool {
    service.base_url.starts_with("https://")
}

/// Cookies of a request that are looked up, at most.
const COOKIES_MAX: usize = 3;

/// The standing of the first cookie that is a session. A neighbour may have set others of this
/// name.
async fn standing(state: &PortalState, headers: &HeaderMap) -> Result<PortalStanding, api::Error> {
    let mut last = PortalStanding::Unknown;
    let cookies = named_cookies(headers, cookie_name(&state.service));
    for cookie in cookies.into_iter().take(COOKIES_MAX) {
        match sessions::find(&state.service, cookie).await? {
            open @ PortalStanding::Open(_) => return Ok(open),
            over @ PortalStanding::Over { .. } => last = over,
            PortalStanding::Unknown => {}
        }
    }
    Ok(last)
}

/// The first of our languages that the browser names; English without one.
pub(super) fn browser_lang(headers: &HeaderMap) -> Lang {
    let named = headers.get_all(ACCEPT_LANGUAGE).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = named.flat_map(|value| value.split(','));
    let known = ranges.find_map(|range| {
        let tag = range.split(';').next().unwrap_or_default().trim();
        Lang::read(&tag.split('-').next().unwrap_or_default().to_ascii_lowercase())
    });
    known.unwrap_or_default()
}

impl PortalVisit {
    /// The value of a parameter.
    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The id in the path. A malformed one is answered like an unknown one.
    pub(super) fn id(&self) -> Result<Uuid, PortalRefusal> {
        let id = self.params.iter().find(|(name, _)| name == "id");
        let id = id.and_then(|(_, text)| parse_id(text));
        id.ok_or_else(|| self.refused(StatusCode::NOT_FOUND, self.words.nothing))
    }

    /// This page with a parameter set, or without it.
    pub(super) fn link(&self, name: &str, value: Option<&str>) -> String {
        let others = self.query.iter().filter(|(known, _)| known != name && known != "after");
        let mut query: Vec<(String, String)> = others.cloned().collect();
        query.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        query.retain(|(name, _)| name != "done");
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}{mark}{}", self.path, written(&query))
    }

    /// The result, or a page that says why there is none.
    pub(super) fn told<T>(&self, result: Result<T, api::Error>) -> Result<T, PortalRefusal> {
        result.map_err(|why| PortalRefusal::of(why, &self.look()))
    }

    /// A page that says why there is no other.
    pub(super) fn refused(&self, status: StatusCode, sentence: &str) -> PortalRefusal {
        PortalRefusal::saying(status, sentence, &self.look())
    }

    /// A whole page.
    pub(super) fn page(&self, title: &str, content: Markup) -> Response {
        look::page(self, &PortalPage { title, content })
    }

    /// The look of all pages of the session.
    pub(super) fn look(&self) -> PortalLook {
        PortalLook::of(self.words, &self.session)
    }
}

impl PortalForm {
    /// To a page, which says what was done.
    pub(super) fn done(&self, path: &str, done: &str) -> Redirect {
        Redirect::to(&format!("{path}?done={done}"))
    }

    /// The text of a field that must not be empty.
    pub(super) fn text(&self, name: &str) -> Result<&str, PortalRefusal> {
        let words = self.visit.words;
        let missing = || self.visit.refused(StatusCode::BAD_REQUEST, words.missing);
        self.fields.optional(name).ok_or_else(missing)
    }
}

/// The whole path of a page, which a route shortens.
pub(super) fn path_of(parts: &Parts) -> &str {
    parts.extensions.get::<OriginalUri>().map_or("/portal", |OriginalUri(uri)| uri.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&[], Lang::En)]
    #[case(&["fr"], Lang::Fr)]
    #[case(&["de-DE, ES-mx;q=0.8, fr;q=0.5"], Lang::Es)]
    #[case(&["de", "fr-CA"], Lang::Fr)]
    #[case(&["*, , ;q=1"], Lang::En)]
    fn the_first_known_language_of_the_browser_counts(
        #[case] named: &[&'static str],
        #[case] expected: Lang,
    ) {
        let mut headers = HeaderMap::new();
        for value in named {
            headers.append(ACCEPT_LANGUAGE, value.parse().unwrap());
        }
        assert_eq!(browser_lang(&headers), expected);
    }
}
