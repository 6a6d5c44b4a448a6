//! The comparison checks the shadow against the live tables, row by row. It reads the live tables
//! in a transaction that only reads, as they were at one moment. This transaction blocks no writer
//! and draws no transaction id, so it may take long.

use std::cmp::Ordering;

use chrono::NaiveDate;
use domain::subscription::shown_target;
use futures::TryStreamExt;
use sqlx::types::JsonValue;
use sqlx::{FromRow, PgConnection};

use super::model::{ModelTable, ReadModel};
use super::shadow::SCHEMA;

/// The number of characters of a value that a difference shows.
const SHOWN_CHARS_MAX: usize = 1_000;

/// The digest of a read model's rows, in any order. It finds mistakes and no forgery. A table that
/// must resist forgery has hashes of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelDigest {
    /// The number of rows.
    pub rows: i64,
    sums: [u64; 2],
}

impl ModelDigest {
    /// Returns the digest as 32 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        format!("{:016x}{:016x}", self.sums[0], self.sums[1])
    }

    fn plus(self, other: Self) -> Self {
        let [a, b] = self.sums;
        let [c, d] = other.sums;
        let sums = [a.wrapping_add(c), b.wrapping_add(d)];
        Self { rows: self.rows + other.rows, sums }
    }
}

/// The first row that differs from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowDifference {
    /// The table.
    pub table: &'static str,
    /// The values of the row's primary key.
    pub key: String,
    /// The column. `None` if only one side has the row.
    pub column: Option<String>,
    /// The value by the log. `None` if the log leads to no such row.
    pub log: Option<String>,
    /// The value of the live table. `None` if the table has no such row.
    pub live: Option<String>,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelComparison {
    /// The digest of the shadow.
    pub(super) digest: ModelDigest,
    pub(super) difference: Option<RowDifference>,
    /// Tells whether the swap would change or remove a row that must never change.
    pub(super) rewrites_proof: bool,
}

/// Compares a model's live tables, on one connection, with the shadow's, on the other.
pub(super) async fn compare_tables(
    live: &mut PgConnection,
    shadow: &mut PgConnection,
    model: ReadModel,
    first_day: NaiveDate,
) -> Result<ModelComparison, sqlx::Error> {
    let digest = ModelDigest::default();
    let mut compared = ModelComparison { digest, difference: None, rewrites_proof: false };
    for table in model.tables() {
        let rows = ComparedRows::new(live, table, first_day).await?;
        let of_live = rows.digest_query("public");
        let of_shadow = rows.digest_query(SCHEMA);
        let (there, anew) =
            tokio::try_join!(read_digest(live, &of_live), read_digest(shadow, &of_shadow))?;
        compared.digest = compared.digest.plus(anew);
        if there != anew {
            let (found, rewrites) = first_difference(live, shadow, &rows).await?;
            compared.rewrites_proof |= rewrites;
            compared.difference = compared.difference.or(found);
        }
    }
    Ok(compared)
}

/// The rows and columns of a table that are compared.
struct ComparedRows {
    table: ModelTable,
    columns: String,
    condition: String,
    /// The primary key as text that sorts as the key does.
    key: String,
}

impl ComparedRows {
    async fn new(
        connection: &mut PgConnection,
        table: &ModelTable,
        first_day: NaiveDate,
    ) -> Result<Self, sqlx::Error> {
        let (columns, key) = compared_columns(connection, table).await?;
        // Housekeeping forgets the counts of past days sooner or later.
        let condition = match table.name {
            "quotas" => format!("period = '-infinity' or period >= '{first_day}'"),
            _ => "true".to_owned(),
        };
        Ok(Self { table: *table, columns, condition, key })
    }

    fn select_query(&self, schema: &str) -> String {
        let Self { table: ModelTable { name, .. }, columns, condition, .. } = self;
        format!("select {columns} from {schema}.{name} where {condition}")
    }

    fn digest_query(&self, schema: &str) -> String {
        let name = self.table.name;
        let select = self.select_query(schema);
        format!(
            "select count(*), coalesce(sum(hashtextextended('{name}' || t::text, 0)), 0)::text,
                    coalesce(sum(hashtextextended('{name}' || t::text, 1)), 0)::text
               from ({select}) t"
        )
    }

    fn in_order(&self, schema: &str) -> String {
        let key = &self.key;
        let select = self.select_query(schema);
        format!(
            "select array[{key}] as key, to_jsonb(t) as row from ({select}) t
              order by array[{key}] collate \"C\""
        )
    }
}

/// Returns the compared columns, and the columns of the primary key as text. A table in ranges has
/// a key in each range only, which is the first column.
async fn compared_columns(
    connection: &mut PgConnection,
    table: &ModelTable,
) -> Result<(String, String), sqlx::Error> {
    sqlx::query_as(
        "select string_agg(quote_ident(attname), ', ' order by attnum)
                    filter (where attname <> all($2)),
                string_agg(case when atttypid in ('int4'::regtype, 'int8'::regtype)
                                then format('lpad(%I::text, 20, ''0'')', attname)
                                else format('%I::text', attname) end, ', '
                           order by array_position(conkey, attnum))
                    filter (where attnum = any(coalesce(conkey, array[1::smallint])))
           from pg_attribute left join pg_constraint on conrelid = attrelid and contype = 'p'
          where attrelid = ('public.' || $1)::regclass and attnum > 0 and not attisdropped
            and attgenerated = ''",
    )
    .bind(table.name)
    .bind(table.beside_the_log)
    .fetch_one(connection)
    .await
}

async fn read_digest(
    connection: &mut PgConnection,
    statement: &str,
) -> Result<ModelDigest, sqlx::Error> {
    let (rows, first, second): (i64, String, String) =
        sqlx::query_as(statement).fetch_one(connection).await?;
    let sum = |text: String| {
        let sum: i128 = text.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        u64::try_from(sum.rem_euclid(1 << 64)).map_err(|error| sqlx::Error::Decode(error.into()))
    };
    Ok(ModelDigest { rows, sums: [sum(first)?, sum(second)?] })
}

#[derive(Debug, FromRow)]
struct KeyedRow {
    key: Vec<String>,
    row: JsonValue,
}

/// Returns the first difference of two tables, and whether a live row that must never change
/// differs or is surplus.
async fn first_difference(
    live: &mut PgConnection,
    shadow: &mut PgConnection,
    rows: &ComparedRows,
) -> Result<(Option<RowDifference>, bool), sqlx::Error> {
    let of_live = rows.in_order("public");
    let of_shadow = rows.in_order(SCHEMA);
    let mut there = sqlx::query_as::<_, KeyedRow>(&of_live).fetch(live);
    let mut anew = sqlx::query_as::<_, KeyedRow>(&of_shadow).fetch(shadow);
    let mut live = there.try_next().await?;
    let mut log = anew.try_next().await?;
    let mut first = None;
    while live.is_some() || log.is_some() {
        let order = key_order(log.as_ref(), live.as_ref());
        if let Some((differs, rewrites)) =
            row_difference(rows.table, order, log.as_ref(), live.as_ref())
        {
            first = first.or(Some(differs));
            if rewrites || !rows.table.proof {
                return Ok((first, rewrites));
            }
        }
        if order.is_le() {
            log = anew.try_next().await?;
        }
        if order.is_ge() {
            live = there.try_next().await?;
        }
    }
    Ok((first, false))
}

/// Compares two rows by their keys. A missing row comes last.
fn key_order(log: Option<&KeyedRow>, live: Option<&KeyedRow>) -> Ordering {
    match (log, live) {
        (Some(log), Some(live)) => log.key.cmp(&live.key),
        (Some(_), None) => Ordering::Less,
        (None, _) => Ordering::Greater,
    }
}

/// Returns the difference of two rows, if they differ, and whether the row must never change.
fn row_difference(
    ModelTable { name, proof, .. }: ModelTable,
    order: Ordering,
    log: Option<&KeyedRow>,
    live: Option<&KeyedRow>,
) -> Option<(RowDifference, bool)> {
    let differs = |row: &KeyedRow, column: Option<&str>, [log, live]: [Option<&JsonValue>; 2]| {
        let told = |value: Option<&JsonValue>| value.map(|value| shown_value(column, value));
        RowDifference {
            table: name,
            key: row.key.iter().map(|part| without_padding(part)).collect::<Vec<_>>().join(" "),
            column: column.map(str::to_owned),
            log: told(log),
            live: told(live),
        }
    };
    match (order, log, live) {
        (Ordering::Less, Some(log), _) => Some((differs(log, None, [Some(&log.row), None]), false)),
        (Ordering::Greater, _, Some(live)) => {
            Some((differs(live, None, [None, Some(&live.row)]), proof))
        }
        (_, Some(log), Some(live)) => {
            let (column, value) = other_column(&log.row, &live.row)?;
            let values = [Some(value), live.row.get(column)];
            Some((differs(log, Some(column), values), proof))
        }
        _ => None,
    }
}

/// Returns the first column of a row whose value differs from the other row's.
fn other_column<'a>(row: &'a JsonValue, other: &JsonValue) -> Option<(&'a str, &'a JsonValue)> {
    let mut columns = row.as_object()?.iter();
    columns
        .find(|(name, value)| other.get(name) != Some(*value))
        .map(|(name, value)| (name.as_str(), value))
}

/// Returns the value to show. Path and query of a target may be secrets, so they are masked.
fn shown_value(column: Option<&str>, value: &JsonValue) -> String {
    let mut value = value.clone();
    let target = match column {
        Some("target_url") => Some(&mut value),
        Some(_) => None,
        None => value.get_mut("target_url"),
    };
    if let Some(target) = target {
        *target = shown_target(target.as_str().unwrap_or_default()).into();
    }
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn without_padding(part: &str) -> &str {
    let is_padded = part.len() == 20 && part.bytes().all(|byte| byte.is_ascii_digit());
    if is_padded { part.trim_start_matches('0') } else { part }
}
