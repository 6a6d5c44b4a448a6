//! The lanes of a batch of answers.

use std::collections::{HashMap, HashSet};

use domain::delivery::{AnswerVerdict, CancelCause};
use domain::subscription::{GoneAnswer, Subscription};
use domain::values::Timestamp;
use eventstore::{JoinedWrites, load_all};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// 410 Gone (contract, section Retries).
pub(super) const GONE_STATUS: u16 = 410;

/// A lane while the answers of a batch are entered.
pub(super) struct LaneState {
    pub(super) is_locked: bool,
    pub(super) subscription: Option<Subscription>,
    pub(super) withdrawn: Option<CancelCause>,
    pub(super) subscription_sequence: i64,
    /// Answers beside the batch, if a 410 has to be judged.
    pub(super) beside: AnswersBeside,
}

/// The answers of a lane beside a batch.
#[derive(Debug, Default)]
pub(super) struct AnswersBeside {
    /// Claim of the oldest attempt whose answer is not recorded.
    pub(super) open_since: Option<Timestamp>,
    /// Successes, in the order of their ends.
    pub(super) successes: Vec<RecordedSuccess>,
}

/// A success that another transaction has recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordedSuccess {
    pub(super) delivery_id: Uuid,
    pub(super) finished_at: Timestamp,
}

impl LaneState {
    /// An open lane without a 410 since its last success, not locked.
    pub(super) fn calm() -> Self {
        Self {
            is_locked: false,
            subscription: None,
            withdrawn: None,
            subscription_sequence: 0,
            beside: AnswersBeside::default(),
        }
    }

    /// Whether the lane has 410s that may be two in a row, once other answers are recorded.
    pub(super) fn is_undecided(&self) -> bool {
        let gone = self.subscription.as_ref().map_or(&[][..], Subscription::gone_answers);
        gone.len() > 1 || gone.last().is_some_and(|gone| !self.beside.are_all_after(gone))
    }
}

impl AnswersBeside {
    /// Whether every attempt without an answer was claimed after this end.
    pub(super) fn are_all_after(&self, gone: &GoneAnswer) -> bool {
        self.open_since.is_none_or(|claimed_at| claimed_at > gone.finished_at)
    }

    /// Takes the successes that ended by this time, or all.
    pub(super) fn take_until(&mut self, until: Option<Timestamp>) -> Vec<RecordedSuccess> {
        let count = self
            .successes
            .partition_point(|one| until.is_none_or(|until| one.finished_at <= until));
        self.successes.drain(..count).collect()
    }
}

#[derive(FromRow)]
pub(super) struct LaneStateRow {
    pub(super) lane_id: Uuid,
    kind: String,
    cancel_cause: Option<String>,
    pub(super) is_warned: bool,
}

impl LaneStateRow {
    /// The lane's state. `end` is the end of the subscription's stream, if the lane is locked.
    fn into_state(self, end: Option<i64>, warned: Option<Subscription>) -> LaneState {
        let withdrawn = self.cancel_cause.and_then(|cause| cause.parse().ok());
        let is_open_hook = self.kind == "hook" && withdrawn.is_none();
        let subscription = is_open_hook.then(|| warned.unwrap_or(Subscription::live()));
        LaneState {
            is_locked: end.is_some(),
            subscription,
            withdrawn,
            subscription_sequence: end.unwrap_or_default(),
            beside: AnswersBeside::default(),
        }
    }
}

/// The lanes of a batch. A lane is locked if an attempt failed, or if a success may follow a 410,
/// because the record then depends on the lane. A success alone depends only on its own row.
pub(super) async fn lanes_of(
    deliverer: &DelivererContext,
    connection: &mut PgConnection,
    batch: &[&FinishedAttempt],
) -> Result<HashMap<Uuid, LaneState>, DeliveryError> {
    let arrived =
        |one: &&FinishedAttempt| one.exchange.answer.verdict() == AnswerVerdict::Delivered;
    let mut locked: HashSet<Uuid> =
        batch.iter().filter(|one| !arrived(one)).map(|one| one.claimed.lane_id).collect();
    let of_arrived: HashSet<Uuid> = batch.iter().map(|one| one.claimed.lane_id).collect();
    let of_arrived: Vec<Uuid> = of_arrived.difference(&locked).copied().collect();
    let mut lanes = HashMap::new();
    if !of_arrived.is_empty() {
        for row in read_lanes(connection, &of_arrived).await? {
            if row.is_warned {
                locked.insert(row.lane_id);
            } else {
                lanes.insert(row.lane_id, row.into_state(None, None));
            }
        }
    }
    let some_gone = batch.iter().any(|one| one.exchange.answer.status() == Some(GONE_STATUS));
    let ends = if some_gone { StreamEnds::Always } else { StreamEnds::IfWarned };
    let locked: Vec<Uuid> = locked.into_iter().collect();
    if !locked.is_empty() {
        lanes.extend(lock_lanes(deliverer, connection, &locked, ends).await?);
    }
    Ok(lanes)
}

macro_rules! lane_state_columns {
    () => {
        "select lane_id, kind, cancel_cause, gone is not null as is_warned from lanes
          where lane_id = any($1)"
    };
}

pub(super) async fn read_lanes(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
) -> Result<Vec<LaneStateRow>, sqlx::Error> {
    sqlx::query_as(lane_state_columns!()).bind(lane_ids).fetch_all(connection).await
}

/// Adds the condition that these lanes are open, and that none has a 410 since its last success.
pub(super) fn require_calm(writes: &mut JoinedWrites, lane_ids: &HashSet<Uuid>) {
    writes
        .require(
            "(select count(*) from lanes
               where lane_id = any($1) and cancel_cause is null and gone is null) = $2",
        )
        .bind(lane_ids.iter().copied().collect::<Vec<_>>())
        .bind(i64::try_from(lane_ids.len()).unwrap_or(i64::MAX));
}

/// When the ends of subscriptions' streams are read under the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnds {
    /// For every batch.
    Always,
    /// If the last finished delivery of a lane was a 410. No answer of the batch is one.
    IfWarned,
}

/// Locks lanes, then reads the ends of their streams, and the streams of warned subscriptions. In
/// that order: a recorder that waited for another recorder would otherwise follow an old end. Few
/// batches append to these streams.
pub(super) async fn lock_lanes(
    deliverer: &DelivererContext,
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    ends: StreamEnds,
) -> Result<HashMap<Uuid, LaneState>, DeliveryError> {
    let rows: Vec<LaneStateRow> =
        sqlx::query_as(concat!(lane_state_columns!(), " order by lane_id for no key update"))
            .bind(lane_ids)
            .fetch_all(&mut *connection)
            .await?;
    let warned: Vec<Uuid> =
        rows.iter().filter(|row| row.is_warned).map(|row| row.lane_id).collect();
    let ends = if ends == StreamEnds::Always || !warned.is_empty() {
        projector::hooks::last_sequences(connection, lane_ids).await?
    } else {
        HashMap::new()
    };
    let mut subscriptions = if warned.is_empty() {
        HashMap::new()
    } else {
        load_all::<Subscription>(connection, &deliverer.store.upcasters(), &warned).await?
    };
    let opened = rows.into_iter().map(|row| {
        let lane_id = row.lane_id;
        let end = ends.get(&lane_id).copied();
        let warned = subscriptions.remove(&lane_id).map(|(subscription, _)| subscription);
        (lane_id, row.into_state(Some(end.unwrap_or_default()), warned))
    });
    Ok(opened.collect())
}

/// The firms of a batch that a 410 may take a subscription from.
pub(super) fn firms_with_gone(batch: &[&FinishedAttempt]) -> Vec<Uuid> {
    let gone = batch.iter().filter(|one| one.exchange.answer.status() == Some(GONE_STATUS));
    gone.map(|finished| finished.claimed.firm_id).collect()
}

/// Locks the hook quotas of these firms, whose subscriptions a 410 may remove. A removal gives back
/// one unit of the quota, and quotas are locked before lanes.
pub(super) async fn lock_quotas(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    if firm_ids.is_empty() {
        return Ok(());
    }
    projector::quotas::lock_hooks(connection, firm_ids).await
}
