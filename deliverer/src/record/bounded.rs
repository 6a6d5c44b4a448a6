//! One record within its bounds: answers, time, and the patience with a batch.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::in_time::record_batch;
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Answers of one batch, at most.
pub(super) const ANSWERS_PER_RECORD_MAX: usize = 256;

/// Time limit of one record; see [`eventstore::worker`].
pub(super) const RECORD_WITHIN: Duration = Duration::from_secs(60);

/// The wait before a batch that could not be recorded is recorded again.
pub(super) const RECORD_RETRY_AFTER: Duration = Duration::from_millis(500);

/// Records a batch within the time limit of one record.
pub(super) async fn record_in_limit(
    deliverer: &DelivererContext,
    batch: &[FinishedAttempt],
) -> Result<(), DeliveryError> {
    let recorded = timeout(RECORD_WITHIN, record_batch(deliverer, batch)).await;
    recorded.unwrap_or(Err(DeliveryError::from(sqlx::Error::PoolTimedOut)))
}

/// The end of the last lease of a batch. After that the attempts are made anew, and their answers
/// are only history. History gets one more record's time.
pub(super) fn patience_ends(deliverer: &DelivererContext, batch: &[FinishedAttempt]) -> Instant {
    let lease = deliverer.settings.scale.scaled_lease();
    let leased = batch.iter().map(|one| one.claimed.claimed_instant + lease);
    leased.fold(Instant::now() + RECORD_WITHIN, Instant::max)
}

/// Answers grouped by lane.
pub(super) fn by_lane(answers: Vec<FinishedAttempt>) -> Vec<Vec<FinishedAttempt>> {
    let mut lanes: HashMap<Uuid, Vec<FinishedAttempt>> = HashMap::new();
    for one in answers {
        lanes.entry(one.claimed.lane_id).or_default().push(one);
    }
    lanes.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::CONNECT_WITHIN;
    use crate::outgoing::AttemptBudget;

    /// E13: a claim may connect late, then send, then wait for one record that takes all its time.
    #[test]
    fn e13_a_lease_outlasts_send_and_record() {
        let AttemptBudget { headers, body, .. } = AttemptBudget::default();
        assert!(CONNECT_WITHIN + headers + body + RECORD_WITHIN < domain::delivery::LEASE_TIME);
    }
}
