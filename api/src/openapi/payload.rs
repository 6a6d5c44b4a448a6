//! The schema of an EventPayload, the body of every delivery (contract, section EventPayload).
//! `domain::delivery` makes the values without knowledge of HTTP; tests compare both.

use domain::subscription::Trigger;
use serde_json::{Map, Value, json};

use super::operation::{array_of, schema_reference};
use super::schemas::build::{
    as_here, named_schemas, object_schema, open_text, text_schema, uri_schema,
};

pub(super) fn all() -> Map<String, Value> {
    named_schemas([
        ("EventPayload", event_payload()),
        ("EventForm", form_schema()),
        ("EventResponse", response_schema()),
        ("Respondent", respondent_schema()),
        ("Answer", answer_schema()),
        ("Report", report_schema()),
        ("Booking", booking_schema()),
        ("Invitee", invitee_schema()),
        ("Partial", partial_schema()),
    ])
}

/// An object with any keys, whose values have this schema.
fn by_key(description: &str, values: Value) -> Value {
    let mut object = json!({"type": "object", "description": description});
    object["additionalProperties"] = values;
    object
}

fn event_payload() -> Value {
    let texts = json!({"type": "string"});
    let report = json!({
        "anyOf": [schema_reference("Report"), {"type": "null"}],
        "description": "Null when there is no report yet.",
    });
    let properties = json!({
        "event": open_text("The trigger.", &Trigger::ALL.map(Trigger::key)),
        "form": schema_reference("EventForm"),
        "response": schema_reference("EventResponse"),
        "respondent": schema_reference("Respondent"),
        "answers": array_of("Answer"),
        "fields": by_key("The same answers by question id, for mapping.", texts.clone()),
        "variables": by_key("The form's variables; may be empty.", json!(true)),
        "hidden": by_key("Hidden fields and UTM tags that the form took.", texts),
        "report": report,
        "booking": as_here("Booking", "Present only when a call is booked."),
        "partial": as_here("Partial", "Present only for `partial_submission`."),
    });
    let about = "One shape serves every trigger. It is read when the delivery first goes out; later \
        tries send the same bytes.";
    object_schema(about, &["booking", "partial"], properties)
}

fn form_schema() -> Value {
    let properties = json!({
        "id": as_here("Id", "The form."),
        "title": text_schema("Its title."),
        "url": uri_schema("Its public address."),
    });
    object_schema("The form of the response.", &[], properties)
}

fn response_schema() -> Value {
    let submitted_at = "When it was submitted; of an unfinished one, when it was last answered.";
    let properties = json!({
        "id": as_here("Id", "The response."),
        "submitted_at": as_here("Timestamp", submitted_at),
        "device": open_text("The kind of device.", &["mobile"]),
        "lang": open_text("The language.", &["en"]),
        "ending": open_text("The ending that was reached; empty while unfinished.", &["default"]),
    });
    object_schema("The response it happened to.", &[], properties)
}

fn respondent_schema() -> Value {
    let properties = json!({
        "name": text_schema("Full name."),
        "first_name": text_schema("First name."),
        "last_name": text_schema("Last name."),
        "email": text_schema("Address."),
        "phone": text_schema("Phone number."),
        "company": text_schema("Company."),
    });
    object_schema("The person who answered; what is not known is empty.", &[], properties)
}

fn answer_schema() -> Value {
    let kinds = ["contact_group", "short_text", "long_text"];
    let properties = json!({
        "id": text_schema("The question."),
        "question": text_schema("Its words."),
        "type": open_text("Its type.", &kinds),
        "answer": text_schema("The answer, as text."),
    });
    object_schema("An answered question.", &[], properties)
}

fn report_schema() -> Value {
    let summary = json!({
        "type": ["string", "null"],
        "description": "Null while the report is sold and not yet paid for.",
    });
    let highlights = json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "Empty while the report is sold and not yet paid for.",
    });
    let properties = json!({
        "id": as_here("Id", "The report."),
        "title": text_schema("Its title."),
        "status": open_text("Its state.", &["approved"]),
        "summary": summary,
        "highlights": highlights,
        "review_url": uri_schema("Where it can be reviewed."),
    });
    object_schema("The report on the response.", &[], properties)
}

fn booking_schema() -> Value {
    let minutes = json!({"type": "integer", "minimum": 0, "description": "Its length in minutes."});
    let properties = json!({
        "id": as_here("Id", "The booking."),
        "title": text_schema("Its title."),
        "status": open_text("A cancelled booking stays.", &["confirmed", "cancelled"]),
        "starts_at": as_here("Timestamp", "When the call starts."),
        "ends_at": as_here("Timestamp", "When the call ends."),
        "duration_min": minutes,
        "time_zone": open_text("IANA name of the time zone.", &["Europe/London"]),
        "location": text_schema("Where it takes place."),
        "join_url": text_schema("The URL where to join it; empty when there is no such place."),
        "invitee": schema_reference("Invitee"),
    });
    object_schema("A booked call.", &[], properties)
}

fn invitee_schema() -> Value {
    let properties = json!({
        "name": text_schema("Full name."),
        "email": text_schema("Address."),
        "phone": text_schema("Phone number."),
        "time_zone": open_text("IANA name of the time zone.", &["Europe/London"]),
    });
    object_schema("The person a call was booked with.", &[], properties)
}

fn partial_schema() -> Value {
    let answered = json!({
        "type": "integer",
        "minimum": 0,
        "description": "How many questions are answered.",
    });
    let properties = json!({
        "last_answer_at": as_here("Timestamp", "When the last answer was given."),
        "answered": answered,
    });
    object_schema("How far an unfinished response came.", &[], properties)
}
