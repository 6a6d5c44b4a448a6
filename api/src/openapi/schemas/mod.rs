//! Schemas of requests and answers (contract, section Resources and their fields).
//!
//! Schemas of answers are open, because a client ignores unknown fields. Schemas of requests are as
//! strict as the service.

mod answers;
pub(super) mod build;
pub(super) mod examples;
mod requests;

use domain::subscription::Trigger;
use serde_json::{Map, Value, json};

use self::build::named_schemas;
use super::operation::Operation;
use super::{errors, payload};

/// Format of a timestamp (ruling 13).
const TIMESTAMP_PATTERN: &str = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$";

/// All schemas, by name.
pub(super) fn all(operations: &[Operation]) -> Value {
    let mut schemas = Map::new();
    for part in [shared_schemas(), answers::all(), requests::all(), payload::all()] {
        schemas.extend(part);
    }
    schemas.insert("Error".to_owned(), errors::schema(operations));
    Value::Object(schemas)
}

fn shared_schemas() -> Map<String, Value> {
    named_schemas([
        (
            "Id",
            json!({
                "type": "string",
                "format": "uuid",
                "description": "A hyphenated UUID, in either case; answers have it in lower case.",
                "examples": [examples::FORM_ID],
            }),
        ),
        (
            "Timestamp",
            json!({
                "type": "string",
                "format": "date-time",
                "pattern": TIMESTAMP_PATTERN,
                "description": "UTC with milliseconds, always.",
                "examples": [examples::TIME],
            }),
        ),
        (
            "TriggerKey",
            json!({
                "type": "string",
                "enum": Trigger::ALL.map(Trigger::key),
                "description": "A trigger that can be asked for. `GET /triggers` lists those of the \
                    firm's plan; new ones can appear there.",
            }),
        ),
    ])
}
