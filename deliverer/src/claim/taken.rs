//! What a claim took, from its commit until it is sent.

use std::sync::Arc;

use domain::target::host_of;
use domain::time::Timestamp;
use eventstore::crash;
use sqlx::types::Json;
use tokio::time::Instant;

use super::{ClaimedAttempt, DeliveryOrigin, SEND_WITHIN};
use crate::compose::ComposedDeliveries;
use crate::give_back::give_back;
use crate::limits::SendReservation;
use crate::outbox::OutboxRow;
use crate::settings::{DelivererContext, DeliveryError};
use crate::withdrawn;

/// A row that is leased.
pub(crate) struct LeasedRow {
    pub(crate) row: OutboxRow,
    /// The fencing token.
    pub(crate) lease: i64,
    pub(crate) reservation: Arc<SendReservation>,
}

/// What a claim that has committed took.
pub(crate) struct CommittedClaim {
    pub(crate) leased: Vec<LeasedRow>,
    pub(crate) composed: ComposedDeliveries,
    /// When it was claimed, also on this machine's steady clock.
    pub(crate) claimed_at: (Timestamp, Instant),
}

impl CommittedClaim {
    /// Hands it over to be sent.
    ///
    /// # Errors
    /// [`DeliveryError`]; it was given back then, or its leases end by themselves.
    pub(crate) async fn hand_over(
        mut self,
        courier: &DelivererContext,
    ) -> Result<Vec<ClaimedAttempt>, DeliveryError> {
        crash::point("claimed");
        let looked = take_out_erased(courier, &self.leased, &mut self.composed).await;
        let claimed_at = self.claimed_at.1;
        let all = self.claimed();
        if looked.is_err() || claimed_at.elapsed() > SEND_WITHIN {
            // What cannot go out in time uses up no try (case E13).
            give_back(courier, &all).await?;
            return looked.map(|()| Vec::new());
        }
        Ok(all)
    }

    /// What is sent.
    pub(crate) fn claimed(self) -> Vec<ClaimedAttempt> {
        let Self { leased, mut composed, claimed_at: at } = self;
        leased.into_iter().filter_map(|one| to_claimed(one, &mut composed, at)).collect()
    }
}

/// An erasure that committed before the claim did may have come after its look: such a try is never
/// sent, and ends as it is recorded (ruling 29).
async fn take_out_erased(
    courier: &DelivererContext,
    leased: &[LeasedRow],
    composed: &mut ComposedDeliveries,
) -> Result<(), DeliveryError> {
    if leased.is_empty() {
        return Ok(());
    }
    let erased =
        withdrawn::erased_meanwhile(courier, leased.iter().map(|one| one.row.subject())).await?;
    for one in leased.iter().filter(|one| erased.contains(&one.row.subject())) {
        composed.bodies.remove(&one.row.delivery_id);
    }
    Ok(())
}

fn to_claimed(
    LeasedRow { row, lease, reservation: room }: LeasedRow,
    composed: &mut ComposedDeliveries,
    (claimed_at, claimed): (Timestamp, Instant),
) -> Option<ClaimedAttempt> {
    let (sender, target) = origin_of(&row, composed);
    let number = u32::try_from(row.tries).ok()?;
    let mut claimed = ClaimedAttempt {
        delivery_id: row.delivery_id,
        lane_id: row.lane_id,
        firm_id: row.firm_id,
        occurrence_id: row.occurrence_id,
        trigger: row.trigger.parse().ok()?,
        subject: row.subject(),
        key: composed.keys.get(&row.subject()).cloned(),
        number,
        nth: number,
        origin: sender,
        replay_id: row.replay_id,
        traceparent: row.traceparent(),
        lease,
        started_at: claimed_at,
        claimed_instant: claimed,
        host: host_of(&target),
        target,
        secret: composed.secrets.get(&row.firm_id).cloned(),
        body: composed.bodies.remove(&row.delivery_id),
        reservation: Some(room),
    };
    let begun = u32::try_from(row.tries_max).ok()?.checked_sub(claimed.schedule().tries())?;
    claimed.nth = number.checked_sub(begun)?;
    Some(claimed)
}

/// Who sends it, and where to. A step whose headers cannot be read has no body: it is not sent
/// without them.
fn origin_of(row: &OutboxRow, composed: &mut ComposedDeliveries) -> (DeliveryOrigin, Arc<str>) {
    let Some(Json(order)) = &row.step else {
        let target = composed.targets.get(&row.lane_id).cloned().unwrap_or_default();
        return (DeliveryOrigin::Hook, target);
    };
    let headers = composed.step_headers.remove(&row.delivery_id).unwrap_or_default();
    if headers.len() != order.extra_headers {
        composed.bodies.remove(&row.delivery_id);
    }
    (DeliveryOrigin::Step(Box::new(order.clone()), headers), order.url.as_str().into())
}
