//! The clock shows the database's time. A monotonic clock carries the time on between measurements.
//! Each measurement is compared with this machine's clock. A clock that cannot be trusted reports a
//! fault.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use domain::operations::{ClockComparison, ClockFault};
use domain::values::Timestamp;
use sqlx::{PgConnection, PgPool};

use crate::outage;
use crate::pool::answer_within;

/// The interval between two measurements of the database's clock.
const MEASURE_INTERVAL: Duration = Duration::from_secs(10);

/// A database that takes longer than this gives no measurement.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A measurement is wrong by up to half of its round trip. A measurement with a round trip of at
/// most this is not repeated.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(100);

/// Round trips of one measurement, which takes the shortest.
const ROUND_TRIPS_MAX: u32 = 5;

/// The time of the service. All clones share one time.
#[derive(Clone)]
pub struct Clock(Arc<ClockState>);

struct ClockState {
    measurement: RwLock<ClockMeasurement>,
    wall: Arc<dyn WallClock>,
}

#[derive(Debug, Clone, Copy)]
struct ClockMeasurement {
    /// The database's time at the moment `taken`.
    at: DateTime<Utc>,
    taken: Instant,
    /// Whether time passes after the measurement. The clock of a test stands still.
    runs: bool,
    /// This machine's clock minus the database's clock.
    offset: TimeDelta,
    fault: Option<ClockFault>,
}

/// The clock of this machine, which other programs on this machine use.
pub trait WallClock: Send + Sync {
    /// Returns the time on this machine's clock.
    fn now(&self) -> DateTime<Utc>;
}

/// The real clock of this machine.
struct MachineClock;

impl WallClock for MachineClock {
    #[expect(clippy::disallowed_methods, reason = "only compared with the database's clock")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

impl Clock {
    /// Measures the database's clock and compares the measurement with this machine's clock.
    pub async fn of_database(pool: &PgPool) -> Result<Self, sqlx::Error> {
        Self::measured_beside(Arc::new(MachineClock), pool).await
    }

    /// Measures the database's clock and compares the measurement with this wall clock.
    pub async fn measured_beside(
        wall: Arc<dyn WallClock>,
        pool: &PgPool,
    ) -> Result<Self, sqlx::Error> {
        let (at, taken) = database_time(pool).await?;
        let machine = wall.now();
        let fault = ClockComparison { database: at, machine, expected: None }.fault();
        log_fault_change(None, fault);
        Ok(Self::with_measurement(
            ClockMeasurement { at, taken, runs: true, offset: machine - at, fault },
            wall,
        ))
    }

    /// Returns a clock that stands still until a test moves it.
    #[must_use]
    pub fn standing_at(at: Timestamp) -> Self {
        let measurement = ClockMeasurement {
            at: at.get(),
            taken: Instant::now(),
            runs: false,
            offset: TimeDelta::zero(),
            fault: None,
        };
        Self::with_measurement(measurement, Arc::new(MachineClock))
    }

    fn with_measurement(measurement: ClockMeasurement, wall: Arc<dyn WallClock>) -> Self {
        Self(Arc::new(ClockState { measurement: RwLock::new(measurement), wall }))
    }

    /// Returns the time now, in whole milliseconds.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from(self.last_measurement().time_at(Instant::now()))
    }

    /// Returns why the time cannot be trusted, while there is a reason. Meanwhile nothing may be
    /// sent, and nothing may be dropped because of its age.
    #[must_use]
    pub fn fault(&self) -> Option<ClockFault> {
        self.last_measurement().fault
    }

    /// Returns this machine's clock minus the database's clock, at the last measurement.
    #[must_use]
    pub fn offset(&self) -> TimeDelta {
        self.last_measurement().offset
    }

    /// Moves a standing clock forward, for tests.
    pub fn advance(&self, by: Duration) {
        let mut measurement = self.0.measurement.write().unwrap_or_else(PoisonError::into_inner);
        measurement.at += TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
    }

    /// Measures at the interval until the future is dropped. A failed measurement is repeated at
    /// the next interval.
    pub async fn keep_measured(self, pool: PgPool) {
        loop {
            tokio::time::sleep(MEASURE_INTERVAL).await;
            if let Err(error) = self.measure(&pool).await
                && !outage::explains(&error)
            {
                tracing::warn!(%error, "could not read the database's clock");
            }
        }
    }

    /// Measures once.
    ///
    /// # Errors
    /// If the database does not answer. The last measurement then stays in use.
    pub async fn measure(&self, pool: &PgPool) -> Result<(), sqlx::Error> {
        let (at, taken) = database_time(pool).await?;
        let last = self.last_measurement();
        let machine = self.0.wall.now();
        let clocks = ClockComparison { database: at, machine, expected: Some(last.time_at(taken)) };
        let fault = clocks.fault();
        log_fault_change(last.fault, fault);
        let new = ClockMeasurement { at, taken, runs: true, offset: machine - at, fault };
        *self.0.measurement.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    fn last_measurement(&self) -> ClockMeasurement {
        *self.0.measurement.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.last_measurement()).finish()
    }
}

impl ClockMeasurement {
    fn time_at(&self, now: Instant) -> DateTime<Utc> {
        let passed = if self.runs { now.duration_since(self.taken) } else { Duration::ZERO };
        self.at + TimeDelta::from_std(passed).unwrap_or(TimeDelta::MAX)
    }
}

/// Makes up to five round trips and uses the shortest. Returns the database's time, and the moment
/// of this machine at which it was read.
async fn database_time(pool: &PgPool) -> Result<(DateTime<Utc>, Instant), sqlx::Error> {
    // The wait for a connection must not count as part of the measurement.
    let mut connection = pool.acquire().await?;
    let mut shortest = RoundTrip::new(&mut connection).await?;
    for _ in 1..ROUND_TRIPS_MAX {
        if shortest.took <= ROUND_TRIP_MAX {
            break;
        }
        let next = RoundTrip::new(&mut connection).await?;
        if next.took < shortest.took {
            shortest = next;
        }
    }
    // The server read its clock at about the middle of the round trip.
    Ok((shortest.at, shortest.asked + shortest.took / 2))
}

/// One question for the database's time.
struct RoundTrip {
    at: DateTime<Utc>,
    asked: Instant,
    took: Duration,
}

impl RoundTrip {
    async fn new(connection: &mut PgConnection) -> Result<Self, sqlx::Error> {
        let asked = Instant::now();
        let question = sqlx::query_scalar("select clock_timestamp()").fetch_one(connection);
        let at = answer_within(ANSWER_WITHIN, question).await?;
        Ok(Self { at, asked, took: asked.elapsed() })
    }
}

/// Logs a fault once when it appears, and once when it is over.
fn log_fault_change(before: Option<ClockFault>, now: Option<ClockFault>) {
    match (before, now) {
        (Some(before), Some(now)) if before.is_like(&now) => {}
        (_, Some(fault)) => tracing::error!("{fault}"),
        (Some(_), None) => tracing::info!("the clocks agree again"),
        (None, None) => {}
    }
}
