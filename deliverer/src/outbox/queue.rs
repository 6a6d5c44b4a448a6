//! Queueing at an append: inserts the rows that occurrences list, in the transaction that records
//! them.
//!
//! One transaction inserts a limited number of rows. Beyond that budget it leaves an occurrence
//! unspread, and a worker inserts its rows later. So a firm's burst delays neither the product's
//! other calls nor the deliveries of other firms.

use std::collections::HashMap;

use domain::activity::Happening;
use domain::values::Timestamp;
use eventstore::{AppendError, EventPositions, JoinedWrites, Outbox, RecordedEvent};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use uuid::Uuid;

use super::begun;
use super::row::{NewOutboxRow, OutboxRow, write_rows};
use super::unspread::{UnspreadOccurrence, leave_unspread};

/// Rows that one call's transaction inserts for its occurrences, at most.
const ROWS_PER_CALL_MAX: usize = 100;

/// Rows that one transaction inserts for all its calls, at most.
const ROWS_PER_TRANSACTION_MAX: usize = 512;

/// The rows and occurrences of one transaction.
#[derive(Default)]
pub(crate) struct ListedRows {
    /// Rows to insert now.
    pub(crate) rows: Vec<OutboxRow>,
    /// Occurrences whose rows are inserted later.
    pub(crate) unspread: Vec<UnspreadOccurrence>,
}

/// The outbox of a log. It queues the same rows whether this process sends or not.
pub struct AppendQueuer;

impl Outbox for AppendQueuer {
    fn queue_deliveries<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        occurrences: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let ListedRows { rows, unspread } = list_rows(occurrences);
            let due =
                |row: OutboxRow| NewOutboxRow { due_at: due_at(occurrences), row, lease: None };
            let rows: Vec<_> = rows.into_iter().map(due).collect();
            let mut writes = JoinedWrites::default();
            leave_unspread(&mut writes, &unspread, EventPositions::Known);
            write_rows(&mut writes, &rows, EventPositions::Known);
            Ok(writes.execute(connection).await?)
        })
    }

    fn queue_lost_step<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        delivery_id: Uuid,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool, AppendError>> {
        Box::pin(begun::queue_lost_step(connection, delivery_id, now))
    }
}

/// Deliveries are due at the start of their transaction.
pub(crate) fn due_at(occurrences: &[RecordedEvent]) -> chrono::DateTime<chrono::Utc> {
    occurrences.iter().map(|one| one.context.recorded_at.get()).max().unwrap_or_default()
}

/// The rows that these occurrences list, within the budget. Calls are told apart by their
/// correlation ids.
pub(crate) fn list_rows(occurrences: &[RecordedEvent]) -> ListedRows {
    let mut listed = ListedRows::default();
    let mut of_calls: HashMap<Uuid, usize> = HashMap::new();
    for recorded in occurrences {
        let Some((occurrence_id, happening)) = recorded_happening(recorded) else { continue };
        let of_call = of_calls.entry(recorded.context.correlation_id).or_default();
        let count = happening.hooks.len();
        if *of_call + count <= ROWS_PER_CALL_MAX
            && listed.rows.len() + count <= ROWS_PER_TRANSACTION_MAX
        {
            *of_call += count;
            listed.rows.extend(occurrence_rows(recorded));
        } else {
            // The call's later occurrences wait too, so that its order stays.
            *of_call = ROWS_PER_CALL_MAX;
            listed.unspread.push(UnspreadOccurrence {
                firm_id: recorded.context.firm_id,
                position: recorded.position,
                occurrence_id,
                rows_listed: i32::try_from(count).unwrap_or(i32::MAX),
            });
        }
    }
    listed
}

/// The rows of one occurrence.
pub(crate) fn occurrence_rows(recorded: &RecordedEvent) -> Vec<OutboxRow> {
    let Some((id, happening)) = recorded_happening(recorded) else { return Vec::new() };
    let row =
        |(delivery_id, hook_id)| OutboxRow::listed(delivery_id, hook_id, id, recorded, happening);
    happening.deliveries(id).map(row).collect()
}

fn recorded_happening(recorded: &RecordedEvent) -> Option<(Uuid, &Happening)> {
    Some((recorded.aggregate_id.parse().ok()?, recorded.event.happening()?))
}

#[cfg(test)]
mod tests {
    use domain::activity::OccurrenceEvent;
    use domain::event::{Actor, EventContext};
    use domain::subscription::Trigger;

    use super::*;

    /// An occurrence of a call, with so many subscriptions.
    fn occurrence(position: u32, call: u128, hooks: u128) -> RecordedEvent {
        let at = "2026-11-01T00:00:00.000Z".parse().unwrap();
        let happening = Happening {
            booking_id: None,
            form_id: Uuid::nil(),
            happened_at: at,
            hooks: (0..hooks).map(Uuid::from_u128).collect(),
            report_id: None,
            response_id: Uuid::nil(),
            seen: 0,
            silent: false,
            trigger: Trigger::FormSubmitted,
        };
        RecordedEvent {
            position: position.into(),
            digest: [0; 32],
            aggregate_id: Uuid::from_u128(position.into()).to_string(),
            sequence: 1,
            event: OccurrenceEvent::OccurrenceRecorded(happening).into(),
            context: EventContext {
                firm_id: Uuid::nil(),
                recorded_at: at,
                actor: Actor::System,
                correlation_id: Uuid::from_u128(call),
                causation_id: None,
                traceparent: None,
                terminal: None,
            },
        }
    }

    fn positions(occurrences: &[RecordedEvent]) -> (Vec<i64>, Vec<i64>) {
        let ListedRows { rows, unspread } = list_rows(occurrences);
        let mut now: Vec<i64> = rows.iter().map(|row| row.position).collect();
        now.dedup();
        (now, unspread.iter().map(|one| one.position).collect())
    }

    /// The remaining occurrences wait in their order.
    #[test]
    fn a_call_inserts_a_hundred_rows() {
        let of_one_call = |hooks| (1..=4).map(|at| occurrence(at, 1, hooks)).collect::<Vec<_>>();
        assert_eq!(positions(&of_one_call(25)), (vec![1, 2, 3, 4], vec![]));
        assert_eq!(positions(&of_one_call(40)), (vec![1, 2], vec![3, 4]));
        assert_eq!(positions(&of_one_call(100)), (vec![1], vec![2, 3, 4]));
        let small_ones_last = [occurrence(1, 1, 90), occurrence(2, 1, 20), occurrence(3, 1, 1)];
        assert_eq!(positions(&small_ones_last), (vec![1], vec![2, 3]));
    }

    #[test]
    fn a_transaction_of_calls_has_a_budget() {
        let calls: Vec<_> = (1..=7).map(|at| occurrence(at, at.into(), 100)).collect();
        assert_eq!(positions(&calls), (vec![1, 2, 3, 4, 5], vec![6, 7]));
        let small = [&calls[..], &[occurrence(8, 8, 12)]].concat();
        assert_eq!(positions(&small).0, [1, 2, 3, 4, 5, 8]);
    }
}
