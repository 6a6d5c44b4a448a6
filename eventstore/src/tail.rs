//! The tail reads the log in order, below the fence.
//!
//! A caller gives a [`LogRange`], which ends at the position that [`crate::Fence`] has settled.
//! The follower's position is in [`crate::checkpoint`]. An event that this build cannot read is an
//! error and is never skipped.

use chrono::{DateTime, Utc};
use domain::values::Timestamp;
use futures::TryStreamExt;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};
use uuid::Uuid;

use crate::event::RecordedEvent;
use crate::stored_event::{StoredEvent, events_where};
use crate::upcast::Upcasters;

pub use crate::error::TailError;

/// A range of the log: the events after one position, up to the settled position.
#[derive(Debug, Clone, Copy)]
pub struct LogRange {
    /// The position of the reader.
    pub after: i64,
    /// The position up to which the log is settled.
    pub settled: i64,
    /// The largest number of events to read.
    pub limit: i64,
}

/// The newest events that [`begun_after`] reads. `None` sets no bound.
#[derive(Debug, Clone, Copy)]
pub struct ReadUntil {
    /// Events recorded at this time or earlier.
    pub recorded_at: Option<DateTime<Utc>>,
    /// Events at this position or below.
    pub position: Option<i64>,
}

/// Reads the events of a range, in order.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing of the batch is handed out.
pub async fn read(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    range: LogRange,
) -> Result<Vec<RecordedEvent>, TailError> {
    read_except(connection, upcasters, range, &[]).await
}

/// Reads the events of a range in order, without the events of the excluded names. PostgreSQL does
/// not return excluded events.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing of the batch is handed out.
pub async fn read_except(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    range: LogRange,
    excluded: &[&str],
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = events_where!(
        "position > $1 and position <= $2 and event_type <> all($4) order by position limit $3"
    );
    let statement = sqlx::query(statement)
        .bind(range.after)
        .bind(range.settled)
        .bind(range.limit)
        .bind(excluded);
    read_all(statement, connection, upcasters).await
}

/// Reads the event at this position, if there is one.
pub async fn read_at(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    position: i64,
) -> Result<Option<RecordedEvent>, TailError> {
    let statement = sqlx::query(events_where!("position = $1")).bind(position);
    Ok(read_all(statement, connection, upcasters).await?.pop())
}

/// Reads the erasures of a range, in order. Erasures are few and have an index of their own.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing of the batch is handed out.
pub async fn read_erasures(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    range: LogRange,
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = events_where!(
        "aggregate_type = 'Response' and position > $1 and position <= $2
          order by position limit $3"
    );
    let statement = sqlx::query(statement).bind(range.after).bind(range.settled).bind(range.limit);
    read_all(statement, connection, upcasters).await
}

/// The attempts that [`recent_attempts`] reads.
#[derive(Debug, Clone)]
pub struct RecentAttempts {
    /// The firms of the attempts.
    pub firm_ids: Vec<Uuid>,
    /// The attempts ended later than this.
    pub since: Timestamp,
    /// The number of positions to read, from the end of the log.
    pub positions: i64,
}

/// Reads attempts near the end of the log, settled or not, in order.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn recent_attempts(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    RecentAttempts { firm_ids, since, positions }: &RecentAttempts,
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = events_where!(
        "position > (select max(position) from events) - $1
            and aggregate_type = 'Delivery' and event_type = 'DeliveryAttempted'
            and recorded_at > $2 and firm_id = any($3)
          order by position"
    );
    let statement = sqlx::query(statement).bind(positions).bind(since.get()).bind(firm_ids);
    read_all(statement, connection, upcasters).await
}

/// The newest positions among which [`newest_occurrences`] looks.
const NEWEST_POSITIONS: i64 = 10_000;

/// Reads the newest occurrences of the log, the newest first. Looks only at the end of the log, so
/// there may be none.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn newest_occurrences(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    limit: i64,
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = events_where!(
        "position > (select max(position) from events) - $1 and aggregate_type = 'Occurrence'
          order by position desc limit $2"
    );
    let statement = sqlx::query(statement).bind(NEWEST_POSITIONS).bind(limit);
    read_all(statement, connection, upcasters).await
}

/// Returns the digest of the event at this position, if there is one.
pub async fn digest_at(
    connection: &mut PgConnection,
    position: i64,
) -> Result<Option<Vec<u8>>, sqlx::Error> {
    sqlx::query_scalar("select digest from events where position = $1")
        .bind(position)
        .fetch_optional(connection)
        .await
}

/// Reads a firm's events that begin deliveries and that a follower has not read, the newest first.
/// Such an event is an occurrence that lists a subscription, or an event that queues a delivery.
/// Events that were recorded at one instant are all read, or none of them is.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn begun_after(
    follower: &str,
    connection: &mut PgConnection,
    firm_id: Uuid,
    until: ReadUntil,
    limit: usize,
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = events_where!(
        "position > coalesce((select position from checkpoints where name = $1), 0)
            and firm_id = $2
            and (aggregate_type = 'Occurrence'
                 and payload->'OccurrenceRecorded'->'hooks' is not null
                 or aggregate_type = 'Delivery' and sequence = 1
                 and event_type not in ('DeliveryAttempted', 'DeliveryCancelled'))
            and ($3::timestamptz is null or recorded_at <= $3)
            and ($4::bigint is null or position <= $4)
          order by recorded_at desc fetch first $5 rows with ties"
    );
    let statement = sqlx::query(statement)
        .bind(follower)
        .bind(firm_id)
        .bind(until.recorded_at)
        .bind(until.position)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    read_all(statement, connection, &Upcasters::current()).await
}

/// Reads the events that a statement of [`events_where`] finds. Each row is decoded as it arrives,
/// so that no event is in memory twice.
pub(crate) async fn read_all(
    statement: Query<'_, Postgres, PgArguments>,
    connection: &mut PgConnection,
    upcasters: &Upcasters,
) -> Result<Vec<RecordedEvent>, TailError> {
    let mut rows = statement.fetch(connection);
    let mut events = Vec::new();
    while let Some(row) = rows.try_next().await? {
        events.push(StoredEvent::new(&row)?.read_event(upcasters)?);
    }
    Ok(events)
}
