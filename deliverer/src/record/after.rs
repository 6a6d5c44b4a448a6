//! What a record looks at again once it is committed: what it could not see without a lock.

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

/// An erasure that was carried out while answers were written down did not see them: they go now. A crash
/// in between leaves them to the next start, which carries out all erasures again.
pub(super) async fn drop_what_was_erased(
    courier: &DelivererContext,
    batch: &[&FinishedAttempt],
) -> Result<(), DeliveryError> {
    let kept = batch.iter().filter(|one| !one.exchange.snippet.is_empty());
    let subjects: HashSet<KeySubject> = kept.map(|one| one.claimed.subject).collect();
    if subjects.is_empty() {
        return Ok(());
    }
    withdraw::erased_meanwhile(courier, subjects.into_iter()).await?;
    Ok(())
}

/// A success that was recorded without its lane's lock may have met a 410 that was recorded at the same
/// time: it resets the count, if it came after it (ruling 26).
pub(super) async fn answer_later_warnings(
    courier: &DelivererContext,
    batch: &[&FinishedAttempt],
    lanes: &HashMap<Uuid, LaneState>,
) -> Result<(), DeliveryError> {
    let unlocked =
        || batch.iter().filter(|one| !lanes.get(&one.claimed.lane_id).is_none_or(|l| l.is_locked));
    let lane_ids: Vec<Uuid> = unlocked().map(|one| one.claimed.lane_id).collect();
    if lane_ids.is_empty() {
        return Ok(());
    }
    let connections = courier.store.connections();
    let mut connection = connections.take().await?;
    let rows = read_lanes(&mut connection, &lane_ids).await?;
    connections.give_back(connection);
    let warned: Vec<Uuid> =
        rows.iter().filter(|row| row.gone.is_some()).map(|row| row.lane_id).collect();
    if warned.is_empty() {
        return Ok(());
    }
    let mut appending = courier.store.begin().await?;
    let mut lanes = lock_lanes(appending.connection(), &warned, StreamEnds::Always).await?;
    let mut ledger = RecordEffects::default();
    for one in unlocked() {
        if let Some(lane) = lanes.get_mut(&one.claimed.lane_id)
            && lane.gone_at.is_some_and(|gone_at| gone_at < one.finished_at)
        {
            ledger.count_gone(one, Outcome::Delivered, lane);
        }
    }
    ledger.write(courier, &mut appending).await?;
    appending.commit().await?;
    Ok(())
}
