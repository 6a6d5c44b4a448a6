//! Makes a small database big: copies all rows many times over under other ids. So tables have the
//! sizes and the spread by which plans are made.

use std::fmt::Write;

use sqlx::{Executor, FromRow, PgPool};

/// Rows that each table has then, about.
const ROWS: i64 = 6_000;

/// Tables that have few rows in any installation.
const LEFT: &str = "'_sqlx_migrations', 'checkpoints', 'rebuilds', 'identity_check',
                    'identity_key', 'wrapping_check', 'pauses', 'tokens', 'wrong_keys',
                    'lane_wakes', 'unspread'";

/// Tables of which a single firm, and a single subscription, may have very many rows.
const OF_ONE: [&str; 7] =
    ["deliveries", "responses", "response_people", "subjects", "bodies", "answers", "audit_log"];

/// Whose a copy is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The copy belongs to the firm of the original.
    Own,
    /// The copy belongs to another firm.
    Another,
}

#[derive(FromRow)]
struct Column {
    table_name: String,
    column_name: String,
    data_type: String,
    is_identity: bool,
    is_unique: bool,
}

/// Multiplies all rows of a database. Followers then stand at the end of the log, and due work
/// becomes due day by day.
pub async fn multiply(pool: &PgPool) {
    let columns: Vec<Column> = sqlx::query_as(&columns()).fetch_all(pool).await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    transaction.execute("set local session_replication_role = replica").await.unwrap();
    if columns.iter().any(|column| column.table_name == "deliveries") {
        transaction.execute(RANGES).await.unwrap();
    }
    for columns in columns.chunk_by(|one, next| one.table_name == next.table_name) {
        if OF_ONE.contains(&columns[0].table_name.as_str()) {
            transaction.execute(copy(columns, Whose::Own).as_str()).await.unwrap();
        }
        transaction.execute(copy(columns, Whose::Another).as_str()).await.unwrap();
    }
    if columns.iter().any(|column| column.table_name == "events") {
        transaction.execute(SETTLED).await.unwrap();
    }
    transaction.commit().await.unwrap();
    pool.execute("vacuum analyze").await.unwrap();
}

/// Copies of deliveries are some days older.
const RANGES: &str = "
    select make_history_range('deliveries', day)
      from (select min(created_at) - interval '10 days' as first, max(created_at) as last
              from deliveries) d
     cross join generate_series(first, last, interval '1 day') as day";

/// Everything there is has been followed, and the log goes on after it, with a block of seals.
const SETTLED: &str = "
    select setval('events_position_seq', 1024 * 200000);
    select make_log_range((1024 * 200000) >> 24);
    update checkpoints set position = 1024 * 200000";

fn columns() -> String {
    format!(
        "select table_name::text, column_name::text, data_type::text,
                is_identity = 'YES' as is_identity,
                exists (select from pg_index i
                          join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
                         where i.indrelid = format('public.%I', table_name)::regclass
                           and i.indisunique and a.attname = column_name) as is_unique
           from information_schema.columns
          where table_schema = 'public' and table_name not in ({LEFT}) and is_generated = 'NEVER'
          order by table_name, ordinal_position"
    )
}

/// Adds copies of all rows of a table; `n` counts them.
fn copy(columns: &[Column], whose: Whose) -> String {
    let table = &columns[0].table_name;
    let names: Vec<_> = columns.iter().map(|column| format!("{:?}", column.column_name)).collect();
    let values: Vec<_> = columns.iter().map(|column| value(column, whose)).collect();
    let overriding = if columns.iter().any(|column| column.is_identity) {
        "overriding system value"
    } else {
        ""
    };
    let mut copy = format!("insert into {table} ({}) {overriding} ", names.join(", "));
    write!(
        copy,
        "select {} from (select * from {table} limit {ROWS}) t,
                generate_series(1, (select {ROWS} / greatest(count(*), 1) + 1 from {table})) n
             on conflict do nothing",
        values.join(", ")
    )
    .unwrap();
    copy
}

/// The value of a column in copy `n`. It is equal in every table, so rows that belong together
/// still do.
fn value(column: &Column, whose: Whose) -> String {
    let name = format!("t.{:?}", column.column_name);
    let (own, salt) = (whose == Whose::Own, u8::from(whose == Whose::Own));
    let kept =
        own && ["firm_id", "hook_id", "form_id", "key_id"].contains(&column.column_name.as_str());
    let other = |text: &str| format!("md5({text} || '/{salt}/' || n)::uuid");
    let ends = ["due_at", "next_try_at", "running_until"];
    match column.data_type.as_str() {
        _ if kept => name,
        "uuid" => other(&format!("{name}::text")),
        "text" if column.column_name == "host" => format!("n || '.' || {name}"),
        "text" => format!(
            "case when {name} ~ '^[0-9a-f]{{8}}-[0-9a-f-]{{27}}$' then {}::text else {name} end",
            other(&name)
        ),
        "bigint" if column.column_name.ends_with("position") => {
            format!("{name} + (n + {salt} * 20000) * 4096")
        }
        "bigint" if column.column_name == "number" => format!("{name} + n * 4"),
        "bigint" if own && column.is_unique => format!("{name} + n * 100000"),
        "bytea" if column.is_unique => format!("sha256({name} || n::text::bytea)"),
        "timestamp with time zone" if ends.contains(&column.column_name.as_str()) => {
            format!("{name} + n * interval '1 day'")
        }
        // Or the purge would drop all of them.
        "timestamp with time zone" if column.table_name == "bodies" => {
            format!("{name} + interval '1 year'")
        }
        "timestamp with time zone" => format!("{name} - n * interval '1 minute'"),
        _ => name,
    }
}
