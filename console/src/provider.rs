//! The sign-in by a provider of OpenID Connect: the way there, and the way back.
//!
//! A browser keeps a strict cookie back when another site leads here. So the cookie of the way is
//! lax, and the page that takes the answer leads on by itself, as a page of this site.

use api::sessions::{self, TokenUse};
use api::sign_in::{BegunSession, FlowError, FlowPurpose, SignInFlow};
use axum::extract::{Query, State};
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use domain::access::sign_in::{FLOW_TIME, SESSION_TIME};
use domain::values::printable_text;
use maud::{Markup, html};
use oidc::{Provider, ProviderAnswer, SignInError};
use serde::Deserialize;
use url::form_urlencoded;

use crate::act::{BACK, FormFields, own_page};
use crate::cookie::BrowserChannel;
use crate::entrance::{self, WantedPage};
use crate::refusal::Refusal;
use crate::reproof;
use crate::visit::{PageAnswer, named_cookies};
use crate::{ConsoleState, SharedState, frame};

/// The name of the cookie of the way, without TLS.
const FLOW_COOKIE: &str = "firmforms_sign_in";

/// The name of the cookie of the way, behind TLS.
const SECURE_FLOW_COOKIE: &str = "__Host-firmforms_sign_in";

/// Longest address of a page that is remembered. A cookie has 4 KiB.
const BACK_BYTES_MAX: usize = 2_000;

/// The parameters of an answer.
#[derive(Debug, Deserialize)]
pub(crate) struct AnswerQuery {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// The link that begins the way, if a provider is set. It is no form, because the policy of the
/// pages lets forms lead to this door only.
pub(crate) fn sign_in_link(state: &ConsoleState, back: Option<&str>) -> Markup {
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

/// Leads to the provider. A page of another site begins no sign-in.
pub(crate) async fn leave(
    State(state): State<SharedState>,
    headers: HeaderMap,
    Query(wanted): Query<WantedPage>,
) -> PageAnswer {
    let provider = configured_provider(&state)?;
    let site = headers.get("sec-fetch-site").map(|site| site.to_str().unwrap_or_default());
    if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        let why = "another site asked for this sign-in: begin it here";
        return Ok(entrance::sign_in_page(&state, StatusCode::FORBIDDEN, None, Some(why)));
    }
    let back = own_page(wanted.back.as_deref());
    let back = if back.len() > BACK_BYTES_MAX { "/console" } else { back };
    let flow = SignInFlow::begin(&state.service, FlowPurpose::Page(back.to_owned()));
    let address = match flow.provider_address(&state.service, provider).await {
        Ok(address) => address,
        Err(error) => return Ok(refused_page(&state, back, &error)),
    };
    let cookie = flow_cookie(provider, &flow.cookie(&state.service), FLOW_TIME.num_seconds());
    Ok(([(SET_COOKIE, cookie)], Redirect::to(&address)).into_response())
}

/// Takes the answer of the provider. The session gets a new cookie, whatever the browser had.
pub(crate) async fn come_back(
    State(state): State<SharedState>,
    parts: Parts,
    Query(query): Query<AnswerQuery>,
) -> PageAnswer {
    let provider = configured_provider(&state)?;
    let name = if provider.is_encrypted() { SECURE_FLOW_COOKIE } else { FLOW_COOKIE };
    let flow = named_cookies(&parts.headers, name)
        .find_map(|cookie| SignInFlow::read(&state.service, cookie));
    let answer = ProviderAnswer { code: query.code, error: query.error, issuer: query.iss };
    let given = query.state.unwrap_or_default();
    let (back, begun) = match &flow {
        None => ("/console", Err(FlowError::NoFlow)),
        Some(flow) => (
            page_after(flow.purpose()),
            flow.finish_sign_in(&state.service, provider, &parts, &given, &answer).await,
        ),
    };
    let begun = match begun {
        Ok(begun) => begun,
        Err(error) => return Ok(refused_page(&state, back, &error)),
    };
    let channel = provider_channel(provider);
    let set = AppendHeaders([
        (SET_COOKIE, channel.cookie_header(&begun.cookie, SESSION_TIME.num_seconds())),
        (SET_COOKIE, flow_cookie(provider, "", 0)),
    ]);
    let (next, head) = match flow.as_ref().map(SignInFlow::purpose) {
        Some(FlowPurpose::Act { path, fields }) => {
            (act_after(&state, &begun, path, fields).await?, html! {})
        }
        Some(FlowPurpose::Page(_)) | None => (
            html! { p { a href=(back) { "Continue" } } },
            html! { meta http-equiv="refresh" content=(format!("0; url={back}")); },
        ),
    };
    let content = html! {
        p { "You are " bdi { (printable_text(&begun.name)) } "." }
        (next)
    };
    Ok((set, frame::bare_with(StatusCode::OK, "Signed in", &content, &head)).into_response())
}

/// The page that shall come after the sign-in.
fn page_after(purpose: &FlowPurpose) -> &str {
    match purpose {
        FlowPurpose::Page(page) => own_page(Some(page)),
        FlowPurpose::Act { .. } => "/console",
    }
}

/// The act that waited for the sign-in, with a form of the new session.
async fn act_after(
    state: &ConsoleState,
    begun: &BegunSession,
    path: &str,
    fields: &str,
) -> Result<Markup, Refusal> {
    let session = sessions::resume(&state.service, &begun.cookie, TokenUse::Noted).await;
    let session = session
        .map_err(|error| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()))?
        .ok_or_else(Refusal::no_page)?;
    let fields = FormFields::read_json(fields).ok_or_else(Refusal::no_page)?;
    let form_token = session.form_token(&state.service);
    Ok(reproof::confirm_form(own_page(Some(path)), &fields, &form_token))
}

fn configured_provider(state: &ConsoleState) -> Result<&Provider, Refusal> {
    state.service.settings.provider.as_deref().ok_or_else(Refusal::no_page)
}

fn provider_channel(provider: &Provider) -> BrowserChannel {
    if provider.is_encrypted() { BrowserChannel::Encrypted } else { BrowserChannel::Clear }
}

/// The header that sets the cookie of the way.
pub(crate) fn flow_cookie(provider: &Provider, value: &str, seconds: i64) -> String {
    let (name, path, end) = if provider.is_encrypted() {
        (SECURE_FLOW_COOKIE, "/", "; Secure")
    } else {
        (FLOW_COOKIE, "/console", "")
    };
    format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{end}")
}

/// The page of the sign-in, which says why nobody came in. Tokens go on working. Only the log tells
/// why the provider is away: everybody can ask for this page.
pub(crate) fn refused_page(state: &ConsoleState, back: &str, error: &FlowError) -> Response {
    let status = match error {
        FlowError::NoFlow => StatusCode::FORBIDDEN,
        FlowError::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
        FlowError::Provider(SignInError::Away(_)) => StatusCode::BAD_GATEWAY,
        FlowError::Provider(_) => StatusCode::FORBIDDEN,
        FlowError::Service(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let fault = match error {
        FlowError::Provider(SignInError::NoRole { values, .. }) if values.is_empty() => {
            format!("{error}: the provider told no roles")
        }
        FlowError::Provider(SignInError::NoRole { values, .. }) => {
            format!("{error}: none of {} grants one", values.join(", "))
        }
        FlowError::Provider(SignInError::Away(_)) => {
            "the provider cannot be asked now, and the log tells why; a token signs in meanwhile"
                .to_owned()
        }
        _ => error.to_string(),
    };
    let page = entrance::sign_in_page(state, status, Some(back), Some(&printable_text(&fault)));
    match error {
        FlowError::TooMany(seconds) => ([(RETRY_AFTER, *seconds)], page).into_response(),
        _ => page,
    }
}
