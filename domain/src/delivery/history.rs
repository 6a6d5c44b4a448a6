//! Shapes that history keeps of a delivery: state, attempts and the cause of a cancellation.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::workflow::StepOrder;
use crate::subscription::{RemovalReason, Trigger};
use crate::values::Timestamp;

/// State of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// The delivery waits for an attempt, or an attempt is under way.
    Pending,
    /// The receiver answered 2xx.
    Delivered,
    /// The receiver refused for good, or the attempts are used up.
    Failed,
    /// The delivery was cancelled before it arrived.
    Cancelled,
}

/// Outcome of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The receiver answered 2xx in time.
    Delivered,
    /// The delivery is retried.
    Retry,
    /// The delivery failed, by a final answer or with its last attempt.
    Failed,
    /// The attempt ended before its answer was recorded. The attempt counts (ruling 23).
    Interrupted,
}

/// Why a delivery was cancelled (ruling 27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelCause {
    /// The subscription was deleted with its key.
    SubscriptionDeleted,
    /// The subscription's key was revoked.
    KeyRevoked,
    /// The target was gone.
    TargetGone,
    /// The firm was closed.
    FirmClosed,
    /// The firm was suspended for more than 72 hours (ruling 28).
    FirmSuspended,
    /// The response of the occurrence was erased.
    SourceErased,
    /// The response of a partial submission was submitted before the first attempt.
    FinishedLater,
}

/// Occurrence and subscription of a delivery, in the first event of its stream. Here and below the
/// fields are in alphabetical order, so that the JSON is written in canonical form (RFC 8785).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliveryOf {
    /// The subscription.
    pub hook_id: Uuid,
    /// The occurrence.
    pub occurrence_id: Uuid,
}

/// Content and recipient of a delivery that is on no occurrence's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consignment {
    /// The form of the occurrence.
    pub form_id: Uuid,
    /// The subscription.
    pub hook_id: Uuid,
    /// The occurrence.
    pub occurrence_id: Uuid,
    /// The response of the occurrence.
    pub response_id: Uuid,
    /// The trigger.
    pub trigger: Trigger,
}

impl Consignment {
    /// The consignment's occurrence and subscription.
    #[must_use]
    pub const fn delivery_of(&self) -> DeliveryOf {
        DeliveryOf { hook_id: self.hook_id, occurrence_id: self.occurrence_id }
    }
}

/// A workflow step's delivery that begins its schedule again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetriedStep {
    /// The order, unchanged.
    pub order: StepOrder,
    /// Number of earlier attempts.
    pub tries: u32,
    /// The bytes to send again. `None` if no attempt was made yet.
    pub body: Option<SentBody>,
}

/// An ended delivery that is sent once more (ruling 31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayedDelivery {
    /// The replay.
    pub replay_id: Uuid,
    /// Number of earlier attempts.
    pub tries: u32,
    /// The bytes to send again.
    pub body: SentBody,
}

/// A delivery that an operator reissued from an ended one. Its body is read anew and its id is new
/// (ruling 31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReissuedDelivery {
    /// The ended delivery.
    pub reissue_of: Uuid,
    /// Id of the request, chosen by the caller. A repeated request makes no second delivery.
    pub request_id: Uuid,
    /// The operator's reason.
    pub reason: String,
    /// Content and recipient, unchanged.
    pub consignment: Consignment,
    /// The report of the occurrence, if any.
    pub report_id: Option<Uuid>,
    /// The booking of the occurrence, if any.
    pub booking_id: Option<Uuid>,
}

/// Why a delivery is not reissued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReissued {
    /// The delivery is a workflow step's, and the workflow retries it.
    #[error("only a subscription's delivery can be reissued")]
    NoHook,
    /// The delivery has not ended, so it is sent anyway.
    #[error("this delivery has not ended")]
    Pending,
    /// The delivery's subscription was removed.
    #[error("the subscription of this delivery was removed")]
    HookRemoved,
    /// The response of the occurrence was erased.
    #[error("what this delivery told of was erased")]
    SourceErased,
}

/// A frozen body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentBody {
    /// Id of the body in the vault.
    pub id: Uuid,
    /// SHA-256 of the body, lower-case hex.
    pub sha256: String,
}

/// One request of an attempt. A redirected attempt has several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// The address that was dialled.
    pub address: Option<String>,
    /// The status of the answer.
    pub status: Option<u16>,
    /// Scheme, host and port that a redirect led to. The path is left out, because the receiver
    /// chose it, it may name people, and history is permanent. `None` for the first hop, which goes
    /// to the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// One attempt, as history keeps it. The receiver's answer is foreign text, so only its digest is
/// here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// SHA-256 of the kept part of the answer, lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_sha256: Option<String>,
    /// The frozen body that was sent. `None` if the attempt ended before its body was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_id: Option<Uuid>,
    /// SHA-256 of the sent bytes, lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_sha256: Option<String>,
    /// Why the delivery was cancelled during the attempt. `None` if the attempt arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<CancelCause>,
    /// A stable word for the fault, if the answer was no status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time at which the answer was complete.
    pub finished_at: Timestamp,
    /// All requests of the attempt in order, from the first.
    pub hops: Vec<Hop>,
    /// Set if the answer came after the lease was taken over, or after the delivery's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateEffect>,
    /// Due time of the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Timestamp>,
    /// Number of the attempt, from 1.
    pub number: u32,
    /// Occurrence and subscription, in the first event of a listed delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<DeliveryOf>,
    /// Outcome of the attempt.
    pub outcome: Outcome,
    /// The replay of the attempt. Then only a success changes the delivery (ruling 31).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_id: Option<Uuid>,
    /// The wait that the receiver asked for, as far as it was honoured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// Time of the claim.
    pub started_at: Timestamp,
    /// The status of the answer, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// Effect of an answer that came too late (case E21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateEffect {
    /// The late answer is a success and the delivery was pending, so it is delivered.
    Arrived,
    /// History keeps the late answer, and nothing changes.
    Noted,
}

impl Attempt {
    /// An attempt whose answer was not recorded. The caller sets `next_try_at` if a retry follows.
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

    /// The body that was sent, if it was built.
    #[must_use]
    pub fn body(&self) -> Option<SentBody> {
        Some(SentBody { id: self.body_id?, sha256: self.body_sha256.clone()? })
    }

    /// State of the delivery after the attempt. `None` if the attempt changes nothing.
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
            // The last attempt was interrupted, so no attempt is due any more (ruling 23).
            Outcome::Interrupted if self.next_try_at.is_none() => DeliveryState::Failed,
            Outcome::Interrupted => DeliveryState::Pending,
        })
    }
}

impl DeliveryState {
    /// The state's word in the API.
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

/// The text is no state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a state of a delivery: pending, delivered, failed or cancelled")]
pub struct UnknownState;

impl Outcome {
    /// The outcome's word in the API.
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

/// The text is no cause of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a cause of a cancellation")]
pub struct UnknownCause;

impl CancelCause {
    /// The cause's word in the API.
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
