//! Questions about events that have left the database.

use std::ops::RangeInclusive;

use chrono::TimeDelta;
use domain::values::Timestamp;
use eventstore::tail::TailError;
use uuid::Uuid;

/// Times of neighbouring positions differ by at most this. The clocks of processes differ by
/// seconds, and an answer is recorded seconds after its end, or after an outage.
pub(super) const CLOCKS_DIFFER_MAX: TimeDelta = TimeDelta::hours(1);

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
    /// The times of their events that have left.
    pub periods: Vec<RangeInclusive<Timestamp>>,
}
