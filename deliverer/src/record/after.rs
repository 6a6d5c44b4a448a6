//! Looks again after the commit, for changes that a record cannot see without a lock.

use std::collections::{HashMap, HashSet};

use domain::delivery::Outcome;
use uuid::Uuid;
use vault::KeySubject;

use super::effects::RecordEffects;
use super::lane::{LaneState, StreamEnds, lock_lanes, read_lanes};
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::outbox::withdraw;
use crate::settings::DelivererContext;

/// Deletes kept answers of responses that were erased during the record. The erasure did not see
/// them. After a crash in between, the next start carries out all erasures again.
pub(super) async fn drop_what_was_erased(
    deliverer: &DelivererContext,
    batch: &[&FinishedAttempt],
) -> Result<(), DeliveryError> {
    let kept = batch.iter().filter(|one| !one.exchange.snippet.is_empty());
    let subjects: HashSet<KeySubject> = kept.map(|one| one.claimed.subject).collect();
    if subjects.is_empty() {
        return Ok(());
    }
    withdraw::erased_meanwhile(deliverer, subjects.into_iter()).await?;
    Ok(())
}

/// Resets the count of 410s after a success that was recorded without its lane's lock. A 410 of the
/// same lane may have been recorded at the same time. The success counts if it came after that 410
/// (ruling 26, 410).
pub(super) async fn answer_later_warnings(
    deliverer: &DelivererContext,
    batch: &[&FinishedAttempt],
    lanes: &HashMap<Uuid, LaneState>,
) -> Result<(), DeliveryError> {
    let unlocked =
        || batch.iter().filter(|one| !lanes.get(&one.claimed.lane_id).is_none_or(|l| l.is_locked));
    let lane_ids: Vec<Uuid> = unlocked().map(|one| one.claimed.lane_id).collect();
    if lane_ids.is_empty() {
        return Ok(());
    }
    let connections = deliverer.store.connections();
    let mut connection = connections.take().await?;
    let rows = read_lanes(&mut connection, &lane_ids).await?;
    connections.give_back(connection);
    let warned: Vec<Uuid> =
        rows.iter().filter(|row| row.gone.is_some()).map(|row| row.lane_id).collect();
    if warned.is_empty() {
        return Ok(());
    }
    let mut appending = deliverer.store.begin().await?;
    let mut lanes = lock_lanes(appending.connection(), &warned, StreamEnds::Always).await?;
    let mut effects = RecordEffects::default();
    for one in unlocked() {
        if let Some(lane) = lanes.get_mut(&one.claimed.lane_id)
            && lane.gone_at.is_some_and(|gone_at| gone_at < one.finished_at)
        {
            effects.count_or_reset_gone(one, Outcome::Delivered, lane);
        }
    }
    effects.write(deliverer, &mut appending).await?;
    appending.commit().await?;
    Ok(())
}
