//! Headers of requests and answers that operations share. The description has each once.

use domain::access::rate::{KEY_RATE_POLICY, KeyRate};
use serde_json::{Map, Value, json};

use super::operation::{Operation, OperationAccess, OperationCaching};

/// The pattern of a request id (ruling 38).
const REQUEST_ID_PATTERN: &str = "^[A-Za-z0-9._:-]{1,128}$";

const REQUEST_ID_EXAMPLE: &str = "01936d1c-7c6e-7b0a-9c53-0c3a5d0f8f11";

const TAG_EXAMPLE: &str = r#"W/"44136fa355b3678a1146ad16f7e8649e""#;

/// The headers of answers, by name.
pub(super) fn components() -> Value {
    json!({
        "X-Request-Id": {
            "required": true,
            "description": "The id of this call: the caller's own, or a new one. Name it in a report.",
            "schema": {"type": "string", "pattern": REQUEST_ID_PATTERN},
            "example": REQUEST_ID_EXAMPLE,
        },
        "RateLimit": {
            "description": "In every answer to a known key: the calls left (`r`), and the seconds until \
                one more passes (`t`).",
            "schema": {"type": "string"},
            "example": KeyRate { left: 119, seconds: 60 }.header_value(),
        },
        "RateLimit-Policy": {
            "description": "In every answer to a known key: `q` calls in any `w` seconds.",
            "schema": {"type": "string"},
            "example": KEY_RATE_POLICY,
        },
        "ETag": {
            "required": true,
            "description": "The name of this content, for `If-None-Match`.",
            "schema": {"type": "string"},
            "example": TAG_EXAMPLE,
        },
    })
}

/// The headers of requests, by name.
pub(super) fn parameters() -> Value {
    json!({
        "RequestId": {
            "name": "X-Request-Id",
            "in": "header",
            "required": false,
            "description": "The caller's id for this call. The answer has it, and so have our log and \
                traces. Another text is ignored.",
            "schema": {"type": "string"},
            "example": REQUEST_ID_EXAMPLE,
        },
        "IfNoneMatch": {
            "name": "If-None-Match",
            "in": "header",
            "required": false,
            "description": "The `ETag` of the content that the caller has. 304 if it is still that.",
            "schema": {"type": "string"},
            "example": TAG_EXAMPLE,
        },
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": "Makes a repetition safe. For 24 hours the same key with the same body \
                answers the subscription that it made, while that lives; with another body, 409.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*$"},
            "example": "8e03978e-40d5-43e8-bc93-6894a57f9324",
        },
    })
}

/// A reference to a header of a request.
pub(super) fn parameter(name: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{name}")})
}

/// The shared headers of an answer with this status.
pub(super) fn of_error(status: u16) -> Map<String, Value> {
    // Without a known key there is no rate to tell: see the order of checks (ruling 1).
    let names: &[&str] = match status {
        401 | 431 => &["X-Request-Id"],
        _ => &["X-Request-Id", "RateLimit", "RateLimit-Policy"],
    };
    header_references(names)
}

/// The shared headers of an operation's success.
pub(super) fn of_success(operation: &Operation) -> Map<String, Value> {
    let mut names = vec!["X-Request-Id"];
    if operation.access == OperationAccess::Keyed {
        names.extend(["RateLimit", "RateLimit-Policy"]);
    }
    if operation.caching == OperationCaching::ByTag {
        names.push("ETag");
    }
    header_references(&names)
}

fn header_references(names: &[&str]) -> Map<String, Value> {
    let reference = |name: &&str| json!({"$ref": format!("#/components/headers/{name}")});
    names.iter().map(|name| ((*name).to_owned(), reference(name))).collect()
}
