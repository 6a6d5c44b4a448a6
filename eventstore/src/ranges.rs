//! The ranges of the log. Occurrences and deliveries lie in ranges of 2^24 positions, which are made
//! ahead of the end of the log: a position without a range refuses its append.
//!
//! A log of before 0.3.0 is one table. Once no process of such a build serves the database, the
//! table becomes the first range, in steps of which none holds an append up for over a second.

use std::time::Duration;

use sqlx::{Executor, PgConnection};

use crate::nudge::NewFormats;
use crate::store::Store;
use crate::worker::{NextStep, WakeOn, Worker};

/// The wait after a step that found the log locked for too long.
const LOCKED_WAIT: Duration = Duration::from_secs(10);

/// The SQL state of a wait for a lock that took too long.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// The worker that lays the log out, and makes the next ranges.
pub struct LogRanges {
    store: Store,
    new_formats: NewFormats,
    is_laid_out: bool,
}

impl LogRanges {
    /// Makes a worker for this log. An older build cannot append to a log in ranges.
    #[must_use]
    pub const fn new(store: Store, new_formats: NewFormats) -> Self {
        Self { store, new_formats, is_laid_out: false }
    }
}

impl Worker for LogRanges {
    const NAME: &'static str = "log_ranges";
    const WAKES: WakeOn = WakeOn::Timer;
    type Error = sqlx::Error;

    async fn step(&mut self) -> Result<NextStep, sqlx::Error> {
        if !self.is_laid_out {
            if !self.new_formats.are_allowed() {
                return Ok(NextStep::IDLE);
            }
            self.is_laid_out = match lay_out_further(&self.store).await {
                Err(error) if is_lock_timeout(&error) => {
                    return Ok(NextStep::IdleFor(LOCKED_WAIT));
                }
                laid_out => laid_out?,
            };
            return Ok(NextStep::Busy);
        }
        let mut connection = self.store.connections().take().await?;
        make_next_ranges(&mut connection).await?;
        self.store.connections().give_back(connection);
        Ok(NextStep::IDLE)
    }
}

/// Does the next step towards a log in ranges. Returns whether the log has them.
async fn lay_out_further(store: &Store) -> Result<bool, sqlx::Error> {
    let mut transaction = store.pool().begin().await?;
    // One of the steps reads the whole log, beside readers and writers.
    transaction.execute("set local statement_timeout = 0").await?;
    let is_laid_out =
        sqlx::query_scalar("select lay_out_log()").fetch_one(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(is_laid_out)
}

fn is_lock_timeout(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.code().as_deref() == Some(LOCK_NOT_AVAILABLE))
}

/// Makes the range of the next position, and the two ranges after it.
///
/// # Errors
/// If the database does not answer, or a lock is held for too long.
pub async fn make_next_ranges(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    connection
        .execute(
            "select make_log_range(number)
               from events_position_seq
              cross join generate_series(last_value >> 24, (last_value >> 24) + 2) as number
              where to_regclass('ranges.log_traffic_' || number) is null",
        )
        .await?;
    Ok(())
}
