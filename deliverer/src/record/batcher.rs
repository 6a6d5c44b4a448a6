//! The batcher: records answers in batches as they come. Answers of a lane that the database
//! refuses are put aside, so that they delay no other lane.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use eventstore::outage::FailureLog;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use super::in_time::record;
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Answers of one batch, at most.
const ANSWERS_PER_RECORD_MAX: usize = 256;

/// The wait between two batches, unless [`ENOUGH_ANSWERS`] have come. A single answer is recorded
/// at once, and a steady flow shares transactions. A crash during the wait repeats the attempts, as
/// a crash during a record does.
const RECORD_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Answers that are worth a transaction of their own. A waiting answer uses no capacity.
const ENOUGH_ANSWERS: usize = 128;

/// Time limit of one record; see [`eventstore::worker`].
const RECORD_WITHIN: Duration = Duration::from_secs(60);

/// The wait before a batch that could not be recorded is recorded again.
const RECORD_RETRY_AFTER: Duration = Duration::from_millis(500);

/// The answers of a process, in the order they came. The channel closes when the dispatcher is
/// gone.
pub struct AnswerInbox {
    pub(crate) inbox: mpsc::Receiver<FinishedAttempt>,
}

impl AnswerInbox {
    /// Records the answers that have arrived, in one batch; returns their number. Tests step by it.
    ///
    /// # Errors
    /// [`DeliveryError`]; the answers are lost then, and their leases end.
    pub async fn record_waiting(
        &mut self,
        deliverer: &DelivererContext,
    ) -> Result<usize, DeliveryError> {
        let mut batch = Vec::new();
        while let Ok(finished) = self.inbox.try_recv() {
            batch.push(finished);
        }
        if !batch.is_empty() {
            record(deliverer, &batch).await?;
        }
        Ok(batch.len())
    }

    /// Answers that are not recorded yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inbox.len()
    }
}

/// Two tasks: the first records until the dispatcher is gone, the second records the answers that
/// were put aside until the first has ended.
pub(crate) fn recorders(
    deliverer: &DelivererContext,
    answers: AnswerInbox,
) -> (impl Future<Output = ()> + use<>, impl Future<Output = ()> + use<>) {
    let (put, stuck) = mpsc::channel(deliverer.settings.permits.max(1));
    let aside = StuckAnswers { put, lanes: Arc::default() };
    let patient = record_stuck(deliverer.clone(), stuck, Arc::clone(&aside.lanes));
    (record_all(deliverer.clone(), answers, aside), patient)
}

/// Answers that the database does not take together with others.
struct StuckAnswers {
    put: mpsc::Sender<Vec<FinishedAttempt>>,
    /// Lanes with answers that were put aside, and the number of their batches. Later answers of
    /// these lanes are put aside at once.
    lanes: Arc<Mutex<HashMap<Uuid, usize>>>,
}

impl StuckAnswers {
    /// Takes the answers of these lanes out of a batch.
    fn take_from(&self, batch: &mut Vec<FinishedAttempt>) {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if lanes.is_empty() {
            return;
        }
        let (theirs, others) = batch
            .drain(..)
            .partition(|one: &FinishedAttempt| lanes.contains_key(&one.claimed.lane_id));
        *batch = others;
        by_lane(theirs).into_iter().for_each(|of_lane| self.put(of_lane));
    }

    /// Puts the answers of one lane aside.
    fn put(&self, of_lane: Vec<FinishedAttempt>) {
        let Some(lane_id) = of_lane.first().map(|one| one.claimed.lane_id) else { return };
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if self.put.try_send(of_lane).is_ok() {
            *lanes.entry(lane_id).or_default() += 1;
        } else {
            tracing::error!(%lane_id, "answers were not recorded; their leases will end");
        }
    }
}

/// Answers grouped by lane.
fn by_lane(answers: Vec<FinishedAttempt>) -> Vec<Vec<FinishedAttempt>> {
    let mut lanes: HashMap<Uuid, Vec<FinishedAttempt>> = HashMap::new();
    for one in answers {
        lanes.entry(one.claimed.lane_id).or_default().push(one);
    }
    lanes.into_values().collect()
}

/// Records until the dispatcher is gone.
async fn record_all(deliverer: DelivererContext, mut answers: AnswerInbox, aside: StuckAnswers) {
    let mut batch = Vec::with_capacity(ANSWERS_PER_RECORD_MAX);
    let mut next = Instant::now();
    while answers.inbox.recv_many(&mut batch, ANSWERS_PER_RECORD_MAX).await > 0 {
        gather(&mut answers, &mut batch, next).await;
        next = Instant::now() + RECORD_INTERVAL_MIN;
        aside.take_from(&mut batch);
        record_or_put_aside(&deliverer, std::mem::take(&mut batch), &aside).await;
    }
}

/// Waits for more answers, until `until` or until there are enough.
async fn gather(answers: &mut AnswerInbox, batch: &mut Vec<FinishedAttempt>, until: Instant) {
    while batch.len() < ENOUGH_ANSWERS {
        let more = answers.inbox.recv_many(batch, ANSWERS_PER_RECORD_MAX - batch.len());
        if !matches!(timeout_at(until, more).await, Ok(1..)) {
            return;
        }
    }
}

/// Records a batch, and waits while the database is away. If the database refuses the batch, it is
/// recorded lane by lane, and the lanes it refuses are put aside.
async fn record_or_put_aside(
    deliverer: &DelivererContext,
    batch: Vec<FinishedAttempt>,
    aside: &StuckAnswers,
) {
    if batch.is_empty() || record_patiently(deliverer, &batch, DeliveryError::is_away).await.is_ok()
    {
        return;
    }
    for of_lane in by_lane(batch) {
        if let Err(error) = record_patiently(deliverer, &of_lane, DeliveryError::is_away).await {
            tracing::warn!(%error, "answers of a lane could not be recorded; will try again");
            aside.put(of_lane);
        }
    }
}

/// Records answers that were put aside, until the batcher ends.
async fn record_stuck(
    deliverer: DelivererContext,
    mut stuck: mpsc::Receiver<Vec<FinishedAttempt>>,
    lanes: Arc<Mutex<HashMap<Uuid, usize>>>,
) {
    while let Some(batch) = stuck.recv().await {
        record_surely(&deliverer, &batch).await;
        let mut lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane_id = batch[0].claimed.lane_id;
        if let Some(count) = lanes.get_mut(&lane_id) {
            *count -= 1;
            if *count == 0 {
                lanes.remove(&lane_id);
            }
        }
    }
}

/// Records a batch for certain. An answer that is refused for good is found by halving, and given
/// up alone.
async fn record_surely(deliverer: &DelivererContext, finished: &[FinishedAttempt]) {
    let may_pass = |error: &DeliveryError| error.is_away() || error.may_pass();
    let mut halves = vec![finished];
    while let Some(batch) = halves.pop() {
        match record_patiently(deliverer, batch, may_pass).await {
            Ok(()) => {}
            Err(_) if batch.len() > 1 => {
                halves.extend([&batch[batch.len() / 2..], &batch[..batch.len() / 2]]);
            }
            Err(error) => {
                let delivery_id = batch.first().map(|one| one.claimed.delivery_id);
                tracing::error!(?delivery_id, %error, "an answer was not recorded; its lease will end");
            }
        }
    }
}

/// Repeats a record whose error passes, as long as a lease of the batch runs. After that the
/// attempts are made anew, and their answers are only history. History gets one more record's time.
async fn record_patiently(
    deliverer: &DelivererContext,
    batch: &[FinishedAttempt],
    passes: impl Fn(&DeliveryError) -> bool,
) -> Result<(), DeliveryError> {
    let lease = deliverer.settings.scale.lease();
    let leased = batch.iter().map(|one| one.claimed.claimed_instant + lease);
    let ends = leased.chain([Instant::now() + RECORD_WITHIN]).max();
    let mut failures = FailureLog::default();
    loop {
        let recorded = timeout(RECORD_WITHIN, record(deliverer, batch)).await;
        match recorded.unwrap_or(Err(DeliveryError::from(sqlx::Error::PoolTimedOut))) {
            Err(error) if passes(&error) && ends.is_some_and(|end| Instant::now() < end) => {
                if failures.is_news(&error, Instant::now()) {
                    tracing::warn!(%error, "could not record answers; will try again");
                }
                tokio::time::sleep(RECORD_RETRY_AFTER).await;
            }
            recorded => return recorded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::CONNECT_WITHIN;
    use crate::outgoing::AttemptBudget;

    /// E13: a claim may connect late, then send, then wait for one record that takes all its time.
    #[test]
    fn e13_a_lease_outlasts_a_send_and_its_record() {
        let AttemptBudget { headers, body, .. } = AttemptBudget::default();
        assert!(CONNECT_WITHIN + headers + body + RECORD_WITHIN < domain::delivery::LEASE_TIME);
    }
}
