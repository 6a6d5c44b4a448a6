//! The schemas of what is sent and answered (contract, section Resources and their fields).
//!
//! Schemas of answers are open: a client ignores fields it does not know. Those of requests are as
//! strict as the door is.

mod answers;
pub(super) mod examples;
mod requests;

use domain::trigger::Trigger;
use serde_json::{Map, Value, json};

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

pub(super) fn named<const N: usize>(schemas: [(&str, Value); N]) -> Map<String, Value> {
    schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// An object of answers: everything in it is always there, but for what is named `optional`.
pub(super) fn object(description: &str, optional: &[&str], properties: Value) -> Value {
    let names = properties.as_object().into_iter().flat_map(Map::keys);
    let required: Vec<_> = names.filter(|name| !optional.contains(&name.as_str())).collect();
    let mut object = json!({"type": "object", "description": description, "required": required});
    object["properties"] = properties;
    object
}

pub(super) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(super) fn uri(description: &str) -> Value {
    json!({"type": "string", "format": "uri", "description": description})
}

/// A text of which some values are known and others may come.
pub(super) fn open_text(description: &str, examples: &[&str]) -> Value {
    json!({"type": "string", "description": description, "examples": examples})
}

/// A named schema, and what it stands for here.
pub(super) fn as_here(schema: &str, description: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}"), "description": description})
}
