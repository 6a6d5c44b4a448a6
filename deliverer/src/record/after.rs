//! Looks again after the commit, for changes that a record cannot see without a lock.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;
use vault::KeySubject;

use super::beside::{self, BesideOf};
use super::effects::{RecordEffects, SubscriptionOf};
use super::lane::{LaneState, StreamEnds, lock_lanes, lock_quotas, read_lanes};
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::outbox::withdraw;
use crate::settings::DelivererContext;

/// Deletes kept answers of responses that were erased during the record. The erase worker waits for
/// records that it cannot see, and that of 0.2.0 beside this process does not.
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

/// Decides about warned subscriptions whose record could not decide (ruling 26, 410).
///
/// - A success was recorded without its lane's lock, and a 410 of the lane at the same time.
/// - A 410 was recorded while an attempt that was claimed before its end had no recorded answer.
///
/// Both sides look after their commit, so the later one sees the other. If an answer is still
/// missing, its record decides. An attempt whose process is gone leaves the decision to the next
/// answer of the subscription.
pub(super) async fn settle_warned(
    deliverer: &DelivererContext,
    batch: &[&FinishedAttempt],
    lanes: &HashMap<Uuid, LaneState>,
) -> Result<(), DeliveryError> {
    let undecided = lanes.iter().filter(|(_, lane)| lane.is_undecided());
    let mut warned: HashSet<Uuid> = undecided.map(|(lane_id, _)| *lane_id).collect();
    let unlocked: Vec<Uuid> =
        lanes.iter().filter(|(_, lane)| !lane.is_locked).map(|(lane_id, _)| *lane_id).collect();
    if !unlocked.is_empty() {
        let connections = deliverer.store.connections();
        let mut connection = connections.take().await?;
        let rows = read_lanes(&mut connection, &unlocked).await?;
        connections.give_back(connection);
        warned.extend(rows.iter().filter(|row| row.is_warned).map(|row| row.lane_id));
    }
    if warned.is_empty() {
        return Ok(());
    }
    let of_warned = batch.iter().filter(|one| warned.contains(&one.claimed.lane_id));
    settle_subscriptions(deliverer, &of_warned.copied().collect::<Vec<_>>()).await
}

/// Decides about the subscriptions of these recorded attempts.
async fn settle_subscriptions(
    deliverer: &DelivererContext,
    recorded: &[&FinishedAttempt],
) -> Result<(), DeliveryError> {
    let firm_ids: HashSet<Uuid> = recorded.iter().map(|one| one.claimed.firm_id).collect();
    let firm_ids: Vec<Uuid> = firm_ids.into_iter().collect();
    let lane_ids: HashSet<Uuid> = recorded.iter().map(|one| one.claimed.lane_id).collect();
    let lane_ids: Vec<Uuid> = lane_ids.into_iter().collect();
    let mut appending = deliverer.store.begin().await?;
    let connection = appending.connection();
    lock_quotas(connection, &firm_ids).await?;
    let mut lanes = lock_lanes(deliverer, connection, &lane_ids, StreamEnds::Always).await?;
    let gone = lanes.values().filter_map(|lane| lane.subscription.as_ref()?.gone_answers().first());
    let Some(since) = gone.map(|gone| gone.finished_at).min() else {
        appending.rollback().await?;
        return Ok(());
    };
    let beside = BesideOf { firm_ids, since, leases: Vec::new() };
    beside::read_for_leases(deliverer, connection, beside, &mut lanes).await?;
    let mut effects = RecordEffects::default();
    for one in recorded {
        if let Some(lane) = lanes.get_mut(&one.claimed.lane_id) {
            let of = SubscriptionOf::new(one);
            effects.count_beside(&of, None, lane);
            effects.remove_if_gone(&of, lane);
        }
    }
    effects.write_all(deliverer, &mut appending).await?;
    appending.commit().await?;
    Ok(())
}
