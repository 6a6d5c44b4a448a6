//! The claim in the append: leases deliveries in the transaction that records their occurrence.
//! The document, the form and the data key are at hand, so nothing is read for the body.
//!
//! A delivery that cannot be leased here waits in the outbox. In a burst its occurrence waits to be
//! spread.

use std::collections::HashSet;

use domain::subscription::Trigger;
use eventstore::{OpenAppend, RecordedEvent, crash};
use vault::responses::NewSubmission;

use super::leased::LeasedClaim;
use super::leasing::{BodySource, RowLeasing, SubmissionsBySubject};
use crate::error::DeliveryError;
use crate::limits::SendLimits;
use crate::outbox::queue::{ListedRows, due_at, list_rows};
use crate::outbox::row::{NewOutboxRow, OutboxRow, write_rows};
use crate::outbox::unspread::{leave_unspread, occurrences_of};
use crate::settings::DelivererContext;

/// With more waiting rows than this, occurrences without a leased row are left to the spread
/// worker, which leases and writes each row once. Rows of an occurrence with a leased row are
/// inserted in any number.
const WAITING_ROWS_THRESHOLD: usize = 16;

/// The deliveries of one append.
pub(crate) struct QueuedInAppend {
    /// Leased rows. `None` if this process may not send now. The claim may be empty.
    pub(crate) leased: Option<LeasedClaim>,
    /// Whether rows or occurrences wait for a worker.
    pub(crate) waits: bool,
}

/// The context and the limits for leasing. Given only if this process may send now.
#[derive(Clone, Copy)]
pub(crate) struct LeaseContext<'a> {
    pub(crate) deliverer: &'a DelivererContext,
    pub(crate) limits: &'a SendLimits,
}

/// Inserts the rows that these occurrences list. Leases a row only if its submission is at hand,
/// its lane is open, not locked and without a due row, its firm has nothing unspread, and the
/// limits have room. Without a lease context every row waits. Bodies and rows are inserted with the
/// joined writes of the append.
///
/// # Errors
/// [`DeliveryError`]; the transaction must be rolled back then.
pub(crate) async fn queue_and_lease(
    lease_context: Option<LeaseContext<'_>>,
    OpenAppend { connection, writes, positions }: OpenAppend<'_>,
    occurrences: &[RecordedEvent],
    submissions: &[NewSubmission<'_>],
) -> Result<QueuedInAppend, DeliveryError> {
    let ListedRows { rows, mut unspread } = list_rows(occurrences);
    let submissions: SubmissionsBySubject<'_, '_> =
        submissions.iter().map(|one| (one.response.subject(), one)).collect();
    let (leasable, mut waiting): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| may_be_leased(row, &submissions));
    let now = due_at(occurrences);
    let mut new = Vec::with_capacity(leasable.len() + waiting.len());
    let leased = match lease_context {
        Some(LeaseContext { deliverer, limits }) => {
            let leasing = RowLeasing { deliverer, limits, now };
            let source = BodySource::AtHand { submissions: &submissions, writes, positions };
            let rows = leasing.lease_rows(connection, leasable, source).await?;
            waiting.extend(rows.waiting);
            // Behind these rows the lanes are not open.
            deliverer.lanes.forget(waiting.iter().map(|row| &row.lane_id));
            new.extend(leasing.new_rows(&rows.leased));
            Some(rows.leased)
        }
        None => {
            waiting.extend(leasable);
            None
        }
    };
    let waits = !waiting.is_empty() || !unspread.is_empty();
    if waiting.len() > WAITING_ROWS_THRESHOLD {
        let with_lease: HashSet<i64> = new.iter().map(|one| one.row.position).collect();
        let has_no_lease = |row: &mut OutboxRow| !with_lease.contains(&row.position);
        unspread.extend(occurrences_of(&waiting.extract_if(.., has_no_lease).collect::<Vec<_>>()));
    }
    leave_unspread(writes, &unspread, positions);
    new.extend(waiting.into_iter().map(|row| NewOutboxRow { row, due_at: now, lease: None }));
    write_rows(writes, &new, positions);
    crash::point("leasing");
    Ok(QueuedInAppend { leased, waits })
}

/// Only new submissions can be leased. Other bodies are composed from the vault.
fn may_be_leased(row: &OutboxRow, submissions: &SubmissionsBySubject<'_, '_>) -> bool {
    row.trigger == Trigger::FormSubmitted.key() && submissions.contains_key(&row.subject())
}
