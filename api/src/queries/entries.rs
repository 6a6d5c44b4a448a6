//! One entry of the audit log, with the bytes that its hash covers and the state of its proof.

use auditor::lines;
use domain::audit::{EndedVerification, LastSignature, VerificationOutcome};
use projector::audit::{self, ChainSpan};
use projector::{signatures, verifications};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;

/// An entry with its proof.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShownEntry {
    /// The entry, as lists show it.
    #[serde(flatten)]
    entry: Value,
    /// The position of the event in the log.
    position: i64,
    /// The canonical bytes, which are UTF-8.
    canonical: String,
    /// The number of a signed checkpoint that covers the entry, if the last one does.
    signed_by: Option<u64>,
    /// Whether the last verification of the service reached the entry and found no flaw.
    verified: bool,
}

/// Shows an entry by its place in the chain of its firm.
///
/// # Errors
/// `not_found`.
pub async fn show(service: &Service, firm_id: Uuid, sequence: i64) -> Result<ShownEntry, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let only = ChainSpan { first: sequence, last: sequence };
    let row =
        audit::list_span(&mut connection, firm_id, only).await?.pop().ok_or(Error::NotFound)?;
    let signed = signatures::last(&mut connection).await?;
    let verified = verifications::state(&mut connection).await?.ended;
    Ok(ShownEntry {
        entry: lines::entry_json(&row),
        position: row.position,
        canonical: String::from_utf8_lossy(&row.entry).into_owned(),
        signed_by: signed.and_then(|last| covering_number(&last, row.position)),
        verified: verified.is_some_and(|ended| has_verified(&ended, row.position)),
    })
}

/// The checkpoint, if it covers the position.
fn covering_number(last: &LastSignature, position: i64) -> Option<u64> {
    (position <= last.position).then_some(last.number)
}

fn has_verified(ended: &EndedVerification, position: i64) -> bool {
    ended.outcome == VerificationOutcome::Intact && position <= ended.position
}
