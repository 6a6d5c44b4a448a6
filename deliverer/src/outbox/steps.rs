//! Workflow steps: their rows are inserted in the transaction of the command, in a lane per firm
//! and host (ruling 33, workflow steps).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::delivery::{CancelCause, RetriedStep};
use domain::retry::RetrySchedule;
use domain::workflow::step_lane_id;
use eventstore::{AppendError, RecordedEvent};
use projector::firms;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::wakes;

/// Inserts the row of a step. A retried step keeps its attempts and its bytes.
pub(crate) async fn queue(
    connection: &mut PgConnection,
    recorded: &RecordedEvent,
    RetriedStep { order, tries, body }: &RetriedStep,
) -> Result<(), AppendError> {
    let now = recorded.context.recorded_at.get();
    let lane_id = open_lane(connection, recorded.context.firm_id, order.target.host(), now).await?;
    let sha256 = body.as_ref().and_then(|body| hex::decode(&body.sha256).ok());
    sqlx::query(
        "insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                             response_id, position, due_at, sequence, tries, tries_max, body_id,
                             body_sha256, step, traceparent)
         values ($1, $2, $3, $1, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
    )
    .bind(order.step.delivery_id())
    .bind(lane_id)
    .bind(recorded.context.firm_id)
    .bind(order.trigger.key())
    .bind(order.form_id)
    .bind(order.response_id)
    .bind(recorded.position)
    .bind(now)
    .bind(recorded.sequence)
    .bind(tries.cast_signed())
    .bind((tries + RetrySchedule::WorkflowStep.tries()).cast_signed())
    .bind(body.as_ref().map(|body| body.id))
    .bind(sha256)
    .bind(Json(order))
    .bind(recorded.context.traceparent.map(|trace| trace.to_string()))
    .execute(&mut *connection)
    .await?;
    Ok(wakes::add(connection, lane_id, now).await?)
}

/// The lane of the firm's steps to this host, made if it is missing. A new lane sleeps if the firm
/// is suspended.
async fn open_lane(
    connection: &mut PgConnection,
    firm_id: Uuid,
    host: String,
    now: DateTime<Utc>,
) -> Result<Uuid, sqlx::Error> {
    let lane_id = step_lane_id(firm_id, &host);
    let paused = firms::is_suspended(connection, firm_id).await?;
    sqlx::query(
        "insert into lanes (lane_id, firm_id, kind, host, paused_at)
         select $1, $2, 'step', $3, least($4, (select min(paused_at) from lanes where firm_id = $2))
             on conflict do nothing",
    )
    .bind(lane_id)
    .bind(firm_id)
    .bind(host)
    .bind(paused.then_some(now))
    .execute(connection)
    .await?;
    Ok(lane_id)
}

/// Closes the locked lanes of closed firms' steps.
pub(crate) async fn close(
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
