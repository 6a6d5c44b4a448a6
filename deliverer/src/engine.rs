//! The engine: claims as far as permits go, sends each try in a task of its own, records answers
//! in batches as they come. A slow receiver holds one permit, never the others' answers.
//!
//! At the first signal it claims no more; what is out is sent and recorded, then it ends.

use std::time::Duration;

use domain::pressure::Room;
use eventstore::worker::{Step, Worker, run};
use eventstore::{Nudge, crash};
use futures::future::join_all;
use telemetry::trace::{self, Traced};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::claim::{Claimed, claim, next_due};
use crate::give_back::give_back;
use crate::permits::{Permit, Permits};
use crate::record::{Finished, record};
use crate::send::send;
use crate::settings::{Courier, DeliveryError};

/// Answers recorded at a time.
const RECORD: usize = 256;

/// How long one try to record a batch may take; see [`eventstore::worker`].
const RECORD_WITHIN: Duration = Duration::from_secs(60);

/// How long a stop waits for what is out (case E25): a send ends within 11 s.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// The wait between those.
const RECORD_AGAIN: Duration = Duration::from_millis(500);

/// Claims, sends and records one batch and waits for all of it: for tests that step by hand.
///
/// # Errors
/// [`DeliveryError`].
pub async fn turn(courier: &Courier) -> Result<usize, DeliveryError> {
    let claimed = claim(courier, &Room::of(courier.settings.permits)).await?;
    let finished = join_all(claimed.into_iter().map(|claimed| finish(courier, claimed))).await;
    if !finished.is_empty() {
        record(courier, &finished).await?;
    }
    Ok(finished.len())
}

/// Sends until `stop`, then finishes what is out. Ends early if answers cannot be recorded any
/// more: what is sent and not recorded is sent again.
pub async fn deliver(courier: Courier, nudge: &Nudge, stop: CancellationToken) {
    let (answers, inbox) = mpsc::channel(courier.settings.permits.max(1));
    let mut recorder = tokio::spawn(record_all(courier.clone(), inbox));
    let sender = Sender {
        permits: Permits::new(courier.settings.permits),
        tasks: TaskTracker::new(),
        answers,
        courier,
        stop: stop.clone(),
    };
    let tasks = sender.tasks.clone();
    tokio::select! {
        () = run(sender, nudge.subscribe_to_all_else(), stop) => {}
        _ = &mut recorder => {
            tracing::error!("the recorder ended: nothing more is sent");
            return;
        }
    }
    tasks.close();
    let finishing = async {
        tasks.wait().await;
        if let Err(error) = recorder.await {
            tracing::error!(%error, "the recorder ended early");
        }
    };
    if timeout(STOP_WITHIN, finishing).await.is_err() {
        tracing::error!("some answers could not be recorded in time; their leases will end");
    }
}

struct Sender {
    courier: Courier,
    permits: Permits,
    tasks: TaskTracker,
    answers: mpsc::Sender<Finished>,
    stop: CancellationToken,
}

impl Worker for Sender {
    const NAME: &'static str = "deliver";
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<Step, DeliveryError> {
        // Receivers reject signatures from another time (cases E18 and E19).
        if self.courier.clock.fault().is_some() {
            return Ok(Step::IDLE);
        }
        let room = self.permits.room().await;
        let claimed = claim(&self.courier, &room).await?;
        if claimed.is_empty() {
            return self.until_next_due(&room).await;
        }
        if self.stop.is_cancelled() {
            give_back(&self.courier, &claimed).await?;
            return Ok(Step::IDLE);
        }
        for claimed in claimed {
            if let Some(permit) = self.permits.take(claimed.firm_id) {
                self.start(claimed, permit);
            }
        }
        Ok(Step::Busy)
    }
}

impl Sender {
    /// The permit is free again as soon as the answer is handed over: before it is recorded, so that
    /// the nudge of that record finds the room it made.
    fn start(&self, claimed: Claimed, permit: Permit) {
        let (courier, answers) = (self.courier.clone(), self.answers.clone());
        self.tasks.spawn(async move {
            let finished = finish(&courier, claimed).await;
            let Ok(place) = answers.reserve().await else {
                tracing::error!("an answer could not be recorded; its lease will end");
                return;
            };
            drop(permit);
            place.send(finished);
        });
    }

    async fn until_next_due(&self, room: &Room) -> Result<Step, DeliveryError> {
        let Some(due_at) = next_due(&self.courier, room).await? else {
            return Ok(Step::IDLE);
        };
        let wait = due_at - self.courier.clock.now().get();
        // A due lane that was not claimed is held by another process.
        let wait = wait.to_std().unwrap_or_default().max(Duration::from_millis(20));
        Ok(Step::IdleFor(wait))
    }
}

async fn finish(courier: &Courier, claimed: Claimed) -> Finished {
    let traced = Traced::attempt(claimed.place, claimed.number);
    let exchange = trace::at(traced.place(), send(courier, &claimed)).await;
    crash::point("answered");
    traced.tried(exchange.answer.class(), exchange.answer.status());
    let claimed = Claimed { place: traced.place(), ..claimed };
    Finished { claimed, exchange, finished_at: courier.clock.now() }
}

/// Records until all senders are gone.
async fn record_all(courier: Courier, mut inbox: mpsc::Receiver<Finished>) {
    let mut batch = Vec::with_capacity(RECORD);
    while inbox.recv_many(&mut batch, RECORD).await > 0 {
        record_surely(&courier, &batch).await;
        batch.clear();
    }
}

/// Records a batch. While the database is away, the batch waits; one answer that it refuses for good
/// is found by halving, and given up alone.
async fn record_surely(courier: &Courier, finished: &[Finished]) {
    let mut halves = vec![finished];
    while let Some(batch) = halves.pop() {
        match record_patiently(courier, batch).await {
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

/// Tries again while a lease of the batch runs: after that its tries are made anew. What another holds
/// up is found by halving, so that it holds up nothing else.
async fn record_patiently(courier: &Courier, batch: &[Finished]) -> Result<(), DeliveryError> {
    let lease = courier.settings.scale.lease();
    let ends = batch.iter().map(|one| one.claimed.claimed + lease).max();
    loop {
        let recorded = timeout(RECORD_WITHIN, record(courier, batch)).await;
        match recorded.unwrap_or(Err(DeliveryError::from(sqlx::Error::PoolTimedOut))) {
            Err(error)
                if (error.is_away() || (batch.len() == 1 && error.may_pass()))
                    && ends.is_some_and(|end| Instant::now() < end) =>
            {
                tracing::warn!(%error, "could not record answers; will try again");
                tokio::time::sleep(RECORD_AGAIN).await;
            }
            recorded => return recorded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing::Budget;
    use crate::send::CONNECT_WITHIN;

    /// E13: a claim may connect late, then send, then wait for one record that takes all its time.
    #[test]
    fn e13_a_lease_outlasts_a_send_and_its_record() {
        let Budget { headers, body, .. } = Budget::default();
        assert!(CONNECT_WITHIN + headers + body + RECORD_WITHIN < domain::delivery::LEASE);
    }
}
