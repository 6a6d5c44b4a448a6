//! The documents that the public door serves without a key: the description of the API for
//! machines, its page for people, guides for integrators, and the programs that the guides show.
//!
//! Serving needs no database either, so it must cost next to nothing. All documents are made once
//! and kept as bytes. Each is a small one of its own, so that nobody gets more than one page.
//!
//! - `document`: one document as bytes: plain, compressed, and with a tag.
//! - `frame`: the parts that all pages share: head, style, navigation and policy.
//! - `code`: the programs. The tests run the files that the pages show.
//! - `guides`: the pages for integrators. The page of the description is in `openapi`.

pub(crate) mod frame;
pub(crate) mod markup;

mod code;
mod document;
mod guides;

use std::net::IpAddr;

use axum::Router;
use axum::http::header::ACCESS_CONTROL_ALLOW_ORIGIN;
use axum::response::Redirect;
use axum::routing::get;
use serde_json::json;

use crate::openapi;
use code::CodeFile;
use document::ServedDocument;

/// The list of the addresses that deliveries leave from. Without such addresses there is none.
pub(crate) const EGRESS_PATH: &str = "/.well-known/firmforms-egress.json";

/// All documents, each with its path.
pub(crate) struct ServedDocs(Vec<(String, ServedDocument)>);

impl ServedDocs {
    /// Makes the documents for a service at `base_url`, whose deliveries leave from these
    /// addresses.
    pub(crate) fn for_service(base_url: &str, egress: &[IpAddr]) -> Self {
        let description = openapi::document(base_url);
        let json = ServedDocument::new(openapi::pretty_json(&description), "application/json")
            // The description is public, and tools in a browser read it (case A26: nothing else).
            .with_header(ACCESS_CONTROL_ALLOW_ORIGIN, "*");
        let mut documents = vec![("/api/v1/openapi.json".to_owned(), json)];
        let pages = guides::all_guides(&description, egress)
            .into_iter()
            .chain([openapi::page(&description)]);
        documents
            .extend(pages.map(|page| (page.path().to_owned(), ServedDocument::from_page(&page))));
        if !egress.is_empty() {
            let list = json!({"addresses": egress}).to_string();
            let list = ServedDocument::new(list, "application/json");
            documents
                .push((EGRESS_PATH.to_owned(), list.with_header(ACCESS_CONTROL_ALLOW_ORIGIN, "*")));
        }
        documents
            .push((guides::SCRIPT_PATH.to_owned(), ServedDocument::from_script(guides::SCRIPT)));
        documents
            .extend(CodeFile::ALL.map(|file| (file.path(), ServedDocument::from_code(file.text))));
        Self(documents)
    }

    /// The routes: the description below `/api/v1`, the rest beside the API. A browser that opens
    /// the service's address is led to the pages.
    pub(crate) fn routes<S: Clone + Send + Sync + 'static>(self) -> Router<S> {
        let fixed = Router::new()
            // Not for good: another page may stand there some day.
            .route("/", get(async || Redirect::to("/docs")))
            .route("/docs/", get(async || Redirect::permanent("/docs")));
        self.0
            .into_iter()
            .fold(fixed, |routes, (path, document)| routes.route(&path, document.into_route()))
    }
}

#[cfg(test)]
mod tests;
