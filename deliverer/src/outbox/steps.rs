//! Workflow steps: their rows are inserted in the transaction of the command, in a lane per firm
//! and host (ruling 33, workflow steps).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::delivery::workflow::{StoredStepOrder, step_lane_id};
use domain::delivery::{CancelCause, RetriedStep, RetrySchedule};
use eventstore::{AppendError, RecordedEvent};
use projector::firms;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::row::{NewOutboxRow, OutboxRow, insert_rows};

/// Inserts the row of a step. A retried step keeps its attempts and its bytes.
pub(crate) async fn queue_step(
    connection: &mut PgConnection,
    recorded: &RecordedEvent,
    retried: &RetriedStep,
) -> Result<(), AppendError> {
    let due_at = recorded.context.recorded_at.get();
    let row = step_row(recorded, retried);
    open_lane(connection, &row, due_at).await?;
    Ok(insert_rows(connection, &[NewOutboxRow { row, due_at, lease: None }]).await?)
}

/// The row of a step, by the event that queues it.
pub(crate) fn step_row(
    recorded: &RecordedEvent,
    RetriedStep { order, tries, body }: &RetriedStep,
) -> OutboxRow {
    let firm_id = recorded.context.firm_id;
    let delivery_id = order.step.delivery_id();
    OutboxRow {
        delivery_id,
        lane_id: step_lane_id(firm_id, &order.target.host()),
        firm_id,
        occurrence_id: delivery_id,
        trigger: order.trigger.key().to_owned(),
        form_id: order.form_id,
        response_id: order.response_id,
        report_id: None,
        booking_id: None,
        position: recorded.position,
        sequence: recorded.sequence,
        tries: tries.cast_signed(),
        tries_max: (tries + RetrySchedule::WorkflowStep.tries()).cast_signed(),
        step: Some(Json(StoredStepOrder(order.clone()))),
        replay_id: None,
        traceparent: recorded.context.traceparent.map(|trace| trace.to_string()),
        body_id: body.as_ref().map(|body| body.id),
        body_sha256: body.as_ref().and_then(|body| hex::decode(&body.sha256).ok()),
        notice: None,
    }
}

/// Makes the lane of a step's row if it is missing: the firm's steps to this host. A new lane
/// sleeps if the firm is suspended. The row of another delivery has its lane.
pub(crate) async fn open_lane(
    connection: &mut PgConnection,
    row: &OutboxRow,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let Some(Json(StoredStepOrder(order))) = &row.step else { return Ok(()) };
    let paused = firms::is_suspended(connection, row.firm_id).await?;
    sqlx::query(
        "insert into lanes (lane_id, firm_id, kind, host, paused_at)
         select $1, $2, 'step', $3, least($4, (select min(paused_at) from lanes where firm_id = $2))
             on conflict do nothing",
    )
    .bind(row.lane_id)
    .bind(row.firm_id)
    .bind(order.target.host())
    .bind(paused.then_some(now))
    .execute(connection)
    .await?;
    Ok(())
}

/// Closes the locked lanes of closed firms' steps.
pub(crate) async fn close_lanes(
    connection: &mut PgConnection,
    closed: &BTreeMap<Uuid, DateTime<Utc>>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update lanes l set cancel_cause = $3, due_at = least(l.due_at, t.closed_at)
           from unnest($1::uuid[], $2::timestamptz[]) as t(firm_id, closed_at)
          where l.firm_id = t.firm_id and l.kind = 'step'",
    )
    .bind(closed.keys().copied().collect::<Vec<_>>())
    .bind(closed.values().copied().collect::<Vec<_>>())
    .bind(CancelCause::FirmClosed.name())
    .execute(connection)
    .await?;
    Ok(())
}
