//! The order of fields. The service's answers have one, and a JSON value here has none. So
//! examples, schemas and tables take the order of the answers from this list. Tests compare it with
//! answers.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

/// The fields of every object of the API. The first list that names all fields of an object orders
/// it.
const ORDERS: [&[&str]; 19] = [
    &["error", "code"],
    &["firm", "key"],
    &["id", "name", "prefix"],
    &["key", "label", "hint", "sample_url"],
    &["id", "trigger", "target_url", "form_id", "created_at"],
    &["trigger", "event", "target_url", "form_id"],
    &["url", "form_id", "published", "hidden", "ignored"],
    &["ok", "status", "reason", "email_id", "url", "ignored"],
    &["email", "name", "first_name", "hidden", "lang", "message"],
    &["id", "title", "url"],
    &["id", "title", "status", "created_at", "slug", "url", "hidden_fields"],
    &["id", "question", "type", "answer"],
    &["name", "email", "phone", "time_zone"],
    // The questions of a made-up event.
    &["contact", "service", "details"],
    &["name", "first_name", "last_name", "email", "phone", "company"],
    &["id", "submitted_at", "device", "lang", "ending"],
    &["id", "title", "status", "summary", "highlights", "review_url"],
    &[
        "id",
        "title",
        "status",
        "starts_at",
        "ends_at",
        "duration_min",
        "time_zone",
        "location",
        "join_url",
        "invitee",
    ],
    &[
        "event",
        "form",
        "response",
        "respondent",
        "answers",
        "fields",
        "variables",
        "hidden",
        "report",
        "booking",
        "partial",
    ],
];

/// The entries of an object, in the order of the answers. An object of another kind stays as it is.
pub(super) fn ordered_entries(object: &Map<String, Value>) -> Vec<(&str, &Value)> {
    let mut entries: Vec<_> = object.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let place = |order: &[&str], name: &str| order.iter().position(|field| *field == name);
    let order = ORDERS.iter().find(|order| entries.iter().all(|(name, _)| order.contains(name)));
    if let Some(order) = order {
        entries.sort_by_key(|(name, _)| place(order, name));
    }
    entries
}

/// A value whose objects are written in the order of the answers.
pub(super) struct InOrder<'a>(pub(super) &'a Value);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(object) => {
                let mut map = serializer.serialize_map(Some(object.len()))?;
                for (name, value) in ordered_entries(object) {
                    map.serialize_entry(name, &InOrder(value))?;
                }
                map.end()
            }
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&InOrder(item))?;
                }
                list.end()
            }
            other => other.serialize(serializer),
        }
    }
}
