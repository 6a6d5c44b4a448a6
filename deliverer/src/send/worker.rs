//! The claim worker, and the life of a sending process.

use std::sync::Arc;
use std::time::Duration;

use eventstore::Nudge;
use eventstore::worker::{NextStep, WakeOn, Worker, run_on};
use futures::future::join_all;
use telemetry::metrics::WORKER_FAILURES;
use tokio::time::timeout;
use uuid::Uuid;

use super::dispatcher::{Dispatcher, SendTiming, run_attempt};
use crate::claim::ScanFloors;
use crate::claim::from_outbox::{ClaimOutcome, claim_due, claim_from_lanes, next_due_from};
use crate::error::DeliveryError;
use crate::limits::SendLimits;
use crate::outbox::lanes;
use crate::record::{AnswerInbox, record_batch, recorder_tasks};
use crate::settings::DelivererContext;

/// The wait for a lane that is due and that another process has locked.
const HELD_LANE_RETRY_AFTER: Duration = Duration::from_millis(20);

/// The time that a lane sleeps after the database refused a claim from it alone.
const PUT_OFF_FOR: Duration = Duration::from_secs(60);

/// The time that a stop waits for attempts in flight (case E25). A send ends within 11 s.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// Claims, sends and records one batch, and waits for all of it. Tests step it by hand.
pub async fn deliver_once(deliverer: &DelivererContext) -> Result<usize, DeliveryError> {
    let claimed = claim_due(deliverer, &SendLimits::alone(deliverer.settings)).await?;
    let finished =
        join_all(claimed.into_iter().map(|claimed| run_attempt(deliverer, claimed))).await;
    if !finished.is_empty() {
        record_batch(deliverer, &finished).await?;
    }
    Ok(finished.len())
}

/// Claims, sends and records until the dispatcher's stop, then finishes the attempts in flight.
/// Ends early if a recorder ends: an attempt that is sent and not recorded is sent again.
pub async fn deliver(dispatch: Arc<Dispatcher>, answers: AnswerInbox, nudge: &Nudge) {
    let (recorder, stuck) = recorder_tasks(&dispatch.deliverer, answers);
    let mut recorder = tokio::spawn(recorder);
    let mut stuck = tokio::spawn(stuck);
    let tasks = dispatch.tasks.clone();
    let stop = dispatch.stop.clone();
    let worker = ClaimWorker { dispatch, lanes_max: None, floors: ScanFloors::default() };
    tokio::select! {
        () = run_on(worker, nudge, stop) => {}
        _ = &mut recorder => return recorder_ended("answers"),
        _ = &mut stuck => return recorder_ended("stuck answers"),
    }
    tasks.close();
    let finishing = async {
        tasks.wait().await;
        for recorder in [&mut recorder, &mut stuck] {
            if let Err(error) = recorder.await {
                tracing::error!(%error, "the recorder ended early");
            }
        }
    };
    if timeout(STOP_WITHIN, finishing).await.is_err() {
        tracing::error!("some answers could not be recorded in time; their leases will end");
        recorder.abort();
        stuck.abort();
    }
}

fn recorder_ended(of: &str) {
    tracing::error!("the recorder of {of} ended: nothing more is sent");
}

/// Claims rows that are due, and hands the attempts to the dispatcher.
struct ClaimWorker {
    dispatch: Arc<Dispatcher>,
    /// The most lanes that a claim takes from. Set after a refused claim.
    lanes_max: Option<usize>,
    floors: ScanFloors,
}

impl ClaimWorker {
    /// Claims as far as permits go. One row that cannot be read must not hold up all other rows.
    /// After a refused claim the next claim takes from half as many lanes. A lane that is refused
    /// alone is put off.
    async fn claim_up_to(&mut self, free: usize) -> Result<ClaimOutcome, DeliveryError> {
        let Dispatcher { deliverer, limits, .. } = &*self.dispatch;
        let lanes_max = self.lanes_max.unwrap_or(free);
        let outcome = claim_from_lanes(deliverer, limits, &mut self.floors, lanes_max).await?;
        if let ClaimOutcome::Refused { error, lane_ids } = &outcome {
            tracing::warn!(%error, lanes = lane_ids.len(), "a claim was refused; the next takes from fewer lanes");
            WORKER_FAILURES.count(&[("worker", Self::NAME)]);
            self.lanes_max = Some((lane_ids.len() / 2).max(1));
            if let [lane_id] = lane_ids[..] {
                self.put_off(lane_id).await?;
            }
        } else {
            self.lanes_max = self.lanes_max.map(|most| most * 2).filter(|most| *most < free);
        }
        Ok(outcome)
    }

    async fn put_off(&self, lane_id: Uuid) -> Result<(), DeliveryError> {
        let deliverer = &self.dispatch.deliverer;
        let until = deliverer.clock.now().get() + PUT_OFF_FOR;
        lanes::put_off(deliverer.store.pool(), lane_id, until).await?;
        tracing::error!(%lane_id, "the due rows of a lane cannot be claimed; it is put off for a minute");
        Ok(())
    }
}

impl Worker for ClaimWorker {
    const NAME: &'static str = "deliver";
    const WAKES: WakeOn = WakeOn::Deliveries;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        let dispatch = Arc::clone(&self.dispatch);
        let stop = &dispatch.stop;
        // A worker that waited for a permit until the stop must not claim any more.
        if stop.run_until_cancelled(dispatch.limits.any_permit()).await.is_none()
            || !dispatch.may_send()
        {
            return Ok(NextStep::HELD_UP);
        }
        if !dispatch.limits.full_limits().is_empty() {
            // Noted before the claim, so that an answer during the claim wakes the next one.
            dispatch.note_limited();
        }
        let free = dispatch.limits.permit_usage().free;
        match self.claim_up_to(free).await? {
            ClaimOutcome::Claimed(attempts) => {
                dispatch.start_all(attempts, SendTiming::InTime);
                Ok(NextStep::Busy)
            }
            ClaimOutcome::Parked => Ok(NextStep::Busy),
            ClaimOutcome::NothingDue => {
                until_due(&dispatch, &mut self.floors).await.map(NextStep::IdleFor)
            }
            ClaimOutcome::HeldElsewhere => Ok(NextStep::IdleFor(HELD_LANE_RETRY_AFTER)),
            ClaimOutcome::Refused { .. } => Ok(NextStep::Busy),
        }
    }
}

/// The longest wait while limits keep rows out of a claim. Some of them end with time.
const LIMITED_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The wait until a row is due. A due lane that was not claimed is locked by another process.
async fn until_due(
    dispatch: &Dispatcher,
    floors: &mut ScanFloors,
) -> Result<Duration, DeliveryError> {
    let deliverer = &dispatch.deliverer;
    let is_limited = !dispatch.limits.full_limits().is_empty();
    let longest = if is_limited { LIMITED_RETRY_AFTER } else { Duration::MAX };
    let Some(due_at) = next_due_from(deliverer, &dispatch.limits, floors).await? else {
        return Ok(longest);
    };
    let wait = (due_at - deliverer.clock.now().get()).to_std().ok().filter(|wait| !wait.is_zero());
    Ok(wait.unwrap_or(HELD_LANE_RETRY_AFTER).min(longest))
}
