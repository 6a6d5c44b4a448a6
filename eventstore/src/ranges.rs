//! The ranges of the log. Occurrences and deliveries lie in ranges of 2^24 positions. They are made
//! ahead of its end, because a position without a range refuses its append.
//!
//! A log of before 0.3.0 is one table. Once no process of such a build serves the database, the
//! table becomes the first range, in steps of which none holds an append up for a second.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{Connection, Executor, FromRow, PgConnection};
use uuid::Uuid;

use crate::nudge::NewFormats;
use crate::store::Store;
use crate::stored_event::ArchivedRow;
use crate::worker::{NextStep, WakeOn, Worker};

/// The wait after a step that found the log locked for too long.
const LOCKED_WAIT: Duration = Duration::from_secs(60);

/// The SQL states of a wait for a lock that took too long, and of two that wait for each other.
const LOCKED: [&str; 2] = ["55P03", "40P01"];

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
                self.keep_whole().await?;
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

impl LogRanges {
    /// Takes back what was begun. Older builds append to the table as it is.
    async fn keep_whole(&self) -> Result<(), sqlx::Error> {
        let mut connection = self.store.connections().take().await?;
        connection.execute("select keep_log_whole()").await?;
        self.store.connections().give_back(connection);
        Ok(())
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
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| LOCKED.contains(&&*code))
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

/// The kinds of streams whose events leave. All others stay for good.
pub const TRAFFIC_KINDS: [&str; 2] = ["Occurrence", "Delivery"];

/// The number of the table that was the log before there were ranges.
pub const RANGE_BEFORE: i64 = -1;

/// Number of positions in a range.
pub const RANGE_POSITIONS: i64 = 1 << 24;

/// A range of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct StoredRange {
    /// The number; [`RANGE_BEFORE`] for the table of before.
    pub number: i64,
    /// The first position.
    pub first_position: i64,
    /// The last position.
    pub last_position: i64,
}

/// A range whose occurrences and deliveries have left the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct DroppedRange {
    /// The range.
    #[sqlx(flatten)]
    pub range: StoredRange,
    /// The position of the event that says so.
    pub ordered_at: i64,
}

/// Returns the oldest range that has occurrences or deliveries.
///
/// # Errors
/// If the database does not answer.
pub async fn oldest_range(
    connection: &mut PgConnection,
) -> Result<Option<StoredRange>, sqlx::Error> {
    let oldest: Option<i64> = sqlx::query_scalar(
        "select position from events where aggregate_type in ('Occurrence', 'Delivery')
          order by position limit 1",
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(position) = oldest else { return Ok(None) };
    let range_before: Option<i64> = sqlx::query_scalar(
        "select substring(pg_get_expr(relpartbound, oid) from 'TO \\(''?(\\d+)')::bigint - 1
           from pg_class where oid = to_regclass('ranges.events_before')",
    )
    .fetch_optional(connection)
    .await?;
    if let Some(last_position) = range_before.filter(|last| position <= *last) {
        return Ok(Some(StoredRange { number: RANGE_BEFORE, first_position: 1, last_position }));
    }
    let number = (position - 1) / RANGE_POSITIONS;
    let first_position = number * RANGE_POSITIONS + 1;
    let last_position = (number + 1) * RANGE_POSITIONS;
    Ok(Some(StoredRange { number, first_position, last_position }))
}

/// Returns the ranges that have left, in order.
///
/// # Errors
/// If the database does not answer.
pub async fn dropped_ranges(
    connection: &mut PgConnection,
) -> Result<Vec<DroppedRange>, sqlx::Error> {
    let ordered: Vec<DroppedRange> = sqlx::query_as(
        "select number, last_position,
                case when number < 0 then 1 else number * 16777216 + 1 end as first_position,
                max(position) as ordered_at
           from (select position,
                        (payload->'LogRangeDropOrdered'->>'number')::bigint as number,
                        (payload->'LogRangeDropOrdered'->>'last_position')::bigint as last_position
                   from events
                  where aggregate_type = 'Maintenance' and event_type = 'LogRangeDropOrdered') o
          group by number, last_position order by last_position",
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut dropped = Vec::new();
    for one in ordered {
        if !has_traffic(connection, one.range).await? {
            dropped.push(one);
        }
    }
    Ok(dropped)
}

/// Where the deliveries of the database begin, if earlier ones have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBorder {
    /// The last position that has left.
    pub through: i64,
    /// When the first event after it was recorded.
    pub since: DateTime<Utc>,
}

/// Returns the end of the dropped ranges; `None` if no range was dropped.
///
/// # Errors
/// If the database does not answer.
pub async fn border(connection: &mut PgConnection) -> Result<Option<LogBorder>, sqlx::Error> {
    let dropped = dropped_ranges(connection).await?;
    let Some(through) = dropped.last().map(|one| one.range.last_position) else {
        return Ok(None);
    };
    let since = sqlx::query_scalar(
        "select recorded_at from events where position > $1 order by position limit 1",
    )
    .bind(through)
    .fetch_optional(connection)
    .await?;
    Ok(Some(LogBorder { through, since: since.unwrap_or(DateTime::<Utc>::MAX_UTC) }))
}

/// Returns which of these occurrences have left, at or below this position.
///
/// # Errors
/// If the database does not answer.
pub async fn left_among(
    connection: &mut PgConnection,
    occurrences: &[Uuid],
    through: i64,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar("select id from places where id = any($1) and position <= $2")
        .bind(occurrences)
        .bind(through)
        .fetch_all(connection)
        .await
}

/// Returns the position of the newest event that orders a range to leave.
///
/// # Errors
/// If the database does not answer.
pub async fn drop_order(
    connection: &mut PgConnection,
    number: i64,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select max(position) from events
          where aggregate_type = 'Maintenance' and event_type = 'LogRangeDropOrdered'
            and (payload->'LogRangeDropOrdered'->>'number')::bigint = $1",
    )
    .bind(number)
    .fetch_one(connection)
    .await
}

/// Whether a range has an occurrence or a delivery.
async fn has_traffic(
    connection: &mut PgConnection,
    range: StoredRange,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (select from events
                         where aggregate_type in ('Occurrence', 'Delivery')
                           and position between $1 and $2)",
    )
    .bind(range.first_position)
    .bind(range.last_position)
    .fetch_one(connection)
    .await
}

/// Whether a range has come back from the archive. It stays until an operator lets it leave again.
///
/// # Errors
/// If the database does not answer.
pub async fn is_attached(
    connection: &mut PgConnection,
    range: StoredRange,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select obj_description(to_regclass($1), 'pg_class') is not distinct from $2",
    )
    .bind(range.table())
    .bind(ATTACHED)
    .fetch_one(connection)
    .await
}

/// Begins to bring a range back, in a transaction of the owner of the tables.
///
/// # Errors
/// If the database does not answer or refuses, for example because the range is there.
pub async fn begin_attach(
    connection: &mut PgConnection,
    range: StoredRange,
) -> Result<(), sqlx::Error> {
    connection.execute("set local statement_timeout = 0; set local lock_timeout = '1s'").await?;
    if range.number == RANGE_BEFORE {
        return Ok(());
    }
    let table = range.table();
    // A restore makes ranges that stay empty.
    let is_there: bool = sqlx::query_scalar("select to_regclass($1) is not null")
        .bind(&table)
        .fetch_one(&mut *connection)
        .await?;
    if is_there && !has_traffic(connection, range).await? {
        let detach =
            format!("alter table ranges.log_traffic detach partition {table}; drop table {table}");
        connection.execute(detach.as_str()).await?;
    }
    let create =
        format!("create table {table} (like public.events including all excluding identity)");
    connection.execute(create.as_str()).await?;
    Ok(())
}

/// Puts events of the archive into a range that comes back, if they are occurrences or deliveries.
/// Returns their number.
///
/// # Errors
/// If the database does not answer. An event that cannot be parsed is [`sqlx::Error::Decode`].
pub async fn insert_archived(
    connection: &mut PgConnection,
    range: StoredRange,
    events: &[(i64, &str)],
) -> Result<u64, sqlx::Error> {
    let mut positions = Vec::new();
    let mut rows = Vec::new();
    for (position, canonical) in events {
        let row = ArchivedRow::parse(canonical).map_err(|why| sqlx::Error::Decode(why.into()))?;
        if TRAFFIC_KINDS.contains(&row.aggregate_type.as_str()) {
            positions.push(*position);
            rows.push(row);
        }
    }
    let insert = format!(
        "insert into {} (position, aggregate_type, aggregate_id, sequence, event_type,
                         event_version, payload, metadata, firm_id, recorded_at, digest)
         select position, aggregate_type, aggregate_id, sequence, event_type, event_version,
                payload::json, metadata::json, firm_id, recorded_at, digest
           from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[],
                       $7::text[], $8::text[], $9::uuid[], $10::timestamptz[], $11::bytea[])
                as t(position, aggregate_type, aggregate_id, sequence, event_type, event_version,
                     payload, metadata, firm_id, recorded_at, digest)",
        range.table()
    );
    let inserted = sqlx::query(&insert)
        .bind(positions)
        .bind(rows.iter().map(|row| row.aggregate_type.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.aggregate_id.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.sequence).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.event_type.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.event_version.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.payload.get()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.metadata.get()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.firm_id).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.recorded_at.get()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.digest).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(inserted.rows_affected())
}

/// Makes a range that came back part of the log. Appends go on meanwhile.
///
/// # Errors
/// If the database does not answer, or a lock is held for too long.
pub async fn end_attach(
    connection: &mut PgConnection,
    range: StoredRange,
) -> Result<(), sqlx::Error> {
    let StoredRange { number, first_position, last_position } = range;
    let table = range.table();
    if number != RANGE_BEFORE {
        let attach = format!(
            "select finish_log_range('{table}');
             alter table ranges.log_traffic attach partition {table}
                 for values from ({first_position}) to ({})",
            last_position + 1
        );
        connection.execute(attach.as_str()).await?;
    }
    connection.execute(format!("comment on table {table} is '{ATTACHED}'").as_str()).await?;
    Ok(())
}

/// The comment on the table of a range that has come back.
const ATTACHED: &str = "attached from the archive";

impl StoredRange {
    /// The table of the range.
    fn table(self) -> String {
        match self.number {
            RANGE_BEFORE => "ranges.events_before".to_owned(),
            number => format!("ranges.log_traffic_{number}"),
        }
    }
}

/// The SQL state by which the database keeps a range.
const RANGE_KEPT: &str = "FF002";

/// Drops a range that an event has ordered to leave. The database checks again that nothing needs
/// it, and says why if it keeps it.
///
/// # Errors
/// If the database does not answer, or a lock is held for too long.
pub async fn drop_range(
    connection: &mut PgConnection,
    number: i64,
) -> Result<Result<(), String>, sqlx::Error> {
    let dropping = async {
        let mut transaction = connection.begin().await?;
        transaction.execute("set local statement_timeout = 0").await?;
        sqlx::query("select drop_log_range($1)").bind(number).execute(&mut *transaction).await?;
        transaction.commit().await
    };
    match dropping.await {
        Ok(()) => Ok(Ok(())),
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(RANGE_KEPT) => {
            Ok(Err(error.message().to_owned()))
        }
        Err(error) => Err(error),
    }
}
