//! A delivery and its attempts as an operator sees them.

use std::collections::HashMap;

use api::Service;
use api::commands;
use domain::delivery::{Attempt, Hop};
use domain::values::Timestamp;
use projector::deliveries::DeliveryRow;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::failure::terminal_error;

/// Whether the body of a delivery is erased by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyErasure {
    Kept,
    Erased,
}

/// A past state of a delivery. A body that is erased by now shows as erased in every past state.
pub(crate) fn delivery_then(row: &DeliveryRow, erasure: BodyErasure) -> Value {
    let mut shown = delivery_json(row, &HashMap::new());
    shown["erased"] = (erasure == BodyErasure::Erased).into();
    shown
}

/// The pause that holds each of these deliveries, if one does.
pub(crate) async fn pause_by_delivery(
    service: &Service,
    firm_id: Uuid,
    rows: &[DeliveryRow],
) -> anyhow::Result<HashMap<Uuid, Uuid>> {
    commands::pauses::holding_pauses(service, firm_id, rows).await.map_err(terminal_error)
}

pub(crate) fn delivery_json(row: &DeliveryRow, holding: &HashMap<Uuid, Uuid>) -> Value {
    json!({
        "id": row.delivery_id, "hook_id": row.hook_id, "run_id": row.run_id,
        "step_id": row.step_id, "trigger": row.trigger,
        "form_id": row.form_id, "response_id": row.response_id, "state": row.state,
        "cause": row.cause, "created_at": Timestamp::from(row.created_at),
        "next_try_at": row.next_try_at.map(Timestamp::from), "body_sha256": row.body_sha256,
        "reissue_of": row.reissue_of, "paused": holding.get(&row.delivery_id),
    })
}

/// An attempt as a sentence: `try 1: delivered 204 at …, 77 ms after its claim`.
pub(crate) fn attempt_sentence(attempt: &Attempt) -> String {
    let took = (attempt.finished_at.get() - attempt.started_at.get()).num_milliseconds();
    let status = attempt.status.map(|status| format!(" {status}"));
    let error = attempt.error.as_ref().map(|error| format!(" ({error})"));
    let late = attempt.late.map(|_| ", after its lease had ended");
    format!(
        "try {}: {}{}{} at {}, {took} ms after its claim{}{}",
        attempt.number,
        attempt.outcome.name(),
        status.unwrap_or_default(),
        error.unwrap_or_default(),
        attempt.started_at,
        late.unwrap_or_default(),
        hops_text(&attempt.hops),
    )
}

/// The address that was dialled, and the redirects after it.
fn hops_text(hops: &[Hop]) -> String {
    let hop = |hop: &Hop| {
        let place = [hop.url.as_deref(), hop.address.as_deref()];
        place.into_iter().flatten().collect::<Vec<_>>().join(" at ")
    };
    let places: Vec<String> = hops.iter().map(hop).filter(|place| !place.is_empty()).collect();
    if places.is_empty() { String::new() } else { format!(", to {}", places.join(", then ")) }
}
