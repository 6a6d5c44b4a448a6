//! The engine: claims as far as permits go, has it sent, and records answers in batches as they come.
//! A slow receiver holds one permit, never the others' answers.
//!
//! At the first signal it claims no more; what is out is sent and recorded, then it ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::pressure::Room;
use eventstore::Nudge;
use eventstore::worker::{Step, Worker, run};
use futures::future::join_all;
use telemetry::figures::WORKER_FAILURES;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use crate::claim::{Claimed, Lanes, claim, claim_from, next_due, put_off};
use crate::dispatch::{Answers, Dispatch, finish};
use crate::record::{Finished, record};
use crate::settings::{Courier, DeliveryError};

/// Answers recorded at a time.
const RECORD: usize = 256;

/// From one batch of answers to the next, unless enough have come: what comes by itself is recorded at
/// once, and what comes all the time costs a transaction for several. A crash in between repeats what was
/// answered, as it does while a record is under way.
const RECORD_PACE: Duration = Duration::from_millis(15);

/// So many answers are worth a transaction: fewer than a host may have out, so that none waits for them.
const ENOUGH: usize = 16;

/// How long one try to record a batch may take; see [`eventstore::worker`].
const RECORD_WITHIN: Duration = Duration::from_secs(60);

/// The wait for a lane that is due and held by another process.
const HELD_BY_ANOTHER: Duration = Duration::from_millis(20);

/// How long a stop waits for what is out (case E25): a send ends within 11 s.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// The wait until a batch that could not be recorded is tried again.
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

/// Sends until its end, then finishes what is out. Ends early if answers cannot be recorded any
/// more: what is sent and not recorded is sent again.
pub async fn deliver(dispatch: Arc<Dispatch>, answers: Answers, nudge: &Nudge) {
    let (put, stuck) = mpsc::channel(dispatch.courier.settings.permits.max(1));
    let aside = Aside { put, lanes: Arc::default() };
    let patient = record_stuck(dispatch.courier.clone(), stuck, Arc::clone(&aside.lanes));
    let mut recorder = tokio::spawn(record_all(dispatch.courier.clone(), answers, aside));
    let mut patient = tokio::spawn(patient);
    let (tasks, stop) = (dispatch.tasks.clone(), dispatch.stop.clone());
    let sender = Sender { dispatch, was_full: false, narrow: None };
    tokio::select! {
        () = run(sender, nudge.subscribe_to_all_but_occurrences(), stop) => {}
        _ = &mut recorder => {
            tracing::error!("the recorder ended: nothing more is sent");
            return;
        }
    }
    tasks.close();
    let finishing = async {
        tasks.wait().await;
        for recorder in [&mut recorder, &mut patient] {
            if let Err(error) = recorder.await {
                tracing::error!(%error, "the recorder ended early");
            }
        }
    };
    if timeout(STOP_WITHIN, finishing).await.is_err() {
        tracing::error!("some answers could not be recorded in time; their leases will end");
        recorder.abort();
        patient.abort();
    }
}

/// Claims what is due.
struct Sender {
    dispatch: Arc<Dispatch>,
    /// Whether the claim before took much of the room there was: there is more, most likely.
    was_full: bool,
    /// The most lanes that a claim takes from, after one that the database refused.
    narrow: Option<usize>,
}

impl Sender {
    /// Claims; nothing if the database refused that. One row that cannot be read must not keep all others: after a claim
    /// that was refused the next takes from half as many lanes, and one that is refused alone is put off.
    async fn claim(&mut self, room: &Room) -> Result<Option<Vec<Claimed>>, DeliveryError> {
        let courier = &self.dispatch.courier;
        let most = self.narrow.unwrap_or(room.free);
        let mut lanes = Lanes::at_most(most);
        let error = match claim_from(courier, room, &mut lanes).await {
            Ok(claimed) => {
                self.narrow = self.narrow.map(|most| most * 2).filter(|most| *most < room.free);
                return Ok(Some(claimed));
            }
            Err(error) if error.is_of_all() => return Err(error),
            Err(error) => error,
        };
        tracing::warn!(%error, lanes = lanes.locked.len(), "a claim was refused; the next takes from fewer lanes");
        WORKER_FAILURES.count(&[("worker", Self::NAME)]);
        self.narrow = Some((lanes.locked.len() / 2).max(1));
        if let [lane_id] = lanes.locked[..] {
            put_off(courier, lane_id).await?;
        }
        Ok(None)
    }
}

impl Worker for Sender {
    const NAME: &'static str = "deliver";
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<Step, DeliveryError> {
        let dispatch = Arc::clone(&self.dispatch);
        let courier = &dispatch.courier;
        // Receivers reject signatures from another time (cases E18 and E19).
        if courier.clock.fault().is_some() {
            return Ok(Step::IDLE);
        }
        let stop = &dispatch.stop;
        if !std::mem::take(&mut self.was_full) {
            let Some(room) = stop.run_until_cancelled(dispatch.room()).await else {
                return Ok(Step::IDLE);
            };
            if let Some(wait) = until_due(courier, &room).await? {
                return Ok(Step::IdleFor(wait));
            }
        }
        // Whoever waited for room until the end claims nothing any more.
        let Some(turn) = stop.run_until_cancelled(dispatch.turn()).await else {
            return Ok(Step::IDLE);
        };
        let room = turn.room();
        let Some(claimed) = self.claim(&room).await? else { return Ok(Step::Busy) };
        if claimed.is_empty() {
            // A due lane that was not claimed is held by another process.
            let wait = until_due(courier, &room).await?.unwrap_or_default();
            return Ok(Step::IdleFor(wait.max(HELD_BY_ANOTHER)));
        }
        self.was_full = claimed.len() * 2 >= room.free;
        dispatch.send(claimed, turn).await?;
        Ok(Step::Busy)
    }
}

/// How long it is until something is due, if nothing is.
async fn until_due(courier: &Courier, room: &Room) -> Result<Option<Duration>, DeliveryError> {
    let Some(due_at) = next_due(courier, room).await? else {
        return Ok(Some(Duration::MAX));
    };
    Ok((due_at - courier.clock.now().get()).to_std().ok().filter(|wait| !wait.is_zero()))
}

/// Where answers go that the database does not take with others.
struct Aside {
    put: mpsc::Sender<Vec<Finished>>,
    /// The lanes that have some there, by how many batches: what comes of them later goes there at once.
    lanes: Arc<Mutex<HashMap<Uuid, usize>>>,
}

impl Aside {
    /// Takes what is of these lanes out of a batch.
    fn take_from(&self, batch: &mut Vec<Finished>) {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if lanes.is_empty() {
            return;
        }
        let (theirs, others) =
            batch.drain(..).partition(|one: &Finished| lanes.contains_key(&one.claimed.lane_id));
        *batch = others;
        by_lane(theirs).into_iter().for_each(|of_lane| self.put(of_lane));
    }

    /// Puts answers of one lane there.
    fn put(&self, of_lane: Vec<Finished>) {
        let Some(lane_id) = of_lane.first().map(|one| one.claimed.lane_id) else { return };
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if self.put.try_send(of_lane).is_ok() {
            *lanes.entry(lane_id).or_default() += 1;
        } else {
            tracing::error!(%lane_id, "answers were not recorded; their leases will end");
        }
    }
}

/// These by their lanes.
fn by_lane(answers: Vec<Finished>) -> Vec<Vec<Finished>> {
    let mut lanes: HashMap<Uuid, Vec<Finished>> = HashMap::new();
    for one in answers {
        lanes.entry(one.claimed.lane_id).or_default().push(one);
    }
    lanes.into_values().collect()
}

/// Records until all senders are gone.
async fn record_all(courier: Courier, mut answers: Answers, aside: Aside) {
    let (mut batch, mut next) = (Vec::with_capacity(RECORD), Instant::now());
    while answers.inbox.recv_many(&mut batch, RECORD).await > 0 {
        gather(&mut answers, &mut batch, next).await;
        answers.let_it_queue().await;
        while batch.len() < RECORD
            && let Ok(answered) = answers.inbox.try_recv()
        {
            batch.push(answered);
        }
        next = Instant::now() + RECORD_PACE;
        aside.take_from(&mut batch);
        record_or_put_aside(&courier, std::mem::take(&mut batch), &aside).await;
    }
}

/// Waits for more answers until then, or until there are enough.
async fn gather(answers: &mut Answers, batch: &mut Vec<Finished>, until: Instant) {
    while batch.len() < ENOUGH {
        let more = answers.inbox.recv_many(batch, RECORD - batch.len());
        if !matches!(timeout_at(until, more).await, Ok(1..)) {
            return;
        }
    }
}

/// Records a batch. While the database is away, the batch waits; if it does not take the batch, what it does not
/// take of some lane is put aside: it holds up no other lane's.
async fn record_or_put_aside(courier: &Courier, batch: Vec<Finished>, aside: &Aside) {
    if batch.is_empty() || record_patiently(courier, &batch, DeliveryError::is_away).await.is_ok() {
        return;
    }
    for of_lane in by_lane(batch) {
        if let Err(error) = record_patiently(courier, &of_lane, DeliveryError::is_away).await {
            tracing::warn!(%error, "answers of a lane could not be recorded; will try again");
            aside.put(of_lane);
        }
    }
}

/// Records what was put aside until nobody puts more.
async fn record_stuck(
    courier: Courier,
    mut stuck: mpsc::Receiver<Vec<Finished>>,
    lanes: Arc<Mutex<HashMap<Uuid, usize>>>,
) {
    while let Some(batch) = stuck.recv().await {
        record_surely(&courier, &batch).await;
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

/// Records a batch as soon as it can be; one answer that is refused for good is found by halving, and given up
/// alone.
async fn record_surely(courier: &Courier, finished: &[Finished]) {
    let may_pass = |error: &DeliveryError| error.is_away() || error.may_pass();
    let mut halves = vec![finished];
    while let Some(batch) = halves.pop() {
        match record_patiently(courier, batch, may_pass).await {
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

/// Tries again what may pass while a lease of the batch runs: after that its tries are made anew, and what they
/// came to is history only; that, too, is tried for as long as a record may take.
async fn record_patiently(
    courier: &Courier,
    batch: &[Finished],
    passes: impl Fn(&DeliveryError) -> bool,
) -> Result<(), DeliveryError> {
    let lease = courier.settings.scale.lease();
    let leased = batch.iter().map(|one| one.claimed.claimed + lease);
    let ends = leased.chain([Instant::now() + RECORD_WITHIN]).max();
    loop {
        let recorded = timeout(RECORD_WITHIN, record(courier, batch)).await;
        match recorded.unwrap_or(Err(DeliveryError::from(sqlx::Error::PoolTimedOut))) {
            Err(error) if passes(&error) && ends.is_some_and(|end| Instant::now() < end) => {
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
