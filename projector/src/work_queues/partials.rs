//! The work queue of unfinished responses. The timer records each one as a partial submission when
//! it is due (contract, section Triggers).
//!
//! The timer deletes the row and records the occurrence in one transaction. A submission deletes
//! the row in its own transaction. The transaction that commits first decides.

use chrono::{DateTime, Utc};
use domain::activity::{Happening, OccurrenceEvent, occurrence_id};
use domain::event::{Actor, EventContext};
use domain::subscription::Trigger;
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{AppendError, Clock, NewEvent, Store};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

/// The number of rows taken at once. It keeps a transaction well under 100 ms.
const ROWS_PER_STEP: i64 = 500;

/// An unfinished response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct PartialRow {
    /// The firm.
    pub firm_id: Uuid,
    /// The response.
    pub response_id: Uuid,
    /// The form of the response.
    pub form_id: Uuid,
    /// The time of the last answer, by the product's clock.
    pub answered_at: DateTime<Utc>,
    /// The time at which the response becomes a partial submission, unless another answer comes.
    pub due_at: DateTime<Utc>,
}

/// Sets or postpones the times at which responses become partial submissions.
pub async fn set_times(
    connection: &mut PgConnection,
    partials: &[PartialRow],
) -> Result<(), sqlx::Error> {
    if partials.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into partials (firm_id, response_id, form_id, answered_at, due_at)
         select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[],
                              $5::timestamptz[])
             on conflict (firm_id, response_id) do update
                set answered_at = excluded.answered_at, due_at = excluded.due_at",
    )
    .bind(partials.iter().map(|partial| partial.firm_id).collect::<Vec<_>>())
    .bind(partials.iter().map(|partial| partial.response_id).collect::<Vec<_>>())
    .bind(partials.iter().map(|partial| partial.form_id).collect::<Vec<_>>())
    .bind(partials.iter().map(|partial| partial.answered_at).collect::<Vec<_>>())
    .bind(partials.iter().map(|partial| partial.due_at).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Drops the rows of submitted or erased responses.
pub async fn drop_of(
    connection: &mut PgConnection,
    responses: &[(Uuid, Uuid)],
) -> Result<(), sqlx::Error> {
    if responses.is_empty() {
        return Ok(());
    }
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) = responses.iter().copied().unzip();
    sqlx::query(
        "delete from partials
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .execute(connection)
    .await?;
    Ok(())
}

/// The worker that records due partial submissions.
pub struct PartialTimer {
    store: Store,
    clock: Clock,
}

impl PartialTimer {
    /// Makes a timer of this log by this clock.
    #[must_use]
    pub const fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock }
    }
}

impl Worker for PartialTimer {
    const NAME: &'static str = "partials";
    const WAKES: WakeOn = WakeOn::Timer;
    const FIRST_DUE: Option<&'static str> = Some("select min(due_at) from partials");
    type Error = AppendError;

    async fn step(&mut self) -> Result<NextStep, AppendError> {
        if self.clock.fault().is_some() {
            return Ok(NextStep::HELD_UP);
        }
        let now = self.clock.now();
        let mut appending = self.store.begin().await?;
        let due = take_due(appending.connection(), now.get()).await?;
        if due.is_empty() {
            return Ok(NextStep::IDLE);
        }
        let context = |firm_id, correlation_id| EventContext {
            firm_id,
            recorded_at: now,
            actor: Actor::System,
            correlation_id,
            causation_id: None,
            traceparent: None,
            terminal: None,
        };
        let events = due.iter().map(|partial| {
            partial.partial_occurrence(context(partial.firm_id, partial.response_id))
        });
        appending.append_new(events.collect()).await?;
        appending.commit().await?;
        Ok(NextStep::Busy)
    }
}

impl PartialRow {
    /// Makes the occurrence. Its time is that of the last answer, so a repeat after a restore is
    /// the same occurrence (ruling 41, delivery ids survive a restore).
    fn partial_occurrence(&self, context: EventContext) -> NewEvent {
        let trigger = Trigger::PartialSubmission;
        let id = occurrence_id(self.firm_id, trigger, &self.response_id.to_string());
        let happening = Happening {
            trigger,
            form_id: self.form_id,
            response_id: self.response_id,
            report_id: None,
            booking_id: None,
            hooks: Vec::new(),
            seen: 0,
            silent: false,
            happened_at: self.answered_at.into(),
        };
        NewEvent {
            aggregate_id: id.to_string(),
            sequence: 1,
            event: OccurrenceEvent::OccurrenceRecorded(happening).into(),
            context,
        }
    }
}

async fn take_due(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<Vec<PartialRow>, sqlx::Error> {
    sqlx::query_as(
        "with due as (
             select firm_id, response_id from partials where due_at <= $1
              order by due_at limit $2 for update skip locked
         )
         delete from partials p using due
          where p.firm_id = due.firm_id and p.response_id = due.response_id
         returning p.firm_id, p.response_id, p.form_id, p.answered_at, p.due_at",
    )
    .bind(now)
    .bind(ROWS_PER_STEP)
    .fetch_all(connection)
    .await
}
