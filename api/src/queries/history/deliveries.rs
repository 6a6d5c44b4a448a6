//! Explains the state of a delivery: its occurrence, its attempts, and all that ended or holds it.

use domain::values::{AsOf, Timestamp};
use projector::deliveries;
use serde::Serialize;
use uuid::Uuid;

use crate::commands::pauses;
use crate::error::Error;
use crate::queries::as_of;
use crate::queries::causes::{self, CauseStep, DeliveryFacts};
use crate::service::Service;

/// A delivery's life, and its end or the hold on it.
#[derive(Debug, Serialize)]
pub struct DeliveryHistory {
    id: Uuid,
    hook_id: Option<Uuid>,
    trigger: String,
    response_id: Uuid,
    state: String,
    cause: Option<String>,
    next_try_at: Option<Timestamp>,
    /// The pause that holds the delivery, if one does.
    held: Option<HoldingPause>,
    /// The events that led here, oldest first.
    steps: Vec<CauseStep>,
}

/// A pause that holds a delivery.
#[derive(Debug, Serialize)]
struct HoldingPause {
    id: Uuid,
    paused_at: Timestamp,
    paused_by: String,
    reason: String,
}

/// The history of any delivery of a firm.
///
/// # Errors
/// `delivery_not_found`.
pub async fn of_delivery(
    service: &Service,
    firm_id: Uuid,
    delivery_id: Uuid,
) -> Result<DeliveryHistory, Error> {
    let (then, archived) =
        as_of::delivery_with_archived(service, firm_id, delivery_id, AsOf::NOW).await?;
    let row = then.row;
    let mut connection = service.store.pool().acquire().await?;
    let facts = DeliveryFacts {
        firm_id,
        delivery_id,
        occurrence_id: deliveries::occurrence_of(&mut connection, delivery_id).await?,
        hook_id: row.hook_id,
        response_id: row.response_id,
        cause: row.cause.as_deref().and_then(|cause| cause.parse().ok()),
    };
    let chain = causes::of_delivery(&mut connection, &facts, archived).await?;
    drop(connection);
    let holding = pauses::holding_pauses(service, firm_id, std::slice::from_ref(&row)).await?;
    let held = match holding.get(&delivery_id) {
        Some(pause_id) => {
            pauses::list(service).await?.into_iter().find(|one| one.pause_id == *pause_id)
        }
        None => None,
    };
    Ok(DeliveryHistory {
        id: delivery_id,
        hook_id: row.hook_id,
        trigger: row.trigger,
        response_id: row.response_id,
        state: row.state,
        cause: row.cause,
        next_try_at: row.next_try_at.map(Timestamp::from),
        held: held.map(|pause| HoldingPause {
            id: pause.pause_id,
            paused_at: pause.paused_at.into(),
            paused_by: pause.actor,
            reason: pause.reason,
        }),
        steps: chain.tell_steps(service).await?,
    })
}
