//! Reissued deliveries: an operator's command makes a delivery anew. Its row is inserted in the
//! transaction of the command, in the subscription's lane (ruling 31, replay). The claim of its
//! first attempt reads the body.

use domain::delivery::{ReissuedDelivery, RetrySchedule};
use eventstore::{AppendError, RecordedEvent};
use sqlx::PgConnection;

use super::row::{NewOutboxRow, OutboxRow, insert_rows};

/// Inserts the row of a reissued delivery. If the subscription is being removed, the cancel worker
/// cancels it.
pub(crate) async fn queue_reissued(
    connection: &mut PgConnection,
    recorded: &RecordedEvent,
    reissued: &ReissuedDelivery,
) -> Result<(), AppendError> {
    let unreadable = || AppendError::Unreadable(recorded.aggregate_id.clone());
    let row = reissued_row(recorded, reissued).ok_or_else(unreadable)?;
    let due_at = recorded.context.recorded_at.get();
    Ok(insert_rows(connection, &[NewOutboxRow { row, due_at, lease: None }]).await?)
}

/// The row of a reissued delivery. `None` if its stream's name is no id.
pub(crate) fn reissued_row(
    recorded: &RecordedEvent,
    ReissuedDelivery { consignment, report_id, booking_id, .. }: &ReissuedDelivery,
) -> Option<OutboxRow> {
    Some(OutboxRow {
        delivery_id: recorded.aggregate_id.parse().ok()?,
        lane_id: consignment.hook_id,
        firm_id: recorded.context.firm_id,
        occurrence_id: consignment.occurrence_id,
        trigger: consignment.trigger.key().to_owned(),
        form_id: consignment.form_id,
        response_id: consignment.response_id,
        report_id: *report_id,
        booking_id: *booking_id,
        position: recorded.position,
        sequence: recorded.sequence,
        tries: 0,
        tries_max: RetrySchedule::RestHook.tries().cast_signed(),
        step: None,
        replay_id: None,
        traceparent: recorded.context.traceparent.map(|trace| trace.to_string()),
        body_id: None,
        body_sha256: None,
        notice: None,
    })
}
