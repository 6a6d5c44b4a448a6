//! Loads the rows of a dump into a schema that the program's own migrations have made. Only rows
//! and values of sequences come from the dump. Every statement is written here, and each name in it
//! is one of that schema.
//!
//! The indexes are made after the rows, as `pg_restore` does: each row in an index of a full table
//! costs a search. All of it is one transaction, so a load that fails leaves tables without rows.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
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
    for index in &schema.indexes {
        transaction.execute(index.drop.as_str()).await?;
    }
    let taken = take_parts(&mut transaction, &schema, &mut running.output).await;
    let ended = block_in_place(|| running.wait_for_end());
    let taken = taken?;
    ended?;
    let missing = schema.tables.keys().find(|table| !taken.tables.contains(*table));
    ensure!(missing.is_none(), "the dump lacks the table {}", missing.map_or("", |name| name));
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
            ScriptPart::Rows(TableRows { table, columns }) => match schema.tables.get(&table) {
                Some(known) => {
                    let known_columns = columns.iter().all(|column| known.contains(column));
                    ensure!(known_columns, "{table}: the dump has columns that it does not have");
                    ensure!(taken.tables.insert(table.clone()), "{table}: the dump has it twice");
                    copy_rows(connection, &table, &columns, &mut script).await.context(table)?;
                }
                None if table == MIGRATIONS => {}
                None => taken.unknown.push(table),
            },
            ScriptPart::Sequence(value) if schema.sequences.contains(&value.sequence) => {
                set_sequence(connection, &value).await?;
            }
            ScriptPart::Sequence(value) => taken.unknown.push(value.sequence),
        }
    }
    Ok(taken)
}

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
              where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
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
        Ok(Self { tables, sequences, indexes: read_indexes(connection).await? })
    }
}

/// The indexes of all tables. The definition of a constraint leaves out options of its index, so
/// the index is made by its own definition, and then becomes the constraint's.
async fn read_indexes(connection: &mut PgConnection) -> Result<Vec<TableIndex>, sqlx::Error> {
    sqlx::query_as(
        "select case when k.conname is null then format('drop index public.%I', i.relname)
                     else format('alter table public.%I drop constraint %I', t.relname, k.conname)
                end as drop,
                pg_get_indexdef(i.oid) || case when k.conname is null then '' else
                    format('; alter table public.%I add constraint %I %s using index %I',
                           t.relname, k.conname,
                           case k.contype when 'p' then 'primary key' else 'unique' end, i.relname)
                end as make
           from pg_index x
           join pg_class i on i.oid = x.indexrelid
           join pg_class t on t.oid = x.indrelid
           left join pg_constraint k on k.conindid = i.oid and k.conrelid = t.oid
                                    and k.contype in ('p', 'u')
          where t.relnamespace = 'public'::regnamespace and t.relkind = 'r'
            and t.relname <> '_sqlx_migrations'
          order by i.relname",
    )
    .fetch_all(connection)
    .await
}
