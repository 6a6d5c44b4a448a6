//! Records that somebody reads a firm's data, before the data is shown.

use domain::delivery::INSTALLATION_FIRM_ID;
use domain::event::Actor;
use domain::operations::{ReadAs, ReadingDetails, ReadingEvent, ReadingSubject};
use eventstore::NewEvent;
use projector::firms;
use uuid::Uuid;

use crate::audit_access::FeedReader;
use crate::error::Error;
use crate::service::Service;

/// Records a reading.
///
/// # Errors
/// `firm_not_found`.
pub async fn record(
    service: &Service,
    firm_id: Uuid,
    actor: Actor,
    look: ReadingDetails,
) -> Result<(), Error> {
    // Readings about all firms have a chain of their own.
    if firm_id != INSTALLATION_FIRM_ID {
        firms::is_active(service.store.pool(), firm_id).await?.ok_or(Error::FirmNotFound)?;
    }
    let context = service.context(firm_id, actor);
    let stream = service.entropy.new_id().to_string();
    let events = NewEvent::number_after(0, &stream, &context, [ReadingEvent::AuditRead(look)]);
    service.store.append(events).await?;
    Ok(())
}

/// Records that a session of a feed begins, unless the call goes on with a recorded one.
///
/// # Errors
/// `firm_not_found`.
pub(crate) async fn record_feed(
    service: &Service,
    reader: FeedReader,
    actor: Actor,
    after: i64,
) -> Result<(), Error> {
    let now = service.clock.now();
    if service.audit.goes_on(reader, after, now) {
        return Ok(());
    }
    let firm_id = reader.firm_id.unwrap_or(INSTALLATION_FIRM_ID);
    let look = ReadingDetails {
        after: Some(after),
        ..ReadingDetails::at(ReadingSubject::Audit, ReadAs::Feed)
    };
    record(service, firm_id, actor, look).await?;
    service.audit.note_session(reader, after, now);
    Ok(())
}
