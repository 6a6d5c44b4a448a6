//! `firmforms doctor` reads these metrics of the server and of the log.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::migrate::Migrator;
use sqlx::{PgConnection, PgPool};

use crate::fence::appending;

/// Returns the server's version as PostgreSQL numbers it: 150018 is 15.18.
///
/// # Errors
/// If the database does not answer.
pub async fn server_version(pool: &PgPool) -> Result<i32, sqlx::Error> {
    sqlx::query_scalar("select current_setting('server_version_num')::int").fetch_one(pool).await
}

/// Counts the migrations that a database lacks, and the migrations it has that this build does not
/// know.
///
/// # Errors
/// If the database does not answer.
pub async fn migrations(pool: &PgPool, known: &Migrator) -> Result<(usize, usize), sqlx::Error> {
    let begun: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(pool)
        .await?;
    let done: Vec<i64> = if begun {
        sqlx::query_scalar("select version from _sqlx_migrations where success")
            .fetch_all(pool)
            .await?
    } else {
        Vec::new()
    };
    let done: BTreeSet<i64> = done.into_iter().collect();
    let known: BTreeSet<i64> = known.iter().map(|migration| migration.version).collect();
    Ok((known.difference(&done).count(), done.difference(&known).count()))
}

/// Counts the same for the main database and this build.
///
/// # Errors
/// If the database does not answer.
pub async fn main_migrations(pool: &PgPool) -> Result<(usize, usize), sqlx::Error> {
    migrations(pool, &crate::pool::MAIN_MIGRATIONS).await
}

/// Returns the age and the name of the oldest transaction that has appended to the log and has not
/// ended.
///
/// # Errors
/// If the database does not answer.
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
///
/// # Errors
/// If the database does not answer.
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
///
/// # Errors
/// If the database does not answer.
pub async fn unread(
    pool: &PgPool,
    follower: &str,
) -> Result<(i64, Option<DateTime<Utc>>), sqlx::Error> {
    let statement = match follower {
        "erase" => behind!("aggregate_type = 'Response'"),
        _ => behind!("true"),
    };
    sqlx::query_as(statement).bind(follower).bind(UNREAD_COUNT_MAX).fetch_one(pool).await
}
