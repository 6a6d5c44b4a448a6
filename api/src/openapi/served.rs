//! The description and its page as bytes, made once: plain, compressed, and with a tag. Serving
//! needs no key and no database, so it must also cost next to nothing.

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, REFERRER_POLICY, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{Redirect, Response};
use axum::routing::get;
use flate2::Compression;

use super::{document, page, text};
use crate::conditional::EntityTag;
use crate::encoding::{GZIP, VARY_ENCODING, gzip, takes_gzip};

/// Ten minutes, so that a new version of the service is seen soon after its start.
const CACHE_POLICY: HeaderValue = HeaderValue::from_static("public, max-age=600");

/// The documents to serve.
pub(crate) struct ServedDescription {
    json: ServedDocument,
    page: ServedDocument,
}

impl ServedDescription {
    /// Makes the documents for a service at `base_url`.
    pub(crate) fn at(base_url: &str) -> Self {
        let (page, policy) = page::of(&document(base_url));
        let json = ServedDocument::new(text(base_url), "application/json")
            // The description is public, and tools in a browser read it (case A26: nothing else).
            .with(ACCESS_CONTROL_ALLOW_ORIGIN, "*");
        let page = ServedDocument::new(page, "text/html; charset=utf-8")
            .with(CONTENT_SECURITY_POLICY, &policy)
            .with(REFERRER_POLICY, "no-referrer");
        Self { json, page }
    }

    /// The routes: the description below `/api/v1`, the page beside the API.
    pub(crate) fn routes<S: Clone + Send + Sync + 'static>(self) -> Router<S> {
        let Self { json, page } = self;
        Router::new()
            .route("/api/v1/openapi.json", get(async move |asked: HeaderMap| json.answer(&asked)))
            .route("/docs", get(async move |asked: HeaderMap| page.answer(&asked)))
            .route("/docs/", get(async || Redirect::permanent("/docs")))
    }
}

/// One document, ready to be sent.
#[derive(Clone)]
struct ServedDocument {
    headers: HeaderMap,
    tag: EntityTag,
    plain: Bytes,
    /// `None` if it could not be compressed.
    compressed: Option<Bytes>,
}

impl ServedDocument {
    fn new(text: String, kind: &'static str) -> Self {
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(kind)),
            (CACHE_CONTROL, CACHE_POLICY),
            (VARY, VARY_ENCODING),
        ];
        Self {
            headers: headers.into_iter().collect(),
            tag: EntityTag::of(text.as_bytes()),
            compressed: gzip(text.as_bytes(), Compression::best()).ok(),
            plain: text.into(),
        }
    }

    fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        let mut headers = self.headers.clone();
        match self.compressed.as_ref().filter(|_| takes_gzip(asked)) {
            Some(compressed) => {
                headers.insert(CONTENT_ENCODING, GZIP);
                self.tag.answer(asked, headers, compressed.clone())
            }
            None => self.tag.answer(asked, headers, self.plain.clone()),
        }
    }
}
