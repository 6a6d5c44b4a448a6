//! The housekeeping worker forgets rows that are kept for a limited time only, and notes the sizes
//! of tables once a day.

use chrono::TimeDelta;
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{Clock, SweepTimer};
use sqlx::PgPool;

use crate::{
    activity_ids, hook_requests, invite_tries, portal_sessions, quotas, receivers, replay_items,
    sign_ins, subjects, table_sizes,
};

/// The number of rows that one step deletes. It keeps a transaction well under 100 ms.
const ROWS_PER_STEP: u32 = 1_000;

/// Days whose sizes of tables are kept.
const SIZES_KEPT_DAYS: i64 = 100;

/// The worker. Several may sweep at once, because each skips the rows that another has locked.
pub struct HousekeepingWorker {
    pool: PgPool,
    clock: Clock,
    timer: SweepTimer,
}

impl HousekeepingWorker {
    /// Makes a worker that sweeps this database by this clock. The first step sweeps.
    #[must_use]
    pub const fn new(pool: PgPool, clock: Clock) -> Self {
        Self { pool, clock, timer: SweepTimer::new() }
    }
}

impl Worker for HousekeepingWorker {
    const NAME: &'static str = "housekeeping";
    const WAKES: WakeOn = WakeOn::Timer;
    type Error = sqlx::Error;

    async fn step(&mut self) -> Result<NextStep, sqlx::Error> {
        let Some(now) = self.timer.now_if_due(&self.clock) else {
            return Ok(NextStep::IDLE);
        };
        let yesterday = now.date_naive() - TimeDelta::days(1);
        let forgotten = activity_ids::forget(&self.pool, now, ROWS_PER_STEP.into()).await?;
        let counted = quotas::forget(&self.pool, yesterday, ROWS_PER_STEP.into()).await?;
        let tried = invite_tries::forget(&self.pool, yesterday, ROWS_PER_STEP.into()).await?;
        let waited = subjects::forget_waiting(&self.pool, now, ROWS_PER_STEP.into()).await?;
        let replayed = replay_items::forget(&self.pool, now, ROWS_PER_STEP.into()).await?;
        let asked = hook_requests::forget(&self.pool, now, ROWS_PER_STEP.into()).await?;
        let visited = portal_sessions::forget(&self.pool, now, ROWS_PER_STEP.into()).await?;
        let signed_in = sign_ins::forget(&self.pool, now, ROWS_PER_STEP.into()).await?;
        let two_days_ago = now - TimeDelta::days(2);
        let sent = receivers::forget(&self.pool, two_days_ago, ROWS_PER_STEP.into()).await?;
        table_sizes::note_day(&self.pool, now.date_naive()).await?;
        let last_kept = now.date_naive() - TimeDelta::days(SIZES_KEPT_DAYS);
        let sized = table_sizes::forget(&self.pool, last_kept, ROWS_PER_STEP.into()).await?;
        let gone =
            [forgotten, counted, tried, waited, replayed, asked, visited, signed_in, sent, sized];
        let most = gone.into_iter().max();
        if most == Some(u64::from(ROWS_PER_STEP)) {
            return Ok(NextStep::Busy);
        }
        self.timer.end_sweep(now);
        Ok(NextStep::IDLE)
    }
}
