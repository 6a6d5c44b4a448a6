//! The worker of closed firms: drops a firm's data when its grace time is over (ruling 45, a closed
//! firm's data; case H8).
//!
//! The event comes first, and intake ignores activities about the firm from then on. Then the data
//! keys go, and then the rows. Each sweep looks at all firms whose data are dropped. So it also
//! finds data from a restored backup, and rows of a batch that began before the event.

use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::firm::{Firm, FirmCommand};
use eventstore::firm_rows::{self, FirmRowsCursor, FirmTable};
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{AppendError, CommandError, SweepTimer, load_recorded_at};
use projector::firms;
use sqlx::PgConnection;
use uuid::Uuid;

use super::purge::is_only_purger;
use crate::attempt::system_context;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Rows of one step, so that its transaction stays well under 100 ms.
const ROWS_PER_STEP: usize = 1_000;

/// Closed firms of one step.
const FIRMS_PER_STEP: i64 = 20;

/// Firms whose data are dropped, in one step. Nothing is left of most of them.
const DROPPED_FIRMS_PER_STEP: i64 = 100;

/// The wait between two steps, for the other users of the disk.
const STEP_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// The worker. Several may sweep at once. One at a time deletes rows.
pub struct ClosedFirmWorker {
    deliverer: DelivererContext,
    tables: Vec<FirmTable>,
    timer: SweepTimer,
    stage: SweepStage,
}

/// The stage of a sweep. A new process begins at the first.
#[derive(Debug, Clone)]
enum SweepStage {
    /// Looks for closed firms after this one whose grace time is over.
    Closed { after: Uuid },
    /// Looks for data of dropped firms after this one.
    Dropped { after: Uuid },
    /// Deletes the data of these firms, the last first, and then looks on.
    Deleting { firm_ids: Vec<Uuid>, place: FirmPlace, after: Uuid },
}

/// The outcome of a step.
enum StepOutcome {
    /// The sweep goes on at this stage.
    Went(SweepStage),
    /// The purge or a rebuild holds the lock of those that delete bodies.
    HeldElsewhere,
    /// The sweep has ended.
    Over,
}

/// A place in the data of one firm: its keys, then its rows.
#[derive(Debug, Clone, Copy, Default)]
struct FirmPlace {
    keys: FirmRowsCursor,
    rows: FirmRowsCursor,
}

impl SweepStage {
    const FIRST: Self = Self::Closed { after: Uuid::nil() };
}

impl ClosedFirmWorker {
    /// A worker of this vault. Its first step begins a sweep.
    #[must_use]
    pub fn new(deliverer: DelivererContext) -> Self {
        let tables = [vault::FIRM_TABLES, projector::FIRM_TABLES].concat();
        Self { deliverer, tables, timer: SweepTimer::new(), stage: SweepStage::FIRST }
    }
}

impl Worker for ClosedFirmWorker {
    const NAME: &'static str = "closed_firms";
    const WAKES: WakeOn = WakeOn::Timer;
    const STEP_INTERVAL_MIN: Duration = STEP_INTERVAL_MIN;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        let Some(now) = self.timer.now_if_due(&self.deliverer.clock) else {
            return Ok(NextStep::IDLE);
        };
        let outcome = match self.stage.clone() {
            SweepStage::Closed { after } => self.drop_closed(after, now).await?,
            SweepStage::Dropped { after } => self.find_leftovers(after).await?,
            SweepStage::Deleting { firm_ids, place, after } => {
                self.delete_next(firm_ids, place, after).await?
            }
        };
        match outcome {
            StepOutcome::Went(stage) => {
                self.stage = stage;
                Ok(NextStep::Busy)
            }
            StepOutcome::HeldElsewhere => Ok(NextStep::IDLE),
            StepOutcome::Over => {
                self.stage = SweepStage::FIRST;
                self.timer.end_sweep(now);
                Ok(NextStep::IDLE)
            }
        }
    }
}

impl ClosedFirmWorker {
    /// Records that the data of the next firms are dropped, if their grace time is over.
    async fn drop_closed(
        &self,
        after: Uuid,
        now: DateTime<Utc>,
    ) -> Result<StepOutcome, DeliveryError> {
        let mut connection = self.deliverer.store.pool().acquire().await?;
        let closed = firms::closed_after(&mut connection, after, FIRMS_PER_STEP).await?;
        let Some(last) = closed.last().copied() else {
            return Ok(StepOutcome::Went(SweepStage::Dropped { after: Uuid::nil() }));
        };
        let streams: Vec<String> = closed.iter().map(Uuid::to_string).collect();
        let closings = load_recorded_at(&mut connection, "Firm", "FirmClosed", &streams).await?;
        let busy = with_deliveries(&mut connection, &closed).await?;
        drop(connection);
        let before = now - self.deliverer.settings.retention.closed_firm;
        for firm_id in closed {
            let is_over = closings.get(&firm_id.to_string()).is_some_and(|at| *at <= before);
            if is_over && !busy.contains(&firm_id) {
                self.record_dropped(firm_id).await?;
            }
        }
        Ok(StepOutcome::Went(SweepStage::Closed { after: last }))
    }

    async fn record_dropped(&self, firm_id: Uuid) -> Result<(), DeliveryError> {
        let now = self.deliverer.clock.now();
        let context = system_context(firm_id, self.deliverer.entropy.new_id(), now);
        let command = FirmCommand::DropData;
        match self.deliverer.store.execute::<Firm>(&firm_id.to_string(), command, &context).await {
            Ok(()) => Ok(()),
            Err(CommandError::Append(error)) => Err(error.into()),
            // The read model names the firm as closed, and closing is final.
            Err(CommandError::Rejected(why)) => {
                Err(AppendError::Unreadable(why.to_string()).into())
            }
        }
    }

    /// Looks for data of the next firms whose data are dropped.
    async fn find_leftovers(&self, after: Uuid) -> Result<StepOutcome, DeliveryError> {
        let mut connection = self.deliverer.store.pool().acquire().await?;
        let dropped = firms::dropped_after(&mut connection, after, DROPPED_FIRMS_PER_STEP).await?;
        let Some(after) = dropped.last().copied() else {
            return Ok(StepOutcome::Over);
        };
        let mut firm_ids = firm_rows::with_rows(&mut connection, &self.tables, &dropped).await?;
        drop(connection);
        firm_ids.extend(self.deliverer.keyring.firms_with_keys(&dropped).await?);
        firm_ids.sort_unstable();
        firm_ids.dedup();
        let place = FirmPlace::default();
        Ok(StepOutcome::Went(SweepStage::Deleting { firm_ids, place, after }))
    }

    /// Deletes the next keys or rows of the last of these firms.
    async fn delete_next(
        &self,
        mut firm_ids: Vec<Uuid>,
        mut place: FirmPlace,
        after: Uuid,
    ) -> Result<StepOutcome, DeliveryError> {
        let Some(firm_id) = firm_ids.last().copied() else {
            return Ok(StepOutcome::Went(SweepStage::Dropped { after }));
        };
        let keyring = &self.deliverer.keyring;
        let mut deleted = keyring.forget_firm(firm_id, &mut place.keys, ROWS_PER_STEP).await?;
        if deleted < ROWS_PER_STEP {
            let mut transaction = self.deliverer.store.pool().begin().await?;
            // The purge deletes bodies too, in another order.
            if !is_only_purger(&mut transaction).await? {
                return Ok(StepOutcome::HeldElsewhere);
            }
            let left = ROWS_PER_STEP - deleted;
            let rows = &mut place.rows;
            deleted +=
                firm_rows::drop_next(&mut transaction, &self.tables, firm_id, rows, left).await?;
            transaction.commit().await?;
        }
        if deleted < ROWS_PER_STEP {
            firm_ids.pop();
            place = FirmPlace::default();
        }
        Ok(StepOutcome::Went(SweepStage::Deleting { firm_ids, place, after }))
    }
}

/// The firms among these with deliveries in the outbox: the cancel worker comes first.
async fn with_deliveries(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select f.firm_id from unnest($1::uuid[]) as f(firm_id)
          where exists (select 1 from outbox o
                         where o.firm_id = f.firm_id and o.leased_at is null)
             or f.firm_id = any(array(select firm_id from outbox where leased_at is not null))",
    )
    .bind(firm_ids)
    .fetch_all(connection)
    .await
}
