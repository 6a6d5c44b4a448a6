//! Recording that somebody reads what a firm has to answer for: before anything is shown.

use domain::context::Actor;
use domain::pause::INSTALLATION_FIRM_ID;
use domain::reading::{ReadingDetails, ReadingEvent};
use eventstore::NewEvent;
use projector::firms;
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;

/// Records it.
///
/// # Errors
/// `firm_not_found`.
pub async fn record(
    service: &Service,
    firm_id: Uuid,
    actor: Actor,
    look: ReadingDetails,
) -> Result<(), Error> {
    // What concerns all firms is in a chain of its own.
    if firm_id != INSTALLATION_FIRM_ID {
        firms::is_active(service.store.pool(), firm_id).await?.ok_or(Error::FirmNotFound)?;
    }
    let context = service.context(firm_id, actor);
    let stream = service.entropy.id().to_string();
    let events = NewEvent::after(0, &stream, &context, [ReadingEvent::AuditRead(look)]);
    service.store.append(events).await?;
    Ok(())
}
