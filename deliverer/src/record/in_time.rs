//! Answers whose attempts hold their leases. All other answers are late.

use eventstore::crash;
use telemetry::metrics::RECORD_SECONDS;
use tokio::time::Instant;

use super::after::{drop_what_was_erased, settle_warned};
use super::arrived::{record_arrived, split_batch};
use super::beside;
use super::effects::{RecordEffects, SubscriptionOf, erasures_that_matter};
use super::lane::{firms_with_gone, lanes_of, lock_quotas};
use super::late::record_late;
use super::notices::record_notices;
use super::rows;
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Records a batch of answers. A late answer changes its delivery if it still can.
///
/// # Errors
/// [`DeliveryError`]; the batch can be recorded again then. Answers that were recorded are found.
pub async fn record_batch(
    deliverer: &DelivererContext,
    batch: &[FinishedAttempt],
) -> Result<(), DeliveryError> {
    let began = Instant::now();
    let mut batch: Vec<&FinishedAttempt> = batch.iter().collect();
    batch.sort_by_key(|finished| finished.finished_at);
    let notices: Vec<_> = batch.extract_if(.., |one| one.claimed.notice().is_some()).collect();
    record_notices(deliverer, &notices).await?;
    if batch.is_empty() {
        return Ok(());
    }
    let (arrived, mut others) = split_batch(batch);
    if !arrived.is_empty() && !record_arrived(deliverer, &arrived).await? {
        others.extend(arrived);
        others.sort_by_key(|finished| finished.finished_at);
    }
    if !others.is_empty() {
        for late in record_in_time(deliverer, &others).await? {
            record_late(deliverer, late).await?;
        }
    }
    RECORD_SECONDS.observe(&[], began.elapsed());
    Ok(())
}

/// Records the answers whose attempts hold their leases, and returns the others.
async fn record_in_time<'a>(
    deliverer: &DelivererContext,
    batch: &[&'a FinishedAttempt],
) -> Result<Vec<&'a FinishedAttempt>, DeliveryError> {
    let mut appending = deliverer.store.begin().await?;
    let connection = appending.connection();
    lock_quotas(connection, &firms_with_gone(batch)).await?;
    let mut lanes = lanes_of(deliverer, connection, batch).await?;
    beside::read_for_batch(deliverer, connection, batch, &mut lanes).await?;
    let known: Vec<&FinishedAttempt> =
        batch.iter().copied().filter(|one| lanes.contains_key(&one.claimed.lane_id)).collect();
    let held = rows::take_held_rows(connection, &known).await?;
    let mut effects = RecordEffects::for_batch(erasures_that_matter(connection, &known).await?);
    let mut late = Vec::new();
    for finished in &known {
        let claimed = &finished.claimed;
        let held = held.get(&(claimed.delivery_id, claimed.lease));
        match (held, lanes.get_mut(&claimed.lane_id)) {
            (Some(sequence), Some(lane)) => {
                effects.add_attempt(deliverer, finished, *sequence, lane);
            }
            _ => late.push(*finished),
        }
    }
    for finished in known {
        if let Some(lane) = lanes.get_mut(&finished.claimed.lane_id) {
            effects.count_beside(&SubscriptionOf::new(finished), None, lane);
        }
    }
    let tally = std::mem::take(&mut effects.tally);
    effects.write_all(deliverer, &mut appending).await?;
    crash::point("recording");
    appending.commit().await?;
    crash::point("recorded");
    tally.count_noted();
    settle_warned(deliverer, batch, &lanes).await?;
    drop_what_was_erased(deliverer, batch).await?;
    Ok(late)
}
