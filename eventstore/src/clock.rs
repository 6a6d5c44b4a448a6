//! The clock: the database's time, carried on by a steady clock between measurements. Each holds it
//! against this machine's clock: one that cannot be trusted says so.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use domain::clock::{ClockComparison, ClockFault};
use domain::time::Timestamp;
use sqlx::PgPool;

/// How often a process measures its distance from the database's clock.
const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// A database that takes longer than this to tell the time has told nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What time it is. Clones share one time.
#[derive(Clone)]
pub struct Clock(Arc<ClockState>);

struct ClockState {
    reading: RwLock<ClockMeasurement>,
    wall: Arc<dyn WallClock>,
}

#[derive(Debug, Clone, Copy)]
struct ClockMeasurement {
    at: DateTime<Utc>,
    taken: Instant,
    runs: bool,
    /// This machine's clock less the database's.
    offset: TimeDelta,
    fault: Option<ClockFault>,
}

/// The clock on this machine's wall: what others on this machine believe.
pub trait WallClock: Send + Sync {
    /// What it shows.
    fn now(&self) -> DateTime<Utc>;
}

/// The real one.
struct MachineClock;

impl WallClock for MachineClock {
    #[expect(clippy::disallowed_methods, reason = "held against the database's, and nothing else")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

impl Clock {
    /// The database's clock, measured now.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn of_database(pool: &PgPool) -> Result<Self, sqlx::Error> {
        Self::beside(Arc::new(MachineClock), pool).await
    }

    /// The database's clock, held against this wall clock.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn beside(wall: Arc<dyn WallClock>, pool: &PgPool) -> Result<Self, sqlx::Error> {
        let (at, taken) = database_time(pool).await?;
        let machine = wall.now();
        let fault = ClockComparison { database: at, machine, expected: None }.fault();
        log_fault_change(None, fault);
        Ok(Self::reading(
            ClockMeasurement { at, taken, runs: true, offset: machine - at, fault },
            wall,
        ))
    }

    /// A clock that stands still until it is moved: for tests.
    #[must_use]
    pub fn standing_at(at: Timestamp) -> Self {
        let (taken, offset) = (Instant::now(), TimeDelta::zero());
        let reading = ClockMeasurement { at: at.get(), taken, runs: false, offset, fault: None };
        Self::reading(reading, Arc::new(MachineClock))
    }

    fn reading(reading: ClockMeasurement, wall: Arc<dyn WallClock>) -> Self {
        Self(Arc::new(ClockState { reading: RwLock::new(reading), wall }))
    }

    /// The time now, in whole milliseconds.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from(self.last().shows(Instant::now()))
    }

    /// Why the time cannot be trusted, while that is so: nothing may be sent by it, or given up
    /// because it seems old.
    #[must_use]
    pub fn fault(&self) -> Option<ClockFault> {
        self.last().fault
    }

    /// This machine's clock less the database's, at the last measurement.
    #[must_use]
    pub fn offset(&self) -> TimeDelta {
        self.last().offset
    }

    /// Moves a standing clock on: for tests.
    pub fn advance(&self, by: Duration) {
        let mut reading = self.0.reading.write().unwrap_or_else(PoisonError::into_inner);
        reading.at += TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
    }

    /// Measures again and again until dropped; a database that does not answer is asked later.
    pub async fn keep_measured(self, pool: PgPool) {
        loop {
            tokio::time::sleep(MEASURE_EVERY).await;
            if let Err(error) = self.measure(&pool).await {
                tracing::warn!(%error, "could not read the database's clock");
            }
        }
    }

    /// Measures once.
    ///
    /// # Errors
    /// If the database does not answer: the last measurement goes on.
    pub async fn measure(&self, pool: &PgPool) -> Result<(), sqlx::Error> {
        let (at, taken) = database_time(pool).await?;
        let last = self.last();
        let machine = self.0.wall.now();
        let clocks = ClockComparison { database: at, machine, expected: Some(last.shows(taken)) };
        let fault = clocks.fault();
        log_fault_change(last.fault, fault);
        let new = ClockMeasurement { at, taken, runs: true, offset: machine - at, fault };
        *self.0.reading.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    fn last(&self) -> ClockMeasurement {
        *self.0.reading.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.last()).finish()
    }
}

impl ClockMeasurement {
    fn shows(&self, now: Instant) -> DateTime<Utc> {
        let passed = if self.runs { now.duration_since(self.taken) } else { Duration::ZERO };
        self.at + TimeDelta::from_std(passed).unwrap_or(TimeDelta::MAX)
    }
}

/// The database's time, and the moment at which it was so.
async fn database_time(pool: &PgPool) -> Result<(DateTime<Utc>, Instant), sqlx::Error> {
    // Waiting for a connection is not part of the question.
    let mut connection = pool.acquire().await?;
    let asked = Instant::now();
    let question = sqlx::query_scalar("select clock_timestamp()").fetch_one(&mut *connection);
    let at: DateTime<Utc> = tokio::time::timeout(ANSWER_WITHIN, question)
        .await
        .map_err(|late| sqlx::Error::Io(late.into()))??;
    // At the middle of the question.
    Ok((at, asked + asked.elapsed() / 2))
}

/// Says once what is wrong, and once that it is over.
fn log_fault_change(before: Option<ClockFault>, now: Option<ClockFault>) {
    match (before, now) {
        (Some(before), Some(now)) if before.is_like(&now) => {}
        (_, Some(fault)) => tracing::error!("{fault}"),
        (Some(_), None) => tracing::info!("the clocks agree again"),
        (None, None) => {}
    }
}
