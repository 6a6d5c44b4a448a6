//! The queue, as the proof reads it.

use std::collections::{HashMap, HashSet};

use domain::audit::once::{DeliveryFault, QueuedFor};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use super::report::ProofExample;

/// Rows read at a time.
pub(super) const ROWS_PER_READ: i64 = 10_000;

/// The kind of queueing of each delivery. Deliveries that are not queued are left out.
pub(super) async fn queued_kinds(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
) -> Result<HashMap<Uuid, QueuedFor>, sqlx::Error> {
    let rows: Vec<(Uuid, Option<Uuid>)> =
        sqlx::query_as("select delivery_id, replay_id from outbox where delivery_id = any($1)")
            .bind(delivery_ids)
            .fetch_all(connection)
            .await?;
    let how = |replay: Option<Uuid>| replay.map_or(QueuedFor::ForItself, QueuedFor::ForReplay);
    Ok(rows.into_iter().map(|(id, replay)| (id, how(replay))).collect())
}

/// The unspread occurrences among these.
pub(super) async fn unspread_among(
    connection: &mut PgConnection,
    occurrence_ids: &[Uuid],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    if occurrence_ids.is_empty() {
        return Ok(HashSet::new());
    }
    let ids: Vec<Uuid> =
        sqlx::query_scalar("select occurrence_id from unspread where occurrence_id = any($1)")
            .bind(occurrence_ids)
            .fetch_all(connection)
            .await?;
    Ok(ids.into_iter().collect())
}

#[derive(FromRow)]
pub(super) struct QueuedRow {
    pub(super) delivery_id: Uuid,
    pub(super) occurrence_id: Uuid,
    lane_id: Uuid,
    is_step: bool,
}

impl QueuedRow {
    pub(super) fn proof_example(&self) -> ProofExample {
        ProofExample {
            wrong: DeliveryFault::Unknown,
            position: None,
            delivery_id: self.delivery_id,
            occurrence_id: (!self.is_step).then_some(self.occurrence_id),
            hook_id: (!self.is_step).then_some(self.lane_id),
        }
    }
}

pub(super) async fn outbox_after(
    connection: &mut PgConnection,
    after: Uuid,
    firm_id: Option<Uuid>,
) -> Result<Vec<QueuedRow>, sqlx::Error> {
    sqlx::query_as(
        "select delivery_id, occurrence_id, lane_id, step is not null as is_step from outbox
          where delivery_id > $1 and ($2::uuid is null or firm_id = $2) and notice is null
          order by delivery_id limit $3",
    )
    .bind(after)
    .bind(firm_id)
    .bind(ROWS_PER_READ)
    .fetch_all(connection)
    .await
}
