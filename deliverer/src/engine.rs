//! The engine: claims as far as permits go, has it sent, and has answers recorded as they come. A slow
//! receiver holds one permit, never the others' answers.
//!
//! At the first signal it claims no more; what is out is sent and recorded, then it ends.

use std::sync::Arc;
use std::time::Duration;

use eventstore::Nudge;
use eventstore::worker::{NextStep, WakeOn, Worker, run_on};
use futures::future::join_all;
use telemetry::metrics::WORKER_FAILURES;
use tokio::time::timeout;

use crate::claim::{ClaimedAttempt, LaneSelection, claim, claim_from, next_due};
use crate::dispatch::{AnswerInbox, Dispatcher, run_attempt};
use crate::lanes;
use crate::limits::SendLimits;
use crate::record::record;
use crate::recorder::recorders;
use crate::settings::{DelivererContext, DeliveryError};

/// The wait for a lane that is due and held by another process.
const HELD_LANE_RETRY_AFTER: Duration = Duration::from_millis(20);

/// How long a lane is put off that nothing can be claimed from.
const PUT_OFF_FOR: Duration = Duration::from_secs(60);

/// How long a stop waits for what is out (case E25): a send ends within 11 s.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// Claims, sends and records one batch and waits for all of it: for tests that step by hand.
///
/// # Errors
/// [`DeliveryError`].
pub async fn deliver_once(courier: &DelivererContext) -> Result<usize, DeliveryError> {
    let claimed = claim(courier, &SendLimits::alone(courier.settings)).await?;
    let finished = join_all(claimed.into_iter().map(|claimed| run_attempt(courier, claimed))).await;
    if !finished.is_empty() {
        record(courier, &finished).await?;
    }
    Ok(finished.len())
}

/// Sends until its end, then finishes what is out. Ends early if answers cannot be recorded any
/// more: what is sent and not recorded is sent again.
pub async fn deliver(dispatch: Arc<Dispatcher>, answers: AnswerInbox, nudge: &Nudge) {
    let (recorder, patient) = recorders(&dispatch.courier, answers);
    let (mut recorder, mut patient) = (tokio::spawn(recorder), tokio::spawn(patient));
    let (tasks, stop) = (dispatch.tasks.clone(), dispatch.stop.clone());
    let sender = ClaimWorker { dispatch, lanes_max: None };
    tokio::select! {
        () = run_on(sender, nudge, stop) => {}
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
struct ClaimWorker {
    dispatch: Arc<Dispatcher>,
    /// The most lanes that a claim takes from, after one that the database refused.
    lanes_max: Option<usize>,
}

impl ClaimWorker {
    /// Claims, and says whether wakes are left; nothing if the database refused the claim. One row that
    /// cannot be read must not keep all others: after a refused claim the next takes from half as many
    /// lanes, and a lane that is refused alone is put off.
    async fn claim(
        &mut self,
        free: usize,
    ) -> Result<Option<(Vec<ClaimedAttempt>, bool)>, DeliveryError> {
        let Dispatcher { courier, limits, .. } = &*self.dispatch;
        let most = self.lanes_max.unwrap_or(free);
        let mut from = LaneSelection::at_most(most);
        let error = match claim_from(courier, limits, &mut from).await {
            Ok(claimed) => {
                self.lanes_max = self.lanes_max.map(|most| most * 2).filter(|most| *most < free);
                return Ok(Some((claimed, from.left_wakes)));
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => error,
        };
        tracing::warn!(%error, lanes = from.locked.len(), "a claim was refused; the next takes from fewer lanes");
        WORKER_FAILURES.count(&[("worker", Self::NAME)]);
        self.lanes_max = Some((from.locked.len() / 2).max(1));
        if let [lane_id] = from.locked[..] {
            let until = courier.clock.now().get() + PUT_OFF_FOR;
            lanes::put_off(courier.store.pool(), lane_id, until).await?;
            tracing::error!(%lane_id, "what is due there cannot be claimed; it is put off for a minute");
        }
        Ok(None)
    }
}

impl Worker for ClaimWorker {
    const NAME: &'static str = "deliver";
    const WAKES: WakeOn = WakeOn::Deliveries;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        let dispatch = Arc::clone(&self.dispatch);
        let stop = &dispatch.stop;
        // Whoever waited for a permit until the end claims nothing any more.
        if stop.run_until_cancelled(dispatch.limits.any_permit()).await.is_none()
            || !dispatch.may_send()
        {
            return Ok(NextStep::IDLE);
        }
        if !dispatch.limits.full().is_empty() {
            // Said before the claim: an answer that comes in between is not missed.
            dispatch.note_limited();
        }
        let free = dispatch.limits.room().free;
        let Some((claimed, left)) = self.claim(free).await? else { return Ok(NextStep::Busy) };
        if claimed.is_empty() {
            let wait = until_due(&dispatch).await?.filter(|_| !left);
            // A due lane that was not claimed is held by somebody else.
            return Ok(NextStep::IdleFor(wait.unwrap_or(HELD_LANE_RETRY_AFTER)));
        }
        dispatch.start_all(claimed, false);
        Ok(NextStep::Busy)
    }
}

/// How long it is until something is due, if nothing is.
async fn until_due(dispatch: &Dispatcher) -> Result<Option<Duration>, DeliveryError> {
    let courier = &dispatch.courier;
    let Some(due_at) = next_due(courier, &dispatch.limits).await? else {
        return Ok(Some(Duration::MAX));
    };
    Ok((due_at - courier.clock.now().get()).to_std().ok().filter(|wait| !wait.is_zero()))
}
