//! Schemas of requests (contract, sections POST /hooks, /forms/{id}/links and /forms/{id}/send).
//! The limits are those that the service checks.

use domain::form::HIDDEN_KEY_MAX;
use domain::invite::{FIRST_NAME_MAX, MESSAGE_MAX, NAME_MAX};
use domain::subscription::TARGET_MAX_CHARS;
use domain::values::{EMAIL_MAX, LANG_MAX, Lang};
use serde_json::{Map, Value, json};

use super::super::operation::schema_reference;
use super::build::{as_here, named_schemas};

/// The part of a target's rule that its text alone shows (ruling 15).
const TARGET_PATTERN: &str = r"^https://[^\s\\/?#@]+([/?#][^\s\\]*)?$";

/// No text may hold U+0000 (ruling 7).
const NO_NUL_PATTERN: &str = r"^[^\u0000]*$";

pub(super) fn all() -> Map<String, Value> {
    named_schemas([
        ("NewHook", new_hook()),
        ("NewLink", new_link()),
        ("NewInvite", new_invite()),
        ("HiddenValues", hidden_values()),
        ("Language", language_schema()),
    ])
}

/// A request with `trigger`, `event` or both. The description says in words that both must be
/// equal.
fn new_hook() -> Value {
    let target_url = json!({
        "type": "string",
        "format": "uri",
        "maxLength": TARGET_MAX_CHARS,
        "pattern": TARGET_PATTERN,
        "description": "A public https URL without username or password. It comes back exactly as \
            it was sent. Its address is checked again at every delivery.",
    });
    let form_id = json!({
        "type": ["string", "null"],
        "format": "uuid",
        "description": "Only this form's events; left out or null for every form.",
    });
    let trigger = as_here("TriggerKey", "What to listen to; needed unless `event` is there.");
    let event = as_here("TriggerKey", "In place of `trigger`; if both are there they are equal.");
    json!({
        "type": "object",
        "description": "What to subscribe to. Needs a `trigger`, or an `event` in its place. Other \
            properties are ignored.",
        "required": ["target_url"],
        "properties": {
            "target_url": target_url,
            "trigger": trigger,
            "event": event,
            "form_id": form_id,
        },
    })
}

fn new_link() -> Value {
    json!({
        "type": "object",
        "description": "What to fill in.",
        "additionalProperties": false,
        "properties": {
            "hidden": schema_reference("HiddenValues"),
            "lang": schema_reference("Language"),
        },
    })
}

fn new_invite() -> Value {
    let email = json!({
        "type": "string",
        "format": "email",
        "maxLength": EMAIL_MAX,
        "description": "One address at a public domain.",
    });
    json!({
        "type": "object",
        "description": "Whom to invite.",
        "additionalProperties": false,
        "required": ["email"],
        "properties": {
            "email": email,
            "name": optional_text(NAME_MAX, "Full name; its first word greets the person when \
                `first_name` is missing."),
            "first_name": optional_text(FIRST_NAME_MAX, "Used in the greeting."),
            "hidden": schema_reference("HiddenValues"),
            "lang": schema_reference("Language"),
            "message": optional_text(MESSAGE_MAX, "A short note shown in the mail."),
        },
    })
}

fn optional_text(max: usize, description: &str) -> Value {
    json!({
        "type": ["string", "null"],
        "maxLength": max,
        "pattern": NO_NUL_PATTERN,
        "description": description,
    })
}

fn hidden_values() -> Value {
    let value = json!({"type": ["string", "number", "boolean", "null"], "pattern": NO_NUL_PATTERN});
    json!({
        "type": "object",
        "description": "Values by hidden field. Kept are the form's `hidden_fields` and `utm_source`, \
            `utm_medium`, `utm_campaign`, `utm_term` and `utm_content`; other keys come back in \
            `ignored`. Numbers and booleans are sent as text, just as they were written. Null is \
            left out. A kept value is cut to 300 characters.",
        "propertyNames": {"maxLength": HIDDEN_KEY_MAX, "pattern": NO_NUL_PATTERN},
        "additionalProperties": value,
    })
}

fn language_schema() -> Value {
    json!({
        "type": "string",
        "maxLength": LANG_MAX,
        "pattern": NO_NUL_PATTERN,
        "description": "The language of the form and the mail; any other than these is ignored.",
        "examples": Lang::ALL.map(Lang::code),
    })
}
