//! The description and its page as bytes, made once. Serving needs no key and no database.

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::response::Redirect;
use axum::routing::get;

use super::{document, page};

/// Ten minutes, so that a new version of the service is seen soon after its start.
const CACHE_POLICY: &str = "public, max-age=600";

/// The bytes to serve.
pub(crate) struct ServedDescription {
    json: Bytes,
    page: Bytes,
    page_policy: String,
}

impl ServedDescription {
    /// Makes the bytes for a service at `base_url`.
    pub(crate) fn at(base_url: &str) -> Self {
        let document = document(base_url);
        let (page, page_policy) = page::of(&document);
        Self { json: document.to_string().into(), page: page.into(), page_policy }
    }

    /// The routes: the description below `/api/v1`, the page beside the API.
    pub(crate) fn routes<S: Clone + Send + Sync + 'static>(self) -> Router<S> {
        let Self { json, page, page_policy } = self;
        let json = move || async move {
            ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, CACHE_POLICY)], json)
        };
        let page = move || async move {
            let headers = [
                (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
                (CACHE_CONTROL, CACHE_POLICY.to_owned()),
                (CONTENT_SECURITY_POLICY, page_policy),
                (REFERRER_POLICY, "no-referrer".to_owned()),
            ];
            (headers, page)
        };
        Router::new()
            .route("/api/v1/openapi.json", get(json))
            .route("/docs", get(page))
            .route("/docs/", get(async || Redirect::permanent("/docs")))
    }
}
