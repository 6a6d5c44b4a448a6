//! Sizes of the tables: now, as the server knows them, and at the start of past days.

use chrono::NaiveDate;
use sqlx::{FromRow, PgConnection, PgPool};

/// The size of a table.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct TableSizeRow {
    /// The table.
    pub table_name: String,
    /// Live rows, as the server last estimated them.
    pub rows: i64,
    /// Bytes with indexes and TOAST.
    pub bytes: i64,
}

/// The size of a table on a past day.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct PastTableSize {
    /// The table.
    pub table_name: String,
    /// The day.
    pub day: NaiveDate,
    /// Rows on that day.
    pub rows: i64,
    /// Bytes on that day.
    pub bytes: i64,
}

/// The present sizes of all tables of a database, largest first.
///
/// # Errors
/// If the database does not answer.
pub async fn now(connection: &mut PgConnection) -> Result<Vec<TableSizeRow>, sqlx::Error> {
    sqlx::query_as(
        "select relname::text as table_name, greatest(reltuples, 0)::bigint as rows,
                pg_total_relation_size(oid) as bytes
           from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
          order by bytes desc, table_name",
    )
    .fetch_all(connection)
    .await
}

/// The oldest noted size of each table since a day.
///
/// # Errors
/// If the database does not answer.
pub async fn oldest_since(
    pool: &PgPool,
    since: NaiveDate,
) -> Result<Vec<PastTableSize>, sqlx::Error> {
    sqlx::query_as(
        "select distinct on (table_name) table_name, day, rows, bytes from table_sizes
          where day >= $1 order by table_name, day",
    )
    .bind(since)
    .fetch_all(pool)
    .await
}

/// Notes the sizes of a day, unless they are noted already.
///
/// # Errors
/// If the database does not answer.
pub async fn note(pool: &PgPool, day: NaiveDate) -> Result<u64, sqlx::Error> {
    let noted = sqlx::query(
        "insert into table_sizes (table_name, day, rows, bytes)
         select relname, $1, greatest(reltuples, 0)::bigint, pg_total_relation_size(oid)
           from pg_class
          where relkind = 'r' and relnamespace = 'public'::regnamespace
            and not exists (select from table_sizes where day = $1)
             on conflict do nothing",
    )
    .bind(day)
    .execute(pool)
    .await?;
    Ok(noted.rows_affected())
}

/// Forgets up to `limit` sizes of the days before this one.
///
/// # Errors
/// If the database does not answer.
pub async fn forget(pool: &PgPool, before: NaiveDate, limit: i64) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query(
        "delete from table_sizes where ctid = any(array(
             select ctid from table_sizes where day < $1 order by day limit $2
                for update skip locked))",
    )
    .bind(before)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}
