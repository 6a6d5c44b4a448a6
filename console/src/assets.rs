//! The style, the script and the icon. A browser asks for them once, until this build changes.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("console.js");
const ICON: &str = include_str!("icon.svg");

/// Private, because the door is not public. The address has the version of the build.
const KEPT: &str = "private, max-age=3600";

pub(crate) async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, KEPT)], STYLE)
}

pub(crate) async fn script() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8"), (CACHE_CONTROL, KEPT)], SCRIPT)
}

pub(crate) async fn icon() -> impl IntoResponse {
    ([(CONTENT_TYPE, "image/svg+xml"), (CACHE_CONTROL, KEPT)], ICON)
}
