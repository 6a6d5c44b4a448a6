//! Sizes of the tables: now, as the server knows them, and at the start of past days. The server
//! does not know the rows of a small table that it never analyzed, so small tables are counted.

use std::collections::HashMap;

use chrono::NaiveDate;
use sqlx::{FromRow, PgConnection, PgPool};

/// Largest table that is counted, in bytes without indexes.
const COUNTED_BYTES_MAX: i64 = 65_536;

/// The size of a table.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct TableSizeRow {
    /// The table.
    pub table_name: String,
    /// Live rows, as the server last estimated them, or as they were counted.
    pub rows: i64,
    /// Bytes with indexes and TOAST.
    pub bytes: i64,
    /// The name as SQL, if the rows can be counted.
    countable: Option<String>,
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

/// SQL: the sums `p` over a table `t` and its ranges.
macro_rules! parts {
    () => {
        "lateral (
             select coalesce(sum(greatest(reltuples, pg_stat_get_live_tuples(oid), 0)), 0)::bigint
                        as rows,
                    coalesce(sum(pg_total_relation_size(oid)), 0)::bigint as bytes,
                    coalesce(sum(pg_relation_size(oid)), 0)::bigint as heap_bytes
               from pg_class
              where relkind = 'r'
                and (oid = t.oid or oid in (select relid from pg_partition_tree(t.oid)))) p"
    };
}

/// The present sizes of all tables of a database, largest first.
pub async fn present_sizes(
    connection: &mut PgConnection,
) -> Result<Vec<TableSizeRow>, sqlx::Error> {
    sqlx::query_as(concat!(
        "select relname::text as table_name, p.rows, p.bytes,
                    case when p.heap_bytes <= $1 and has_table_privilege(oid, 'select')
                              and not row_security_active(oid)
                         then format('public.%I', relname) end as countable
               from pg_class t cross join ",
        parts!(),
        " where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace
              order by bytes desc, table_name"
    ))
    .bind(COUNTED_BYTES_MAX)
    .fetch_all(connection)
    .await
}

/// The present sizes of all tables of a database, largest first. Small tables are counted.
pub async fn counted_sizes(
    connection: &mut PgConnection,
) -> Result<Vec<TableSizeRow>, sqlx::Error> {
    let mut sizes = present_sizes(connection).await?;
    let counts = count_rows(connection, &sizes).await?;
    for size in &mut sizes {
        if let Some(rows) = counts.get(&size.table_name) {
            size.rows = *rows;
        }
    }
    Ok(sizes)
}

/// Counts the rows of the countable tables, in one statement.
async fn count_rows(
    connection: &mut PgConnection,
    sizes: &[TableSizeRow],
) -> Result<HashMap<String, i64>, sqlx::Error> {
    let one = |(place, name): (usize, &String)| format!("select {place}, count(*) from {name}");
    let countable: Vec<&TableSizeRow> =
        sizes.iter().filter(|size| size.countable.is_some()).collect();
    if countable.is_empty() {
        return Ok(HashMap::new());
    }
    let names = countable.iter().filter_map(|size| size.countable.as_ref());
    let statement = names.enumerate().map(one).collect::<Vec<_>>().join(" union all ");
    let counts: Vec<(i32, i64)> =
        sqlx::query_as(&statement).persistent(false).fetch_all(connection).await?;
    let named = |(place, rows): (i32, i64)| {
        let size = countable.get(usize::try_from(place).ok()?)?;
        Some((size.table_name.clone(), rows))
    };
    Ok(counts.into_iter().filter_map(named).collect())
}

/// The oldest noted size of each table since a day.
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
pub async fn note_day(pool: &PgPool, day: NaiveDate) -> Result<u64, sqlx::Error> {
    let noted = sqlx::query(concat!(
        "insert into table_sizes (table_name, day, rows, bytes)
             select relname, $1, p.rows, p.bytes
               from pg_class t cross join ",
        parts!(),
        " where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace
                and not exists (select from table_sizes where day = $1)
                 on conflict do nothing"
    ))
    .bind(day)
    .execute(pool)
    .await?;
    Ok(noted.rows_affected())
}

/// Forgets up to `limit` sizes of the days before this one.
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
