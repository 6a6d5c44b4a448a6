//! The way to the sign-in, for a call without a session.

use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use url::form_urlencoded;

use crate::data::{self, DataFormat};
use crate::document;
use crate::form::{BACK, own_page};

/// Leads a call without a session to the sign-in.
///
/// A browser keeps the cookie back when a link of another site leads here. The page then asks for
/// itself again, which is a call of this site. A file is not shown to anybody, so a person must
/// click for it.
pub(crate) fn send_to(parts: &Parts) -> Response {
    let is_from_elsewhere =
        parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if is_from_elsewhere && parts.method == Method::GET {
        return reload_page(parts);
    }
    let wanted = if parts.method == Method::GET { page_of(parts) } else { "/console".to_owned() };
    let query = form_urlencoded::Serializer::new(String::new()).append_pair(BACK, &wanted).finish();
    Redirect::to(&format!("/console/sign-in?{query}")).into_response()
}

fn page_of(parts: &Parts) -> String {
    let end = parts.extensions.get::<DataFormat>().map_or("", |format| format.path_suffix());
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}{end}{query}", data::path_of(parts))
}

fn reload_page(parts: &Parts) -> Response {
    let wanted = page_of(parts);
    let page = own_page(Some(&wanted));
    let is_file = data::path_of(parts).ends_with("/export");
    let head = html! {
        @if !is_file { meta http-equiv="refresh" content=(format!("0; url={page}")); }
    };
    let content = html! { p { a href=(page) { "Continue" } } };
    document::bare_with(StatusCode::OK, "Continue", &content, &head)
}
