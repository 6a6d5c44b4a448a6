//! One delivery: an occurrence on its way to a subscription, through its tries, to one end
//! (contract, sections Retries and Delivery guarantees; rulings 21–27).
//!
//! ```text
//!            ┌────────── retry, interrupted ──────────┐
//!            ▼                                        │
//! listed → pending ── try ──┬─ 2xx ─────────→ delivered
//!            │              ├─ final answer, last try → failed
//!            └── cause ─────┴────────────────→ cancelled
//! ```
//!
//! An occurrence lists the subscriptions that get it: a delivery is pending from there on, and its own
//! stream begins with its first try, interruption or cancellation. Only workflow steps, reissues and
//! repairs begin with an event that queues them.

mod history;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::{AnswerVerdict, AttemptAnswer};
use crate::event::{aggregate, domain_event};
use crate::retry::RetrySchedule;
use crate::workflow::StepOrder;

pub use history::{
    Attempt, CancelCause, Consignment, DeliveryOf, DeliveryState, Hop, LateEffect, NotReissued,
    Outcome, ReissuedDelivery, ReplayedDelivery, RetriedStep, SentBody, UnknownCause,
};

/// How long a claimed try belongs to the process that claimed it (contract: a server that stops
/// mid-send causes a resend after 2 minutes; ruling 23).
pub const LEASE_TIME: Duration = Duration::from_secs(120);

/// How long a suspended firm's queue waits for it; then it is cancelled (ruling 28).
pub const SUSPENDED_WAIT_MAX: Duration = Duration::from_secs(72 * 60 * 60);

/// One stream per delivery.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    state: Option<DeliveryState>,
    tries: u32,
    /// The tries whose answers are in history.
    answered: BTreeSet<u32>,
    step: Option<StepOrder>,
    /// Its occurrence and subscription, if it is an occurrence's.
    of: Option<DeliveryOf>,
    body: Option<SentBody>,
}

/// What can be asked of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryCommand {
    /// Queue one that its occurrence's list lacks.
    Queue(Consignment),
    /// Queue a workflow step's.
    QueueStep(StepOrder),
    /// Queue one that is made anew from another.
    Reissue(ReissuedDelivery),
    /// Try a workflow step's anew.
    RetryStep,
    /// Record a try.
    Record {
        /// The try.
        attempt: Attempt,
        /// Why the delivery was taken back while the try was under way, if it was.
        withdrawn: Option<CancelCause>,
    },
    /// Take it back.
    Cancel {
        /// Why.
        cause: CancelCause,
        /// Occurrence and subscription, if nothing is recorded of it yet.
        of: Option<DeliveryOf>,
    },
}

/// What happened to a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum DeliveryEvent {
    /// A repair queued it: its occurrence's list lacked its subscription.
    DeliveryQueued(Consignment),
    /// A workflow step's was queued.
    StepQueued(StepOrder),
    /// A workflow step's that had failed is tried anew.
    StepRetried(RetriedStep),
    /// It was made anew from one that had ended.
    DeliveryReissued(ReissuedDelivery),
    /// It had ended, and is sent once more.
    DeliveryReplayed(ReplayedDelivery),
    /// A try was made.
    DeliveryAttempted(Attempt),
    /// It was taken back.
    DeliveryCancelled {
        /// Why.
        cause: CancelCause,
        /// Occurrence and subscription, if this is the first event of an occurrence's delivery.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<DeliveryOf>,
    },
}

domain_event!(DeliveryEvent {
    DeliveryQueued,
    StepQueued,
    StepRetried,
    DeliveryReissued,
    DeliveryReplayed,
    DeliveryAttempted,
    DeliveryCancelled,
});
aggregate!(Delivery, DeliveryCommand, DeliveryEvent, DeliveryRejection);

impl DeliveryEvent {
    /// Whether it begins a stream by queueing the delivery.
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
    /// Not queued, or at its end.
    #[error("the delivery is not pending")]
    NotPending,
    /// A try with this number is recorded, or one before it is not.
    #[error("the try is out of order")]
    OutOfOrder,
    /// Not a workflow step's.
    #[error("the delivery is not of a workflow step")]
    NotAStep,
    /// Not failed: under way, delivered or cancelled.
    #[error("only a failed step is tried anew")]
    NotFailed,
}

/// What a try's answer leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptConclusion {
    /// What it came to.
    pub outcome: Outcome,
    /// How long to wait for the next try; only for a retry.
    pub wait: Option<Duration>,
}

/// Decides what a try came to: delivered, tried again after a wait, or failed.
///
/// `number` counts tries from 1; `jitter` lies in −1..=1 and only workflow steps use it.
#[must_use]
pub fn conclude(
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

/// What a recorded try leads to. One that was under way when its subscription was removed is
/// delivered if it arrived, and cancelled otherwise; it is never tried again (ruling 29). One event
/// says both: it is at no moment failed.
#[must_use]
pub fn record(mut attempt: Attempt, withdrawn: Option<CancelCause>) -> DeliveryEvent {
    attempt.cancelled = withdrawn.filter(|_| attempt.outcome != Outcome::Delivered);
    if attempt.cancelled.is_some() {
        attempt.next_try_at = None;
    }
    DeliveryEvent::DeliveryAttempted(attempt)
}

/// Whether a delivery waits for a try: nothing is recorded of it yet and its first event says what it is
/// of, or it is pending.
const fn awaits_a_try(state: Option<DeliveryState>, of: Option<DeliveryOf>) -> bool {
    match state {
        None => of.is_some(),
        Some(state) => matches!(state, DeliveryState::Pending),
    }
}

impl Delivery {
    /// Decides what a command leads to.
    ///
    /// # Errors
    /// [`DeliveryRejection`] says why nothing happens.
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
            (DeliveryCommand::RetryStep, state) => self.retried(state),
            (DeliveryCommand::Record { attempt, withdrawn }, state)
                if awaits_a_try(state, attempt.of) =>
            {
                if attempt.number != self.tries + 1 {
                    return Err(DeliveryRejection::OutOfOrder);
                }
                Ok(vec![record(attempt.clone(), *withdrawn)])
            }
            (DeliveryCommand::Cancel { cause, of }, state) if awaits_a_try(state, *of) => {
                Ok(vec![DeliveryEvent::DeliveryCancelled { cause: *cause, of: *of }])
            }
            (DeliveryCommand::Record { .. } | DeliveryCommand::Cancel { .. }, _) => {
                Err(DeliveryRejection::NotPending)
            }
        }
    }

    /// A failed step has five new tries under the same ids, with the same bytes (ruling 33).
    fn retried(
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

    /// The tries so far.
    #[must_use]
    pub const fn tries(&self) -> u32 {
        self.tries
    }

    /// The bytes it sent, if a try came so far.
    #[must_use]
    pub const fn body(&self) -> Option<&SentBody> {
        self.body.as_ref()
    }

    /// What it sends again when it is made anew, if that can be (ruling 31).
    ///
    /// # Errors
    /// [`NotReissued`] says why not.
    pub const fn reissue(&self) -> Result<DeliveryOf, NotReissued> {
        match (self.of, self.state) {
            (None, _) => Err(NotReissued::NoHook),
            (Some(_), None | Some(DeliveryState::Pending)) => Err(NotReissued::Pending),
            (Some(of), Some(_)) => Ok(of),
        }
    }

    /// What it sends, if it is a workflow step's.
    #[must_use]
    pub const fn step(&self) -> Option<&StepOrder> {
        self.step.as_ref()
    }

    /// What the answer of a try leads to that came after its lease was taken over, or after the end
    /// (case E21); nothing if history has it already: whoever recorded it did not hear so. `is_queued`
    /// says whether the outbox still has the delivery for its own tries: the log alone cannot tell, since
    /// a delivery that was never recorded has no stream.
    #[must_use]
    pub fn record_late(
        &self,
        mut attempt: Attempt,
        is_queued: bool,
    ) -> Option<(LateEffect, DeliveryEvent)> {
        if self.answered.contains(&attempt.number) {
            return None;
        }
        let arrives = attempt.outcome == Outcome::Delivered;
        let late = if arrives && is_queued { LateEffect::Arrived } else { LateEffect::Noted };
        attempt.late = Some(late);
        attempt.next_try_at = None;
        Some((late, DeliveryEvent::DeliveryAttempted(attempt)))
    }

    /// Where it stands; nothing while its stream is empty.
    #[must_use]
    pub const fn state(&self) -> Option<DeliveryState> {
        self.state
    }

    /// Its first event says what it is of; each later one keeps that.
    fn begin(&mut self, of: Option<DeliveryOf>) {
        if of.is_some() {
            self.state = Some(DeliveryState::Pending);
            self.of = of;
        }
    }

    fn absorb(&mut self, event: &DeliveryEvent) {
        match event {
            DeliveryEvent::DeliveryQueued(consignment) => self.begin(Some(consignment.of())),
            DeliveryEvent::DeliveryReissued(reissued) => {
                self.begin(Some(reissued.consignment.of()));
            }
            DeliveryEvent::StepQueued(order) => {
                self.state = Some(DeliveryState::Pending);
                self.step = Some(order.clone());
            }
            DeliveryEvent::StepRetried(_) => self.state = Some(DeliveryState::Pending),
            DeliveryEvent::DeliveryReplayed(_) => {}
            DeliveryEvent::DeliveryAttempted(attempt) => {
                self.begin(attempt.of);
                self.tries = self.tries.max(attempt.number);
                self.state = attempt.state_after().or(self.state);
                if attempt.outcome != Outcome::Interrupted {
                    self.answered.insert(attempt.number);
                }
                self.body = attempt.body().or(self.body.take());
            }
            DeliveryEvent::DeliveryCancelled { of, .. } => {
                self.begin(*of);
                self.state = Some(DeliveryState::Cancelled);
            }
        }
    }
}

#[cfg(test)]
mod tests;
