//! Questions about events that have left the database.

use std::ops::RangeInclusive;

use chrono::{DateTime, TimeDelta, Utc};
use domain::values::Timestamp;
use eventstore::ranges::LogBorder;
use eventstore::tail::TailError;
use sqlx::PgConnection;
use uuid::Uuid;

use super::deliveries::KnownDelivery;

/// Times of neighbouring positions differ by at most this. The clocks of processes differ by seconds,
/// and an answer is recorded seconds after its end, or after an outage.
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

impl LeftStreams {
    /// The streams of a delivery of a firm. History knows when it was made and has ended, and the
    /// firm's replays may have sent it again since then.
    pub(super) async fn find(
        connection: &mut PgConnection,
        firm_id: Uuid,
        border: LogBorder,
        known: &KnownDelivery,
    ) -> Result<Self, sqlx::Error> {
        let KnownDelivery { begun, ended_at, .. } = known;
        let replays: Vec<(DateTime<Utc>, Option<DateTime<Utc>>)> = sqlx::query_as(
            "select requested_at, ended_at + interval '1 day' from replays
              where firm_id = $1 and requested_at between $2 and $3",
        )
        .bind(firm_id)
        .bind(begun.created_at)
        .bind(border.since)
        .fetch_all(connection)
        .await?;
        let own = (begun.created_at, *ended_at);
        let periods = replays.into_iter().chain([own]).map(|(since, until)| {
            let until = until.map_or(border.since, |until| until.min(border.since));
            // The border has no time if nothing lies behind it.
            let until = until.checked_add_signed(CLOCKS_DIFFER_MAX).unwrap_or(until);
            (since - CLOCKS_DIFFER_MAX).into()..=until.into()
        });
        let ids = begun.occurrence_id.into_iter().chain([begun.delivery_id]).collect();
        Ok(Self { ids, through: border.through, periods: periods.collect() })
    }
}
