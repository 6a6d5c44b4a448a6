//! The cost of PostgreSQL's statements, by `pg_stat_statements` (of the package
//! postgresql-contrib): on request only, because counting has a price.

use serde::Serialize;
use sqlx::{Executor, FromRow, PgPool};

/// A statement's share.
#[derive(Debug, Clone, PartialEq, Serialize, FromRow)]
pub(crate) struct Statement {
    pub(crate) total_ms: f64,
    pub(crate) planning_ms: f64,
    pub(crate) calls: i64,
    pub(crate) rows: i64,
    pub(crate) wal_kib: i64,
    pub(crate) text: String,
}

pub(crate) async fn install(pool: &PgPool) -> Result<(), sqlx::Error> {
    pool.execute("create extension pg_stat_statements").await?;
    Ok(())
}

pub(crate) async fn forget(pool: &PgPool) -> Result<(), sqlx::Error> {
    pool.execute("select pg_stat_statements_reset()").await?;
    Ok(())
}

/// The costliest, of both databases.
pub(crate) async fn costliest(pool: &PgPool) -> Result<Vec<Statement>, sqlx::Error> {
    sqlx::query_as(
        "select sum(total_exec_time) as total_ms, sum(total_plan_time) as planning_ms, sum(calls)::bigint as calls,
                sum(rows)::bigint as rows, (sum(wal_bytes) / 1024)::bigint as wal_kib,
                left(regexp_replace(query, '\\s+', ' ', 'g'), 110) as text
           from pg_stat_statements
          group by query order by total_ms desc limit 60",
    )
    .fetch_all(pool)
    .await
}
