//! The way in and out: a link becomes a session, and a session ends.

use api::portal::sessions::{self, PortalStanding, SESSION_TIME};
use axum::extract::{Query, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use domain::lang::Lang;
use maud::html;
use serde::Deserialize;

use super::look::{self, PortalLook, PortalPage};
use super::refusal::PortalRefusal;
use super::visit::{PortalAnswer, PortalForm, browser_lang, cookie_name, is_encrypted, path_of};
use super::words::words_in;
use super::{PortalState, SharedPortal};

/// The page to which a new session leads. A browser keeps a strict cookie back where another site
/// led it on, so the page itself goes on.
const GO_ON: &str = "0; url=/portal";

/// The code of a link.
#[derive(Debug, Deserialize)]
pub(super) struct LinkCode {
    code: Option<String>,
}

/// Uses a link. A request for the head alone and a guess of the browser use up none.
pub(super) async fn enter(
    State(state): State<SharedPortal>,
    method: Method,
    headers: HeaderMap,
    Query(link): Query<LinkCode>,
) -> PortalAnswer {
    let service = &state.service;
    let look = PortalLook::bare(words_in(browser_lang(&headers)));
    if method != Method::GET || headers.contains_key("sec-purpose") {
        return Err(PortalRefusal::over(&look));
    }
    let refused = |why| PortalRefusal::of(why, &look);
    let code = link.code.unwrap_or_default();
    let cookie = sessions::begin(service, &code).await.map_err(refused)?;
    let PortalStanding::Open(session) = sessions::find(service, &cookie).await.map_err(refused)?
    else {
        return Err(PortalRefusal::over(&look));
    };
    let words = session.lang().map_or(look.words, words_in);
    let look = PortalLook::of(words, &session);
    let content = html! { p { a href="/portal" { (words.enter) } } };
    let page = PortalPage { title: words.portal, content };
    let head = html! { meta http-equiv="refresh" content=(GO_ON); };
    let answer = look::bare_with(StatusCode::OK, &look, &page, &head);
    let set = cookie_header(&state, &cookie, SESSION_TIME.num_seconds(), session.frame_origin());
    Ok(([(SET_COOKIE, set)], answer).into_response())
}

/// The header that sets the cookie. Inside of a frame of another site a browser sends it only with
/// `SameSite=None`, and `Partitioned` keeps it to pages of that site. Both need TLS.
fn cookie_header(
    state: &PortalState,
    value: &str,
    seconds: i64,
    frame_origin: Option<&str>,
) -> String {
    let name = cookie_name(&state.service);
    let end = match (is_encrypted(&state.service), frame_origin) {
        (true, Some(_)) => "Path=/; SameSite=None; Secure; Partitioned",
        (true, None) => "Path=/; SameSite=Strict; Secure",
        (false, _) => "Path=/portal; SameSite=Strict",
    };
    format!("{name}={value}; Max-Age={seconds}; HttpOnly; {end}")
}

/// Ends the session, for all copies of its cookie.
pub(super) async fn leave(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let visit = &form.visit;
    visit.told(visit.session.end(&state.service).await)?;
    let frame_origin = visit.session.frame_origin();
    let set = cookie_header(&state, "", 0, frame_origin);
    let look = PortalLook::bare(visit.words).framed_by(frame_origin.map(str::to_owned));
    let content = html! { p { (visit.words.left) } };
    let answer = look::bare(StatusCode::OK, &look, visit.words.portal, &content);
    Ok(([(SET_COOKIE, set)], answer).into_response())
}

/// Sets the language of the session.
pub(super) async fn set_lang(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let visit = &form.visit;
    let lang = Lang::read(form.text("lang")?);
    let lang = lang.ok_or_else(|| visit.refused(StatusCode::BAD_REQUEST, visit.words.missing))?;
    visit.told(visit.session.set_lang(&state.service, lang).await)?;
    Ok(Redirect::to("/portal").into_response())
}

/// A path of no page.
pub(super) async fn no_page(request: Request) -> PortalRefusal {
    let look = PortalLook::bare(words_in(browser_lang(request.headers())));
    PortalRefusal::saying(StatusCode::NOT_FOUND, look.words.nothing, &look)
}

/// Whether another site led the browser here, which then kept the cookie back.
pub(super) fn is_from_elsewhere(parts: &Parts) -> bool {
    parts.method == Method::GET
        && parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site")
}

/// Asks for the same page again, which is then a call of this site.
pub(super) fn again(parts: &Parts, look: &PortalLook) -> Response {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let page = format!("{}{query}", path_of(parts));
    let head = html! { meta http-equiv="refresh" content=(format!("0; url={page}")); };
    let content = html! { p { a href=(page) { (look.words.enter) } } };
    let page = PortalPage { title: look.words.portal, content };
    look::bare_with(StatusCode::OK, look, &page, &head)
}
