//! Questions about events that have left the database.

use std::ops::RangeInclusive;

use chrono::{DateTime, TimeDelta, Utc};
use domain::values::Timestamp;
use eventstore::ranges::LogBorder;
use eventstore::tail::TailError;
use uuid::Uuid;

/// A position has another time than its neighbours by this much at most, as the clocks of processes
/// differ by seconds.
const DISORDER_MAX: TimeDelta = TimeDelta::hours(1);

/// The reason why a question about a moment has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AsOfError {
    /// Reading stopped.
    #[error(transparent)]
    Tail(#[from] TailError),
    /// Events of these streams have left the database.
    #[error(
        "the events of this delivery are in the archive: pass `--archive-url`, or bring their \
         range back by `firmforms archive attach`"
    )]
    Left(LeftStreams),
    /// Events of a list have left the database.
    #[error(
        "deliveries up to position {through} are in the archive: `firmforms archive attach` \
         brings a range back"
    )]
    ListLeft {
        /// The last position that has left.
        through: i64,
    },
}

impl From<sqlx::Error> for AsOfError {
    fn from(error: sqlx::Error) -> Self {
        Self::Tail(error.into())
    }
}

/// Streams whose events have left the database, and where they lie in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftStreams {
    /// The streams: a delivery, and its occurrence if it has one.
    pub ids: Vec<Uuid>,
    /// The last position that has left.
    pub through: i64,
    /// The time of all their events that have left.
    pub period: RangeInclusive<Timestamp>,
}

impl LeftStreams {
    /// The streams of a delivery that was made and has ended at these times.
    pub(super) fn between(
        ids: Vec<Uuid>,
        border: LogBorder,
        created_at: DateTime<Utc>,
        ended_at: Option<DateTime<Utc>>,
    ) -> Self {
        let until = ended_at.map_or(border.since, |at| at.min(border.since));
        // The border has no time if nothing lies behind it.
        let until = until.checked_add_signed(DISORDER_MAX).unwrap_or(until);
        let period = (created_at - DISORDER_MAX).into()..=until.into();
        Self { ids, through: border.through, period }
    }
}
