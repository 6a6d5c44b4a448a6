//! One delivery: an occurrence on its way to a subscription, through its tries, to one end
//! (contract, sections Retries and Delivery guarantees; rulings 21–27).
//!
//! ```text
//!            ┌────────── retry, interrupted ──────────┐
//!            ▼                                        │
//! queued → pending ── try ──┬─ 2xx ─────────→ delivered
//!            │              ├─ final answer, last try → failed
//!            └── cause ─────┴────────────────→ cancelled
//! ```

mod history;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Verdict};
use crate::event::{aggregate, domain_event};
use crate::retry::Schedule;

pub use history::{Attempt, CancelCause, Consignment, DeliveryState, Hop, Outcome, UnknownCause};

/// How long a claimed try belongs to the process that claimed it (contract: a server that stops
/// mid-send causes a resend after 2 minutes; ruling 23).
pub const LEASE: Duration = Duration::from_secs(120);

/// One stream per delivery.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    state: Option<DeliveryState>,
    tries: u32,
}

/// What can be asked of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryCommand {
    /// Queue it.
    Queue(Consignment),
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
    },
}

/// What happened to a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum DeliveryEvent {
    /// It was queued; that this is the first event of its stream makes it once per subscription.
    DeliveryQueued(Consignment),
    /// A try was made.
    DeliveryAttempted(Attempt),
    /// It was taken back.
    DeliveryCancelled {
        /// Why.
        cause: CancelCause,
    },
}

domain_event!(DeliveryEvent { DeliveryQueued, DeliveryAttempted, DeliveryCancelled });
aggregate!(Delivery, DeliveryCommand, DeliveryEvent, DeliveryRejection);

/// Why a command on a delivery was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryRejection {
    /// Not queued, or at its end.
    #[error("the delivery is not pending")]
    NotPending,
    /// A try with this number is recorded, or one before it is not.
    #[error("the try is out of order")]
    OutOfOrder,
}

/// What a try's answer leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conclusion {
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
    schedule: Schedule,
    number: u32,
    answer: &Answer,
    retry_after: Option<Duration>,
    jitter: f64,
) -> Conclusion {
    let ended = |outcome| Conclusion { outcome, wait: None };
    match answer.verdict() {
        Verdict::Delivered => ended(Outcome::Delivered),
        Verdict::Failed => ended(Outcome::Failed),
        Verdict::Retry => match schedule.wait_after(number, retry_after, jitter) {
            Some(wait) => Conclusion { outcome: Outcome::Retry, wait: Some(wait) },
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
            (DeliveryCommand::Queue(_), Some(_)) => Ok(Vec::new()),
            (DeliveryCommand::Record { attempt, withdrawn }, Some(DeliveryState::Pending)) => {
                if attempt.number != self.tries + 1 {
                    return Err(DeliveryRejection::OutOfOrder);
                }
                Ok(vec![record(attempt.clone(), *withdrawn)])
            }
            (DeliveryCommand::Cancel { cause }, Some(DeliveryState::Pending)) => {
                Ok(vec![DeliveryEvent::DeliveryCancelled { cause: *cause }])
            }
            (DeliveryCommand::Record { .. } | DeliveryCommand::Cancel { .. }, _) => {
                Err(DeliveryRejection::NotPending)
            }
        }
    }

    /// Where it stands; nothing before it is queued.
    #[must_use]
    pub const fn state(&self) -> Option<DeliveryState> {
        self.state
    }

    fn absorb(&mut self, event: &DeliveryEvent) {
        match event {
            DeliveryEvent::DeliveryQueued(_) => self.state = Some(DeliveryState::Pending),
            DeliveryEvent::DeliveryAttempted(attempt) => {
                self.tries = attempt.number;
                self.state = Some(attempt.state_after());
            }
            DeliveryEvent::DeliveryCancelled { .. } => self.state = Some(DeliveryState::Cancelled),
        }
    }
}

#[cfg(test)]
mod tests;
