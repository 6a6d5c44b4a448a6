//! One delivery: an occurrence on its way to a subscription, through its attempts to one end
//! (contract, sections Retries and Delivery guarantees; rulings 21–27).
//!
//! ```text
//!            ┌──────── retry, interrupted ────────┐
//!            ▼                                    │
//! listed → pending ── attempt ──┬─ 2xx ─────────→ delivered
//!            │                  ├─ final answer, last attempt → failed
//!            └── cause ─────────┴───────────────→ cancelled
//! ```
//!
//! An occurrence lists its subscriptions, and from then on each delivery is pending. The delivery's
//! own stream begins with its first attempt, interruption or cancellation. Only workflow steps,
//! reissues and repairs begin with an event that queues the delivery.

pub mod pressure;
pub mod receiver;
pub mod replay;
pub mod signature;
pub mod workflow;

mod answer;
mod content;
mod history;
mod pause;
mod payload;
mod repair;
mod retry;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::workflow::{STEP_VERSION, StepOrder};
use crate::aggregate::{aggregate, domain_event};
use crate::values::Timestamp;

pub use answer::{
    ANSWER_KEPT_BYTES, AnswerVerdict, AttemptAnswer, NetworkError, RedirectFault, clean_answer,
};
pub use content::{ContentFacts, ContentState};
pub use history::{
    Attempt, CancelCause, Consignment, DeliveryOf, DeliveryState, Hop, LateEffect, NotReissued,
    Outcome, ReissuedDelivery, ReplayedDelivery, RetriedStep, SentBody, UnknownCause,
};
pub use pause::{
    DeliveryRoute, INSTALLATION_FIRM_ID, Pause, PauseCommand, PauseEvent, PauseRejection,
    PauseScope,
};
pub use payload::{
    AnswerFields, EventPayload, FormPart, PartialPart, PayloadSource, ReportPart, ResponsePart,
};
pub use repair::{Repair, RepairCommand, RepairEvent, RepairedDeliveries};
pub use retry::{RETRY_AFTER_MAX, RetrySchedule, retry_after};

/// Length of a lease on a claimed attempt (ruling 23). By the contract, a server that stops
/// mid-send causes a resend after 2 minutes.
pub const LEASE_TIME: Duration = Duration::from_secs(120);

/// Longest wait for a suspended firm. Then its queued deliveries are cancelled (ruling 28).
pub const SUSPENDED_WAIT_MAX: Duration = Duration::from_secs(72 * 60 * 60);

/// Aggregate of one delivery. Each delivery has a stream of its own.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    state: Option<DeliveryState>,
    tries: u32,
    /// Numbers of the attempts whose answers are in history.
    answered: BTreeSet<u32>,
    step: Option<StepOrder>,
    /// Occurrence and subscription, unless the delivery is a workflow step's.
    of: Option<DeliveryOf>,
    body: Option<SentBody>,
    /// Number of its last attempt by its schedule.
    tries_max: u32,
    /// Due time of its next attempt, if its last one failed.
    due_at: Option<Timestamp>,
    /// The replay that has not made its attempt.
    replay: Option<PendingReplay>,
}

/// A replay of a delivery, and the number of its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct PendingReplay {
    replay_id: Uuid,
    number: u32,
}

/// The attempt that a delivery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextAttempt {
    /// Due time. `None` if the attempt is due at once.
    pub due_at: Option<Timestamp>,
    /// Number of the last attempt that is allowed.
    pub tries_max: u32,
    /// The replay that makes the attempt. `None` for an attempt of the delivery's own schedule.
    pub replay_id: Option<Uuid>,
}

/// Command on a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryCommand {
    /// Queues a delivery that the occurrence's list lacks.
    Queue(Consignment),
    /// Queues a workflow step's delivery.
    QueueStep(StepOrder),
    /// Queues a delivery that is reissued from another.
    Reissue(ReissuedDelivery),
    /// Begins the schedule of a workflow step's delivery again.
    RetryStep,
    /// Records an attempt.
    Record {
        /// The attempt.
        attempt: Attempt,
        /// Why the delivery was withdrawn during the attempt, if it was.
        withdrawn: Option<CancelCause>,
    },
    /// Cancels the delivery.
    Cancel {
        /// The cause.
        cause: CancelCause,
        /// Occurrence and subscription, if the delivery has no stream yet.
        of: Option<DeliveryOf>,
    },
}

/// Event of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum DeliveryEvent {
    /// A repair queued the delivery, because the occurrence's list lacked its subscription.
    DeliveryQueued(Consignment),
    /// A workflow step's delivery was queued.
    StepQueued(StepOrder),
    /// A failed workflow step's delivery begins its schedule again.
    StepRetried(RetriedStep),
    /// The delivery was reissued from an ended one.
    DeliveryReissued(ReissuedDelivery),
    /// The delivery had ended and is sent once more.
    DeliveryReplayed(ReplayedDelivery),
    /// An attempt was made.
    DeliveryAttempted(Attempt),
    /// The delivery was cancelled.
    DeliveryCancelled {
        /// The cause.
        cause: CancelCause,
        /// Occurrence and subscription, in the first event of a listed delivery.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<DeliveryOf>,
    },
}

domain_event!(DeliveryEvent {
    DeliveryQueued,
    StepQueued = STEP_VERSION,
    StepRetried = STEP_VERSION,
    DeliveryReissued,
    DeliveryReplayed,
    DeliveryAttempted,
    DeliveryCancelled,
});
aggregate!(Delivery, DeliveryCommand, DeliveryEvent, DeliveryRejection);

impl DeliveryEvent {
    /// Whether the event begins a stream and queues the delivery.
    #[must_use]
    pub const fn queues(&self) -> bool {
        match self {
            Self::DeliveryQueued(_) | Self::StepQueued(_) | Self::DeliveryReissued(_) => true,
            Self::StepRetried(_)
            | Self::DeliveryReplayed(_)
            | Self::DeliveryAttempted(_)
            | Self::DeliveryCancelled { .. } => false,
        }
    }
}

/// Why a command on a delivery was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryRejection {
    /// The delivery is not queued, or has ended.
    #[error("the delivery is not pending")]
    NotPending,
    /// An attempt with this number is recorded, or an earlier one is not.
    #[error("the attempt is out of order")]
    OutOfOrder,
    /// The delivery is not a workflow step's.
    #[error("the delivery is not of a workflow step")]
    NotAStep,
    /// The delivery has not failed: it is pending, delivered or cancelled.
    #[error("only a failed step can be retried")]
    NotFailed,
}

/// Whether the outbox has a delivery for its own attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxPresence {
    /// The delivery is queued.
    Queued,
    /// The delivery is not queued, or queued for a replay only.
    Absent,
}

/// Consequence of an attempt's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptConclusion {
    /// The outcome.
    pub outcome: Outcome,
    /// The wait before the next attempt, for a retry only.
    pub wait: Option<Duration>,
}

/// Decides the outcome of an attempt: delivered, retried after a wait, or failed.
///
/// `number` counts attempts from 1. `jitter` lies in −1..=1, and only workflow steps use it.
#[must_use]
pub fn conclude_attempt(
    schedule: RetrySchedule,
    number: u32,
    answer: &AttemptAnswer,
    retry_after: Option<Duration>,
    jitter: f64,
) -> AttemptConclusion {
    let ended = |outcome| AttemptConclusion { outcome, wait: None };
    match answer.verdict() {
        AnswerVerdict::Delivered => ended(Outcome::Delivered),
        AnswerVerdict::Failed => ended(Outcome::Failed),
        AnswerVerdict::Retry => match schedule.wait_after(number, retry_after, jitter) {
            Some(wait) => AttemptConclusion { outcome: Outcome::Retry, wait: Some(wait) },
            None => ended(Outcome::Failed),
        },
    }
}

/// Makes the event of a recorded attempt. If the delivery was withdrawn during the attempt, a 2xx
/// makes it delivered and any other answer makes it cancelled. A withdrawn delivery is never
/// retried (ruling 29). One event says both, so the delivery is at no moment failed.
#[must_use]
pub fn attempt_event(mut attempt: Attempt, withdrawn: Option<CancelCause>) -> DeliveryEvent {
    attempt.cancelled = withdrawn.filter(|_| attempt.outcome != Outcome::Delivered);
    if attempt.cancelled.is_some() {
        attempt.next_try_at = None;
    }
    DeliveryEvent::DeliveryAttempted(attempt)
}

/// Whether a delivery waits for an attempt. A pending delivery does. So does a listed delivery
/// without a stream, whose first event will name its occurrence.
const fn awaits_a_try(state: Option<DeliveryState>, of: Option<DeliveryOf>) -> bool {
    match state {
        None => of.is_some(),
        Some(state) => matches!(state, DeliveryState::Pending),
    }
}

impl Delivery {
    /// Decides on the events that follow from a command.
    ///
    /// # Errors
    /// [`DeliveryRejection`] says why the command is refused.
    pub fn decide(
        &self,
        command: &DeliveryCommand,
    ) -> Result<Vec<DeliveryEvent>, DeliveryRejection> {
        match (command, self.state) {
            (DeliveryCommand::Queue(consignment), None) => {
                Ok(vec![DeliveryEvent::DeliveryQueued(consignment.clone())])
            }
            (DeliveryCommand::QueueStep(order), None) => {
                Ok(vec![DeliveryEvent::StepQueued(order.clone())])
            }
            (DeliveryCommand::Reissue(reissued), None) => {
                Ok(vec![DeliveryEvent::DeliveryReissued(reissued.clone())])
            }
            (
                DeliveryCommand::Queue(_)
                | DeliveryCommand::QueueStep(_)
                | DeliveryCommand::Reissue(_),
                Some(_),
            ) => Ok(Vec::new()),
            (DeliveryCommand::RetryStep, state) => self.retry_step(state),
            (DeliveryCommand::Record { attempt, withdrawn }, state)
                if awaits_a_try(state, attempt.of) =>
            {
                if attempt.number != self.tries + 1 {
                    return Err(DeliveryRejection::OutOfOrder);
                }
                Ok(vec![attempt_event(attempt.clone(), *withdrawn)])
            }
            (DeliveryCommand::Cancel { cause, of }, state) if awaits_a_try(state, *of) => {
                Ok(vec![DeliveryEvent::DeliveryCancelled { cause: *cause, of: *of }])
            }
            (DeliveryCommand::Record { .. } | DeliveryCommand::Cancel { .. }, _) => {
                Err(DeliveryRejection::NotPending)
            }
        }
    }

    /// A failed step gets five new attempts under its ids, with its bytes (ruling 33).
    fn retry_step(
        &self,
        state: Option<DeliveryState>,
    ) -> Result<Vec<DeliveryEvent>, DeliveryRejection> {
        let order = self.step.clone().ok_or(DeliveryRejection::NotAStep)?;
        if state != Some(DeliveryState::Failed) {
            return Err(DeliveryRejection::NotFailed);
        }
        let retried = RetriedStep { order, tries: self.tries, body: self.body.clone() };
        Ok(vec![DeliveryEvent::StepRetried(retried)])
    }

    /// Number of attempts so far.
    #[must_use]
    pub const fn tries(&self) -> u32 {
        self.tries
    }

    /// The body that was sent, if an attempt was made.
    #[must_use]
    pub const fn body(&self) -> Option<&SentBody> {
        self.body.as_ref()
    }

    /// Occurrence and subscription for a reissue of this delivery (ruling 31).
    ///
    /// # Errors
    /// [`NotReissued`] says why the delivery cannot be reissued.
    pub const fn reissue(&self) -> Result<DeliveryOf, NotReissued> {
        match (self.of, self.state) {
            (None, _) => Err(NotReissued::NoHook),
            (Some(_), None | Some(DeliveryState::Pending)) => Err(NotReissued::Pending),
            (Some(of), Some(_)) => Ok(of),
        }
    }

    /// The order, if the delivery is a workflow step's.
    #[must_use]
    pub const fn step(&self) -> Option<&StepOrder> {
        self.step.as_ref()
    }

    /// Makes the event of an attempt whose answer came after the lease was taken over, or after the
    /// end (case E21). `None` if history has the answer already: an earlier call recorded the
    /// answer, and its own caller did not learn of it. The log cannot tell whether the outbox has
    /// the delivery, since an unrecorded delivery has no stream.
    #[must_use]
    pub fn record_late(
        &self,
        mut attempt: Attempt,
        outbox: OutboxPresence,
    ) -> Option<(LateEffect, DeliveryEvent)> {
        if self.answered.contains(&attempt.number) {
            return None;
        }
        let arrives = attempt.outcome == Outcome::Delivered;
        let late = if arrives && outbox == OutboxPresence::Queued {
            LateEffect::Arrived
        } else {
            LateEffect::Noted
        };
        attempt.late = Some(late);
        attempt.next_try_at = None;
        Some((late, DeliveryEvent::DeliveryAttempted(attempt)))
    }

    /// State of the delivery. `None` while the stream is empty.
    #[must_use]
    pub const fn state(&self) -> Option<DeliveryState> {
        self.state
    }

    /// Occurrence and subscription, unless the delivery is a workflow step's.
    #[must_use]
    pub const fn delivery_of(&self) -> Option<DeliveryOf> {
        self.of
    }

    /// The attempt that the delivery waits for. `None` if it has ended, and no replay sends it
    /// again. An attempt in flight is not in the log, so the delivery waits for it.
    #[must_use]
    pub fn next_attempt(&self) -> Option<NextAttempt> {
        match (self.state, self.replay) {
            (Some(DeliveryState::Pending), _) => Some(NextAttempt {
                due_at: self.due_at,
                tries_max: self.tries_max,
                replay_id: None,
            }),
            (Some(_), Some(PendingReplay { replay_id, number })) => {
                Some(NextAttempt { due_at: None, tries_max: number, replay_id: Some(replay_id) })
            }
            (_, None) | (None, Some(_)) => None,
        }
    }

    /// Sets occurrence and subscription from the first event that names them.
    fn begin_listed(&mut self, of: Option<DeliveryOf>) {
        if of.is_some() {
            self.state = Some(DeliveryState::Pending);
            self.of = of;
            self.tries_max = RetrySchedule::RestHook.tries();
        }
    }

    fn absorb(&mut self, event: &DeliveryEvent) {
        match event {
            DeliveryEvent::DeliveryQueued(consignment) => {
                self.begin_listed(Some(consignment.delivery_of()));
            }
            DeliveryEvent::DeliveryReissued(reissued) => {
                self.begin_listed(Some(reissued.consignment.delivery_of()));
            }
            DeliveryEvent::StepQueued(order) => {
                self.state = Some(DeliveryState::Pending);
                self.step = Some(order.clone());
                self.tries_max = RetrySchedule::WorkflowStep.tries();
            }
            DeliveryEvent::StepRetried(retried) => {
                self.state = Some(DeliveryState::Pending);
                self.tries_max = retried.tries + RetrySchedule::WorkflowStep.tries();
            }
            DeliveryEvent::DeliveryReplayed(replayed) => {
                let number = replayed.tries + RetrySchedule::Replay.tries();
                self.replay = Some(PendingReplay { replay_id: replayed.replay_id, number });
            }
            DeliveryEvent::DeliveryAttempted(attempt) => {
                self.begin_listed(attempt.of);
                self.tries = self.tries.max(attempt.number);
                self.state = attempt.state_after().or(self.state);
                if attempt.replay_id.is_some() {
                    self.replay.take_if(|order| Some(order.replay_id) == attempt.replay_id);
                } else if attempt.late.is_none() {
                    self.due_at = attempt.next_try_at;
                }
                if attempt.outcome != Outcome::Interrupted {
                    self.answered.insert(attempt.number);
                }
                self.body = attempt.body().or(self.body.take());
            }
            DeliveryEvent::DeliveryCancelled { of, .. } => {
                self.begin_listed(*of);
                self.state = Some(DeliveryState::Cancelled);
            }
        }
    }
}

#[cfg(test)]
mod tests;
