//! Answers that were put aside, because the database refused their batch. Each lane is recorded
//! alone, and some lanes at once. A lane that fails goes behind the others, so that a stuck lane
//! takes no other lane's time while the leases run.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use eventstore::outage::FailureLog;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::bounded::{
    ANSWERS_PER_RECORD_MAX, RECORD_RETRY_AFTER, by_lane, patience_ends, record_in_limit,
};
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Lanes that are recorded at once. Each of them has a connection for up to a lock timeout (5 s),
/// so 96 stuck lanes have their first tries within a lease (120 s).
const STUCK_LANES_AT_ONCE: usize = 4;

/// The place of answers that the database does not take together with others.
pub(super) struct StuckAnswers {
    put: mpsc::Sender<Vec<FinishedAttempt>>,
    /// Lanes with answers that were put aside. Later answers of these lanes are put aside at once.
    lanes: Arc<Mutex<HashSet<Uuid>>>,
}

impl StuckAnswers {
    /// Takes the answers of these lanes out of a batch.
    pub(super) fn take_from(&self, batch: &mut Vec<FinishedAttempt>) {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if lanes.is_empty() {
            return;
        }
        let theirs = batch.extract_if(.., |one| lanes.contains(&one.claimed.lane_id)).collect();
        by_lane(theirs).into_iter().for_each(|of_lane| self.put_aside(of_lane));
    }

    /// Puts the answers of one lane aside.
    pub(super) fn put_aside(&self, of_lane: Vec<FinishedAttempt>) {
        let Some(lane_id) = of_lane.first().map(|one| one.claimed.lane_id) else { return };
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if self.put.try_send(of_lane).is_ok() {
            lanes.insert(lane_id);
        } else {
            tracing::error!(%lane_id, "answers were not recorded; their leases will end");
        }
    }
}

/// The recorder of the answers that were put aside.
pub(super) struct StuckRecorder {
    deliverer: DelivererContext,
    inbox: mpsc::Receiver<Vec<FinishedAttempt>>,
    lanes: Arc<Mutex<HashSet<Uuid>>>,
}

impl StuckRecorder {
    /// A recorder, and the place where it gets its answers.
    pub(super) fn new(deliverer: DelivererContext) -> (StuckAnswers, Self) {
        // A refused record puts each of its lanes aside at once.
        let (put, inbox) = mpsc::channel(deliverer.settings.permits.max(ANSWERS_PER_RECORD_MAX));
        let lanes = Arc::<Mutex<HashSet<Uuid>>>::default();
        (StuckAnswers { put, lanes: Arc::clone(&lanes) }, Self { deliverer, inbox, lanes })
    }

    /// Records until no more answers can come, and all of them are recorded or given up.
    pub(super) async fn record_until_empty(self) {
        let Self { deliverer, mut inbox, lanes } = self;
        let mut queue = StuckQueue::default();
        let mut tries = FuturesUnordered::new();
        let mut failures = FailureLog::default();
        let mut is_open = true;
        loop {
            while tries.len() < STUCK_LANES_AT_ONCE
                && let Some(batch) = queue.begin_next()
            {
                tries.push(try_batch(&deliverer, batch));
            }
            tokio::select! {
                put = inbox.recv(), if is_open => match put {
                    Some(answers) => queue.add_batch(StuckBatch::new(&deliverer, answers)),
                    None => is_open = false,
                },
                Some(TriedBatch { lane_id, left, error }) = tries.next() => {
                    if let Some(error) = error.filter(|one| failures.is_news(one, Instant::now())) {
                        tracing::warn!(%lane_id, %error, "could not record answers of a lane");
                    }
                    let mut lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
                    // Answers of this lane may have been put aside since the last look.
                    while let Ok(answers) = inbox.try_recv() {
                        queue.add_batch(StuckBatch::new(&deliverer, answers));
                    }
                    if queue.end_try(lane_id, left) == LaneStanding::Empty {
                        lanes.remove(&lane_id);
                    }
                }
                else => return,
            }
        }
    }
}

/// Answers of one lane that are recorded together.
struct StuckBatch {
    lane_id: Uuid,
    answers: Vec<FinishedAttempt>,
    /// The time after which a record is not repeated.
    ends: Instant,
}

impl StuckBatch {
    fn new(deliverer: &DelivererContext, answers: Vec<FinishedAttempt>) -> Self {
        let ends = patience_ends(deliverer, &answers);
        let lane_id = answers.first().map(|one| one.claimed.lane_id).unwrap_or_default();
        Self { lane_id, answers, ends }
    }

    /// The part that is recorded again after an error. An answer that is refused for good is found
    /// by halving, and given up alone.
    fn left_after(mut self, error: &DeliveryError, now: Instant) -> Vec<Self> {
        if (error.is_away() || error.may_pass()) && now < self.ends {
            return vec![self];
        }
        if let [only] = &self.answers[..] {
            let delivery_id = only.claimed.delivery_id;
            tracing::error!(%delivery_id, %error, "an answer was not recorded; its lease will end");
            return Vec::new();
        }
        let second = self.answers.split_off(self.answers.len() / 2);
        vec![Self { answers: second, ..self }, self]
    }
}

/// A batch after one record of it.
struct TriedBatch {
    lane_id: Uuid,
    /// The parts that were not recorded.
    left: Vec<StuckBatch>,
    error: Option<DeliveryError>,
}

async fn try_batch(deliverer: &DelivererContext, batch: StuckBatch) -> TriedBatch {
    let lane_id = batch.lane_id;
    match record_in_limit(deliverer, &batch.answers).await {
        Ok(()) => TriedBatch { lane_id, left: Vec::new(), error: None },
        Err(error) => {
            sleep(RECORD_RETRY_AFTER).await;
            let left = batch.left_after(&error, Instant::now());
            TriedBatch { lane_id, left, error: Some(error) }
        }
    }
}

/// The batches that wait, in the order of their turns. A lane has one try at a time.
#[derive(Default)]
struct StuckQueue {
    waiting: VecDeque<StuckBatch>,
    trying: HashSet<Uuid>,
}

/// Whether the queue has answers of a lane.
#[derive(Debug, PartialEq, Eq)]
enum LaneStanding {
    Empty,
    Waiting,
}

impl StuckQueue {
    /// Adds answers to those of their lane that wait.
    fn add_batch(&mut self, batch: StuckBatch) {
        let has_room = |one: &&mut StuckBatch| {
            one.lane_id == batch.lane_id
                && one.answers.len() + batch.answers.len() <= ANSWERS_PER_RECORD_MAX
        };
        match self.waiting.iter_mut().find(has_room) {
            Some(waiting) => {
                waiting.answers.extend(batch.answers);
                waiting.ends = waiting.ends.max(batch.ends);
            }
            None => self.waiting.push_back(batch),
        }
    }

    /// Takes the first batch whose lane has no try.
    fn begin_next(&mut self) -> Option<StuckBatch> {
        let next = self.waiting.iter().position(|one| !self.trying.contains(&one.lane_id))?;
        let batch = self.waiting.remove(next)?;
        self.trying.insert(batch.lane_id);
        Some(batch)
    }

    /// Ends the try of a lane, and puts the parts that are left behind all others.
    fn end_try(&mut self, lane_id: Uuid, left: Vec<StuckBatch>) -> LaneStanding {
        self.trying.remove(&lane_id);
        self.waiting.extend(left);
        match self.waiting.iter().any(|one| one.lane_id == lane_id) {
            true => LaneStanding::Waiting,
            false => LaneStanding::Empty,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lane: u128) -> StuckBatch {
        StuckBatch { lane_id: Uuid::from_u128(lane), answers: Vec::new(), ends: Instant::now() }
    }

    fn next(queue: &mut StuckQueue) -> Option<u128> {
        queue.begin_next().map(|batch| batch.lane_id.as_u128())
    }

    #[test]
    fn a_failing_lane_goes_behind_the_others() {
        let mut queue = StuckQueue::default();
        [1, 2, 3].into_iter().for_each(|lane| queue.add_batch(batch(lane)));
        assert_eq!(next(&mut queue), Some(1));
        let first = Uuid::from_u128(1);
        assert_eq!(queue.end_try(first, vec![batch(1), batch(1)]), LaneStanding::Waiting);
        assert_eq!([(); 3].map(|()| next(&mut queue)), [Some(2), Some(3), Some(1)]);
        assert_eq!(next(&mut queue), None, "a lane has one try at a time");
        assert_eq!(queue.end_try(first, Vec::new()), LaneStanding::Waiting, "its second half");
        assert_eq!(next(&mut queue), Some(1));
        assert_eq!(queue.end_try(first, Vec::new()), LaneStanding::Empty);
    }

    #[test]
    fn later_answers_join_their_lane() {
        let mut queue = StuckQueue::default();
        [1, 2, 1].into_iter().for_each(|lane| queue.add_batch(batch(lane)));
        assert_eq!([(); 3].map(|()| next(&mut queue)), [Some(1), Some(2), None]);
    }
}
