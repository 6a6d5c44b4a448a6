//! The schemas of what is sent and answered (contract, section Resources and their fields).
//!
//! Schemas of answers are open: a client ignores fields it does not know. Those of requests are as
//! strict as the door is.

mod answers;
pub(super) mod build;
pub(super) mod examples;
mod requests;

use domain::trigger::Trigger;
use serde_json::{Map, Value, json};

use self::build::named;
use super::operation::Operation;
use super::{errors, payload};

/// How a point in time is written (ruling 13).
const TIMESTAMP_PATTERN: &str = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$";

/// All of them, by name.
pub(super) fn all(operations: &[Operation]) -> Value {
    let mut schemas = Map::new();
    for part in [shared(), answers::all(), requests::all(), payload::all()] {
        schemas.extend(part);
    }
    schemas.insert("Error".to_owned(), errors::schema(operations));
    Value::Object(schemas)
}

fn shared() -> Map<String, Value> {
    named([
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
