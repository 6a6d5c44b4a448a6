//! The sign-in by a provider of OpenID Connect: the way there, and the way back.
//!
//! A browser keeps a strict cookie back when another site leads here. So the cookie of the way is
//! lax, and the page that takes the answer leads on by itself, as a page of this site.

use api::sessions::{self, TokenUse};
use api::sign_in::{BegunSession, FlowError, FlowPurpose, SignInFlow};
use axum::extract::{Query, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Redirect};
use domain::access::sign_in::{FLOW_TIME, SESSION_TIME};
use domain::values::printable_text;
use maud::{Markup, html};
use oidc::{Provider, ProviderAnswer};
use serde::Deserialize;

use crate::cookie::BrowserChannel;
use crate::flow::{FLOW_COOKIE, SECURE_FLOW_COOKIE, flow_cookie, refused_page};
use crate::form::{FormFields, own_page};
use crate::refusal::Refusal;
use crate::reproof;
use crate::sign_in::{WantedPage, sign_in_page};
use crate::visit::{PageAnswer, named_cookies};
use crate::{ConsoleState, SharedState, document};

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
        return Ok(sign_in_page(&state, StatusCode::FORBIDDEN, None, Some(why)));
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
        Some(FlowPurpose::Act { path, fields, .. }) => {
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
    Ok((set, document::bare_with(StatusCode::OK, "Signed in", &content, &head)).into_response())
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
    let session =
        session.map_err(|error| Refusal::unanswered(&error))?.ok_or_else(Refusal::no_page)?;
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
