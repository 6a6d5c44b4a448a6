//! Activity of the product, as events that a world takes in.

use serde_json::{Value, json};
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

/// A CloudEvent at noon, with an id of its own.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "called with json!")]
pub fn activity(firm_id: Uuid, kind: &str, data: Value) -> Value {
    json!({
        "specversion": "1.0", "id": SystemEntropy.new_id(), "source": "urn:tests", "type": kind,
        "time": "2026-11-01T12:00:00.000Z", "firmid": firm_id, "data": data,
    })
}

/// This event, so many seconds later.
#[must_use]
pub fn later(mut event: Value, seconds: u32) -> Value {
    event["time"] = json!(format!("2026-11-01T12:00:{seconds:02}.000Z"));
    event
}
