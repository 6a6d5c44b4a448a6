//! The engine: claims as far as permits go, has it sent, and has answers recorded as they come. A slow
//! receiver holds one permit, never the others' answers.
//!
//! At the first signal it claims no more; what is out is sent and recorded, then it ends.

use std::sync::Arc;
use std::time::Duration;

use domain::pressure::Room;
use eventstore::Nudge;
use eventstore::worker::{Step, Worker, run};
use futures::future::join_all;
use telemetry::figures::WORKER_FAILURES;
use tokio::time::timeout;

use crate::claim::{Claimed, Lanes, claim, claim_from, next_due};
use crate::dispatch::{Answers, Dispatch, finish};
use crate::lanes;
use crate::record::record;
use crate::recorder::recorders;
use crate::settings::{Courier, DeliveryError};

/// The wait for a lane that is due and held by another process.
const HELD_BY_ANOTHER: Duration = Duration::from_millis(20);

/// How long a lane is put off that nothing can be claimed from.
const PUT_OFF: Duration = Duration::from_secs(60);

/// How long a stop waits for what is out (case E25): a send ends within 11 s.
const STOP_WITHIN: Duration = Duration::from_secs(15);

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
    let (recorder, patient) = recorders(&dispatch.courier, answers);
    let (mut recorder, mut patient) = (tokio::spawn(recorder), tokio::spawn(patient));
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
        let mut from = Lanes::at_most(most);
        let error = match claim_from(courier, room, &mut from).await {
            Ok(claimed) => {
                self.narrow = self.narrow.map(|most| most * 2).filter(|most| *most < room.free);
                return Ok(Some(claimed));
            }
            Err(error) if error.is_of_all() => return Err(error),
            Err(error) => error,
        };
        tracing::warn!(%error, lanes = from.locked.len(), "a claim was refused; the next takes from fewer lanes");
        WORKER_FAILURES.count(&[("worker", Self::NAME)]);
        self.narrow = Some((from.locked.len() / 2).max(1));
        if let [lane_id] = from.locked[..] {
            let until = courier.clock.now().get() + PUT_OFF;
            lanes::put_off(courier.store.pool(), lane_id, until).await?;
            tracing::error!(%lane_id, "what is due there cannot be claimed; it is put off for a minute");
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
