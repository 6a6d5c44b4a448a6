//! Shows a target with its path and query to an operator who gives a reason (ruling 44). The
//! reading is recorded before the target is shown.

use domain::delivery::DeliveryEvent;
use domain::delivery::workflow::StepTarget;
use domain::event::{Actor, Event};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use eventstore::{AppendError, load_first};
use projector::deliveries::DeliveryRow;
use projector::{hooks, subjects};
use uuid::Uuid;
use vault::{KeySubject, step_headers};

use super::{parse_reason, readings};
use crate::error::Error;
use crate::service::Service;

/// The wish to see a whole target.
#[derive(Debug, Clone, Copy)]
pub struct TargetReveal<'a> {
    /// The firm of the subscription or delivery.
    pub firm_id: Uuid,
    /// The operator.
    pub actor: Actor,
    /// The operator's reason.
    pub reason: &'a str,
}

/// The whole target of a subscription of the firm.
///
/// # Errors
/// `invalid_request` (the reason), `firm_not_found`, `not_found`.
pub async fn of_hook(
    service: &Service,
    reveal: TargetReveal<'_>,
    hook_id: Uuid,
) -> Result<String, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let found = hooks::target_of(&mut connection, reveal.firm_id, hook_id).await?;
    drop(connection);
    let url = found.ok_or(Error::NotFound)?;
    let look = reveal.reading_details()?;
    record_reading(service, reveal, ReadingDetails { hook_id: Some(hook_id), ..look }).await?;
    Ok(url)
}

/// The whole target of a delivery of the firm.
///
/// # Errors
/// `invalid_request` (the reason), `firm_not_found`, `not_found`; `body_purged`: the URL of the
/// workflow step was deleted, after its retention or with its response.
pub async fn of_delivery(
    service: &Service,
    reveal: TargetReveal<'_>,
    row: &DeliveryRow,
) -> Result<String, Error> {
    if let Some(hook_id) = row.hook_id {
        return of_hook(service, reveal, hook_id).await;
    }
    let url = step_url(service, reveal.firm_id, row).await?.ok_or(Error::BodyPurged)?;
    let look = reveal.reading_details()?;
    record_reading(service, reveal, ReadingDetails { delivery_id: Some(row.delivery_id), ..look })
        .await?;
    Ok(url)
}

impl TargetReveal<'_> {
    fn reading_details(self) -> Result<ReadingDetails, Error> {
        let reason = Some(parse_reason(self.reason)?);
        Ok(ReadingDetails { reason, ..ReadingDetails::at(ReadingSubject::Target, ReadAs::Page) })
    }
}

async fn record_reading(
    service: &Service,
    reveal: TargetReveal<'_>,
    look: ReadingDetails,
) -> Result<(), Error> {
    readings::record(service, reveal.firm_id, reveal.actor, look).await
}

/// The URL of a workflow step, unless it was deleted. The erasure is looked up after the keys are
/// read.
async fn step_url(
    service: &Service,
    firm_id: Uuid,
    row: &DeliveryRow,
) -> Result<Option<String>, Error> {
    let keys =
        service.keyring.find_keys(&[KeySubject { firm_id, subject_id: row.response_id }]).await?;
    let mut connection = service.store.pool().acquire().await?;
    if !subjects::erased_among(&mut connection, &[(firm_id, row.response_id)]).await?.is_empty() {
        return Ok(None);
    }
    let id = row.delivery_id.to_string();
    let upcasters = service.store.upcasters();
    let first = load_first(&mut connection, &upcasters, "Delivery", &[&id]).await;
    let first = first.map_err(AppendError::from)?.pop();
    let Some(Event::Delivery(DeliveryEvent::StepQueued(order))) = first.map(|first| first.event)
    else {
        return Ok(None);
    };
    match order.target {
        StepTarget::InLog { url } => Ok(Some(url)),
        StepTarget::InVault { .. } => {
            let mut kept = step_headers::read(&mut connection, &keys, &[row.delivery_id]).await?;
            Ok(kept.remove(&row.delivery_id).and_then(|step| step.url))
        }
    }
}
