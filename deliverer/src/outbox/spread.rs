//! Spread: puts the rows of occurrences into the outbox whose own transaction had too many, by the list
//! of each. Firms take turns, and any number of processes work side by side. A process that sends leases
//! what it can send at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use eventstore::load_first;
use eventstore::worker::{NextStep, WakeOn, Worker};
use sqlx::PgConnection;
use uuid::Uuid;

use super::queue::rows;
use super::{NewOutboxRow, OutboxRow, insert};
use crate::claim::CommittedClaim;
use crate::dispatch::Dispatcher;
use crate::leasing::{BodySource, RowLeasing};
use crate::settings::{DelivererContext, DeliveryError};
use crate::withdrawn;

/// Occurrences taken at a time: 1,000 rows at most, so a transaction stays well under 100 ms.
const OCCURRENCES_PER_STEP: i64 = 10;

/// From one look to the next while deliveries are queued all the time.
const STEP_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The worker.
pub struct SpreadWorker {
    courier: DelivererContext,
    /// What sends, if this process does.
    dispatch: Option<Arc<Dispatcher>>,
    /// The firm whose turn was last.
    last_firm_id: Uuid,
    /// Whether the last step's leases were refused: the next step queues without leases.
    refused: bool,
    /// Until then others have the machine: what only waits is put in half of the time.
    rest_until: Option<Instant>,
}

impl SpreadWorker {
    /// A spreader of this outbox.
    #[must_use]
    pub const fn new(courier: DelivererContext) -> Self {
        Self {
            courier,
            dispatch: None,
            last_firm_id: Uuid::nil(),
            refused: false,
            rest_until: None,
        }
    }

    /// The same in a process that sends.
    #[must_use]
    pub fn that_leases(self, dispatch: Arc<Dispatcher>) -> Self {
        Self { dispatch: Some(dispatch), ..self }
    }

    /// What leases now, if anything does.
    fn leasing(&mut self) -> Option<RowLeasing> {
        if std::mem::take(&mut self.refused) {
            return None;
        }
        let dispatch = self.dispatch.clone().filter(|dispatch| dispatch.may_send())?;
        Some(RowLeasing { dispatch, now: self.courier.clock.now().get() })
    }
}

/// Puts in the rows of these occurrences; those that are leased are sent once that is committed.
async fn put_in(
    connection: &mut PgConnection,
    rows: Vec<OutboxRow>,
    leasing: Option<RowLeasing>,
    due_at: DateTime<Utc>,
) -> Result<Option<(Arc<Dispatcher>, CommittedClaim)>, DeliveryError> {
    let Some(leasing) = leasing else {
        let due = |row| NewOutboxRow { row, due_at, lease: None };
        insert(connection, &rows.into_iter().map(due).collect::<Vec<_>>()).await?;
        return Ok(None);
    };
    // A claim asks what became of these: what a partial submission tells of may be finished.
    let erased = withdrawn::erased_of(connection, rows.iter().map(OutboxRow::subject)).await?;
    let (for_claims, rows): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .partition(|row| row.is_first_of_partial() || erased.contains(&row.subject()));
    let (taken, rest) = leasing.lease(connection, rows, BodySource::Vault).await?;
    let mut new: Vec<NewOutboxRow> = leasing.rows(&taken).collect();
    let due = |row| NewOutboxRow { row, due_at, lease: None };
    new.extend(rest.into_iter().chain(for_claims).map(due));
    insert(connection, &new).await?;
    Ok(Some((leasing.dispatch, taken)).filter(|(_, taken)| !taken.leased.is_empty()))
}

impl Worker for SpreadWorker {
    const NAME: &'static str = "spread";
    const WAKES: WakeOn = WakeOn::Deliveries;
    const STEP_INTERVAL_MIN: Duration = STEP_INTERVAL_MIN;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        if let Some(rest) = self.rest_until.take() {
            let left = rest.saturating_duration_since(Instant::now());
            if left > Duration::from_millis(1) {
                self.rest_until = Some(rest);
                return Ok(NextStep::IdleFor(left));
            }
        }
        let began = Instant::now();
        let leasing = self.leasing();
        let store = &self.courier.store;
        let mut appending = store.begin().await?;
        let connection = appending.connection();
        let taken = take(connection, self.last_firm_id).await?;
        let Some((last, _)) = taken.last().copied() else {
            appending.rollback().await?;
            // Firms before the one whose turn was last may have something.
            let came_round = std::mem::replace(&mut self.last_firm_id, Uuid::nil());
            return Ok(if came_round.is_nil() { NextStep::IDLE } else { NextStep::Busy });
        };
        let ids: Vec<String> = taken.iter().map(|(_, id)| id.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut occurrences =
            load_first(connection, &store.upcasters(), "Occurrence", &ids).await?;
        occurrences.sort_unstable_by_key(|event| event.position);
        let due_at = self.courier.clock.now().get();
        let rows = occurrences.iter().flat_map(rows).collect();
        let taken = put_in(connection, rows, leasing, due_at).await.inspect_err(|error| {
            self.refused = !error.is_transient();
        })?;
        appending.deliveries_wait();
        eventstore::crash::point("spreading");
        appending.commit().await?;
        self.last_firm_id = last;
        if let Some((dispatch, taken)) = taken {
            dispatch.start_all(taken.hand_over(&self.courier).await?, false);
            return Ok(NextStep::Busy);
        }
        let took = began.elapsed();
        self.rest_until = Some(Instant::now() + took);
        Ok(NextStep::IdleFor(took))
    }
}

/// Takes the next occurrences: of each firm after this one the oldest, as many firms as there is room
/// for; of a firm alone as many as there is room for. Those that another process takes are left out.
async fn take(
    connection: &mut PgConnection,
    after: Uuid,
) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    sqlx::query_as(
        "with recursive firms as (
             (select firm_id, 1 as place from unspread where firm_id > $1
               order by firm_id limit 1)
             union all
             (select next.firm_id, f.place + 1 from firms f
               cross join lateral (select firm_id from unspread where firm_id > f.firm_id
                                    order by firm_id limit 1) next
               where f.place < $2)),
         chosen as materialized (
             select u.firm_id, u.position
               from firms f
              cross join lateral (
                    select firm_id, position from unspread
                     where firm_id = f.firm_id order by position
                     limit greatest($2 / (select count(*) from firms), 1)
                       for update skip locked) u),
         gone as (
             delete from unspread u using chosen c
              where u.firm_id = c.firm_id and u.position = c.position
             returning u.firm_id, u.position, u.occurrence_id)
         select firm_id, occurrence_id from gone order by firm_id, position",
    )
    .bind(after)
    .bind(OCCURRENCES_PER_STEP)
    .fetch_all(connection)
    .await
}
