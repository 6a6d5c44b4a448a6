//! Claim: takes what is due under a lease, numbers the try, and freezes the bodies of first tries,
//! in one durable commit before anything is sent (rulings 21 and 23).

mod taken;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use domain::context::{Actor, EventContext};
use domain::delivery::{CancelCause, DeliveryOf};
use domain::retry::RetrySchedule;
use domain::signature::WebhookSecret;
use domain::time::Timestamp;
use domain::trace::Traceparent;
use domain::trigger::Trigger;
use domain::workflow::StepOrder;
use projector::replays;
use sqlx::PgConnection;
use telemetry::metrics::CLAIM_SECONDS;
use tokio::time::Instant;
use uuid::Uuid;
use vault::step_headers::Headers;
use vault::{DataKey, KeySubject};

pub(crate) use self::taken::{CommittedClaim, LeasedRow};
use crate::compose::{ComposedDeliveries, compose};
use crate::due;
use crate::lanes;
use crate::limits::{SendLimits, SendReservation};
use crate::outbox::{OutboxRow, new_lease, wakes};
use crate::settings::{DelivererContext, DeliveryError};
use crate::withdrawn;

/// A try that was claimed and must be sent now. Not `Debug`: it holds what people answered.
#[derive(Clone)]
pub struct ClaimedAttempt {
    /// The delivery.
    pub delivery_id: Uuid,
    /// Its lane; a subscription's has the subscription's id.
    pub lane_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// Its occurrence; a workflow step's own delivery stands in for one.
    pub occurrence_id: Uuid,
    /// The trigger.
    pub trigger: Trigger,
    /// Whose data it carries.
    pub subject: KeySubject,
    /// That subject's key, while there is one.
    pub key: Option<DataKey>,
    /// 1 for the first try.
    pub number: u32,
    /// 1 for the first try since it was queued, or retried.
    pub nth: u32,
    /// Who sends it.
    pub origin: DeliveryOrigin,
    /// The replay it is part of, if it is sent once more.
    pub replay_id: Option<Uuid>,
    /// Its place in a trace, if it has one.
    pub traceparent: Option<Traceparent>,
    /// The fencing token.
    pub lease: i64,
    /// When it began: it was claimed, and had its place at its host.
    pub started_at: Timestamp,
    /// When it was claimed, on this machine's steady clock.
    pub claimed_instant: Instant,
    /// Where it goes.
    pub target: Arc<str>,
    /// That host, as it is counted.
    pub host: String,
    /// What signs it.
    pub secret: Option<WebhookSecret>,
    /// What is sent; none if it could not be built.
    pub body: Option<FrozenBody>,
    /// The room it takes until it is answered.
    pub(crate) reservation: Option<Arc<SendReservation>>,
}

/// Who sends a delivery, and how that shows.
#[derive(Clone)]
pub enum DeliveryOrigin {
    /// A subscription.
    Hook,
    /// A workflow's step.
    Step(Box<StepOrder>, Headers),
}

impl ClaimedAttempt {
    /// Its occurrence and subscription; none if a workflow step sends it.
    pub(crate) const fn delivery_of(&self) -> Option<DeliveryOf> {
        match self.origin {
            DeliveryOrigin::Hook => {
                Some(DeliveryOf { hook_id: self.lane_id, occurrence_id: self.occurrence_id })
            }
            DeliveryOrigin::Step(..) => None,
        }
    }

    /// How it is tried again (contract, section Retries; ruling 31).
    #[must_use]
    pub const fn schedule(&self) -> RetrySchedule {
        match (&self.origin, self.replay_id) {
            (_, Some(_)) => RetrySchedule::Replay,
            (DeliveryOrigin::Hook, None) => RetrySchedule::RestHook,
            (DeliveryOrigin::Step(..), None) => RetrySchedule::WorkflowStep,
        }
    }
}

/// A claim that took longer is not sent: it would be dropped unsent for want of time (ruling 29).
pub(crate) const SEND_WITHIN: Duration = Duration::from_secs(4);

/// The bytes of a delivery, the same on every try.
#[derive(Clone)]
pub struct FrozenBody {
    /// Its id in the vault.
    pub body_id: Uuid,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
    /// The bytes.
    pub bytes: Bytes,
}

/// Claims what is due, as far as there is room; an empty answer means that nothing is.
///
/// # Errors
/// [`DeliveryError`]; nothing is sent then. What was claimed, if it was, is again when its lease ends.
pub async fn claim(
    courier: &DelivererContext,
    limits: &SendLimits,
) -> Result<Vec<ClaimedAttempt>, DeliveryError> {
    claim_from(courier, limits, &mut LaneSelection::at_most(limits.room().free)).await
}

/// Where a claim takes from.
pub(crate) struct LaneSelection {
    /// So many lanes, at most.
    most: usize,
    /// Those it has locked, also when it fails.
    pub(crate) locked: Vec<Uuid>,
    /// Whether the claim left wakes of lanes that somebody else has locked.
    pub(crate) left_wakes: bool,
}

impl LaneSelection {
    pub(crate) const fn at_most(most: usize) -> Self {
        Self { most, locked: Vec::new(), left_wakes: false }
    }
}

/// The same, from no more lanes than that.
pub(crate) async fn claim_from(
    courier: &DelivererContext,
    limits: &SendLimits,
    lanes: &mut LaneSelection,
) -> Result<Vec<ClaimedAttempt>, DeliveryError> {
    let (now, began) = (courier.clock.now(), Instant::now());
    let mut appending = courier.store.begin().await?;
    let connection = appending.connection();
    lanes.left_wakes = wakes::absorb(connection, now.get()).await?;
    let lane_ids = due::lock_lanes(connection, now.get(), &limits.full(), lanes.most).await?;
    if lane_ids.is_empty() {
        appending.commit().await?;
        return Ok(Vec::new());
    }
    lanes.locked.clone_from(&lane_ids);
    let chosen = due::choose_rows(connection, &lane_ids, now.get(), limits).await?;
    let chosen = due::within_memory(connection, chosen, courier.settings.claim_bytes).await?;
    let (chosen, erased) = withdrawn::erased(connection, chosen).await?;
    let (chosen, stopped) = withdrawn::stopped(connection, chosen).await?;
    let (chosen, finished) = withdrawn::finished_later(connection, chosen).await?;
    let (mut rows, rooms): (Vec<OutboxRow>, Vec<_>) = chosen.into_iter().unzip();
    rows.iter_mut().for_each(|row| row.tries += 1);
    let composed = compose(courier, connection, &rows, now).await?;
    let leases: Vec<i64> = rows.iter().map(|_| new_lease(&*courier.entropy)).collect();
    let terms = LeaseTerms { now: now.get(), end: now.get() + courier.settings.scale.lease() };
    lease(connection, (&rows, &leases), &composed, terms).await?;
    lanes::reschedule(connection, &lane_ids, now.get()).await?;
    let dropped: Vec<_> = erased
        .iter()
        .chain(&stopped)
        .filter_map(|row| Some((row.replay_id?, row.delivery_id, "dropped")))
        .collect();
    replays::conclude(appending.connection(), &dropped).await?;
    let mut withdrawn = withdrawn::cancelled(&finished, CancelCause::FinishedLater, now);
    withdrawn.extend(withdrawn::cancelled(&erased, CancelCause::SourceErased, now));
    appending.append(withdrawn).await?;
    let leased = rows.into_iter().zip(leases).zip(rooms);
    let leased =
        leased.map(|((row, lease), room)| LeasedRow { row, lease, reservation: room }).collect();
    let taken = CommittedClaim { leased, composed, claimed_at: (now, Instant::now()) };
    appending.commit().await?;
    CLAIM_SECONDS.observe(&[], began.elapsed());
    taken.hand_over(courier).await
}

/// From when to when a lease lasts.
#[derive(Clone, Copy)]
struct LeaseTerms {
    now: DateTime<Utc>,
    end: DateTime<Utc>,
}

/// Leases these, each with its token and its body. The place of a row's values in the lists is found by
/// halving: a join would compare each row with each.
async fn lease(
    connection: &mut PgConnection,
    (rows, leases): (&[OutboxRow], &[i64]),
    composed: &ComposedDeliveries,
    terms: LeaseTerms,
) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut rows: Vec<(Uuid, i64)> =
        rows.iter().map(|row| row.delivery_id).zip(leases.iter().copied()).collect();
    rows.sort_unstable();
    let bodies = || rows.iter().map(|(delivery_id, _)| composed.bodies.get(delivery_id));
    sqlx::query(
        "update outbox
            set lease = ($2::bigint[])[width_bucket(delivery_id, $1::uuid[])],
                tries = tries + 1, leased_at = $5, due_at = $6,
                body_id = coalesce(($3::uuid[])[width_bucket(delivery_id, $1::uuid[])], body_id),
                body_sha256 = coalesce(($4::bytea[])[width_bucket(delivery_id, $1::uuid[])],
                                       body_sha256)
          where delivery_id = any($1)",
    )
    .bind(rows.iter().map(|(delivery_id, _)| *delivery_id).collect::<Vec<_>>())
    .bind(rows.iter().map(|(_, lease)| *lease).collect::<Vec<_>>())
    .bind(bodies().map(|body| body.map(|body| body.body_id)).collect::<Vec<_>>())
    .bind(bodies().map(|body| body.map(|body| body.sha256.to_vec())).collect::<Vec<_>>())
    .bind(terms.now)
    .bind(terms.end)
    .execute(connection)
    .await?;
    Ok(())
}

/// The context of what the deliverer itself does with a delivery.
pub(crate) const fn system_context(
    firm_id: Uuid,
    delivery_id: Uuid,
    now: Timestamp,
) -> EventContext {
    EventContext {
        firm_id,
        recorded_at: now,
        actor: Actor::System,
        correlation_id: delivery_id,
        causation_id: None,
        traceparent: None,
    }
}

/// When the next work that there is room for is due, if any is.
///
/// # Errors
/// If the database does not answer.
pub async fn next_due(
    courier: &DelivererContext,
    limits: &SendLimits,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let connections = courier.store.connections();
    let mut connection = connections.take().await?;
    let next = due::next(&mut connection, &limits.full()).await?;
    connections.give_back(connection);
    Ok(next)
}
