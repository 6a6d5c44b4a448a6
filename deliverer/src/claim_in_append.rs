//! Claim in the append: leases deliveries in the transaction that records their occurrence, and sends
//! them as soon as it is committed. It saves a claim: the document, the form and the key are at hand.
//! A delivery that cannot be leased here waits in the outbox; in a burst its occurrence waits to be
//! spread. Nothing depends on this but the cost.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use domain::trigger::Trigger;
use eventstore::{RecordedEvent, crash};
use sqlx::PgConnection;
use telemetry::metrics::CLAIM_SECONDS;

use crate::claim::{CommittedClaim, SEND_WITHIN};
use crate::dispatch::Dispatcher;
use crate::leasing::{BodySource, RowLeasing, SubmissionParts, SubmissionsBySubject};
use crate::outbox::queue::{ListedRows, due_at, leave_unspread, list_rows, occurrences_of};
use crate::outbox::{NewOutboxRow, OutboxRow, insert};
use crate::settings::DeliveryError;

/// Rows that wait for a claim and that an append inserts, at most. Of more, occurrences with no leased
/// delivery are left to the spread worker, which leases and writes each row once.
const INSERTED_MAX: usize = 16;

/// Leases and sends what an append records, as long as its sender is there.
#[derive(Clone)]
pub struct AppendLeaser(Weak<Dispatcher>);

impl AppendLeaser {
    /// Leases for this process's sender.
    #[must_use]
    pub fn new(dispatch: &Arc<Dispatcher>) -> Self {
        Self(Arc::downgrade(dispatch))
    }

    /// Queues what these occurrences list, and leases what of it can be sent at once: deliveries of
    /// these submissions, to lanes that are open and have nothing due.
    ///
    /// # Errors
    /// [`DeliveryError`]; the transaction must be dropped then.
    pub async fn queue(
        &self,
        connection: &mut PgConnection,
        occurrences: &[RecordedEvent],
        submissions: &[SubmissionParts<'_>],
    ) -> Result<LeasedInAppend, DeliveryError> {
        let ListedRows { rows, mut unspread } = list_rows(occurrences);
        let submissions: SubmissionsBySubject<'_, '_> =
            submissions.iter().map(|one| (one.response.subject(), one)).collect();
        let (mine, mut rest): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| may_be_leased(row, &submissions));
        let now = due_at(occurrences);
        let mut new = Vec::with_capacity(mine.len() + rest.len());
        let leasing = match self.0.upgrade().filter(|dispatch| dispatch.may_send()) {
            Some(dispatch) => {
                let (leasing, source) =
                    (RowLeasing { dispatch, now }, BodySource::AtHand(&submissions));
                let (leased, more) = leasing.lease(connection, mine, source).await?;
                rest.extend(more);
                new.extend(leasing.rows(&leased));
                Some((leasing.dispatch, leased))
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
        Ok(LeasedInAppend { leased: leasing, waits })
    }
}

/// Deliveries that an append has leased. Dropped before the commit, nothing of them is there.
pub struct LeasedInAppend {
    leased: Option<(Arc<Dispatcher>, CommittedClaim)>,
    waits: bool,
}

impl LeasedInAppend {
    /// Whether some of what the append queued waits for a worker.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.waits
    }

    /// Sends them: the append is committed. What comes too late to be sent is given back.
    pub fn send(self) {
        let Some((dispatch, taken)) = self.leased.filter(|(_, taken)| !taken.leased.is_empty())
        else {
            return;
        };
        crash::point("claimed");
        let took = taken.claimed_at.1.elapsed();
        CLAIM_SECONDS.observe(&[], took);
        let is_late = took > SEND_WITHIN;
        dispatch.start_all(taken.claimed(), is_late);
    }
}

/// Only new submissions: all else is composed from what the vault holds.
fn may_be_leased(row: &OutboxRow, submissions: &SubmissionsBySubject<'_, '_>) -> bool {
    row.trigger == Trigger::FormSubmitted.key() && submissions.contains_key(&row.subject())
}
