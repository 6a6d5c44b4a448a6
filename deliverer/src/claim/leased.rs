//! The leased rows of a claim, from its commit until they are sent.

use std::sync::Arc;

use bytes::Bytes;
use domain::delivery::workflow::{StepTarget, StoredStepOrder};
use domain::notice::QueuedNotice;
use domain::subscription::host_of;
use domain::values::Timestamp;
use eventstore::crash;
use sha2::{Digest, Sha256};
use sqlx::types::Json;
use tokio::time::Instant;
use uuid::Uuid;
use vault::step_headers::StepSecrets;

use super::compose::ComposedDeliveries;
use crate::attempt::{ClaimedAttempt, DeliveryOrigin, FrozenBody, SEND_WITHIN};
use crate::error::DeliveryError;
use crate::limits::SendReservation;
use crate::outbox::release::release_attempts;
use crate::outbox::row::OutboxRow;
use crate::outbox::withdraw;
use crate::settings::DelivererContext;

/// A row with its lease and its reserved capacity.
pub(crate) struct LeasedRow {
    pub(crate) row: OutboxRow,
    /// The fencing token.
    pub(crate) lease: i64,
    pub(crate) reservation: Arc<SendReservation>,
}

/// The leased rows of a claim. They may be sent after the commit, and not before.
pub(crate) struct LeasedClaim {
    pub(super) leased: Vec<LeasedRow>,
    pub(super) composed: ComposedDeliveries,
    pub(super) claimed_at: Timestamp,
    /// Time of the claim, on this machine's steady clock.
    pub(super) claimed_instant: Instant,
}

impl LeasedClaim {
    /// Whether no row is leased.
    pub(crate) fn is_empty(&self) -> bool {
        self.leased.is_empty()
    }

    /// The lanes of the leased rows.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Uuid> {
        self.leased.iter().map(|one| &one.row.lane_id)
    }

    /// Time of the claim, on this machine's steady clock.
    pub(crate) const fn claimed_instant(&self) -> Instant {
        self.claimed_instant
    }

    /// Makes attempts of the leased rows, or releases them if it is too late to send.
    ///
    /// # Errors
    /// [`DeliveryError`]; the leases were released, or end by themselves.
    pub(crate) async fn hand_over(
        mut self,
        deliverer: &DelivererContext,
    ) -> Result<Vec<ClaimedAttempt>, DeliveryError> {
        crash::point("claimed");
        let looked = take_out_erased(deliverer, &self.leased, &mut self.composed).await;
        let claimed_instant = self.claimed_instant;
        let all = self.into_attempts();
        if looked.is_err() || claimed_instant.elapsed() > SEND_WITHIN {
            // A delivery that cannot be sent in time uses up no attempt (case E13).
            release_attempts(deliverer, &all).await?;
            return looked.map(|()| Vec::new());
        }
        Ok(all)
    }

    /// The attempts to send.
    pub(crate) fn into_attempts(self) -> Vec<ClaimedAttempt> {
        let Self { leased, mut composed, claimed_at, claimed_instant } = self;
        let mut attempts = Vec::with_capacity(leased.len());
        for one in leased {
            attempts.extend(to_attempt(one, &mut composed, claimed_at, claimed_instant));
        }
        attempts
    }
}

/// Removes the bodies of erased responses. An erasure may have committed after the claim looked and
/// before the claim committed. Such an attempt is never sent, and its record ends the delivery
/// (ruling 29, in flight at removal).
async fn take_out_erased(
    deliverer: &DelivererContext,
    leased: &[LeasedRow],
    composed: &mut ComposedDeliveries,
) -> Result<(), DeliveryError> {
    if leased.is_empty() {
        return Ok(());
    }
    let erased =
        withdraw::erased_meanwhile(deliverer, leased.iter().map(|one| one.row.subject())).await?;
    for one in leased.iter().filter(|one| erased.contains(&one.row.subject())) {
        composed.bodies.remove(&one.row.delivery_id);
    }
    Ok(())
}

fn to_attempt(
    leased: LeasedRow,
    composed: &mut ComposedDeliveries,
    claimed_at: Timestamp,
    claimed_instant: Instant,
) -> Option<ClaimedAttempt> {
    let LeasedRow { row, lease, reservation } = leased;
    let (origin, target) = origin_of(&row, composed);
    let (secret, body) = match &row.notice {
        Some(Json(notice)) => {
            (composed.notices.as_ref().map(|to| to.secret.clone()), Some(notice_body(notice)))
        }
        None => {
            (composed.secrets.get(&row.firm_id).cloned(), composed.bodies.remove(&row.delivery_id))
        }
    };
    let number = u32::try_from(row.tries).ok()?;
    let mut attempt = ClaimedAttempt {
        delivery_id: row.delivery_id,
        lane_id: row.lane_id,
        firm_id: row.notice.as_ref().map_or(row.firm_id, |Json(notice)| notice.firm_id),
        occurrence_id: row.occurrence_id,
        trigger: row.trigger.parse().ok(),
        subject: row.subject(),
        key: composed.keys.get(&row.subject()).cloned(),
        sequence: row.sequence,
        number,
        nth: number,
        origin,
        replay_id: row.replay_id,
        traceparent: row.traceparent(),
        lease,
        started_at: claimed_at,
        claimed_instant,
        host: host_of(&target),
        target,
        secret,
        body,
        reservation: Some(reservation),
    };
    let before =
        u32::try_from(row.tries_max).ok()?.checked_sub(attempt.retry_schedule().tries())?;
    attempt.nth = number.checked_sub(before)?;
    Some(attempt)
}

/// The body of a notice. It is not in the vault, since it names no person.
fn notice_body(notice: &QueuedNotice) -> FrozenBody {
    let bytes = Bytes::from(notice.body.clone());
    FrozenBody { body_id: Uuid::nil(), sha256: Sha256::digest(&bytes).into(), bytes }
}

/// The origin and the target of a delivery. A step whose headers or URL cannot be read loses its
/// body, so that it is not sent without its headers or elsewhere.
fn origin_of(row: &OutboxRow, composed: &mut ComposedDeliveries) -> (DeliveryOrigin, Arc<str>) {
    if let Some(Json(notice)) = &row.notice {
        let url = composed.notices.as_ref().map(|to| Arc::clone(&to.url)).unwrap_or_default();
        return (DeliveryOrigin::Notice(Box::new(notice.sent.clone())), url);
    }
    let Some(Json(StoredStepOrder(order))) = &row.step else {
        let target = composed.targets.get(&row.lane_id).cloned().unwrap_or_default();
        return (DeliveryOrigin::Hook, target);
    };
    let StepSecrets { headers, url } =
        composed.step_secrets.remove(&row.delivery_id).unwrap_or_default();
    let url = match &order.target {
        StepTarget::InVault { .. } => url,
        StepTarget::InLog { url } => Some(url.clone()),
    };
    if headers.len() != order.extra_headers || url.is_none() {
        composed.bodies.remove(&row.delivery_id);
    }
    let target = url.unwrap_or_else(|| order.target.origin());
    (DeliveryOrigin::Step(Box::new(order.clone()), headers), target.into())
}
