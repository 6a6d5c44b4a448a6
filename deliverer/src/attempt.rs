//! An attempt, from its claim to its answer. These types need no database.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::delivery::signature::WebhookSecret;
use domain::delivery::workflow::StepOrder;
use domain::delivery::{DeliveryOf, RetrySchedule};
use domain::event::{Actor, EventContext, Traceparent};
use domain::notice::SentNotice;
use domain::subscription::Trigger;
use domain::values::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;
use vault::step_headers::Headers;
use vault::{DataKey, KeySubject};

use crate::limits::SendReservation;
use crate::outgoing::OutgoingExchange;

/// Attempts of a claim that took longer are not sent. The connect limit would drop them unsent
/// (ruling 29, in flight at removal).
pub(crate) const SEND_WITHIN: Duration = Duration::from_secs(4);

/// An attempt without a connection this long after its claim is dropped unsent (ruling 29, in
/// flight at removal).
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// An attempt that was claimed and must be sent now. The type is not `Debug`, because the body
/// holds answers of people.
#[derive(Clone)]
pub struct ClaimedAttempt {
    /// The delivery.
    pub delivery_id: Uuid,
    /// The lane. A subscription's lane has the subscription's id.
    pub lane_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// The occurrence. For a workflow step the delivery's own id stands here.
    pub occurrence_id: Uuid,
    /// The trigger. `None` for a notice.
    pub trigger: Option<Trigger>,
    /// The response that the body is made of.
    pub subject: KeySubject,
    /// The data key of that response, until it is erased.
    pub key: Option<DataKey>,
    /// The last sequence of the delivery's stream at the claim.
    pub sequence: i64,
    /// Number of this attempt. The first one is 1.
    pub number: u32,
    /// Number of this attempt since the delivery was queued or retried. The first one is 1.
    pub nth: u32,
    /// The sender of the delivery.
    pub origin: DeliveryOrigin,
    /// The replay that sends the delivery again, if one does.
    pub replay_id: Option<Uuid>,
    /// The position of the attempt in a trace.
    pub traceparent: Option<Traceparent>,
    /// The fencing token.
    pub lease: i64,
    /// Time of the claim. Replaced by the start of the send once the attempt has its slot.
    pub started_at: Timestamp,
    /// Time of the claim, on this machine's steady clock.
    pub claimed_instant: Instant,
    /// The target URL.
    pub target: Arc<str>,
    /// The target's host, as the limits count it.
    pub host: String,
    /// The secret that signs the body.
    pub secret: Option<WebhookSecret>,
    /// The bytes to send. `None` if the body could not be built.
    pub body: Option<FrozenBody>,
    /// The reserved capacity, held until the attempt is answered.
    pub(crate) reservation: Option<Arc<SendReservation>>,
}

/// The sender of a delivery, and the parts of the request that depend on it.
#[derive(Clone)]
pub enum DeliveryOrigin {
    /// A subscription.
    Hook,
    /// A workflow's step.
    Step(Box<StepOrder>, Headers),
    /// The operator's URL, with the event of a notice that arrives.
    Notice(Box<SentNotice>),
}

impl ClaimedAttempt {
    /// The occurrence and the subscription. `None` for a workflow step.
    pub(crate) const fn delivery_of(&self) -> Option<DeliveryOf> {
        match self.origin {
            DeliveryOrigin::Hook => {
                Some(DeliveryOf { hook_id: self.lane_id, occurrence_id: self.occurrence_id })
            }
            DeliveryOrigin::Step(..) | DeliveryOrigin::Notice(_) => None,
        }
    }

    /// The notice that is sent, if it is none of a subscription or a workflow step.
    pub(crate) const fn notice(&self) -> Option<&SentNotice> {
        match &self.origin {
            DeliveryOrigin::Notice(sent) => Some(sent),
            DeliveryOrigin::Hook | DeliveryOrigin::Step(..) => None,
        }
    }

    /// The retries of this delivery (contract, section Retries; ruling 31, replays).
    #[must_use]
    pub const fn retry_schedule(&self) -> RetrySchedule {
        match (&self.origin, self.replay_id) {
            (_, Some(_)) => RetrySchedule::Replay,
            (DeliveryOrigin::Hook | DeliveryOrigin::Notice(_), None) => RetrySchedule::RestHook,
            (DeliveryOrigin::Step(..), None) => RetrySchedule::WorkflowStep,
        }
    }
}

/// The bytes of a delivery. Every attempt sends the same bytes.
#[derive(Clone)]
pub struct FrozenBody {
    /// The body's id in the vault.
    pub body_id: Uuid,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
    /// The bytes.
    pub bytes: Bytes,
}

/// An attempt that was sent.
#[derive(Clone)]
pub struct FinishedAttempt {
    /// The attempt.
    pub claimed: ClaimedAttempt,
    /// The answer of the receiver, or the reason why there is none.
    pub exchange: OutgoingExchange,
    /// End of the exchange.
    pub finished_at: Timestamp,
}

/// The context of an event that the deliverer itself causes.
pub(crate) const fn system_context(
    firm_id: Uuid,
    correlation_id: Uuid,
    now: Timestamp,
) -> EventContext {
    EventContext {
        firm_id,
        recorded_at: now,
        actor: Actor::System,
        correlation_id,
        causation_id: None,
        traceparent: None,
        terminal: None,
    }
}
