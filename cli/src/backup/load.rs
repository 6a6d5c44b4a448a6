//! Loads the rows of a dump into a schema that the program's own migrations have made. Only rows
//! and values of sequences come from the dump. Every statement is written here, and each name in it
//! is one of that schema.
//!
//! The indexes are made after the rows, as `pg_restore` does: each row in an index of a full table
//! costs a search. All of it is one transaction, so a load that fails leaves tables without rows.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use eventstore::ranges::make_next_ranges;
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
    let log_has_ranges = schema.in_ranges.contains(LOG);
    if log_has_ranges {
        transaction.execute(DROP_LOG_KEYS).await?;
        // The dump has the places, also those whose events have left.
        transaction.execute("alter table ranges.log_traffic disable trigger take_place").await?;
    }
    for index in &schema.indexes {
        transaction.execute(index.drop.as_str()).await?;
    }
    let taken = take_parts(&mut transaction, &schema, &mut running.output).await;
    let ended = block_in_place(|| running.wait_for_end());
    let taken = taken?;
    ended?;
    // A table in ranges has no rows of its own.
    let mut expected = schema.tables.keys().filter(|table| !schema.in_ranges.contains(*table));
    let missing = expected.find(|table| !taken.tables.contains(*table));
    ensure!(missing.is_none(), "the dump lacks the table {}", missing.map_or("", |name| name));
    transaction.execute(MAKE_RANGE_KEYS).await?;
    for index in &schema.indexes {
        transaction.execute(index.make.as_str()).await.with_context(|| index.make.clone())?;
    }
    if log_has_ranges {
        make_next_ranges(&mut transaction).await?;
        transaction.execute(MAKE_LOG_KEYS).await?;
        transaction.execute("alter table ranges.log_traffic enable trigger take_place").await?;
        let came_without = [LOG, "ranges.events_before"];
        if came_without.iter().any(|table| taken.tables.contains(*table)) {
            transaction.execute(TAKE_PLACES).await?;
        }
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
                let range = schema.loaded_range(&rows.table);
                let whole = range.map_or(rows.table.as_str(), |range| range.table());
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

/// The tables that are in ranges.
const HISTORY: &str = "public.deliveries";
const LOG: &str = "public.events";

/// A range of history or of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoadedRange {
    /// History as it was before there were ranges.
    HistoryBefore,
    /// The month of history that begins on this day.
    HistoryMonth(NaiveDate),
    /// The log as it was before there were ranges.
    LogBefore,
    /// The events of the log that stay for good.
    LogState,
    /// The range of the log with this number.
    LogTraffic(i64),
}

impl LoadedRange {
    /// Reads names such as `ranges.deliveries_2026_11` and `ranges.log_traffic_3`.
    fn parse_table(table: &str) -> Option<Self> {
        let name = table.strip_prefix(RANGES)?;
        if let Some(number) = name.strip_prefix("log_traffic_") {
            return number.parse().ok().filter(|number| *number >= 0).map(Self::LogTraffic);
        }
        match name {
            "log_state" => return Some(Self::LogState),
            "events_before" => return Some(Self::LogBefore),
            "deliveries_before" => return Some(Self::HistoryBefore),
            _ => {}
        }
        let (year, month) = name.strip_prefix("deliveries_")?.split_once('_')?;
        NaiveDate::from_ymd_opt(year.parse().ok()?, month.parse().ok()?, 1).map(Self::HistoryMonth)
    }

    /// The table that the range is part of.
    const fn table(self) -> &'static str {
        match self {
            Self::HistoryBefore | Self::HistoryMonth(_) => HISTORY,
            Self::LogBefore | Self::LogState | Self::LogTraffic(_) => LOG,
        }
    }

    /// Copies the rows of the range into ranges of the schema.
    async fn load<R: AsyncRead + Unpin>(
        self,
        connection: &mut PgConnection,
        columns: &[String],
        script: &mut DumpScript<R>,
    ) -> anyhow::Result<()> {
        match self {
            Self::HistoryMonth(first_day) => {
                let month = first_day.and_time(NaiveTime::MIN).and_utc();
                make_months(connection, vec![month]).await?;
                copy_rows(connection, HISTORY, columns, script).await
            }
            Self::HistoryBefore => {
                connection.execute(MAKE_BEFORE).await?;
                copy_rows(connection, BEFORE, columns, script).await?;
                let months = sqlx::query_scalar(MONTHS_BEFORE).fetch_all(&mut *connection).await?;
                make_months(connection, months).await?;
                connection.execute(MOVE_BEFORE).await?;
                Ok(())
            }
            Self::LogState => copy_rows(connection, LOG, columns, script).await,
            Self::LogTraffic(number) => {
                make_log_ranges(connection, vec![number]).await?;
                copy_rows(connection, LOG, columns, script).await
            }
            Self::LogBefore => {
                connection.execute(MAKE_LOG_BEFORE).await?;
                copy_rows(connection, LOG_BEFORE, columns, script).await?;
                let numbers =
                    sqlx::query_scalar(NUMBERS_BEFORE).fetch_all(&mut *connection).await?;
                make_log_ranges(connection, numbers).await?;
                connection.execute(MOVE_LOG_BEFORE).await?;
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

/// Makes the ranges of the log with these numbers, without their keys.
async fn make_log_ranges(
    connection: &mut PgConnection,
    numbers: Vec<i64>,
) -> Result<(), sqlx::Error> {
    let make = "select public.make_log_range(number) from unnest($1::bigint[]) as number";
    sqlx::query(make).bind(numbers).execute(&mut *connection).await?;
    connection.execute(DROP_LOG_KEYS).await?;
    Ok(())
}

/// Events of before the log had ranges. A restore puts them into ranges of their positions.
const LOG_BEFORE: &str = "pg_temp.events_before";
const MAKE_LOG_BEFORE: &str =
    "create temporary table events_before (like public.events including defaults)";
const NUMBERS_BEFORE: &str = "select distinct (position - 1) >> 24 from pg_temp.events_before";
const MOVE_LOG_BEFORE: &str = "
    insert into public.events overriding system value
    select * from pg_temp.events_before order by position;
    drop table pg_temp.events_before";

/// The places of events that came without them.
const TAKE_PLACES: &str = "
    insert into public.places (id, position)
    select aggregate_id::uuid, position from public.events
     where sequence = 1
       and (aggregate_type = 'Occurrence'
            or aggregate_type = 'Delivery'
               and event_type in ('DeliveryQueued', 'DeliveryReissued'))
        on conflict do nothing";

const DROP_LOG_KEYS: &str = "
    do $$
    declare leaf regclass;
    begin
        for leaf in
            select relid from pg_partition_tree('ranges.log_kinds') where isleaf
        loop
            execute format('alter table %s drop constraint if exists %I,
                                           drop constraint if exists %I', leaf,
                           split_part(leaf::text, '.', 2) || '_pkey',
                           split_part(leaf::text, '.', 2) || '_position_key');
        end loop;
    end $$";
const MAKE_LOG_KEYS: &str = "
    do $$
    declare leaf regclass;
    begin
        for leaf in
            select relid from pg_partition_tree('ranges.log_kinds')
             where isleaf and not exists (select from pg_index where indrelid = relid and indisprimary)
        loop
            execute format('alter table %s add constraint %I
                                               primary key (aggregate_type, aggregate_id, sequence),
                                           add constraint %I unique (position)', leaf,
                           split_part(leaf::text, '.', 2) || '_pkey',
                           split_part(leaf::text, '.', 2) || '_position_key');
        end loop;
    end $$";

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
    /// The tables in ranges: history since the migration 0052, the log since 0058.
    in_ranges: BTreeSet<String>,
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
        let in_ranges: Vec<String> = sqlx::query_scalar(
            "select 'public.' || relname from pg_class
              where relnamespace = 'public'::regnamespace and relkind = 'p'",
        )
        .fetch_all(&mut *connection)
        .await?;
        let in_ranges = in_ranges.into_iter().collect();
        Ok(Self { tables, sequences, indexes: read_indexes(connection).await?, in_ranges })
    }

    /// The range that a table of the dump was. A log can be in ranges here, and none in the dump.
    fn loaded_range(&self, table: &str) -> Option<LoadedRange> {
        if table == LOG && self.in_ranges.contains(LOG) {
            return Some(LoadedRange::LogBefore);
        }
        LoadedRange::parse_table(table)
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
    fn only_known_ranges_are_loaded() {
        let november = NaiveDate::from_ymd_opt(2026, 11, 1).map(LoadedRange::HistoryMonth);
        for (table, range) in [
            ("ranges.log_state", Some(LoadedRange::LogState)),
            ("ranges.log_traffic_12", Some(LoadedRange::LogTraffic(12))),
            ("ranges.log_traffic_-1", None),
            ("ranges.log_traffic_x", None),
            ("ranges.events_before", Some(LoadedRange::LogBefore)),
            ("ranges.deliveries_before", Some(LoadedRange::HistoryBefore)),
            ("ranges.deliveries_2026_11", november),
            ("ranges.deliveries_2026_13", None),
            ("ranges.deliveries_2026_11_x", None),
            ("ranges.events_2026_11", None),
            ("public.deliveries_2026_11", None),
            ("public.deliveries", None),
        ] {
            assert_eq!(LoadedRange::parse_table(table), range, "{table}");
        }
    }
}
