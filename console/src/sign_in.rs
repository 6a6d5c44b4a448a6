//! The sign-in: a token becomes a cookie. The cookie goes to no script, but to all ports of this
//! host, because cookies ignore ports.

use api::public::client_address;
use api::sessions::{self, TokenUse};
use axum::extract::{Query, Request, State};
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use domain::access::sign_in::{SESSION_IDLE_MAX, SESSION_TIME};
use maud::{Markup, html};
use serde::Deserialize;
use url::form_urlencoded;

use crate::act::SentForm;
use crate::cookie::{BrowserChannel, UsedCookie};
use crate::form::{BACK, FormFields, own_page};
use crate::refusal::Refusal;
use crate::visit::{PageAnswer, find_session};
use crate::{ConsoleState, SharedState, document};

/// The page that somebody wanted before the sign-in.
#[derive(Debug, Deserialize)]
pub(crate) struct WantedPage {
    pub(crate) back: Option<String>,
}

/// Asks for a token.
pub(crate) async fn ask(
    State(state): State<SharedState>,
    headers: HeaderMap,
    Query(wanted): Query<WantedPage>,
) -> Result<Response, Refusal> {
    if find_session(&state, &headers, TokenUse::Noted).await?.is_some() {
        return Ok(Redirect::to(own_page(wanted.back.as_deref())).into_response());
    }
    Ok(sign_in_page(&state, StatusCode::OK, wanted.back.as_deref(), None))
}

/// The page that asks for a token, or for the provider.
pub(crate) fn sign_in_page(
    state: &ConsoleState,
    status: StatusCode,
    back: Option<&str>,
    fault: Option<&str>,
) -> Response {
    let content = html! {
        @if let Some(fault) = fault { p.refused role="alert" { (fault) } }
        (sign_in_link(state, back))
        form.sign-in method="post" action="/console/sign-in" {
            input type="hidden" name=(BACK) value=(own_page(back));
            label for="token" { "Token" }
            input #token type="password" name="token" required autocomplete="off" autofocus
                spellcheck="false" autocapitalize="off";
            button { "Sign in" }
        }
        (sign_in_hint(state))
    };
    document::bare_page(status, "Sign in", &content)
}

/// The link that begins the way, if a provider is set. It is no form, because the policy of the
/// pages lets forms lead to this door only.
fn sign_in_link(state: &ConsoleState, back: Option<&str>) -> Markup {
    let query =
        form_urlencoded::Serializer::new(String::new()).append_pair(BACK, own_page(back)).finish();
    html! {
        @if let Some(provider) = &state.service.settings.provider {
            p.buttons { a href=(format!("/console/sign-in/provider?{query}")) {
                "Sign in by " (provider.host())
            } }
        }
    }
}

fn sign_in_hint(state: &ConsoleState) -> Markup {
    let command = "firmforms tokens create --role operator|auditor --name NAME";
    html! {
        p { "A token of the role operator or auditor. " code { (command) } " makes one." }
        p { "The session ends " (SESSION_IDLE_MAX.num_minutes()) " minutes after its last use, "
             (SESSION_TIME.num_hours()) " hours after its start, and with the token. The \
             sign-out takes the cookie from this browser alone: after a theft, revoke the token." }
        @if state.service.settings.provider.is_some() {
            p { "A session by the provider has the same times, and ends with its sign-out." }
        }
    }
}

/// Exchanges a token for a cookie.
pub(crate) async fn sign_in(
    State(state): State<SharedState>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let channel = BrowserChannel::new(&parts.headers);
    let address = client_address(&state.service, &parts);
    let used_cookie: UsedCookie = parts.extensions.get().cloned().unwrap_or_default();
    let fields = FormFields::new(Request::from_parts(parts, body)).await?;
    let back = fields.optional_text(BACK);
    let token = fields.optional_text("token").unwrap_or_default();
    match sessions::begin(&state.service, token, address).await {
        Ok(session) => {
            used_cookie.note_use(&state.service, &session, channel);
            Ok(Redirect::to(own_page(back)).into_response())
        }
        Err(error) => {
            let refused = TokenRefusal::new(&error)?;
            let page = sign_in_page(&state, refused.status, back, Some(&refused.sentence));
            Ok(refused.with_wait(page))
        }
    }
}

/// Why a token that a person entered is not taken.
pub(crate) struct TokenRefusal {
    pub(crate) status: StatusCode,
    pub(crate) sentence: String,
    wait_seconds: Option<u64>,
}

impl TokenRefusal {
    /// The refusal for an error of [`sessions::begin`]; a whole page for an outage.
    pub(crate) fn new(error: &api::Error) -> Result<Self, Refusal> {
        let (status, sentence) = match error {
            api::Error::NoToken => (
                StatusCode::UNAUTHORIZED,
                "There is no such token, or it has expired or was revoked.".to_owned(),
            ),
            api::Error::Forbidden => {
                (StatusCode::FORBIDDEN, "A token of the role product opens no console.".to_owned())
            }
            api::Error::RateLimited(seconds) => (
                StatusCode::TOO_MANY_REQUESTS,
                format!("Too many wrong tokens from this address: wait {seconds} seconds."),
            ),
            _ => return Err(Refusal::unanswered(error)),
        };
        let wait_seconds = match error {
            api::Error::RateLimited(seconds) => Some(*seconds),
            _ => None,
        };
        Ok(Self { status, sentence, wait_seconds })
    }

    /// The page, with the time to wait.
    pub(crate) fn with_wait(&self, page: Response) -> Response {
        match self.wait_seconds {
            Some(seconds) => ([(RETRY_AFTER, seconds)], page).into_response(),
            None => page,
        }
    }
}

/// Takes the cookie from the browser, and ends the session of a user. No table holds sessions of
/// tokens, so a copy of such a cookie works until its end; the page of the sign-in says so.
pub(crate) async fn sign_out(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let ended = form.visit.session.end(&state.service).await;
    ended.map_err(|error| Refusal::unanswered(&error))?;
    let set = [BrowserChannel::Clear, BrowserChannel::Encrypted]
        .map(|one| (SET_COOKIE, one.cookie_header("", 0)));
    Ok((AppendHeaders(set), Redirect::to("/console/sign-in")).into_response())
}
