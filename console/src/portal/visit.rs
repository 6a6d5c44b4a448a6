//! A call with a session of the portal, and a form of such a session.

use api::Service;
use api::portal::sessions::{self, PortalSession, PortalStanding};
use axum::extract::{FromRequest, FromRequestParts, OriginalUri, Request};
use axum::http::header::ACCEPT_LANGUAGE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{Redirect, Response};
use domain::values::{Lang, Timestamp, parse_id};
use maud::Markup;
use uuid::Uuid;

use super::SharedPortal;
use super::entrance;
use super::look::{self, PortalLook, PortalPage};
use super::refusal::PortalRefusal;
use super::words::{Words, words_in};
use crate::form::{FORM_TOKEN, FormFields};
use crate::visit::{named_cookies, path_params, query_text, read_query};

/// The field that names the page to go back to.
pub(super) const BACK: &str = "back";

/// A call with a session.
pub(crate) struct PortalVisit {
    pub(super) session: PortalSession,
    pub(super) words: &'static Words,
    /// The text that each form must carry.
    pub(super) form_token: String,
    pub(super) path: String,
    method: Method,
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
        let look = PortalLook::without_session(words_in(browser));
        let cookies: Vec<&str> = session_cookies(service, &parts.headers);
        let standing = sessions::find(service, parts, &cookies).await;
        let session = match standing.map_err(|why| PortalRefusal::new(why, &look))? {
            PortalStanding::Open(session) => session,
            PortalStanding::Over { why, frame_origin } => {
                return Err(PortalRefusal::new(why, &look.framed_by(frame_origin)));
            }
            PortalStanding::Unknown if entrance::is_from_elsewhere(parts) => {
                return Err(entrance::reload_page(parts, &look).into());
            }
            PortalStanding::Unknown => return Err(PortalRefusal::session_over(&look)),
        };
        let words = words_in(session.lang().unwrap_or(browser));
        let admitted = session.admit_request(service);
        admitted.map_err(|why| PortalRefusal::new(why, &PortalLook::new(words, &session)))?;
        Ok(Self {
            words,
            form_token: session.form_token(service),
            path: path_of(parts).to_owned(),
            method: parts.method.clone(),
            query: read_query(parts.uri.query().unwrap_or_default()),
            now: service.clock.now(),
            request_id: service.entropy.new_id(),
            params: path_params(parts).await,
            session,
        })
    }
}

impl FromRequest<SharedPortal> for PortalForm {
    type Rejection = PortalRefusal;

    async fn from_request(request: Request, state: &SharedPortal) -> Result<Self, PortalRefusal> {
        let (mut parts, body) = request.into_parts();
        let visit = PortalVisit::from_request_parts(&mut parts, state).await?;
        let fields = FormFields::new(Request::from_parts(parts, body)).await;
        let fields =
            fields.map_err(|fault| visit.refusal_page(fault.status(), visit.words.strange))?;
        let token = fields.optional_text(FORM_TOKEN).unwrap_or_default();
        if !visit.session.has_form_token(&state.service, token) {
            return Err(visit.refusal_page(StatusCode::FORBIDDEN, visit.words.strange));
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
    service.settings.base_url.starts_with("https://")
}

/// All cookies that may be sessions.
pub(super) fn session_cookies<'a>(service: &Service, headers: &'a HeaderMap) -> Vec<&'a str> {
    named_cookies(headers, cookie_name(service)).filter(|cookie| !cookie.is_empty()).collect()
}

/// The language of ours that the browser likes best (RFC 9110, section 12.5.4); English without
/// one.
pub(super) fn browser_lang(headers: &HeaderMap) -> Lang {
    let named = headers.get_all(ACCEPT_LANGUAGE).iter().filter_map(|value| value.to_str().ok());
    let mut known: Vec<(f32, Lang)> =
        named.flat_map(|value| value.split(',')).filter_map(known_range).collect();
    // The sort is stable, so the first of equals stays the first.
    known.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    known.first().map(|(_, lang)| *lang).unwrap_or_default()
}

/// A range of the header with its weight, if it is one of our languages and wanted at all.
fn known_range(range: &str) -> Option<(f32, Lang)> {
    let mut parts = range.split(';').map(str::trim);
    let tag = parts.next().unwrap_or_default();
    let lang = Lang::read(&tag.split('-').next().unwrap_or_default().to_ascii_lowercase())?;
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let weight = weight.map_or(Ok(1.0), str::parse).unwrap_or(0.0);
    (weight > 0.0).then_some((weight, lang))
}

/// A page of the portal, if the text is the path of one.
pub(super) fn own_page(text: &str) -> Option<&str> {
    let path = text.split('?').next().unwrap_or_default();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_own = path == "/portal" || path.starts_with("/portal/");
    (is_plain && is_own && !path.contains("..") && !path.contains("//")).then_some(text)
}

impl PortalVisit {
    /// The value of a parameter.
    pub(super) fn query_value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The id in a parameter. Another text is no parameter that could be left out.
    pub(super) fn asked_id(&self, name: &str) -> Result<Option<Uuid>, PortalRefusal> {
        let read = |text| parse_id(text).ok_or_else(|| self.not_accepted(name));
        self.query_value(name).map(read).transpose()
    }

    /// The refusal of a parameter.
    pub(super) fn not_accepted(&self, name: &str) -> PortalRefusal {
        self.refusal_page(StatusCode::BAD_REQUEST, &format!("{} {name}", self.words.invalid))
    }

    /// This page with its query, for the way back from a form.
    pub(super) fn return_path(&self) -> Option<String> {
        (self.method == Method::GET).then(|| self.link_with("done", None))
    }

    /// The id in the path. A malformed one is answered like an unknown one.
    pub(super) fn path_id(&self) -> Result<Uuid, PortalRefusal> {
        let id = self.params.iter().find(|(name, _)| name == "id");
        let id = id.and_then(|(_, text)| parse_id(text));
        id.ok_or_else(|| self.refusal_page(StatusCode::NOT_FOUND, self.words.nothing))
    }

    /// This page with a parameter set, or without it.
    pub(super) fn link_with(&self, name: &str, value: Option<&str>) -> String {
        let others = self.query.iter().filter(|(known, _)| known != name && known != "after");
        let mut query: Vec<(String, String)> = others.cloned().collect();
        query.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        query.retain(|(name, _)| name != "done");
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}{mark}{}", self.path, query_text(&query))
    }

    /// The result, or a page that says why there is none.
    pub(super) fn or_refusal<T>(&self, result: Result<T, api::Error>) -> Result<T, PortalRefusal> {
        result.map_err(|why| PortalRefusal::new(why, &self.page_look()))
    }

    /// A page that says why there is no other.
    pub(super) fn refusal_page(&self, status: StatusCode, sentence: &str) -> PortalRefusal {
        PortalRefusal::with_sentence(status, sentence, &self.page_look())
    }

    /// A whole page.
    pub(super) fn page(&self, title: &str, content: Markup) -> Response {
        look::full_page(self, &PortalPage { title, content })
    }

    /// The look of all pages of the session.
    pub(super) fn page_look(&self) -> PortalLook {
        PortalLook::new(self.words, &self.session)
    }
}

impl PortalForm {
    /// To a page, which says what was done.
    pub(super) fn redirect_done(&self, path: &str, done: &str) -> Redirect {
        Redirect::to(&format!("{path}?done={done}"))
    }

    /// The id of the form, which is the id of its request.
    pub(super) fn request_id(&self) -> Result<Uuid, PortalRefusal> {
        let missing = || self.visit.refusal_page(StatusCode::BAD_REQUEST, self.visit.words.missing);
        parse_id(self.required_text("request_id")?).ok_or_else(missing)
    }

    /// The text of a field that must not be empty.
    pub(super) fn required_text(&self, name: &str) -> Result<&str, PortalRefusal> {
        let words = self.visit.words;
        let missing = || self.visit.refusal_page(StatusCode::BAD_REQUEST, words.missing);
        self.fields.optional_text(name).ok_or_else(missing)
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
    #[case("/portal", true)]
    #[case("/portal/deliveries?state=failed", true)]
    #[case("/portals", false)]
    #[case("//evil.example/portal", false)]
    #[case("/portal/../console", false)]
    #[case("/portal/\\evil.example", false)]
    #[case("https://evil.example/portal", false)]
    #[case("/portal/a\r\nb: c", false)]
    fn the_way_back_stays_in_the_portal(#[case] text: &str, #[case] is_own: bool) {
        assert_eq!(own_page(text).is_some(), is_own);
    }

    #[rstest]
    #[case(&[], Lang::En)]
    #[case(&["fr"], Lang::Fr)]
    #[case(&["de-DE, ES-mx;q=0.8, fr;q=0.5"], Lang::Es)]
    #[case(&["de", "fr-CA"], Lang::Fr)]
    #[case(&["*, , ;q=1"], Lang::En)]
    #[case(&["en;q=0.1, fr;q=0.9"], Lang::Fr)]
    #[case(&["fr;q=0, es;q=0.2"], Lang::Es)]
    #[case(&["es; q=0.5", "fr;q=0.5"], Lang::Es)]
    #[case(&["fr;q=x"], Lang::En)]
    fn the_browsers_favourite_language_counts(
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
