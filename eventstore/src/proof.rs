//! What is proved of the log: digests in their order, and events whose digests are made anew.

use chrono::{DateTime, Utc};
use sqlx::{Executor, PgConnection, PgPool, Postgres, Transaction};
use uuid::Uuid;

use crate::append::RecordedEvent;
use crate::tail::{StoredEvent, TailError, events_where, read_all};
use crate::upcast::Upcasters;

/// A transaction that reads, and sees the database as it was when it began. It draws no transaction
/// id, so it holds up no fence.
///
/// # Errors
/// If the database does not answer.
pub async fn snapshot(pool: &PgPool) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    transaction.execute("set transaction isolation level repeatable read, read only").await?;
    Ok(transaction)
}

/// The positions after the first and up to the second that have an event, with its digest.
///
/// # Errors
/// If the database does not answer.
pub async fn digests(
    connection: &mut PgConnection,
    (after, through): (i64, i64),
) -> Result<Vec<(i64, [u8; 32])>, sqlx::Error> {
    sqlx::query_as(
        "select position, digest from events
          where position > $1 and position <= $2 order by position",
    )
    .bind(after)
    .bind(through)
    .fetch_all(connection)
    .await
}

/// The highest position that is there.
///
/// # Errors
/// If the database does not answer.
pub async fn height(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select coalesce(max(position), 0) from events").fetch_one(connection).await
}

/// An event whose digest was made anew.
#[derive(Debug)]
pub struct CheckedEvent {
    /// Its place in the log.
    pub position: i64,
    /// Whether its digest is that of what is stored.
    pub intact: bool,
    /// The event; an error if this build cannot read it.
    pub event: Result<RecordedEvent, TailError>,
}

/// The events after the first position and up to the second, each checked.
///
/// # Errors
/// If the database does not answer.
pub async fn checked(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    (after, through): (i64, i64),
) -> Result<Vec<CheckedEvent>, sqlx::Error> {
    let rows = sqlx::query(events_where!("position > $1 and position <= $2 order by position"))
        .bind(after)
        .bind(through)
        .fetch_all(connection)
        .await?;
    let check = |row| {
        let stored = StoredEvent::of(row)?;
        let (position, digest, computed) = stored.checked();
        let intact = computed.is_some_and(|computed| computed == digest);
        Ok(CheckedEvent { position, intact, event: stored.read(upcasters) })
    };
    rows.iter().map(check).collect()
}

/// Which part of the log is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogFilter {
    /// Only this firm's.
    pub firm_id: Option<Uuid>,
    /// Only what was recorded then or later.
    pub since: Option<DateTime<Utc>>,
    /// Only what was recorded before.
    pub until: Option<DateTime<Utc>>,
}

/// The occurrences, and the first event of each delivery, after the first position and up to the
/// second, in order.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn beginnings(
    connection: &mut PgConnection,
    (after, through): (i64, i64),
    part: LogFilter,
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = sqlx::query(events_where!(
        "position > $1 and position <= $2
            and (aggregate_type = 'Occurrence' or aggregate_type = 'Delivery' and sequence = 1)
            and ($3::uuid is null or firm_id = $3)
            and ($4::timestamptz is null or recorded_at >= $4)
            and ($5::timestamptz is null or recorded_at < $5)
          order by position"
    ))
    .bind(after)
    .bind(through)
    .bind(part.firm_id)
    .bind(part.since)
    .bind(part.until);
    read_all(statement, connection, &Upcasters::current()).await
}

/// The next beginnings and ends of subscriptions after an event of a stream, each stream's in its
/// order; of one firm, or of all.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn lives(
    connection: &mut PgConnection,
    (aggregate_id, sequence): (&str, i64),
    firm_id: Option<Uuid>,
    limit: i64,
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = sqlx::query(events_where!(
        "aggregate_type = 'Subscription' and (aggregate_id, sequence) > ($1, $2)
            and event_type in ('SubscriptionCreated', 'SubscriptionRemoved')
            and ($3::uuid is null or firm_id = $3)
          order by aggregate_id, sequence limit $4"
    ))
    .bind(aggregate_id)
    .bind(sequence)
    .bind(firm_id)
    .bind(limit);
    read_all(statement, connection, &Upcasters::current()).await
}

/// Which of these deliveries the log has.
///
/// # Errors
/// If the database does not answer.
pub async fn known_deliveries(
    connection: &mut PgConnection,
    delivery_ids: &[String],
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select aggregate_id from events
          where aggregate_type = 'Delivery' and aggregate_id = any($1) and sequence = 1",
    )
    .bind(delivery_ids)
    .fetch_all(connection)
    .await
}

/// The occurrences at these positions, in order.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn occurrences_at(
    connection: &mut PgConnection,
    positions: &[i64],
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = sqlx::query(events_where!(
        "aggregate_type = 'Occurrence' and position = any($1) order by position"
    ))
    .bind(positions);
    read_all(statement, connection, &Upcasters::current()).await
}
