//! `firmforms doctor` reads these metrics of the server and of the log.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::operations::ServerState;
use sqlx::migrate::{Migration, Migrator};
use sqlx::{FromRow, PgConnection, PgPool};

use crate::fence::appending;

/// Returns the server's version as PostgreSQL numbers it: 150018 is 15.18.
pub async fn server_version(pool: &PgPool) -> Result<i32, sqlx::Error> {
    sqlx::query_scalar("select current_setting('server_version_num')::int").fetch_one(pool).await
}

/// A [`ServerState`] as the server tells it.
#[derive(FromRow)]
struct ServerStateRow {
    fsync: bool,
    full_page_writes: bool,
    synchronous_commit: String,
    synchronous_standby_names: String,
    oldest_id_age: i64,
    freeze_max_age: i64,
    oldest_prepared: Option<f64>,
}

/// Returns the state of a server that decides whether commits are kept.
pub async fn server_state(pool: &PgPool) -> Result<ServerState, sqlx::Error> {
    // `reset_val` is the value before this pool raised it.
    let row: ServerStateRow = sqlx::query_as(
        "select current_setting('fsync')::boolean as fsync,
                current_setting('full_page_writes')::boolean as full_page_writes,
                (select reset_val from pg_settings where name = 'synchronous_commit')
                    as synchronous_commit,
                current_setting('synchronous_standby_names') as synchronous_standby_names,
                (select max(age(datfrozenxid))::bigint from pg_database) as oldest_id_age,
                current_setting('autovacuum_freeze_max_age')::bigint as freeze_max_age,
                (select max(extract(epoch from clock_timestamp() - prepared))::float8
                   from pg_prepared_xacts where database = current_database()) as oldest_prepared",
    )
    .fetch_one(pool)
    .await?;
    let age = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Ok(ServerState {
        fsync: row.fsync,
        full_page_writes: row.full_page_writes,
        synchronous_commit: row.synchronous_commit,
        synchronous_standby_names: row.synchronous_standby_names,
        oldest_id_age: row.oldest_id_age,
        freeze_max_age: row.freeze_max_age,
        oldest_prepared: row.oldest_prepared.map(age),
    })
}

/// The positions of the log's ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct LogEnd {
    /// The position that the next event draws.
    pub next: i64,
    /// The highest position of an event.
    pub highest: i64,
}

/// Returns the next position and the highest one.
pub async fn log_end(pool: &PgPool) -> Result<LogEnd, sqlx::Error> {
    // A position drawn between the two looks would be above the next one, so the highest is read
    // first.
    sqlx::query_as(
        "with log as materialized (select coalesce(max(position), 0) as highest from events)
         select log.highest,
                (select case when is_called then last_value + 1 else last_value end
                   from events_position_seq where log.highest >= 0) as next
           from log",
    )
    .fetch_one(pool)
    .await
}

/// Returns the time of the first event; `None` for an empty log.
pub async fn log_began_at(
    connection: &mut PgConnection,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar("select recorded_at from events order by position limit 1")
        .fetch_optional(connection)
        .await
}

/// Whether a restore may take the database: it has no table or view, or only tables of
/// migrations without any row. A restore that failed leaves such tables.
pub async fn is_unused(pool: &PgPool) -> Result<bool, sqlx::Error> {
    let relations: Vec<(String, bool)> = sqlx::query_as(
        "select format('%s.%I', c.relnamespace::regnamespace, c.relname),
                c.relkind in ('v', 'm', 'f')
           from pg_class c
          where c.relnamespace in ('public'::regnamespace, to_regnamespace('ranges'))
            and c.relkind in ('r', 'p', 'v', 'm', 'f')
            and not exists (select from pg_depend d
                             where d.classid = 'pg_class'::regclass and d.objid = c.oid
                               and d.deptype = 'e')",
    )
    .fetch_all(pool)
    .await?;
    let is_ours = |name: &str| name == "public._sqlx_migrations";
    if !relations.is_empty() && !relations.iter().any(|(name, _)| is_ours(name)) {
        return Ok(false);
    }
    for (name, is_foreign) in relations.iter().filter(|(name, _)| !is_ours(name)) {
        let is_filled = format!("select exists (select from {name})");
        if *is_foreign || sqlx::query_scalar(&is_filled).fetch_one(pool).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The time at which the server archived the last segment of its write-ahead log. `None` if the
/// server archives nothing, or its last try failed.
pub async fn archived_at(pool: &PgPool) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let at: Option<Option<DateTime<Utc>>> = sqlx::query_scalar(
        "select last_archived_time from pg_stat_archiver
          where current_setting('archive_mode') <> 'off'
            and (last_failed_time is null or last_failed_time < last_archived_time)",
    )
    .fetch_optional(pool)
    .await?;
    Ok(at.flatten())
}

/// Whether the tables of this database have row guards (`migrate --roles`).
pub async fn has_row_guards(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select exists (select from pg_policies where schemaname = 'public')")
        .fetch_one(connection)
        .await
}

/// The schema of a database beside the schema of this build, by their newest migrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaStanding {
    /// The newest migration of the database; 0 for an empty database.
    pub found: i64,
    /// The newest migration of this build.
    pub needed: i64,
    /// The number of migrations that the database lacks.
    pub missing: usize,
}

/// The standing of a database's schema.
pub async fn schema_standing(
    pool: &PgPool,
    known: &Migrator,
) -> Result<SchemaStanding, sqlx::Error> {
    let done = done_migrations(pool).await?;
    let known: BTreeSet<i64> = known.iter().map(|migration| migration.version).collect();
    let newest = |versions: &BTreeSet<i64>| versions.last().copied().unwrap_or_default();
    Ok(SchemaStanding {
        found: newest(&done),
        needed: newest(&known),
        missing: known.difference(&done).count(),
    })
}

/// The standing of the main database's schema.
pub async fn main_schema(pool: &PgPool) -> Result<SchemaStanding, sqlx::Error> {
    schema_standing(pool, &crate::pool::MAIN_MIGRATIONS).await
}

/// The migrations that the database lacks, in order.
pub async fn missing_migrations(
    pool: &PgPool,
    known: &'static Migrator,
) -> Result<Vec<&'static Migration>, sqlx::Error> {
    let done = done_migrations(pool).await?;
    Ok(known.iter().filter(|migration| !done.contains(&migration.version)).collect())
}

/// Rows, as last estimated, and bytes of a table with its ranges and indexes. Zero for a table that
/// is not there.
pub async fn table_size(pool: &PgPool, table: &str) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as(
        "with named as (select to_regclass('public.' || quote_ident($1)) as id)
         select coalesce(sum(greatest(reltuples, 0)), 0)::bigint,
                coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
           from pg_class
          where relkind = 'r' and oid in (select id from named union all
                        select relid from named, pg_partition_tree(id))",
    )
    .bind(table)
    .fetch_one(pool)
    .await
}

async fn done_migrations(pool: &PgPool) -> Result<BTreeSet<i64>, sqlx::Error> {
    let begun: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(pool)
        .await?;
    if !begun {
        return Ok(BTreeSet::new());
    }
    let done: Vec<i64> = sqlx::query_scalar("select version from _sqlx_migrations where success")
        .fetch_all(pool)
        .await?;
    Ok(done.into_iter().collect())
}

/// Counts the migrations that a database lacks, and the migrations it has that this build does not
/// know.
pub async fn migration_counts(
    pool: &PgPool,
    known: &Migrator,
) -> Result<(usize, usize), sqlx::Error> {
    let done = done_migrations(pool).await?;
    let known: BTreeSet<i64> = known.iter().map(|migration| migration.version).collect();
    Ok((known.difference(&done).count(), done.difference(&known).count()))
}

/// Counts the same for the main database and this build.
pub async fn main_migrations(pool: &PgPool) -> Result<(usize, usize), sqlx::Error> {
    migration_counts(pool, &crate::pool::MAIN_MIGRATIONS).await
}

/// Returns the age and the name of the oldest transaction that has appended to the log and has not
/// ended.
pub async fn oldest_appender(pool: &PgPool) -> Result<Option<(Duration, String)>, sqlx::Error> {
    // A login without the right to all statistics does not see when another login's transaction
    // began.
    let appender: Option<(Option<f64>, String)> = sqlx::query_as(concat!(
        "with appending as (",
        appending!("max(pid) as pid, max(transactionid::text) as xid", ""),
        ")
         select extract(epoch from clock_timestamp() - coalesce(a.xact_start, p.prepared))::float8,
                coalesce('prepared transaction ' || p.gid,
                         coalesce(nullif(a.application_name, ''), a.usename, 'a process')
                         || ' (pid ' || l.pid || ')', 'a process')
           from appending l
           left join pg_stat_activity a on a.pid = l.pid
           left join pg_prepared_xacts p on p.transaction::text = l.xid
          order by 1 desc nulls last limit 1"
    ))
    .fetch_optional(pool)
    .await?;
    let age = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Ok(appender.map(|(seconds, who)| (seconds.map(age).unwrap_or_default(), who)))
}

/// A snapshot that keeps dead rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSnapshot {
    /// The session, standby, slot or prepared transaction that holds it.
    pub holder: String,
    /// The time since it was taken, if the server knows it.
    pub held_for: Option<Duration>,
    /// Transactions that have begun since then.
    pub transactions: i64,
}

/// Returns the snapshot that keeps the oldest dead rows of this database. Sessions of other logins
/// are seen only with the rights of `pg_read_all_stats`.
pub async fn oldest_snapshot(
    connection: &mut PgConnection,
) -> Result<Option<HeldSnapshot>, sqlx::Error> {
    let oldest: Option<(String, Option<f64>, i64)> = sqlx::query_as(
        "with held as (
             select coalesce(nullif(application_name, ''), usename, 'a process')
                    || ' (pid ' || pid || ')' as holder,
                    case when backend_type <> 'walsender' then xact_start end as taken_at,
                    greatest(age(backend_xmin), age(backend_xid)) as transactions
               from pg_stat_activity
              where (datname = current_database() or backend_type = 'walsender')
                and pid <> pg_backend_pid()
             union all
             select 'replication slot ' || slot_name, null, age(xmin) from pg_replication_slots
             union all
             select 'prepared transaction ' || gid, prepared, age(transaction)
               from pg_prepared_xacts where database = current_database())
         select holder, extract(epoch from clock_timestamp() - taken_at)::float8,
                transactions::bigint
           from held where transactions is not null
          order by transactions desc, taken_at limit 1",
    )
    .fetch_optional(connection)
    .await?;
    Ok(oldest.map(|(holder, seconds, transactions)| HeldSnapshot {
        holder,
        held_for: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        transactions,
    }))
}

/// The count of unread events stops here. A larger number would tell an operator nothing more.
const UNREAD_COUNT_MAX: i64 = 100_000;

/// The statement that counts a follower's unread events and finds when the first was recorded.
macro_rules! behind {
    ($condition:literal) => {
        concat!(
            "select count(*), min(recorded_at) from (
                 select recorded_at from events
                  where ",
            $condition,
            "   and position > coalesce((select position from checkpoints where name = $1), 0)
                  order by position limit $2) unread"
        )
    };
}

/// Counts a follower's unread events and returns when the first was recorded.
pub async fn unread_events(
    pool: &PgPool,
    follower: &str,
) -> Result<(i64, Option<DateTime<Utc>>), sqlx::Error> {
    let statement = match follower {
        "erase" => behind!("aggregate_type = 'Response'"),
        _ => behind!("true"),
    };
    sqlx::query_as(statement).bind(follower).bind(UNREAD_COUNT_MAX).fetch_one(pool).await
}

/// Returns when the first event at or above this position was recorded. A block of the log that
/// ends there has been whole since.
pub async fn whole_since(
    pool: &PgPool,
    position: i64,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar(
        "select recorded_at from events where position >= $1 order by position limit 1",
    )
    .bind(position)
    .fetch_optional(pool)
    .await
}
