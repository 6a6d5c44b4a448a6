//! The way in and out: a link becomes a session, and a session ends.

use api::Error;
use api::portal::sessions::{self, PortalEntry, SESSION_TIME};
use axum::extract::{Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use domain::values::Lang;
use maud::html;

use super::look::{self, PortalLook, PortalPage};
use super::refusal::PortalRefusal;
use super::visit::{
    BACK, PortalAnswer, PortalForm, browser_lang, cookie_name, is_encrypted, own_page, path_of,
    session_cookies,
};
use super::words::words_in;
use super::{PortalState, SharedPortal};
use crate::visit::read_query;

/// The page to which a new session leads. A browser keeps a strict cookie back where another site
/// led it on, so the page itself goes on.
const GO_ON: &str = "0; url=/portal";

/// Uses a link. A request for the head alone and a guess of the browser use up none.
pub(super) async fn enter(State(state): State<SharedPortal>, parts: Parts) -> PortalAnswer {
    let service = &state.service;
    let look = PortalLook::without_session(words_in(browser_lang(&parts.headers)));
    if parts.method != Method::GET || parts.headers.contains_key("sec-purpose") {
        return Err(PortalRefusal::session_over(&look));
    }
    let code = one_code(&parts).unwrap_or_default();
    let cookies = session_cookies(service, &parts.headers);
    let entered = sessions::enter_by_link(service, &parts, &code, &cookies).await;
    match entered.map_err(|why| PortalRefusal::new(why, &look))? {
        PortalEntry::Begun { cookie, session } => {
            let words = session.lang().map_or(look.words, words_in);
            let answer = go_on(&PortalLook::new(words, &session));
            let seconds = SESSION_TIME.num_seconds();
            let set = cookie_header(&state, &cookie, seconds, session.frame_origin());
            Ok(([(SET_COOKIE, set)], answer).into_response())
        }
        PortalEntry::GoesOn(session) => {
            let words = session.lang().map_or(look.words, words_in);
            Ok(go_on(&PortalLook::new(words, &session)))
        }
        // Outside of a frame the browser may have kept the cookie back, and the first page tells.
        PortalEntry::Refused { why: Error::Unauthorized, frame_origin: None }
            if cookies.is_empty() && is_from_elsewhere(&parts) =>
        {
            Ok(go_on(&look))
        }
        PortalEntry::Refused { why, frame_origin } => {
            Err(PortalRefusal::new(why, &look.framed_by(frame_origin)))
        }
    }
}

/// The code, if the query has one.
fn one_code(parts: &Parts) -> Option<String> {
    let query = read_query(parts.uri.query().unwrap_or_default());
    let mut codes = query.into_iter().filter(|(name, _)| name == "code");
    let (_, code) = codes.next()?;
    codes.next().is_none().then_some(code)
}

/// A page that leads to the first page.
fn go_on(look: &PortalLook) -> Response {
    let content = html! { p { a href="/portal" { (look.words.enter) } } };
    let page = PortalPage { title: look.words.portal, content };
    let head = html! { meta http-equiv="refresh" content=(GO_ON); };
    look::bare_with(StatusCode::OK, look, &page, &head)
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
    visit.or_refusal(visit.session.end(&state.service).await)?;
    let frame_origin = visit.session.frame_origin();
    let set = cookie_header(&state, "", 0, frame_origin);
    let look = PortalLook::without_session(visit.words).framed_by(frame_origin.map(str::to_owned));
    let content = html! { p { (visit.words.left) } };
    let answer = look::bare_page(StatusCode::OK, &look, visit.words.portal, &content);
    Ok(([(SET_COOKIE, set)], answer).into_response())
}

/// Sets the language of the session, and goes back to the page.
pub(super) async fn set_lang(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let visit = &form.visit;
    let lang = Lang::read(form.required_text("lang")?);
    let lang =
        lang.ok_or_else(|| visit.refusal_page(StatusCode::BAD_REQUEST, visit.words.missing))?;
    visit.or_refusal(visit.session.set_lang(&state.service, lang).await)?;
    let back = form.fields.optional_text(BACK).and_then(own_page).unwrap_or("/portal");
    Ok(Redirect::to(back).into_response())
}

/// Leads to the address of the first page.
pub(super) async fn without_slash() -> Redirect {
    Redirect::permanent("/portal")
}

/// A path of no page.
pub(super) async fn no_page(request: Request) -> PortalRefusal {
    let look = PortalLook::without_session(words_in(browser_lang(request.headers())));
    PortalRefusal::with_sentence(StatusCode::NOT_FOUND, look.words.nothing, &look)
}

/// A page that is opened by another method.
pub(super) async fn wrong_method(request: Request) -> PortalRefusal {
    let look = PortalLook::without_session(words_in(browser_lang(request.headers())));
    PortalRefusal::with_sentence(StatusCode::METHOD_NOT_ALLOWED, look.words.wrong_method, &look)
}

/// Whether another site led the browser here, which then kept the cookie back.
pub(super) fn is_from_elsewhere(parts: &Parts) -> bool {
    parts.method == Method::GET
        && parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site")
}

/// Asks for the same page again, which is then a call of this site.
pub(super) fn reload_page(parts: &Parts, look: &PortalLook) -> Response {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let page = format!("{}{query}", path_of(parts));
    let head = html! { meta http-equiv="refresh" content=(format!("0; url={page}")); };
    let content = html! { p { a href=(page) { (look.words.enter) } } };
    let page = PortalPage { title: look.words.portal, content };
    look::bare_with(StatusCode::OK, look, &page, &head)
}
