//! Deliveries in the description: their payloads and headers, and the effect of each answer
//! (contract, section Events).

use domain::subscription::Trigger;
use serde_json::{Map, Value, json};

use super::operation::{only_example, schema_reference};
use super::schemas::examples;

const ABOUT: &str = "\
A POST with a JSON body to the `target_url` of every subscription to this trigger, and of the same \
form when the subscription has a `form_id`. The answer has 10 seconds.

An event reaches each subscription once, but a delivery can arrive twice: dedupe on \
`X-Service-Delivery`. Order is not promised: use the timestamps of the payload. There are 8 tries, \
1, 2, 4, 8, 16, 32 and 60 minutes apart; a `Retry-After` is honoured up to 6 hours.

A workflow's step is signed the same way with the same secret, by POST, PUT or PATCH. It may carry \
further headers, and has 5 tries, 30 seconds, 2, 8 and 32 minutes apart, each varied by up to 20 %.";

const SIGNATURE_TEXT: &str = "\
`t=<unix seconds>,v1=<hex>`. `v1` is the lower-case hex HMAC-SHA256 of `<t>.<raw body>` (t, a dot, \
the exact bytes of the body), keyed with the firm's webhook signing secret: all of its text, \
`whsec_` included. Read the raw body before parsing it, compare with `v1` in constant time, and \
reject a `t` more than 5 minutes from your clock. For a minute after the secret was rotated accept \
the old one too.";

/// One webhook per trigger.
pub(super) fn all() -> Value {
    let webhooks = Trigger::ALL
        .map(|trigger| (trigger.key().to_owned(), json!({"post": describe_delivery(trigger)})))
        .into_iter()
        .collect();
    Value::Object(webhooks)
}

fn describe_delivery(trigger: Trigger) -> Value {
    let fires = trigger.hint();
    json!({
        "operationId": operation_id(trigger),
        "summary": trigger.label(),
        "description": format!("Fires: {fires}.\n\n{ABOUT}"),
        "tags": ["Deliveries"],
        "security": [],
        "parameters": delivery_headers(trigger),
        "requestBody": {
            "required": true,
            "content": {"application/json": {
                "schema": narrowed_payload(trigger),
                "examples": only_example(&examples::event(trigger)),
            }},
        },
        "responses": receiver_answers(),
    })
}

/// `onFormSubmitted`
fn operation_id(trigger: Trigger) -> String {
    let words = trigger.key().split('_').map(|word| word[..1].to_uppercase() + &word[1..]);
    format!("on{}", words.collect::<String>())
}

/// The payload of one trigger. The part that a trigger is about is required.
fn narrowed_payload(trigger: Trigger) -> Value {
    let event = json!({"type": "string", "const": trigger.key()});
    let mut narrow = json!({"type": "object", "properties": {"event": event}});
    match trigger {
        Trigger::PartialSubmission => {
            narrow["properties"]["partial"] = schema_reference("Partial");
            narrow["required"] = json!(["partial"]);
        }
        Trigger::BookingMade | Trigger::BookingRescheduled | Trigger::BookingCancelled => {
            narrow["properties"]["booking"] = schema_reference("Booking");
            narrow["required"] = json!(["booking"]);
        }
        Trigger::ReportApproved | Trigger::ReportSent | Trigger::ReportOpened => {
            narrow["properties"]["report"] = schema_reference("Report");
        }
        Trigger::FormSubmitted | Trigger::PaymentReceived | Trigger::LeadHot => {}
    }
    json!({"allOf": [schema_reference("EventPayload"), narrow]})
}

/// The headers of a delivery. OpenAPI ignores `Content-Type` and `Accept` here, because they belong
/// to the content.
fn delivery_headers(trigger: Trigger) -> Value {
    let text = json!({"type": "string"});
    json!([
        required_header("X-Service-Event", "The trigger.", &json!({"const": trigger.key()})),
        required_header(
            "X-Service-Delivery",
            "The delivery, the same on every try: dedupe on it.",
            &schema_reference("Id")
        ),
        required_header(
            "Idempotency-Key",
            "The delivery again; of a workflow's step `<run_id>:<step_id>`.",
            &text
        ),
        optional_header(
            "X-Service-Hook",
            "The subscription; not sent by a workflow's step.",
            &schema_reference("Id")
        ),
        required_header(
            "X-Service-Signature",
            SIGNATURE_TEXT,
            &json!({"type": "string", "pattern": "^t=[0-9]+,v1=[0-9a-f]{64}$"})
        ),
        optional_header(
            "X-Service-Test",
            "`1` in test runs of a workflow, and in an operator's test of a subscription's target.",
            &json!({"const": "1"})
        ),
        required_header(
            "User-Agent",
            "The service and its version.",
            &json!({"type": "string", "pattern": "^firmforms/"})
        ),
        required_header(
            "Accept-Encoding",
            "Answers are never decompressed.",
            &json!({"const": "identity"})
        ),
    ])
}

fn required_header(name: &str, description: &str, schema: &Value) -> Value {
    let mut header = optional_header(name, description, schema);
    header["required"] = json!(true);
    header
}

fn optional_header(name: &str, description: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "header", "required": false, "description": description,
           "schema": schema})
}

/// Answers of a receiver, with their effect.
fn receiver_answers() -> Value {
    let told = [
        ("2XX", "Delivered, if the headers are there within 10 seconds."),
        (
            "3XX",
            "301, 302, 307 and 308 are followed with method and body, 303 as a GET without a body: \
             at most 5 of them, https only, within the same 10 seconds. To another host only \
             `Content-Type`, `Accept` and `User-Agent` go along: the signature does not. Any other \
             3xx, a loop or a bad `Location` fails the delivery at once.",
        ),
        ("4XX", "The delivery fails at once."),
        ("408", "Tried again."),
        (
            "410",
            "The delivery fails at once. Twice in a row removes the subscription; a success in \
             between resets the count.",
        ),
        ("425", "Tried again."),
        ("429", "Tried again, not before its `Retry-After`."),
        ("5XX", "Tried again. So are network errors and timeouts."),
    ];
    let answers: Map<String, Value> = told
        .into_iter()
        .map(|(status, description)| (status.to_owned(), json!({"description": description})))
        .collect();
    Value::Object(answers)
}
