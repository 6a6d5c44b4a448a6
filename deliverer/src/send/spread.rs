//! The spread worker: inserts the rows of unspread occurrences, as their lists say.
//!
//! Firms take turns, and any number of processes work side by side. A process that sends leases
//! the rows it can send at once.
//!
//! A delivery to a removed subscription is cancelled here and gets no row (ruling 27, cancelled).
//! Rows of a lane that is being closed meanwhile are cancelled by the cancel worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use domain::delivery::DeliveryEvent;
use domain::values::Timestamp;
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{NewEvent, crash, load_first};
use sqlx::PgConnection;
use uuid::Uuid;

use super::dispatcher::{Dispatcher, SendTiming};
use crate::claim::leased::LeasedClaim;
use crate::claim::leasing::{BodySource, LeasedAndWaitingRows, RowLeasing};
use crate::error::DeliveryError;
use crate::outbox::lanes;
use crate::outbox::queue::occurrence_rows;
use crate::outbox::row::{NewOutboxRow, OutboxRow, insert_rows};
use crate::outbox::unspread::take_unspread;
use crate::outbox::withdraw;
use crate::settings::DelivererContext;

/// The wait between steps while occurrences are recorded all the time.
const STEP_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A rest shorter than this is skipped. A timer is no more precise.
const REST_MIN: Duration = Duration::from_millis(1);

/// The worker.
pub struct SpreadWorker {
    deliverer: DelivererContext,
    /// The dispatcher, if this process sends.
    dispatch: Option<Arc<Dispatcher>>,
    /// The firm of the last occurrence that was taken.
    last_firm_id: Uuid,
    mode: SpreadMode,
}

/// The next step of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpreadMode {
    /// Leases rows that can be sent now, and inserts the rest. Entered at the start, and after all
    /// steps but the two below.
    Leasing,
    /// Inserts without leases, for one step. Entered when the database refused the rows of a step.
    /// A refused commit does not count: its rows may be leased again.
    InsertingOnly,
    /// Leaves the machine to others. Entered after a step that leased nothing and whose rows wait,
    /// for as long as that step took, so that rows that only wait take half of the time.
    Resting { until: Instant },
}

impl SpreadWorker {
    /// A worker that inserts rows and leases none.
    #[must_use]
    pub const fn new(deliverer: DelivererContext) -> Self {
        Self { deliverer, dispatch: None, last_firm_id: Uuid::nil(), mode: SpreadMode::Leasing }
    }

    /// A worker in a process that sends.
    #[must_use]
    pub fn that_leases(self, dispatch: Arc<Dispatcher>) -> Self {
        Self { dispatch: Some(dispatch), ..self }
    }

    /// Takes the next occurrences and inserts their rows. `None` if there is no occurrence.
    async fn spread_next(
        &mut self,
        sender: Option<&Dispatcher>,
    ) -> Result<Option<SpreadBatch>, DeliveryError> {
        let store = &self.deliverer.store;
        let now = self.deliverer.clock.now();
        let mut appending = store.begin().await?;
        let connection = appending.connection();
        use_outbox(connection).await?;
        let taken = take_unspread(connection, self.last_firm_id).await?;
        let Some((last_firm_id, _)) = taken.last().copied() else {
            appending.rollback().await?;
            return Ok(None);
        };
        let ids: Vec<String> = taken.iter().map(|(_, id)| id.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut occurrences =
            load_first(connection, &store.upcasters(), "Occurrence", &ids).await?;
        occurrences.sort_unstable_by_key(|event| event.position);
        let mut rows: Vec<OutboxRow> = occurrences.iter().flat_map(occurrence_rows).collect();
        let cancelled = cancel_closed(connection, &mut rows, now).await?;
        let effect = if rows.is_empty() {
            SpreadEffect::Cancelled
        } else {
            let leased =
                put_in(connection, rows, sender, now.get()).await.inspect_err(|error| {
                    if !error.is_transient() {
                        self.mode = SpreadMode::InsertingOnly;
                    }
                })?;
            appending.deliveries_wait();
            let leased = leased.filter(|leased| !leased.is_empty());
            leased.map_or(SpreadEffect::Waiting, |leased| SpreadEffect::Leased(Box::new(leased)))
        };
        if !cancelled.is_empty() {
            appending.append(cancelled).await?;
        }
        crash::point("spreading");
        appending.commit().await?;
        Ok(Some(SpreadBatch { last_firm_id, effect }))
    }
}

/// Shows the erase worker that this transaction uses the outbox. The worker then waits for the
/// bodies that are frozen here, and deletes them.
async fn use_outbox(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("lock table outbox in row exclusive mode").execute(connection).await?;
    Ok(())
}

/// A committed step.
struct SpreadBatch {
    last_firm_id: Uuid,
    effect: SpreadEffect,
}

/// The effect of a step on the rows of its occurrences.
enum SpreadEffect {
    /// Some got a lease.
    Leased(Box<LeasedClaim>),
    /// Those that were inserted wait.
    Waiting,
    /// No row was inserted.
    Cancelled,
}

/// Takes out the rows of closed lanes. Returns their cancellations, in the order of the log.
async fn cancel_closed(
    connection: &mut PgConnection,
    rows: &mut Vec<OutboxRow>,
    now: Timestamp,
) -> Result<Vec<NewEvent>, DeliveryError> {
    let lane_ids: BTreeSet<Uuid> = rows.iter().map(|row| row.lane_id).collect();
    let lane_ids: Vec<Uuid> = lane_ids.into_iter().collect();
    let closed = lanes::closed_among(connection, &lane_ids).await?;
    let of_closed = rows.extract_if(.., |row| closed.contains_key(&row.lane_id));
    let cancelled = of_closed.filter_map(|row| {
        let cause = *closed.get(&row.lane_id)?;
        let of = row.delivery_of();
        Some(row.next(DeliveryEvent::DeliveryCancelled { cause, of }, now))
    });
    Ok(cancelled.collect())
}

/// Inserts the rows. With a sender, the rows that can be sent now get a lease.
async fn put_in(
    connection: &mut PgConnection,
    rows: Vec<OutboxRow>,
    sender: Option<&Dispatcher>,
    now: DateTime<Utc>,
) -> Result<Option<LeasedClaim>, DeliveryError> {
    match sender {
        Some(Dispatcher { deliverer, limits, .. }) => {
            let leasing = RowLeasing { deliverer, limits, now };
            lease_and_insert(connection, rows, &leasing).await.map(Some)
        }
        None => {
            insert_due(connection, rows, now).await?;
            Ok(None)
        }
    }
}

async fn insert_due(
    connection: &mut PgConnection,
    rows: Vec<OutboxRow>,
    due_at: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let due = |row| NewOutboxRow { row, due_at, lease: None };
    insert_rows(connection, &rows.into_iter().map(due).collect::<Vec<_>>()).await
}

/// Inserts the rows, with leases where they can be sent now.
async fn lease_and_insert(
    connection: &mut PgConnection,
    rows: Vec<OutboxRow>,
    leasing: &RowLeasing<'_>,
) -> Result<LeasedClaim, DeliveryError> {
    // Left to a claim, which cancels them if their response was erased, or finished meanwhile.
    let erased = withdraw::erased_of(connection, rows.iter().map(OutboxRow::subject)).await?;
    let (for_claims, rows): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .partition(|row| row.is_first_of_partial() || erased.contains(&row.subject()));
    let LeasedAndWaitingRows { leased, waiting } =
        leasing.lease_rows(connection, rows, BodySource::Vault).await?;
    let mut new: Vec<NewOutboxRow> = leasing.new_rows(&leased).collect();
    let due = |row| NewOutboxRow { row, due_at: leasing.now, lease: None };
    new.extend(waiting.into_iter().chain(for_claims).map(due));
    insert_rows(connection, &new).await?;
    Ok(leased)
}

impl Worker for SpreadWorker {
    const NAME: &'static str = "spread";
    const WAKES: WakeOn = WakeOn::Deliveries;
    const STEP_INTERVAL_MIN: Duration = STEP_INTERVAL_MIN;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        if let SpreadMode::Resting { until } = self.mode {
            let left = until.saturating_duration_since(Instant::now());
            if left > REST_MIN {
                return Ok(NextStep::IdleFor(left));
            }
        }
        let mode = std::mem::replace(&mut self.mode, SpreadMode::Leasing);
        let began = Instant::now();
        let sender = self.dispatch.clone().filter(|sender| sender.may_send());
        let sender = sender.filter(|_| mode != SpreadMode::InsertingOnly);
        let batch = self.spread_next(sender.as_deref()).await?;
        let Some(SpreadBatch { last_firm_id, effect }) = batch else {
            // Firms before the last one may have new occurrences.
            let last_firm_id = std::mem::take(&mut self.last_firm_id);
            return Ok(if last_firm_id.is_nil() { NextStep::IDLE } else { NextStep::Busy });
        };
        self.last_firm_id = last_firm_id;
        match (effect, sender) {
            (SpreadEffect::Leased(leased), Some(sender)) => {
                sender.start_all(leased.hand_over(&self.deliverer).await?, SendTiming::InTime);
                Ok(NextStep::Busy)
            }
            (SpreadEffect::Cancelled, _) => Ok(NextStep::Busy),
            (SpreadEffect::Leased(_) | SpreadEffect::Waiting, _) => {
                let took = began.elapsed();
                self.mode = SpreadMode::Resting { until: Instant::now() + took };
                Ok(NextStep::IdleFor(took))
            }
        }
    }
}
