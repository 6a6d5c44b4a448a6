//! What is made anew by hand: queued in the transaction of the command, in its subscription's lane
//! (ruling 31). Its body is read when its first try is claimed, like any other's.

use domain::delivery::ReissuedDelivery;
use domain::retry::RetrySchedule;
use eventstore::{AppendError, RecordedEvent};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::outbox::wakes;

/// Queues it. Of a subscription that is being removed it is cancelled.
pub(crate) async fn queue(
    connection: &mut PgConnection,
    recorded: &RecordedEvent,
    ReissuedDelivery { consignment, report_id, booking_id, .. }: &ReissuedDelivery,
) -> Result<(), AppendError> {
    let now = recorded.context.recorded_at.get();
    sqlx::query(
        "insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                             response_id, report_id, booking_id, position, due_at, sequence,
                             tries_max, traceparent)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    )
    .bind(stream_id(recorded)?)
    .bind(consignment.hook_id)
    .bind(recorded.context.firm_id)
    .bind(consignment.occurrence_id)
    .bind(consignment.trigger.key())
    .bind(consignment.form_id)
    .bind(consignment.response_id)
    .bind(report_id)
    .bind(booking_id)
    .bind(recorded.position)
    .bind(now)
    .bind(recorded.sequence)
    .bind(RetrySchedule::RestHook.tries().cast_signed())
    .bind(recorded.context.traceparent.map(|place| place.to_string()))
    .execute(&mut *connection)
    .await?;
    Ok(wakes::add(connection, [consignment.hook_id]).await?)
}

fn stream_id(recorded: &RecordedEvent) -> Result<Uuid, AppendError> {
    let id = &recorded.aggregate_id;
    id.parse().map_err(|_| AppendError::Unreadable(id.clone()))
}
