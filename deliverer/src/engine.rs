//! The engine: claims as far as permits go, has it sent, and has answers recorded as they come. A slow
//! receiver holds one permit, never the others' answers.
//!
//! At the first signal it claims no more; what is out is sent and recorded, then it ends.

use std::sync::Arc;
use std::time::Duration;

use eventstore::Nudge;
use eventstore::worker::{Step, Worker, run};
use futures::future::join_all;
use telemetry::figures::WORKER_FAILURES;
use tokio::time::timeout;

use crate::claim::{Claimed, Lanes, claim, claim_from, next_due};
use crate::dispatch::{Answers, Dispatch, finish};
use crate::lanes;
use crate::limits::Limits;
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
    let claimed = claim(courier, &Limits::alone(courier.settings)).await?;
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
    let sender = Sender { dispatch, narrow: None };
    tokio::select! {
        () = run(sender, nudge.subscribe_to_deliveries(), stop) => {}
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
    /// The most lanes that a claim takes from, after one that the database refused.
    narrow: Option<usize>,
}

impl Sender {
    /// Claims, and says whether wakes are left; nothing if the database refused the claim. One row that
    /// cannot be read must not keep all others: after a refused claim the next takes from half as many
    /// lanes, and a lane that is refused alone is put off.
    async fn claim(&mut self, free: usize) -> Result<Option<(Vec<Claimed>, bool)>, DeliveryError> {
        let Dispatch { courier, limits, .. } = &*self.dispatch;
        let most = self.narrow.unwrap_or(free);
        let mut from = Lanes::at_most(most);
        let error = match claim_from(courier, limits, &mut from).await {
            Ok(claimed) => {
                self.narrow = self.narrow.map(|most| most * 2).filter(|most| *most < free);
                return Ok(Some((claimed, from.left)));
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
        let stop = &dispatch.stop;
        // Whoever waited for a permit until the end claims nothing any more.
        if stop.run_until_cancelled(dispatch.limits.any_permit()).await.is_none()
            || !dispatch.may_send()
        {
            return Ok(Step::IDLE);
        }
        if !dispatch.limits.full().is_empty() {
            // Said before the claim: an answer that comes in between is not missed.
            dispatch.is_limited();
        }
        let free = dispatch.limits.room().free;
        let Some((claimed, left)) = self.claim(free).await? else { return Ok(Step::Busy) };
        if claimed.is_empty() {
            let wait = until_due(&dispatch).await?.filter(|_| !left);
            // A due lane that was not claimed is held by somebody else.
            return Ok(Step::IdleFor(wait.unwrap_or(HELD_BY_ANOTHER)));
        }
        dispatch.start_all(claimed, false);
        Ok(Step::Busy)
    }
}

/// How long it is until something is due, if nothing is.
async fn until_due(dispatch: &Dispatch) -> Result<Option<Duration>, DeliveryError> {
    let courier = &dispatch.courier;
    let Some(due_at) = next_due(courier, &dispatch.limits).await? else {
        return Ok(Some(Duration::MAX));
    };
    Ok((due_at - courier.clock.now().get()).to_std().ok().filter(|wait| !wait.is_zero()))
}
