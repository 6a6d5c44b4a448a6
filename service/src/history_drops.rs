//! The worker that lets old months of history leave, if the operator keeps history for a limited
//! time. The database checks again by itself that nothing needs a month.

use std::time::Duration;

use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{Clock, SweepTimer};
use projector::deliveries::{DroppedMonth, HistoryDrop, drop_oldest_range};
use sqlx::PgPool;

/// The worker. Each hour it drops all months that are old enough, one in a step.
pub struct HistoryDropWorker {
    pool: PgPool,
    clock: Clock,
    keep_for: Duration,
    timer: SweepTimer,
}

impl HistoryDropWorker {
    /// Makes a worker that drops a month whose end is as old as this. The first step looks.
    #[must_use]
    pub const fn new(pool: PgPool, clock: Clock, keep_for: Duration) -> Self {
        Self { pool, clock, keep_for, timer: SweepTimer::new() }
    }
}

impl Worker for HistoryDropWorker {
    const NAME: &'static str = "history_drop";
    const WAKES: WakeOn = WakeOn::Timer;
    /// A step counts the deliveries of a month.
    const STEP_TIME_MAX: Duration = Duration::from_secs(3_600);
    type Error = sqlx::Error;

    async fn step(&mut self) -> Result<NextStep, sqlx::Error> {
        let Some(now) = self.timer.now_if_due(&self.clock) else {
            return Ok(NextStep::IDLE);
        };
        match drop_oldest_range(&self.pool, now - self.keep_for).await? {
            HistoryDrop::Dropped(DroppedMonth { range, rows }) => {
                tracing::info!(range, rows, "a month of history has left");
                return Ok(NextStep::Busy);
            }
            HistoryDrop::Kept(why) => tracing::warn!(%why, "an old month of history stays"),
            HistoryDrop::InUse => {
                tracing::info!("an old month of history stays while somebody reads history");
            }
            HistoryDrop::NothingOld => {}
        }
        self.timer.end_sweep(now);
        Ok(NextStep::IDLE)
    }
}
