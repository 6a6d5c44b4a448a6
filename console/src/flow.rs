//! The cookie of the way to a provider of OpenID Connect, and the page for a way that failed.

use api::sign_in::FlowError;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use domain::values::printable_text;
use oidc::{Provider, SignInError};

use crate::ConsoleState;
use crate::sign_in::sign_in_page;

/// The name of the cookie of the way, without TLS.
pub(crate) const FLOW_COOKIE: &str = "firmforms_sign_in";

/// The name of the cookie of the way, behind TLS.
pub(crate) const SECURE_FLOW_COOKIE: &str = "__Host-firmforms_sign_in";

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
    if let FlowError::Service(error) = error {
        error.log_failure();
    }
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
    let page = sign_in_page(state, status, Some(back), Some(&printable_text(&fault)));
    match error {
        FlowError::TooMany(seconds) => ([(RETRY_AFTER, *seconds)], page).into_response(),
        _ => page,
    }
}
