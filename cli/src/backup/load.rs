//! Loads the rows of a dump into a schema that the program's own migrations have made. Only rows
//! and values of sequences come from the dump. Every statement is written here, and each name in it
//! is one of that schema.
//!
//! The indexes are made after the rows, as `pg_restore` does: each row in an index of a full table
//! costs a search. All of it is one transaction, so a load that fails leaves tables without rows.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection, Executor, FromRow};
use tokio::io::AsyncRead;
use tokio::task::block_in_place;

use super::programs::RunningScript;
use super::script::{DumpScript, ScriptPart, SequenceValue, TableRows};

/// Loads a dump. Returns the tables and sequences of the dump that the schema does not have.
pub(super) async fn load_rows(
    database: &PgConnectOptions,
    mut running: RunningScript,
) -> anyhow::Result<Vec<String>> {
    let mut connection = database.connect().await?;
    let mut transaction = connection.begin().await?;
    let schema = LoadedSchema::read(&mut transaction).await?;
    transaction.execute(DROP_RANGE_KEYS).await?;
    for index in &schema.indexes {
        transaction.execute(index.drop.as_str()).await?;
    }
    let taken = take_parts(&mut transaction, &schema, &mut running.output).await;
    let ended = block_in_place(|| running.wait_for_end());
    let taken = taken?;
    ended?;
    // A table in ranges has no rows of its own.
    let is_in_ranges = |table: &str| schema.has_ranges && table == HISTORY;
    let mut expected = schema.tables.keys().filter(|table| !is_in_ranges(table));
    let missing = expected.find(|table| !taken.tables.contains(*table));
    ensure!(missing.is_none(), "the dump lacks the table {}", missing.map_or("", |name| name));
    transaction.execute(MAKE_RANGE_KEYS).await?;
    for index in &schema.indexes {
        transaction.execute(index.make.as_str()).await.with_context(|| index.make.clone())?;
    }
    transaction.commit().await?;
    // A plan without statistics is one for empty tables.
    connection.execute("analyze").await?;
    connection.close().await?;
    Ok(taken.unknown)
}

/// The parts of a dump that were read.
#[derive(Default)]
struct TakenParts {
    tables: BTreeSet<String>,
    /// Tables and sequences that the schema does not have.
    unknown: Vec<String>,
}

async fn take_parts(
    connection: &mut PgConnection,
    schema: &LoadedSchema,
    script: impl AsyncRead + Unpin,
) -> anyhow::Result<TakenParts> {
    let mut script = DumpScript::new(script);
    let mut taken = TakenParts::default();
    while let Some(part) = script.next_part().await? {
        match part {
            ScriptPart::Rows(rows) if rows.table == MIGRATIONS => {}
            ScriptPart::Rows(rows) => {
                let range = HistoryRange::parse_table(&rows.table);
                let whole = range.map_or(rows.table.as_str(), |_| HISTORY);
                let Some(known) = schema.tables.get(whole) else {
                    taken.unknown.push(rows.table);
                    continue;
                };
                let TableRows { table, columns } = rows;
                let known_columns = columns.iter().all(|column| known.contains(column));
                ensure!(known_columns, "{table}: the dump has columns that it does not have");
                ensure!(taken.tables.insert(table.clone()), "{table}: the dump has it twice");
                match range {
                    Some(range) => range.load(connection, &columns, &mut script).await,
                    None => copy_rows(connection, &table, &columns, &mut script).await,
                }
                .context(table)?;
            }
            ScriptPart::Sequence(value) if schema.sequences.contains(&value.sequence) => {
                set_sequence(connection, &value).await?;
            }
            ScriptPart::Sequence(value) => taken.unknown.push(value.sequence),
        }
    }
    Ok(taken)
}

/// The beginning of the names of ranges.
const RANGES: &str = "ranges.";

/// The table that is in ranges.
const HISTORY: &str = "public.deliveries";

/// A range of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HistoryRange {
    /// The table as it was before there were ranges.
    Before,
    /// The month that begins on this day.
    Month(NaiveDate),
}

impl HistoryRange {
    /// Reads `ranges.deliveries_before` and `ranges.deliveries_2026_11`.
    fn parse_table(table: &str) -> Option<Self> {
        let name = table.strip_prefix(RANGES)?.strip_prefix("deliveries_")?;
        if name == "before" {
            return Some(Self::Before);
        }
        let (year, month) = name.split_once('_')?;
        NaiveDate::from_ymd_opt(year.parse().ok()?, month.parse().ok()?, 1).map(Self::Month)
    }

    /// Copies the rows of the range into ranges of the schema.
    async fn load<R: AsyncRead + Unpin>(
        self,
        connection: &mut PgConnection,
        columns: &[String],
        script: &mut DumpScript<R>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Month(first_day) => {
                let month = first_day.and_time(NaiveTime::MIN).and_utc();
                make_months(connection, vec![month]).await?;
                copy_rows(connection, HISTORY, columns, script).await
            }
            Self::Before => {
                connection.execute(MAKE_BEFORE).await?;
                copy_rows(connection, BEFORE, columns, script).await?;
                let months = sqlx::query_scalar(MONTHS_BEFORE).fetch_all(&mut *connection).await?;
                make_months(connection, months).await?;
                connection.execute(MOVE_BEFORE).await?;
                Ok(())
            }
        }
    }
}

/// Makes ranges for these months, without their keys.
async fn make_months(
    connection: &mut PgConnection,
    months: Vec<DateTime<Utc>>,
) -> Result<(), sqlx::Error> {
    let make = "select public.make_history_range('public.deliveries', month)
                  from unnest($1::timestamptz[]) as month";
    sqlx::query(make).bind(months).execute(&mut *connection).await?;
    connection.execute(DROP_RANGE_KEYS).await?;
    Ok(())
}

/// Rows of before there were ranges. A restore puts them into months.
const BEFORE: &str = "pg_temp.deliveries_before";
const MAKE_BEFORE: &str =
    "create temporary table deliveries_before (like public.deliveries including defaults)";
const MONTHS_BEFORE: &str =
    "select distinct date_trunc('month', created_at, 'UTC') from pg_temp.deliveries_before";
const MOVE_BEFORE: &str = "
    insert into public.deliveries select * from pg_temp.deliveries_before;
    drop table pg_temp.deliveries_before";

const DROP_RANGE_KEYS: &str = "
    do $$
    declare dropped text;
    begin
        for dropped in
            select format('alter table %s drop constraint %I', conrelid::regclass, conname)
              from pg_inherits join pg_constraint on conrelid = inhrelid and contype = 'p'
             where inhparent = to_regclass('public.deliveries')
        loop
            execute dropped;
        end loop;
    end $$";
const MAKE_RANGE_KEYS: &str = "
    do $$
    declare range regclass;
    begin
        for range in
            select inhrelid from pg_inherits where inhparent = to_regclass('public.deliveries')
        loop
            execute format('alter table %s add primary key (delivery_id)', range);
        end loop;
    end $$";

/// The table of the migrations. The migrations that made the schema have written it.
const MIGRATIONS: &str = "public._sqlx_migrations";

/// Copies the rows of a table. All names are those of the schema.
async fn copy_rows<R: AsyncRead + Unpin>(
    connection: &mut PgConnection,
    table: &str,
    columns: &[String],
    script: &mut DumpScript<R>,
) -> anyhow::Result<()> {
    let columns: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    let statement = format!("copy {table} ({}) from stdin", columns.join(", "));
    let mut copying = connection.copy_in_raw(&statement).await?;
    while let Some(rows) = script.next_rows().await? {
        copying.send(rows).await?;
    }
    copying.finish().await?;
    Ok(())
}

async fn set_sequence(
    connection: &mut PgConnection,
    SequenceValue { sequence, last, is_called }: &SequenceValue,
) -> anyhow::Result<()> {
    sqlx::query("select setval($1::text::regclass, $2, $3)")
        .bind(sequence)
        .bind(last)
        .bind(is_called)
        .execute(connection)
        .await
        .with_context(|| sequence.clone())?;
    Ok(())
}

/// The schema that rows are loaded into, as its migrations made it.
struct LoadedSchema {
    /// The columns of each table that a row of a dump has. The server computes the others.
    tables: BTreeMap<String, BTreeSet<String>>,
    sequences: BTreeSet<String>,
    indexes: Vec<TableIndex>,
    /// Whether history is in ranges, as it is since the migration 0052.
    has_ranges: bool,
}

/// The statements that drop an index, and make it again with its constraint.
#[derive(FromRow)]
struct TableIndex {
    drop: String,
    make: String,
}

impl LoadedSchema {
    async fn read(connection: &mut PgConnection) -> anyhow::Result<Self> {
        let columns: Vec<(String, String)> = sqlx::query_as(
            "select 'public.' || c.relname, a.attname::text
               from pg_class c join pg_attribute a on a.attrelid = c.oid
              where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
                and c.relname <> '_sqlx_migrations'
                and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''",
        )
        .fetch_all(&mut *connection)
        .await?;
        let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (table, column) in columns {
            tables.entry(table).or_default().insert(column);
        }
        let sequences: Vec<String> = sqlx::query_scalar(
            "select 'public.' || relname from pg_class
              where relnamespace = 'public'::regnamespace and relkind = 'S'",
        )
        .fetch_all(&mut *connection)
        .await?;
        let sequences = sequences.into_iter().collect();
        let has_ranges = sqlx::query_scalar("select to_regnamespace('ranges') is not null")
            .fetch_one(&mut *connection)
            .await?;
        Ok(Self { tables, sequences, indexes: read_indexes(connection).await?, has_ranges })
    }
}

/// The indexes of all tables. The definition of a constraint leaves out options of its index, so
/// the index is made by its own definition, and then becomes the constraint's.
async fn read_indexes(connection: &mut PgConnection) -> Result<Vec<TableIndex>, sqlx::Error> {
    sqlx::query_as(
        "select case when k.conname is null then format('drop index public.%I', i.relname)
                     else format('alter table public.%I drop constraint %I', t.relname, k.conname)
                end as drop,
                replace(pg_get_indexdef(i.oid), ' ON ONLY ', ' ON ')
                || case when k.conname is null then '' else
                    format('; alter table public.%I add constraint %I %s using index %I',
                           t.relname, k.conname,
                           case k.contype when 'p' then 'primary key' else 'unique' end, i.relname)
                end as make
           from pg_index x
           join pg_class i on i.oid = x.indexrelid
           join pg_class t on t.oid = x.indrelid
           left join pg_constraint k on k.conindid = i.oid and k.conrelid = t.oid
                                    and k.contype in ('p', 'u')
          where t.relnamespace = 'public'::regnamespace and t.relkind in ('r', 'p')
            and t.relname <> '_sqlx_migrations'
          order by i.relname",
    )
    .fetch_all(connection)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dump that went through other hands can have any name.
    #[test]
    fn only_ranges_of_history_are_loaded() {
        let november = NaiveDate::from_ymd_opt(2026, 11, 1).map(HistoryRange::Month);
        for (table, range) in [
            ("ranges.deliveries_before", Some(HistoryRange::Before)),
            ("ranges.deliveries_2026_11", november),
            ("ranges.deliveries_2026_13", None),
            ("ranges.deliveries_2026_11_x", None),
            ("ranges.events_2026_11", None),
            ("public.deliveries_2026_11", None),
            ("public.deliveries", None),
        ] {
            assert_eq!(HistoryRange::parse_table(table), range, "{table}");
        }
    }
}
