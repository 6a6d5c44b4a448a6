//! Errors in the description. Statuses, codes and sentences come from [`Error`], which makes the
//! real answers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::headers;
use super::operation::{Operation, schema_reference};
use crate::Error;

/// The condition of each answer of the public API (contract, section Errors; rulings 7 and 12).
fn error_condition(error: &Error) -> &'static str {
    match error {
        Error::InvalidRequest(_) => "The body is not the JSON the endpoint expects.",
        Error::BodyTooLarge => "The body has more than 64 KiB. The connection is closed.",
        Error::HeadTooLarge => "The request has more than 100 header lines, or 16 KiB of them.",
        Error::MethodNotAllowed => "The path is there for other methods: `Allow` names them.",
        Error::UnknownTrigger | Error::NoSuchTrigger => {
            "The trigger does not exist, or the firm's plan does not have it."
        }
        Error::InvalidTarget(_) | Error::PrivateTarget => {
            "`target_url` is not a public https URL of at most 2,000 characters."
        }
        Error::Unauthorized => {
            "There is no key, a wrong key, a revoked key, or two different ones."
        }
        Error::FirmInactive => "The firm's account is suspended or closed.",
        Error::NotFound => "There is no subscription with this id made with this key.",
        Error::FormNotFound => "There is no form with this id in this firm.",
        Error::IdempotencyConflict => {
            "The `Idempotency-Key` made a subscription of another body within the last 24 hours."
        }
        Error::TooManyHooks => "The firm already has 100 subscriptions.",
        Error::FormNotPublished => "The form is not published.",
        Error::RateLimited(_) => {
            "The key had 120 calls in the last 60 seconds, or the address more than 20 with a wrong \
             key."
        }
        Error::InviteLimitReached(_) => {
            "The firm sent its 300 invites of the day; the next day begins at midnight UTC."
        }
        Error::SendFailed => "The mail could not be sent. Try again in a few minutes.",
        Error::Internal(_) => "A defect of the service.",
        Error::Unavailable(_) => "The service cannot answer right now. Try again in a moment.",
        // No operation answers so: the path leads to none.
        Error::DidYouMean(_) => "There is no such route.",
        // Errors of the internal API only.
        Error::BadEvent(_)
        | Error::TooManyEvents
        | Error::NoToken
        | Error::Forbidden
        | Error::NotAManager
        | Error::NoSuchMember
        | Error::FirmNotFound
        | Error::DeliveryNotFound
        | Error::Archived
        | Error::TooManyKeys
        | Error::ResponseNotFound
        | Error::NotFailed
        | Error::ReplayNotFound
        | Error::NotReissued(_)
        | Error::ReplayEnded
        | Error::PauseNotFound
        | Error::BodyPurged
        | Error::NotSigned
        | Error::NoSuchCheckpoint { .. }
        | Error::NoKeyring(_)
        | Error::DiskFull
        | Error::SelectionChanged { .. } => "The internal door answers so.",
    }
}

/// References to the answers of an operation, one per status.
pub(super) fn references(errors: &[Error]) -> Value {
    let reference = |(status, errors): (u16, Vec<&Error>)| {
        let name = response_name(status, &errors);
        (status.to_string(), json!({"$ref": format!("#/components/responses/{name}")}))
    };
    Value::Object(by_status(errors).into_iter().map(reference).collect())
}

/// The answers that operations refer to.
pub(super) fn responses(operations: &[Operation]) -> Value {
    let mut responses = Map::new();
    for operation in operations {
        for (status, errors) in by_status(&operation.all_refusals()) {
            responses.insert(response_name(status, &errors), describe_response(status, &errors));
        }
    }
    Value::Object(responses)
}

/// The shape of every error, with all codes.
pub(super) fn schema(operations: &[Operation]) -> Value {
    let refusals = operations.iter().flat_map(Operation::all_refusals);
    let codes: BTreeSet<_> = refusals.map(|error| error.status_and_code().1).collect();
    json!({
        "type": "object",
        "description": "Every answer that is not a success.",
        "required": ["error", "code"],
        "properties": {
            "error": {
                "type": "string",
                "description": "A sentence for a person; do not branch on it.",
            },
            "code": {
                "type": "string",
                "enum": codes,
                "description": "Stable: branch on it, together with the status.",
            },
        },
    })
}

fn by_status(errors: &[Error]) -> BTreeMap<u16, Vec<&Error>> {
    let mut by_status = BTreeMap::<u16, Vec<&Error>>::new();
    for error in errors {
        by_status.entry(error.status_and_code().0.as_u16()).or_default().push(error);
    }
    by_status
}

/// `404FormNotFoundOrUnknownTrigger`
fn response_name(status: u16, errors: &[&Error]) -> String {
    let names: Vec<_> = errors.iter().map(|error| pascal_case(error.status_and_code().1)).collect();
    format!("Error{status}{}", names.join("Or"))
}

fn pascal_case(code: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    code.split('_').map(capital).collect()
}

fn describe_response(status: u16, errors: &[&Error]) -> Value {
    let code = |error: &&Error| error.status_and_code().1;
    let told = |error: &&Error| format!("`{}`: {}", code(error), error_condition(error));
    let description: Vec<_> = errors.iter().map(told).collect();
    let mut headers = headers::of_error(status);
    headers.extend(own_headers(status));
    json!({
        "description": description.join("\n\n"),
        "content": {"application/json": {
            "schema": schema_reference("Error"),
            "examples": errors.iter().map(|error| (code(error), error_example(error)))
                .collect::<BTreeMap<_, _>>(),
        }},
        "headers": headers,
    })
}

fn error_example(error: &Error) -> Value {
    let code = error.status_and_code().1;
    json!({"summary": error_condition(error), "value": {"error": error.to_string(), "code": code}})
}

/// Headers that only answers with this status have.
fn own_headers(status: u16) -> Map<String, Value> {
    match status {
        401 => {
            required_header("WWW-Authenticate", "The scheme of a key.", &json!({"const": "Bearer"}))
        }
        405 => required_header(
            "Allow",
            "The methods of this path.",
            &json!({"examples": ["GET,HEAD"]}),
        ),
        429 | 503 => required_header(
            "Retry-After",
            "After how many seconds to try again.",
            &json!({"type": "integer", "minimum": 1}),
        ),
        _ => Map::new(),
    }
}

/// A header that is always there. It is a text unless its schema says otherwise.
fn required_header(name: &str, description: &str, schema: &Value) -> Map<String, Value> {
    let mut schema = schema.clone();
    if schema.get("type").is_none() {
        schema["type"] = json!("string");
    }
    let header = json!({"description": description, "required": true, "schema": schema});
    Map::from_iter([(name.to_owned(), header)])
}
