//! Successes, recorded in one statement. Most answers are such: the lane is open and has no 410,
//! the lease is held, and nobody erased the response. The statement checks all of that. If
//! something has changed it does nothing, and the batch is recorded by `in_time`.

use std::collections::{HashMap, HashSet};

use domain::delivery::AnswerVerdict;
use eventstore::{JoinedWrites, StatementAppend, crash};
use projector::subjects;
use telemetry::metrics::WORKER_FAILURES;
use uuid::Uuid;

use super::after::{drop_what_was_erased, settle_warned};
use super::effects::RecordEffects;
use super::lane::{LaneState, require_calm};
use super::rows;
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Splits a batch into answers that can be recorded in one statement, and all others. The answers
/// of a lane stay together, because a 410 counts by the answers before it.
pub(super) fn split_batch(
    batch: Vec<&FinishedAttempt>,
) -> (Vec<&FinishedAttempt>, Vec<&FinishedAttempt>) {
    let arrived = |one: &&FinishedAttempt| {
        one.exchange.answer.verdict() == AnswerVerdict::Delivered && one.claimed.replay_id.is_none()
    };
    let mixed: HashSet<Uuid> =
        batch.iter().filter(|one| !arrived(one)).map(|one| one.claimed.lane_id).collect();
    batch.into_iter().partition(|one| !mixed.contains(&one.claimed.lane_id))
}

/// Records successes of calm lanes, and returns whether it could.
pub(super) async fn record_arrived(
    deliverer: &DelivererContext,
    batch: &[&FinishedAttempt],
) -> Result<bool, DeliveryError> {
    let mut effects = RecordEffects::default();
    let mut calm = LaneState::calm();
    for one in batch {
        effects.add_attempt(deliverer, one, one.claimed.sequence, &mut calm);
    }
    let tally = std::mem::take(&mut effects.tally);
    let (events, mut writes) = effects.into_events_and_writes(deliverer)?;
    rows::write_ended(&mut writes, batch);
    require_untouched(&mut writes, batch);
    crash::point("recording");
    let append = StatementAppend { events, writes, ..StatementAppend::default() };
    if let Err(error) = deliverer.store.append_at_once(append).await {
        return refused_statement(error.into());
    }
    crash::point("recorded");
    tally.count_noted();
    look_again(deliverer, batch).await?;
    Ok(true)
}

/// Lets the ordinary way record the batch after a failed statement, unless the database is away or
/// busy.
fn refused_statement(error: DeliveryError) -> Result<bool, DeliveryError> {
    if error.is_conflict() {
        return Ok(false);
    }
    if error.is_transient() {
        return Err(error);
    }
    tracing::warn!(%error, "a record in one statement was refused; it is made in several");
    WORKER_FAILURES.count(&[("worker", "record_at_once")]);
    Ok(false)
}

/// Adds the conditions that the lanes are calm, and that no response with a kept answer is erased.
fn require_untouched(writes: &mut JoinedWrites, batch: &[&FinishedAttempt]) {
    require_calm(writes, &batch.iter().map(|one| one.claimed.lane_id).collect());
    let kept = batch.iter().filter(|one| !one.exchange.snippet.is_empty());
    let responses: HashSet<_> =
        kept.map(|one| (one.claimed.subject.firm_id, one.claimed.subject.subject_id)).collect();
    subjects::require_unerased(writes, &responses.into_iter().collect::<Vec<_>>());
}

/// Looks for a 410 or an erasure that the statement could not see, because it took no lock.
async fn look_again(
    deliverer: &DelivererContext,
    batch: &[&FinishedAttempt],
) -> Result<(), DeliveryError> {
    let mut untouched = JoinedWrites::default();
    require_untouched(&mut untouched, batch);
    let connections = deliverer.store.connections();
    let mut connection = connections.take().await?;
    let is_untouched = untouched.conditions_hold(&mut connection).await?;
    connections.give_back(connection);
    if is_untouched {
        return Ok(());
    }
    let lanes: HashMap<Uuid, LaneState> =
        batch.iter().map(|one| (one.claimed.lane_id, LaneState::calm())).collect();
    settle_warned(deliverer, batch, &lanes).await?;
    drop_what_was_erased(deliverer, batch).await
}
