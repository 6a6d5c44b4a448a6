//! The document of a page, and the headers that keep a page from being framed, scripted or leaked.

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_FRAME_OPTIONS};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

/// Nothing is loaded from elsewhere, nothing is inline, and forms stay at this door.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// The headers of every answer. `same-origin`, because without a referrer a browser names no origin
/// of a form.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Adds the headers that an answer does not have.
pub(crate) async fn add_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// A page without a session.
pub(crate) fn bare_page(status: StatusCode, title: &str, content: &Markup) -> Response {
    bare_with(status, title, content, &html! {})
}

/// A page without a session, with more in its head.
pub(crate) fn bare_with(
    status: StatusCode,
    title: &str,
    content: &Markup,
    head: &Markup,
) -> Response {
    let body = html! {
        header.top { a.brand href="/console" { "firmforms" } }
        main #content tabindex="-1" { h1 { (title) } (content) }
    };
    html_document(status, title, &body, head)
}

/// A page with this body, and with more in its head.
pub(crate) fn html_document(
    status: StatusCode,
    title: &str,
    body: &Markup,
    head: &Markup,
) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let html = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) " · firmforms" }
                link rel="stylesheet" href=(format!("/console/style.css?{version}"));
                link rel="icon" type="image/svg+xml" href="/console/icon.svg";
                script type="module" src=(format!("/console/console.js?{version}")) {}
                (head)
            }
            body { (body) }
        }
    };
    let kind = [(CONTENT_TYPE, "text/html; charset=utf-8")];
    (status, kind, html.into_string()).into_response()
}
