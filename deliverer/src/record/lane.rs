//! The lanes of a batch of answers.

use std::collections::{HashMap, HashSet};

use domain::answer::AnswerVerdict;
use domain::delivery::CancelCause;
use domain::subscription::{GoneAnswer, Subscription};
use domain::time::Timestamp;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::attempt::FinishedAttempt;

/// 410 Gone (contract, section Retries).
pub(super) const GONE_STATUS: u16 = 410;

/// A lane while the answers of a batch are entered.
pub(super) struct LaneState {
    pub(super) is_locked: bool,
    /// End of its last delivery, if that was a 410.
    pub(super) gone_at: Option<Timestamp>,
    pub(super) subscription: Option<Subscription>,
    pub(super) withdrawn: Option<CancelCause>,
    pub(super) subscription_sequence: i64,
}

#[derive(FromRow)]
pub(super) struct LaneStateRow {
    pub(super) lane_id: Uuid,
    kind: String,
    cancel_cause: Option<String>,
    pub(super) gone: Option<Json<GoneAnswer>>,
}

impl LaneStateRow {
    /// The lane's state. `end` is the end of the subscription's stream, if the lane is locked.
    fn open(self, end: Option<i64>) -> LaneState {
        let withdrawn = self.cancel_cause.and_then(|cause| cause.parse().ok());
        let gone = self.gone.map(|Json(gone)| gone);
        let gone_at = gone.as_ref().map(|gone| gone.finished_at);
        let is_open_hook = self.kind != "step" && withdrawn.is_none();
        let subscription = is_open_hook.then(|| Subscription::live(gone));
        LaneState {
            is_locked: end.is_some(),
            gone_at,
            subscription,
            withdrawn,
            subscription_sequence: end.unwrap_or_default(),
        }
    }
}

/// The lanes of a batch. A lane is locked if an attempt failed, or if a success may follow a 410,
/// because the record then depends on the lane. A success alone depends only on its own row.
pub(super) async fn lanes_of(
    connection: &mut PgConnection,
    batch: &[&FinishedAttempt],
) -> Result<HashMap<Uuid, LaneState>, sqlx::Error> {
    let arrived =
        |one: &&FinishedAttempt| one.exchange.answer.verdict() == AnswerVerdict::Delivered;
    let mut locked: HashSet<Uuid> =
        batch.iter().filter(|one| !arrived(one)).map(|one| one.claimed.lane_id).collect();
    let of_arrived: HashSet<Uuid> = batch.iter().map(|one| one.claimed.lane_id).collect();
    let of_arrived: Vec<Uuid> = of_arrived.difference(&locked).copied().collect();
    let mut lanes = HashMap::new();
    if !of_arrived.is_empty() {
        for row in read_lanes(connection, &of_arrived).await? {
            if row.gone.is_some() {
                locked.insert(row.lane_id);
            } else {
                lanes.insert(row.lane_id, row.open(None));
            }
        }
    }
    let some_gone = batch.iter().any(|one| one.exchange.answer.status() == Some(GONE_STATUS));
    let ends = if some_gone { StreamEnds::Always } else { StreamEnds::IfWarned };
    let locked: Vec<Uuid> = locked.into_iter().collect();
    if !locked.is_empty() {
        lanes.extend(lock_lanes(connection, &locked, ends).await?);
    }
    Ok(lanes)
}

pub(super) async fn read_lanes(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
) -> Result<Vec<LaneStateRow>, sqlx::Error> {
    sqlx::query_as("select lane_id, kind, cancel_cause, gone from lanes where lane_id = any($1)")
        .bind(lane_ids)
        .fetch_all(connection)
        .await
}

/// When the ends of subscriptions' streams are read under the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnds {
    /// For every batch.
    Always,
    /// If the last finished delivery of a lane was a 410. No answer of the batch is one.
    IfWarned,
}

/// Locks lanes, then reads the ends of their streams. In that order: a recorder that waited for
/// another recorder would otherwise follow an old end. Few batches append to these streams.
pub(super) async fn lock_lanes(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    ends: StreamEnds,
) -> Result<HashMap<Uuid, LaneState>, sqlx::Error> {
    let rows: Vec<LaneStateRow> = sqlx::query_as(
        "select lane_id, kind, cancel_cause, gone from lanes
          where lane_id = any($1) order by lane_id for no key update",
    )
    .bind(lane_ids)
    .fetch_all(&mut *connection)
    .await?;
    let ends = if ends == StreamEnds::Always || rows.iter().any(|row| row.gone.is_some()) {
        projector::hooks::sequences(connection, lane_ids).await?
    } else {
        HashMap::new()
    };
    let opened = rows.into_iter().map(|row| {
        let lane_id = row.lane_id;
        let end = ends.get(&lane_id).copied();
        (lane_id, row.open(Some(end.unwrap_or_default())))
    });
    Ok(opened.collect())
}

/// Locks the hook quotas of firms that a 410 may take a subscription from. A removal gives
/// back one unit of the quota, and quotas are locked before lanes.
pub(super) async fn lock_quotas(
    connection: &mut PgConnection,
    batch: &[&FinishedAttempt],
) -> Result<(), sqlx::Error> {
    let firm_ids: Vec<Uuid> = batch
        .iter()
        .filter(|finished| finished.exchange.answer.status() == Some(GONE_STATUS))
        .map(|finished| finished.claimed.firm_id)
        .collect();
    if firm_ids.is_empty() {
        return Ok(());
    }
    projector::quotas::lock_hooks(connection, &firm_ids).await
}
