//! The proof reads the log here: digests in their order, and events with digests computed again.

use chrono::{DateTime, Utc};
use domain::audit::{LateStatement, LateStatements};
use sqlx::{Executor, PgConnection, PgPool, Postgres, Transaction};
use uuid::Uuid;

use crate::event::RecordedEvent;
use crate::stored_event::{ArchivedRow, StoredEvent, events_where};
use crate::tail::{LogRange, TailError, read_all};
use crate::upcast::Upcasters;

pub use crate::stored_event::{CanonicalEvent, CheckedEvent};

/// Begins a transaction that reads the database as it was at the begin. The transaction draws no
/// transaction id, so it holds no fence back. It reads the schema `public`: a search path of the
/// database or the login must not put other tables before ours.
pub async fn begin_snapshot(pool: &PgPool) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    transaction
        .execute(
            "set transaction isolation level repeatable read, read only;
             set local search_path = public, pg_temp",
        )
        .await?;
    Ok(transaction)
}

/// Begins the snapshot of a long read. A page may take longer than a statement of the service may.
/// The transaction may be idle for as long as its client works on a page, or waits for its output.
/// The planner's settings are pinned like the search path: a setting of the database or the login
/// must not choose the index by which rows are found.
pub async fn long_snapshot(pool: &PgPool) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    let mut transaction = begin_snapshot(pool).await?;
    transaction
        .execute(
            "set local statement_timeout = 0;
             set local idle_in_transaction_session_timeout = 0;
             set local jit = off;
             set local enable_seqscan = on; set local enable_indexscan = on;
             set local enable_indexonlyscan = on; set local enable_bitmapscan = on;
             set local enable_sort = on; set local enable_nestloop = on;
             set local enable_hashjoin = on; set local enable_mergejoin = on;
             set local seq_page_cost = 1; set local random_page_cost = 4;
             set local cpu_tuple_cost = 0.01; set local cpu_index_tuple_cost = 0.005;
             set local cpu_operator_cost = 0.0025",
        )
        .await?;
    Ok(transaction)
}

/// Makes the next statements of a transaction read tables alone, so that a count finds rows that an
/// index does not have.
pub async fn read_without_indexes(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    connection
        .execute(
            "set local enable_indexscan = off; set local enable_indexonlyscan = off;
             set local enable_bitmapscan = off; set local enable_seqscan = on",
        )
        .await?;
    Ok(())
}

/// Ends [`read_without_indexes`].
pub async fn read_with_indexes(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    connection
        .execute(
            "set local enable_indexscan = on; set local enable_indexonlyscan = on;
             set local enable_bitmapscan = on",
        )
        .await?;
    Ok(())
}

/// Lets another session read this transaction's snapshot, by the returned name. The transaction may
/// then be idle for as long as that session reads.
pub async fn share_snapshot(
    transaction: &mut Transaction<'static, Postgres>,
) -> Result<String, sqlx::Error> {
    transaction.execute("set local idle_in_transaction_session_timeout = 0").await?;
    sqlx::query_scalar("select pg_export_snapshot()").fetch_one(&mut **transaction).await
}

/// Returns the digests of the events after `after` and up to `through`, each with its position.
pub async fn event_digests(
    connection: &mut PgConnection,
    after: i64,
    through: i64,
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

/// Returns the highest visible position.
pub async fn height(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select coalesce(max(position), 0) from events").fetch_one(connection).await
}

/// Returns the highest position that a transaction has drawn. No event can have a higher one.
pub async fn drawn_height(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select case when is_called then last_value else 0 end from events_position_seq",
    )
    .fetch_one(connection)
    .await
}

/// Returns the lowest position above this one that has an event. A reader steps over a gap by it,
/// however wide the gap is.
pub async fn next_position(
    connection: &mut PgConnection,
    after: i64,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("select position from events where position > $1 order by position limit 1")
        .bind(after)
        .fetch_optional(connection)
        .await
}

/// Returns when the last event at or below this position was recorded.
pub async fn last_recorded_at(
    connection: &mut PgConnection,
    through: i64,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar(
        "select recorded_at from events where position <= $1 order by position desc limit 1",
    )
    .bind(through)
    .fetch_optional(connection)
    .await
}

/// Counts the events, without a condition on their positions.
pub async fn count_events(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from events").fetch_one(connection).await
}

/// Reads and checks up to `limit` events at this position and above, in order.
pub async fn checked_events(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    from: i64,
    limit: i64,
) -> Result<Vec<CheckedEvent>, sqlx::Error> {
    let rows = sqlx::query(events_where!("position >= $1 order by position limit $2"))
        .bind(from)
        .bind(limit)
        .fetch_all(connection)
        .await?;
    rows.iter().map(|row| Ok(StoredEvent::new(row)?.into_checked(upcasters))).collect()
}

/// Checks an event of an archive, which has the bytes that its digest covers. Returns its kind too.
///
/// # Errors
/// If the bytes are no event of ours, in words.
pub fn check_archived(
    position: i64,
    canonical: &str,
    upcasters: &Upcasters,
) -> Result<(String, CheckedEvent), String> {
    let archived = ArchivedRow::parse(canonical)?;
    let checked = archived.as_stored(position).into_checked(upcasters);
    Ok((archived.aggregate_type, checked))
}

/// Reads the events after `after` and up to `through` as the bytes that their digests cover, in
/// order.
pub async fn canonical_events(
    connection: &mut PgConnection,
    after: i64,
    through: i64,
) -> Result<Vec<CanonicalEvent>, sqlx::Error> {
    let rows = sqlx::query(events_where!("position > $1 and position <= $2 order by position"))
        .bind(after)
        .bind(through)
        .fetch_all(connection)
        .await?;
    rows.iter().map(|row| Ok(StoredEvent::new(row)?.into_canonical())).collect()
}

/// Reads the statements that entries are late. A statement of another build states nothing here:
/// its reader reports it.
pub async fn late_statements(connection: &mut PgConnection) -> Result<LateStatements, sqlx::Error> {
    // The kind is no parameter: a generic plan would expect as many of them as of any other kind.
    let rows = sqlx::query(events_where!(
        "aggregate_type = 'LateEntry' and sequence = 1 order by aggregate_id"
    ))
    .fetch_all(connection)
    .await?;
    let mut statements = Vec::with_capacity(rows.len());
    for row in &rows {
        if let Ok(read) = StoredEvent::new(row)?.read_event(&Upcasters::current()) {
            let firm_id = read.context.firm_id;
            let id = &read.aggregate_id;
            statements.extend(LateStatement::new(read.position, firm_id, id, &read.event));
        }
    }
    Ok(statements.into_iter().collect())
}

/// Reads a firm's events of a range in order, without the events of the excluded names.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing of the batch is handed out.
pub async fn of_firm(
    connection: &mut PgConnection,
    firm_id: Uuid,
    range: LogRange,
    excluded: &[&str],
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = sqlx::query(events_where!(
        "position > $1 and position <= $2 and event_type <> all($4) and firm_id = $5
          order by position limit $3"
    ))
    .bind(range.after)
    .bind(range.settled)
    .bind(range.limit)
    .bind(excluded)
    .bind(firm_id);
    read_all(statement, connection, &Upcasters::current()).await
}

/// A part of the log, chosen by firm and time.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogFilter {
    /// Only events of this firm.
    pub firm_id: Option<Uuid>,
    /// Only events recorded at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Only events recorded before this time.
    pub until: Option<DateTime<Utc>>,
}

/// Reads the occurrences, and the first event of each delivery, after `after` and up to `through`,
/// in order.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn read_beginnings(
    connection: &mut PgConnection,
    after: i64,
    through: i64,
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

/// Reads the next creations and removals of subscriptions after an event, each stream's in its
/// order. The events are of one firm or of all firms.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn subscription_lives(
    connection: &mut PgConnection,
    aggregate_id: &str,
    sequence: i64,
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

/// Returns the ids of the deliveries among these that the log has.
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

/// Reads the occurrences at these positions, in order.
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
