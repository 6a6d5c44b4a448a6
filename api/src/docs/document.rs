//! One document as bytes, made once: plain, compressed, and with a tag.

use axum::body::Bytes;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use flate2::Compression;

use super::frame::DocsPage;
use crate::conditional::EntityTag;
use crate::encoding::{GZIP, VARY_ENCODING, gzip_bytes, takes_gzip};

/// Ten minutes, so that a new version of the service is seen soon after its start.
const CACHE_POLICY: HeaderValue = HeaderValue::from_static("public, max-age=600");

/// One document, ready to be sent.
#[derive(Clone)]
pub(super) struct ServedDocument {
    headers: HeaderMap,
    tag: EntityTag,
    plain: Bytes,
    /// `None` if it could not be compressed.
    compressed: Option<Bytes>,
}

impl ServedDocument {
    pub(super) fn new(text: impl Into<Bytes>, kind: &'static str) -> Self {
        let plain = text.into();
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(kind)),
            (CACHE_CONTROL, CACHE_POLICY),
            (VARY, VARY_ENCODING),
        ];
        Self {
            headers: headers.into_iter().collect(),
            tag: EntityTag::new(&plain),
            compressed: gzip_bytes(&plain, Compression::best()).ok(),
            plain,
        }
    }

    pub(super) fn from_page(page: &DocsPage) -> Self {
        Self::new(page.html(), "text/html; charset=utf-8")
            .with_header(CONTENT_SECURITY_POLICY, &page.content_policy())
            .with_header(REFERRER_POLICY, "no-referrer")
    }

    pub(super) fn from_script(text: &'static str) -> Self {
        Self::new(text, "text/javascript; charset=utf-8")
    }

    /// A program to read and to download. A browser shows it and does not run it.
    pub(super) fn from_code(text: &'static str) -> Self {
        Self::new(text, "text/plain; charset=utf-8")
    }

    pub(super) fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    pub(super) fn into_route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(async move |asked: HeaderMap| self.answer_request(&asked))
    }

    fn answer_request(&self, asked: &HeaderMap) -> Response {
        let mut headers = self.headers.clone();
        match self.compressed.as_ref().filter(|_| takes_gzip(asked)) {
            Some(compressed) => {
                headers.insert(CONTENT_ENCODING, GZIP);
                self.tag.answer_conditional(asked, headers, compressed.clone())
            }
            None => self.tag.answer_conditional(asked, headers, self.plain.clone()),
        }
    }
}
