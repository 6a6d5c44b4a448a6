//! Adds entries that the audit log of a firm lacks, under statements that say why.

use auditor::MissingEntry;
use domain::operations::{LateEntryEvent, LateEntryReason};
use eventstore::NewEvent;
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;

/// States that these entries of a firm are late. The audit log adds them as it follows the log.
///
/// # Errors
/// `invalid_request` for a reason that is empty or too long. A conflict if another command has
/// stated one of them.
pub async fn add(
    service: &Service,
    firm_id: Uuid,
    missing: &[MissingEntry],
    reason: &str,
) -> Result<(), Error> {
    let reason = super::parse_reason(reason)?;
    let context = service.context(firm_id, service.operator());
    let statements = missing.iter().flat_map(|entry| {
        let of = LateEntryReason { position: entry.position, reason: reason.clone() };
        let stream = entry.event_id.to_string();
        NewEvent::number_after(0, &stream, &context, [LateEntryEvent::LateEntryAdded(of)])
    });
    service.store.append(statements.collect()).await?;
    Ok(())
}
