//! What history keeps of a delivery: where it stands, its tries, why it was taken back.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::subscription::RemovalReason;
use crate::time::Timestamp;
use crate::trigger::Trigger;
use crate::workflow::StepOrder;

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
    /// The firm was suspended for too long (ruling 28).
    FirmSuspended,
    /// What it would have told was erased.
    SourceErased,
    /// A partial submission that was finished before its first try.
    FinishedLater,
}

/// Occurrence and subscription of a delivery: the first event of its stream carries them. Fields are in
/// the order of their names here and below: the JSON is canonical as it is written (RFC 8785).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliveryOf {
    /// The subscription.
    pub hook_id: Uuid,
    /// The occurrence.
    pub occurrence_id: Uuid,
}

/// What is sent, to whom, where no occurrence's list says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consignment {
    /// The form it is about.
    pub form_id: Uuid,
    /// Who hears of it.
    pub hook_id: Uuid,
    /// What happened.
    pub occurrence_id: Uuid,
    /// The response it is about.
    pub response_id: Uuid,
    /// The trigger.
    pub trigger: Trigger,
}

impl Consignment {
    /// Its occurrence and subscription.
    #[must_use]
    pub const fn of(&self) -> DeliveryOf {
        DeliveryOf { hook_id: self.hook_id, occurrence_id: self.occurrence_id }
    }
}

/// A workflow step's delivery that begins anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetriedStep {
    /// What is sent, as before.
    pub order: StepOrder,
    /// The tries before.
    pub tries: u32,
    /// The bytes that are sent again; none if no try came so far.
    pub body: Option<SentBody>,
}

/// A delivery that had ended and is sent once more (ruling 31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayedDelivery {
    /// The replay it is part of.
    pub replay_id: Uuid,
    /// The tries before.
    pub tries: u32,
    /// The bytes that are sent again.
    pub body: SentBody,
}

/// A delivery made anew by hand from one that has ended: with a body that is read anew, under an id of
/// its own (ruling 31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReissuedDelivery {
    /// The delivery that had ended.
    pub reissue_of: Uuid,
    /// Chosen by whoever asked: asked again, nothing is made again.
    pub request_id: Uuid,
    /// Why.
    pub reason: String,
    /// What is sent, to whom, as before.
    pub consignment: Consignment,
    /// The report it is about, if it is about one.
    pub report_id: Option<Uuid>,
    /// The booking it is about, if it is about one.
    pub booking_id: Option<Uuid>,
}

/// Why a delivery is not made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReissued {
    /// It is a workflow step's: the workflow tries it anew.
    #[error("only a subscription's delivery can be reissued")]
    NoHook,
    /// It has not ended: it is sent anyway.
    #[error("this delivery has not ended")]
    Pending,
    /// Its subscription was removed.
    #[error("the subscription of this delivery was removed")]
    HookRemoved,
    /// What it told of was erased.
    #[error("what this delivery told of was erased")]
    SourceErased,
}

/// Bytes that were frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentBody {
    /// Their id in the vault.
    pub id: Uuid,
    /// SHA-256 of them, lower-case hex.
    pub sha256: String,
}

/// One request of a try; more than one when it was redirected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// The address that was dialled.
    pub address: Option<String>,
    /// What came back.
    pub status: Option<u16>,
    /// Scheme, host and port of the place a redirect led to. Its path is left out: a receiver chose it,
    /// it may name people, and history is for good. `None` for the first hop, which goes to the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// One try, as history keeps it. What the receiver said is only a digest here: it is foreign text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// SHA-256 of the kept piece of the answer, lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_sha256: Option<String>,
    /// The stored body that was sent; none when a try ended before its body was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_id: Option<Uuid>,
    /// SHA-256 of the bytes that were sent, lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_sha256: Option<String>,
    /// Why the delivery was taken back while the try was under way, if it was and did not arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<CancelCause>,
    /// A stable word for what went wrong, when it was not a status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When its answer was in.
    pub finished_at: Timestamp,
    /// Every request of the try in order, the first one too.
    pub hops: Vec<Hop>,
    /// Set when its answer came after its lease was taken over, or after the delivery's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateEffect>,
    /// When the next try is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Timestamp>,
    /// 1 for the first try.
    pub number: u32,
    /// Occurrence and subscription, if this is the first event of an occurrence's delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<DeliveryOf>,
    /// What it came to.
    pub outcome: Outcome,
    /// The replay it is part of: then a success counts, and nothing else does (ruling 31).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_id: Option<Uuid>,
    /// What the receiver asked for, as it counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// The status, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// What an answer that came too late still does (case E21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateEffect {
    /// It is a success, and the delivery was pending: it is delivered.
    Arrived,
    /// It is kept in history, and changes nothing.
    Noted,
}

impl Attempt {
    /// The history of a try that nobody recorded; not due again unless it is said when.
    #[must_use]
    pub fn interrupted(number: u32, started_at: Timestamp, finished_at: Timestamp) -> Self {
        Self {
            number,
            started_at,
            finished_at,
            outcome: Outcome::Interrupted,
            status: None,
            error: Some(Outcome::Interrupted.name().to_owned()),
            retry_after_seconds: None,
            next_try_at: None,
            hops: Vec::new(),
            body_id: None,
            body_sha256: None,
            answer_sha256: None,
            cancelled: None,
            late: None,
            of: None,
            replay_id: None,
        }
    }

    /// The bytes it sent, if they were built.
    #[must_use]
    pub fn body(&self) -> Option<SentBody> {
        Some(SentBody { id: self.body_id?, sha256: self.body_sha256.clone()? })
    }

    /// Where its delivery stands after it; none if it changes nothing.
    #[must_use]
    pub const fn state_after(&self) -> Option<DeliveryState> {
        Some(match self.outcome {
            _ if matches!(self.late, Some(LateEffect::Noted)) => return None,
            Outcome::Delivered if self.replay_id.is_some() => DeliveryState::Delivered,
            _ if self.replay_id.is_some() => return None,
            _ if self.cancelled.is_some() => DeliveryState::Cancelled,
            Outcome::Delivered => DeliveryState::Delivered,
            Outcome::Failed => DeliveryState::Failed,
            Outcome::Retry => DeliveryState::Pending,
            // Cut off at its last try: nothing is due any more (ruling 23).
            Outcome::Interrupted if self.next_try_at.is_none() => DeliveryState::Failed,
            Outcome::Interrupted => DeliveryState::Pending,
        })
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

impl std::str::FromStr for DeliveryState {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        let all = [Self::Pending, Self::Delivered, Self::Failed, Self::Cancelled];
        all.into_iter().find(|state| state.name() == text).ok_or(UnknownState)
    }
}

/// Not where a delivery can stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a state of a delivery: pending, delivered, failed or cancelled")]
pub struct UnknownState;

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
        let all = [
            Self::SubscriptionDeleted,
            Self::KeyRevoked,
            Self::TargetGone,
            Self::FirmClosed,
            Self::FirmSuspended,
            Self::SourceErased,
            Self::FinishedLater,
        ];
        all.into_iter().find(|cause| cause.name() == text).ok_or(UnknownCause)
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
            Self::FirmSuspended => "firm_suspended",
            Self::SourceErased => "source_erased",
            Self::FinishedLater => "finished_later",
        }
    }
}
