//! The batcher: records answers in batches as they come. A batch that the database refuses is put
//! aside, and each of its lanes is recorded alone (`stuck`). So a stuck lane delays no other lane.

use std::time::Duration;

use eventstore::outage::FailureLog;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::bounded::{
    ANSWERS_PER_RECORD_MAX, RECORD_RETRY_AFTER, by_lane, patience_ends, record_in_limit,
};
use super::in_time::record_batch;
use super::stuck::{StuckAnswers, StuckRecorder};
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// The wait between two batches, unless [`ENOUGH_ANSWERS`] have come. A single answer is recorded
/// at once, and a steady flow shares transactions. A crash during the wait repeats the attempts, as
/// a crash during a record does.
const RECORD_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Answers that are worth a transaction of their own. A waiting answer uses no capacity.
const ENOUGH_ANSWERS: usize = 128;

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
            record_batch(deliverer, &batch).await?;
        }
        Ok(batch.len())
    }

    /// Answers that are not recorded yet.
    #[must_use]
    pub fn unrecorded_count(&self) -> usize {
        self.inbox.len()
    }
}

/// Two tasks: the first records until the dispatcher is gone, the second records the answers that
/// were put aside until the first has ended.
pub(crate) fn recorder_tasks(
    deliverer: &DelivererContext,
    answers: AnswerInbox,
) -> (impl Future<Output = ()> + use<>, impl Future<Output = ()> + use<>) {
    let (aside, stuck) = StuckRecorder::new(deliverer.clone());
    (record_all(deliverer.clone(), answers, aside), stuck.record_until_empty())
}

/// Records until the dispatcher is gone.
async fn record_all(deliverer: DelivererContext, mut answers: AnswerInbox, aside: StuckAnswers) {
    let mut batch = Vec::with_capacity(ANSWERS_PER_RECORD_MAX);
    let mut next = Instant::now();
    while answers.inbox.recv_many(&mut batch, ANSWERS_PER_RECORD_MAX).await > 0 {
        gather_answers(&mut answers, &mut batch, next).await;
        next = Instant::now() + RECORD_INTERVAL_MIN;
        aside.take_from(&mut batch);
        record_or_put_aside(&deliverer, std::mem::take(&mut batch), &aside).await;
    }
}

/// Waits for more answers, until `until` or until there are enough.
async fn gather_answers(
    answers: &mut AnswerInbox,
    batch: &mut Vec<FinishedAttempt>,
    until: Instant,
) {
    while batch.len() < ENOUGH_ANSWERS {
        let more = answers.inbox.recv_many(batch, ANSWERS_PER_RECORD_MAX - batch.len());
        if !matches!(timeout_at(until, more).await, Ok(1..)) {
            return;
        }
    }
}

/// Records a batch, and waits while the database is away. A batch that the database refuses is put
/// aside: a locked lane costs its record a whole lock timeout, and other lanes must not wait for
/// it.
async fn record_or_put_aside(
    deliverer: &DelivererContext,
    batch: Vec<FinishedAttempt>,
    aside: &StuckAnswers,
) {
    if batch.is_empty() {
        return;
    }
    if let Err(error) = record_while_away(deliverer, &batch).await {
        let lanes = by_lane(batch);
        tracing::warn!(%error, lanes = lanes.len(), "a record was refused; each lane is recorded alone");
        lanes.into_iter().for_each(|of_lane| aside.put_aside(of_lane));
    }
}

/// Repeats a record while the database is away, until the patience with the batch ends.
async fn record_while_away(
    deliverer: &DelivererContext,
    batch: &[FinishedAttempt],
) -> Result<(), DeliveryError> {
    let ends = patience_ends(deliverer, batch);
    let mut failures = FailureLog::default();
    loop {
        match record_in_limit(deliverer, batch).await {
            Err(error) if error.is_away() && Instant::now() < ends => {
                if failures.is_news(&error, Instant::now()) {
                    tracing::warn!(%error, "could not record answers; will try again");
                }
                tokio::time::sleep(RECORD_RETRY_AFTER).await;
            }
            recorded => return recorded,
        }
    }
}
