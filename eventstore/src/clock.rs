//! The clock: the database's time, carried on by a steady clock between measurements.

use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use domain::time::Timestamp;
use sqlx::PgPool;

/// How often a process measures its distance from the database's clock.
const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// What time it is. Clones share one time.
#[derive(Debug, Clone)]
pub struct Clock(Arc<RwLock<Reading>>);

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: DateTime<Utc>,
    taken: Instant,
    runs: bool,
}

impl Clock {
    /// The database's clock, measured now.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn of_database(pool: &PgPool) -> Result<Self, sqlx::Error> {
        Ok(Self(Arc::new(RwLock::new(measure(pool).await?))))
    }

    /// A clock that stands still until it is moved: for tests.
    #[must_use]
    pub fn standing_at(at: Timestamp) -> Self {
        Self(Arc::new(RwLock::new(Reading { at: at.get(), taken: Instant::now(), runs: false })))
    }

    /// The time now, in whole milliseconds.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let reading = *self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let passed = if reading.runs { reading.taken.elapsed() } else { Duration::ZERO };
        Timestamp::from(reading.at + TimeDelta::from_std(passed).unwrap_or(TimeDelta::MAX))
    }

    /// Moves a standing clock on: for tests.
    pub fn advance(&self, by: Duration) {
        let mut reading = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        reading.at += TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
    }

    /// Measures again and again until dropped; a database that does not answer is asked later.
    pub async fn keep_measured(self, pool: PgPool) {
        loop {
            tokio::time::sleep(MEASURE_EVERY).await;
            match measure(&pool).await {
                Ok(reading) => {
                    *self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = reading;
                }
                Err(error) => tracing::warn!(%error, "could not read the database's clock"),
            }
        }
    }
}

/// The database's time at the middle of the question.
async fn measure(pool: &PgPool) -> Result<Reading, sqlx::Error> {
    // Waiting for a connection is not part of the question.
    let mut connection = pool.acquire().await?;
    let asked = Instant::now();
    let at: DateTime<Utc> =
        sqlx::query_scalar("select clock_timestamp()").fetch_one(&mut *connection).await?;
    let half = asked.elapsed() / 2;
    Ok(Reading {
        at: at + TimeDelta::from_std(half).unwrap_or_default(),
        taken: Instant::now(),
        runs: true,
    })
}
