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

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::answer::{Answer, Verdict};
use crate::event::{aggregate, domain_event};
use crate::retry::Schedule;
use crate::subscription::RemovalReason;
use crate::time::Timestamp;
use crate::trigger::Trigger;

/// How long a claimed try belongs to the process that claimed it (contract: a server that stops
/// mid-send causes a resend after 2 minutes; ruling 23).
pub const LEASE: Duration = Duration::from_secs(120);

/// One stream per delivery.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    state: Option<DeliveryState>,
    tries: u32,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Waits for a try, or is in one.
    Pending,
    /// Answered 2xx.
    Delivered,
    /// Answered for good, or out of tries.
    Failed,
    /// Taken back before it arrived.
    Cancelled,
}

/// What one try came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// 2xx in time.
    Delivered,
    /// To be tried again.
    Retry,
    /// The end: a final answer, or no tries left.
    Failed,
    /// Cut off before its answer was recorded; it counts (ruling 23).
    Interrupted,
}

/// Why a delivery was taken back (ruling 27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelCause {
    /// Its subscription was deleted with its key.
    SubscriptionDeleted,
    /// The key of its subscription was revoked.
    KeyRevoked,
    /// Its target was gone.
    TargetGone,
    /// The firm was closed.
    FirmClosed,
}

/// What is sent, to whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consignment {
    /// What happened.
    pub occurrence_id: Uuid,
    /// Who hears of it.
    pub hook_id: Uuid,
    /// The trigger.
    pub trigger: Trigger,
    /// The form it is about.
    pub form_id: Uuid,
    /// The response it is about.
    pub response_id: Uuid,
}

/// One request of a try; more than one when it was redirected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// Where it went, the query masked.
    pub url: String,
    /// The address that was dialled.
    pub address: Option<String>,
    /// What came back.
    pub status: Option<u16>,
}

/// One try, as history keeps it. What the receiver said is only a digest here: it is foreign text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// 1 for the first try.
    pub number: u32,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// When its answer was in.
    pub finished_at: Timestamp,
    /// What it came to.
    pub outcome: Outcome,
    /// The status, when there was one.
    pub status: Option<u16>,
    /// A stable word for what went wrong, when it was not a status.
    pub error: Option<String>,
    /// What the receiver asked for, as it counted.
    pub retry_after_seconds: Option<u64>,
    /// When the next try is due.
    pub next_try_at: Option<Timestamp>,
    /// Every request of the try in order, the first one too.
    pub hops: Vec<Hop>,
    /// The stored body that was sent; none when a try ended before its body was built.
    pub body_id: Option<Uuid>,
    /// SHA-256 of the bytes that were sent, lower-case hex.
    pub body_sha256: Option<String>,
    /// SHA-256 of the kept piece of the answer, lower-case hex.
    pub answer_sha256: Option<String>,
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

domain_event!(DeliveryEvent {
    DeliveryQueued,
    DeliveryAttempted,
    DeliveryCancelled
});
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
    let ended = |outcome| Conclusion {
        outcome,
        wait: None,
    };
    match answer.verdict() {
        Verdict::Delivered => ended(Outcome::Delivered),
        Verdict::Failed => ended(Outcome::Failed),
        Verdict::Retry => match schedule.wait_after(number, retry_after, jitter) {
            Some(wait) => Conclusion {
                outcome: Outcome::Retry,
                wait: Some(wait),
            },
            None => ended(Outcome::Failed),
        },
    }
}

/// What a recorded try leads to. One that was under way when its subscription was removed is
/// delivered if it arrived, and cancelled otherwise; it is never tried again (ruling 29).
#[must_use]
pub fn record(mut attempt: Attempt, withdrawn: Option<CancelCause>) -> Vec<DeliveryEvent> {
    let cause = withdrawn.filter(|_| attempt.outcome != Outcome::Delivered);
    if cause.is_some() {
        attempt.next_try_at = None;
    }
    let cancelled = cause.map(|cause| DeliveryEvent::DeliveryCancelled { cause });
    std::iter::once(DeliveryEvent::DeliveryAttempted(attempt))
        .chain(cancelled)
        .collect()
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
                Ok(record(attempt.clone(), *withdrawn))
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

impl Attempt {
    /// Where its delivery stands after it.
    #[must_use]
    pub const fn state_after(&self) -> DeliveryState {
        match self.outcome {
            Outcome::Delivered => DeliveryState::Delivered,
            Outcome::Failed => DeliveryState::Failed,
            Outcome::Retry => DeliveryState::Pending,
            // Cut off at its last try: nothing is due any more (ruling 23).
            Outcome::Interrupted if self.next_try_at.is_none() => DeliveryState::Failed,
            Outcome::Interrupted => DeliveryState::Pending,
        }
    }
}

impl DeliveryState {
    /// The word in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Outcome {
    /// The word in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retry => "retry",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<RemovalReason> for CancelCause {
    fn from(reason: RemovalReason) -> Self {
        match reason {
            RemovalReason::DeletedByKey => Self::SubscriptionDeleted,
            RemovalReason::KeyRevoked => Self::KeyRevoked,
            RemovalReason::TargetGone => Self::TargetGone,
            RemovalReason::FirmClosed => Self::FirmClosed,
        }
    }
}

impl std::str::FromStr for CancelCause {
    type Err = UnknownCause;

    fn from_str(text: &str) -> Result<Self, UnknownCause> {
        [
            Self::SubscriptionDeleted,
            Self::KeyRevoked,
            Self::TargetGone,
            Self::FirmClosed,
        ]
        .into_iter()
        .find(|cause| cause.name() == text)
        .ok_or(UnknownCause)
    }
}

/// Not a cause of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a cause of a cancellation")]
pub struct UnknownCause;

impl CancelCause {
    /// The word in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SubscriptionDeleted => "subscription_deleted",
            Self::KeyRevoked => "key_revoked",
            Self::TargetGone => "target_gone",
            Self::FirmClosed => "firm_closed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::{AggregateTestExecutor, TestFramework};

    fn queue() -> DeliveryCommand {
        DeliveryCommand::Queue(Consignment {
            occurrence_id: Uuid::from_u128(1),
            hook_id: Uuid::from_u128(2),
            trigger: Trigger::FormSubmitted,
            form_id: Uuid::from_u128(3),
            response_id: Uuid::from_u128(4),
        })
    }

    fn queued() -> DeliveryEvent {
        Delivery::default().decide(&queue()).unwrap().remove(0)
    }

    fn attempt(number: u32, outcome: Outcome) -> Attempt {
        let at: Timestamp = "2026-11-01T00:00:00.000Z".parse().unwrap();
        Attempt {
            number,
            started_at: at,
            finished_at: at,
            outcome,
            status: None,
            error: None,
            retry_after_seconds: None,
            next_try_at: (outcome == Outcome::Retry).then_some(at),
            hops: vec![],
            body_id: None,
            body_sha256: None,
            answer_sha256: None,
        }
    }

    fn try_of(attempt: Attempt) -> DeliveryCommand {
        DeliveryCommand::Record {
            attempt,
            withdrawn: None,
        }
    }

    fn attempted(number: u32, outcome: Outcome) -> DeliveryEvent {
        DeliveryEvent::DeliveryAttempted(attempt(number, outcome))
    }

    fn given(events: Vec<DeliveryEvent>) -> AggregateTestExecutor<Delivery> {
        TestFramework::with(()).given(events)
    }

    #[test]
    fn it_is_queued_once() {
        given(vec![])
            .when(queue())
            .then_expect_events(vec![queued()]);
        given(vec![queued()])
            .when(queue())
            .then_expect_events(vec![]);
    }

    #[test]
    fn tries_are_recorded_in_order_until_it_ends() {
        given(vec![queued()])
            .when(try_of(attempt(1, Outcome::Retry)))
            .then_expect_events(vec![attempted(1, Outcome::Retry)]);
        for number in [1, 3] {
            given(vec![queued(), attempted(1, Outcome::Retry)])
                .when(try_of(attempt(number, Outcome::Delivered)))
                .then_expect_error(DeliveryRejection::OutOfOrder);
        }
        for end in [Outcome::Delivered, Outcome::Failed, Outcome::Interrupted] {
            given(vec![queued(), attempted(1, end)])
                .when(try_of(attempt(2, Outcome::Delivered)))
                .then_expect_error(DeliveryRejection::NotPending);
        }
    }

    #[test]
    fn a_try_under_way_at_the_removal_arrives_or_is_cancelled() {
        let after = |outcome| {
            let withdrawn = Some(CancelCause::SubscriptionDeleted);
            let mut delivery = Delivery::default();
            delivery.absorb(&queued());
            let command = DeliveryCommand::Record {
                attempt: attempt(1, outcome),
                withdrawn,
            };
            for event in delivery.decide(&command).unwrap() {
                delivery.absorb(&event);
            }
            delivery.state()
        };
        assert_eq!(after(Outcome::Delivered), Some(DeliveryState::Delivered));
        for outcome in [Outcome::Retry, Outcome::Failed, Outcome::Interrupted] {
            assert_eq!(
                after(outcome),
                Some(DeliveryState::Cancelled),
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn only_a_pending_one_is_cancelled() {
        let cancel = DeliveryCommand::Cancel {
            cause: CancelCause::KeyRevoked,
        };
        let cancelled = DeliveryEvent::DeliveryCancelled {
            cause: CancelCause::KeyRevoked,
        };
        given(vec![queued()])
            .when(cancel.clone())
            .then_expect_events(vec![cancelled.clone()]);
        for end in [
            attempted(1, Outcome::Delivered),
            attempted(1, Outcome::Failed),
            cancelled,
        ] {
            given(vec![queued(), end])
                .when(cancel.clone())
                .then_expect_error(DeliveryRejection::NotPending);
        }
        given(vec![])
            .when(cancel)
            .then_expect_error(DeliveryRejection::NotPending);
    }

    #[test]
    fn d7_the_eighth_failure_is_the_end() {
        let busy = Answer::Status(503);
        let waits: Vec<_> = (1..=8)
            .map(|number| conclude(Schedule::RestHook, number, &busy, None, 0.0))
            .map(|end| (end.outcome, end.wait.map(|wait| wait.as_secs() / 60)))
            .collect();
        let retry = |minutes| (Outcome::Retry, Some(minutes));
        assert_eq!(waits[..7], [1, 2, 4, 8, 16, 32, 60].map(retry));
        assert_eq!(waits[7], (Outcome::Failed, None));
    }

    #[test]
    fn d6_a_2xx_and_a_final_answer_end_it_at_once() {
        let outcome =
            |status| conclude(Schedule::RestHook, 1, &Answer::Status(status), None, 0.0).outcome;
        assert_eq!(outcome(204), Outcome::Delivered);
        assert_eq!(outcome(404), Outcome::Failed);
        assert_eq!(outcome(410), Outcome::Failed);
    }
}
