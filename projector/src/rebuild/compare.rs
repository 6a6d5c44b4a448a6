//! Comparing what was made anew with what is there, row for row. The live tables are looked at as they
//! were at one moment, by a transaction that only reads: it holds no lock that anybody waits for and
//! draws no transaction id, so it may take as long as it takes.

use std::cmp::Ordering;

use chrono::NaiveDate;
use domain::target::shown_target;
use futures::TryStreamExt;
use sqlx::types::JsonValue;
use sqlx::{FromRow, PgConnection};

use super::model::{ModelTable, ReadModel};
use super::shadow::SCHEMA;

/// As much of a value as is told.
const SHOWN_CHARS_MAX: usize = 1_000;

/// What the rows of a read model come to, in whatever order they are. It tells mistakes, and no
/// forgery: what has to be proof against that has hashes of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelDigest {
    /// How many there are.
    pub rows: i64,
    sums: [u64; 2],
}

impl ModelDigest {
    /// It in 32 hexadecimal digits.
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

/// The first row that is not what the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowDifference {
    /// The table.
    pub table: &'static str,
    /// The row: the values of its primary key.
    pub key: String,
    /// The column; none if the whole row is there once only.
    pub column: Option<String>,
    /// What the log says; none if it knows no such row.
    pub log: Option<String>,
    /// What the table has; none if it has no such row.
    pub live: Option<String>,
}

/// What comparing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelComparison {
    /// Of what was made anew.
    pub(super) digest: ModelDigest,
    pub(super) difference: Option<RowDifference>,
    /// Whether a row that must never change would: another one would come in its place, or none.
    pub(super) rewrites_proof: bool,
}

/// Compares a model's tables: the live ones by one connection, the shadow's by the other.
pub(super) async fn compare(
    (live, shadow): (&mut PgConnection, &mut PgConnection),
    model: ReadModel,
    first_day: NaiveDate,
) -> Result<ModelComparison, sqlx::Error> {
    let digest = ModelDigest::default();
    let mut compared = ModelComparison { digest, difference: None, rewrites_proof: false };
    for table in model.tables() {
        let rows = ComparedRows::of(live, table, first_day).await?;
        let (there, anew) = (rows.digest("public"), rows.digest(SCHEMA));
        let (there, anew) =
            tokio::try_join!(read_digest(live, &there), read_digest(shadow, &anew))?;
        compared.digest = compared.digest.plus(anew);
        if there != anew {
            let (found, rewrites) = difference((live, shadow), &rows).await?;
            compared.rewrites_proof |= rewrites;
            compared.difference = compared.difference.or(found);
        }
    }
    Ok(compared)
}

/// The rows of a table that are compared, and by what.
struct ComparedRows {
    table: ModelTable,
    columns: String,
    condition: String,
    /// Its primary key as text that sorts as the key does.
    key: String,
}

impl ComparedRows {
    async fn of(
        connection: &mut PgConnection,
        table: &ModelTable,
        first_day: NaiveDate,
    ) -> Result<Self, sqlx::Error> {
        let (columns, key) = columns(connection, table).await?;
        // Counts of days gone by are forgotten, sooner or later.
        let condition = match table.name {
            "quotas" => format!("period = '-infinity' or period >= '{first_day}'"),
            _ => "true".to_owned(),
        };
        Ok(Self { table: *table, columns, condition, key })
    }

    fn select(&self, schema: &str) -> String {
        let Self { table: ModelTable { name, .. }, columns, condition, .. } = self;
        format!("select {columns} from {schema}.{name} where {condition}")
    }

    fn digest(&self, schema: &str) -> String {
        let (name, select) = (self.table.name, self.select(schema));
        format!(
            "select count(*), coalesce(sum(hashtextextended('{name}' || t::text, 0)), 0)::text,
                    coalesce(sum(hashtextextended('{name}' || t::text, 1)), 0)::text
               from ({select}) t"
        )
    }

    fn in_order(&self, schema: &str) -> String {
        let (key, select) = (&self.key, self.select(schema));
        format!(
            "select array[{key}] as key, to_jsonb(t) as row from ({select}) t
              order by array[{key}] collate \"C\""
        )
    }
}

/// The columns that are compared, and those of the primary key as text.
async fn columns(
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
                    filter (where attnum = any(conkey))
           from pg_attribute join pg_constraint on conrelid = attrelid and contype = 'p'
          where attrelid = ('public.' || $1)::regclass and attnum > 0 and not attisdropped",
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

/// The first difference of two tables; and whether a row of the live one is another, or too many, if
/// that must not be.
async fn difference(
    (live, shadow): (&mut PgConnection, &mut PgConnection),
    rows: &ComparedRows,
) -> Result<(Option<RowDifference>, bool), sqlx::Error> {
    let (there, anew) = (rows.in_order("public"), rows.in_order(SCHEMA));
    let mut there = sqlx::query_as::<_, KeyedRow>(&there).fetch(live);
    let mut anew = sqlx::query_as::<_, KeyedRow>(&anew).fetch(shadow);
    let (mut live, mut log) = (there.try_next().await?, anew.try_next().await?);
    let mut first = None;
    while live.is_some() || log.is_some() {
        let order = order(log.as_ref(), live.as_ref());
        if let Some((differs, rewrites)) = differ(rows.table, (order, log.as_ref(), live.as_ref()))
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

/// Which of two rows comes first; one that is not there comes last.
fn order(log: Option<&KeyedRow>, live: Option<&KeyedRow>) -> Ordering {
    match (log, live) {
        (Some(log), Some(live)) => log.key.cmp(&live.key),
        (Some(_), None) => Ordering::Less,
        (None, _) => Ordering::Greater,
    }
}

/// How two rows differ, if they do; and whether that row must never change.
fn differ(
    ModelTable { name, proof, .. }: ModelTable,
    (order, log, live): (Ordering, Option<&KeyedRow>, Option<&KeyedRow>),
) -> Option<(RowDifference, bool)> {
    let differs = |row: &KeyedRow, column: Option<&str>, [log, live]: [Option<&JsonValue>; 2]| {
        let told = |value: Option<&JsonValue>| value.map(|value| shown_value(column, value));
        RowDifference {
            table: name,
            key: row.key.iter().map(|part| unpadded(part)).collect::<Vec<_>>().join(" "),
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

/// The first column of a row whose value another row does not have.
fn other_column<'a>(row: &'a JsonValue, other: &JsonValue) -> Option<(&'a str, &'a JsonValue)> {
    let mut columns = row.as_object()?.iter();
    columns
        .find(|(name, value)| other.get(name) != Some(*value))
        .map(|(name, value)| (name.as_str(), value))
}

/// A value as it may be shown: the query of a target may be a secret.
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

fn unpadded(part: &str) -> &str {
    let is_padded = part.len() == 20 && part.bytes().all(|byte| byte.is_ascii_digit());
    if is_padded { part.trim_start_matches('0') } else { part }
}
