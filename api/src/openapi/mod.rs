//! The description of the public API in OpenAPI 3.1, and its page for people. Both come from one
//! value, which a process makes once. `docs` serves them.
//!
//! The description is JSON, because types cannot express all of it: one of two fields, an object's
//! keys, the meaning of each answer. Statuses and codes come from [`crate::Error`]. Triggers,
//! limits and sample events come from `domain`. Example answers are real ones.
//!
//! Tests compare the rest. They drive every documented answer over the router and check it against
//! its schema, with the schema closed. They also check that every route is documented.

mod errors;
mod headers;
mod operation;
mod operations;
mod order;
mod page;
mod payload;
mod schemas;
mod webhooks;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::docs::frame::DocsPage;
use operation::Operation;

/// The version of the contract, section Versioning.
const VERSION: &str = "1";

const DESCRIPTION: &str = "\
A JSON API for one firm at a time, and signed webhook deliveries.

A caller holds an API key. The key fixes the firm: everything it reads or changes belongs to that \
firm, and ids of other firms answer exactly as missing ones do. Events come from activity inside \
the product; no call emits them.

Ids are hyphenated UUIDs, read in either case and written lower-case. Timestamps are UTC with \
milliseconds. Ignore fields that you do not know, and branch on an error's `code`, never on its \
sentence. New triggers can appear without a new version. There is no pagination.

Bodies are JSON objects in UTF-8 of at most 64 KiB, read strictly: a property that is there twice, \
U+0000 in a text, half a surrogate pair, a content type that is not JSON and a compressed body are \
refused. No content type at all is fine. Lengths count Unicode characters.

A key has 120 calls in any 60 seconds; an address has 20 calls with a wrong key. `RateLimit` tells \
what a key has left. Every answer has an `X-Request-Id`, the caller's own if it sent one. Large \
answers are compressed for callers that take gzip. Before any of this, \
what is not well-formed HTTP is answered 400, and a head that takes more than 10 seconds 408, both \
with code `invalid_request`.";

/// The tags, in reading order.
const TAGS: [(&str, &str); 6] = [
    ("Account", "Which firm and key a caller is."),
    ("Triggers", "What can be subscribed to, and what its events look like."),
    ("Forms", "The firm's forms, prefilled links to them and invites by email."),
    ("Hooks", "REST-hook subscriptions: where events are delivered to."),
    ("Description", "The API's own description."),
    // Apart from `Hooks`: generators make one file per tag, of calls or of deliveries.
    ("Deliveries", "The events that are sent to subscriptions."),
];

/// The description of the public API of a service at `base_url`, which ends in `/api/v1`.
#[must_use]
pub fn document(base_url: &str) -> Value {
    let operations = operations::all();
    let site = base_url.trim_end_matches("/api/v1");
    let tags = TAGS.map(|(name, description)| json!({"name": name, "description": description}));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Firm Forms Integration API",
            "version": VERSION,
            "summary": "Forms, prefilled links, invites and REST hooks of one firm.",
            "description": DESCRIPTION,
            "contact": {"name": "Reference", "url": format!("{site}/docs")},
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url, "description": "This service."}],
        "security": either_key(),
        "tags": tags,
        "paths": describe_paths(&operations),
        "webhooks": webhooks::all(),
        "components": {
            "securitySchemes": security_schemes(),
            "schemas": schemas::all(&operations),
            "responses": errors::responses(&operations),
            "parameters": headers::parameters(),
            "headers": headers::components(),
        },
    })
}

/// The description as text. Examples have their fields in the order of the answers.
#[must_use]
pub fn document_text(base_url: &str) -> String {
    pretty_json(&document(base_url))
}

/// The page of a description.
pub(crate) fn page(document: &Value) -> DocsPage {
    page::docs_page(document)
}

/// The example of a call's success, as formatted text.
pub(crate) fn example_answer(document: &Value, path: &str, method: &str) -> Option<String> {
    let responses = document["paths"][path][method]["responses"].as_object()?;
    let (_, success) = responses.iter().find(|(status, _)| status.starts_with('2'))?;
    let examples = success["content"]["application/json"]["examples"].as_object()?;
    examples.values().next().map(|example| pretty_json(&example["value"]))
}

/// The description, or a part of it, as formatted text.
pub(crate) fn pretty_json(value: &Value) -> String {
    serde_json::to_string_pretty(&order::InOrder(value)).unwrap_or_default()
}

/// The paths of the description, each with its methods.
fn describe_paths(operations: &[Operation]) -> Value {
    let mut paths = BTreeMap::<&str, Map<String, Value>>::new();
    for operation in operations {
        let methods = paths.entry(operation.path).or_default();
        methods.insert(operation.method.to_owned(), operation.describe());
    }
    json!(paths)
}

/// Either header is enough. Both are fine if they carry the same key (ruling 2).
fn either_key() -> Value {
    json!([{"bearer": []}, {"apiKey": []}])
}

fn security_schemes() -> Value {
    json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key of the firm: `ffk_` and 43 characters. An owner or admin makes \
                it in the firm's settings; it is shown once. Keep it on a server.",
        },
        "apiKey": {
            "type": "apiKey",
            "in": "header",
            "name": "X-API-Key",
            "description": "The same key, without a scheme.",
        },
    })
}

#[cfg(test)]
mod tests;
