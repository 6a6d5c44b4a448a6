//! Housekeeping: what is kept for a time only goes, a batch at a time.

use chrono::{DateTime, TimeDelta, Utc};
use eventstore::Clock;
use eventstore::worker::{NextStep, Worker};
use sqlx::PgPool;

use crate::{quotas, reports};

/// Rows that go at a time: a transaction stays well under 100 ms.
const ROWS_PER_STEP: u32 = 1_000;

/// From the end of a sweep to the next: what goes is 30 days old, an hour more is nothing.
const SWEEP_INTERVAL: TimeDelta = TimeDelta::hours(1);

/// The worker. Several may sweep at once, each takes what the others have not locked.
pub struct HousekeepingWorker {
    pool: PgPool,
    clock: Clock,
    next_sweep: Option<DateTime<Utc>>,
}

impl HousekeepingWorker {
    /// Sweeps this database by this clock, first as soon as it is stepped.
    #[must_use]
    pub const fn new(pool: PgPool, clock: Clock) -> Self {
        Self { pool, clock, next_sweep: None }
    }
}

impl Worker for HousekeepingWorker {
    const NAME: &'static str = "housekeeping";
    type Error = sqlx::Error;

    async fn step(&mut self) -> Result<NextStep, sqlx::Error> {
        if self.clock.fault().is_some() {
            return Ok(NextStep::IDLE);
        }
        let now = self.clock.now().get();
        if self.next_sweep.is_some_and(|next| now < next) {
            return Ok(NextStep::IDLE);
        }
        let yesterday = now.date_naive() - TimeDelta::days(1);
        let forgotten = reports::forget(&self.pool, now, ROWS_PER_STEP.into()).await?;
        let counted = quotas::forget(&self.pool, yesterday, ROWS_PER_STEP.into()).await?;
        if forgotten.max(counted) == u64::from(ROWS_PER_STEP) {
            return Ok(NextStep::Busy);
        }
        self.next_sweep = Some(now + SWEEP_INTERVAL);
        Ok(NextStep::IDLE)
    }
}
