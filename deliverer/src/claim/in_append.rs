//! The claim in the append: leases deliveries in the transaction that records their occurrence.
//! The document, the form and the data key are at hand, so nothing is read for the body.
//!
//! A delivery that cannot be leased here waits in the outbox. In a burst its occurrence waits to be
//! spread.

use std::collections::HashSet;

use domain::trigger::Trigger;
use eventstore::{RecordedEvent, crash};
use sqlx::PgConnection;

use super::committed::CommittedClaim;
use super::leasing::{BodySource, PartedRows, RowLeasing, SubmissionParts, SubmissionsBySubject};
use crate::error::DeliveryError;
use crate::limits::SendLimits;
use crate::outbox::queue::{ListedRows, due_at, list_rows};
use crate::outbox::row::{NewOutboxRow, OutboxRow, insert};
use crate::outbox::unspread::{leave_unspread, occurrences_of};
use crate::settings::DelivererContext;

/// Rows without a lease that one append inserts, at most. Beyond that, occurrences without a leased
/// row are left to the spread worker, which leases and writes each row once.
const INSERTED_MAX: usize = 16;

/// The deliveries of one append.
pub(crate) struct QueuedInAppend {
    /// Leased rows. `None` if this process leases nothing now.
    pub(crate) leased: Option<CommittedClaim>,
    /// Whether rows or occurrences wait for a worker.
    pub(crate) waits: bool,
}

/// The sender of this process. It must be able to send now.
#[derive(Clone, Copy)]
pub(crate) struct AppendSender<'a> {
    pub(crate) courier: &'a DelivererContext,
    pub(crate) limits: &'a SendLimits,
}

/// Inserts the rows that these occurrences list. Leases a row if its submission is at hand, and its
/// lane is open and has no due row. Without a sender every row waits.
///
/// # Errors
/// [`DeliveryError`]; the transaction must be rolled back then.
pub(crate) async fn queue_and_lease(
    sender: Option<AppendSender<'_>>,
    connection: &mut PgConnection,
    occurrences: &[RecordedEvent],
    submissions: &[SubmissionParts<'_>],
) -> Result<QueuedInAppend, DeliveryError> {
    let ListedRows { rows, mut unspread } = list_rows(occurrences);
    let submissions: SubmissionsBySubject<'_, '_> =
        submissions.iter().map(|one| (one.response.subject(), one)).collect();
    let (mine, mut rest): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| may_be_leased(row, &submissions));
    let now = due_at(occurrences);
    let mut new = Vec::with_capacity(mine.len() + rest.len());
    let leased = match sender {
        Some(AppendSender { courier, limits }) => {
            let leasing = RowLeasing { courier, limits, now };
            let source = BodySource::AtHand(&submissions);
            let PartedRows { leased, waiting } = leasing.lease(connection, mine, source).await?;
            rest.extend(waiting);
            new.extend(leasing.rows(&leased));
            Some(leased)
        }
        None => {
            rest.extend(mine);
            None
        }
    };
    let waits = !rest.is_empty() || !unspread.is_empty();
    if rest.len() > INSERTED_MAX {
        let inserted: HashSet<i64> = new.iter().map(|one| one.row.position).collect();
        let whole = |row: &mut OutboxRow| !inserted.contains(&row.position);
        unspread.extend(occurrences_of(&rest.extract_if(.., whole).collect::<Vec<_>>()));
    }
    leave_unspread(connection, &unspread).await?;
    new.extend(rest.into_iter().map(|row| NewOutboxRow { row, due_at: now, lease: None }));
    insert(connection, &new).await?;
    crash::point("leasing");
    Ok(QueuedInAppend { leased, waits })
}

/// Only new submissions can be leased. Other bodies are composed from the vault.
fn may_be_leased(row: &OutboxRow, submissions: &SubmissionsBySubject<'_, '_>) -> bool {
    row.trigger == Trigger::FormSubmitted.key() && submissions.contains_key(&row.subject())
}
