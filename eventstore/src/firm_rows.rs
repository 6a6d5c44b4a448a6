//! Deletes the rows of a closed firm from tables that are kept by firm, in batches. Each crate
//! names its tables.

use sqlx::PgConnection;
use uuid::Uuid;

/// A table with rows of firms, and the column that orders the rows of one firm in an index.
#[derive(Debug, Clone, Copy)]
pub struct FirmTable {
    /// The table.
    pub name: &'static str,
    /// The column of an index after `firm_id`, or `firm_id` itself.
    pub key: &'static str,
}

/// A place in the rows of a firm: the next rows to delete. Deleted rows lie before it. So a batch
/// does not go through the dead rows of earlier batches, which an old snapshot may keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FirmRowsCursor {
    table: usize,
    after: Uuid,
}

/// Returns the firms among these that have a row in a table.
pub async fn with_rows(
    connection: &mut PgConnection,
    tables: &[FirmTable],
    firm_ids: &[Uuid],
) -> Result<Vec<Uuid>, sqlx::Error> {
    // For an `exists` the planner may read a whole table into a hash.
    let has = |table: &FirmTable| {
        format!("(select true from {} t where t.firm_id = f.firm_id limit 1)", table.name)
    };
    let any = tables.iter().map(has).collect::<Vec<_>>().join(", ");
    let question = format!(
        "select f.firm_id from unnest($1::uuid[]) as f(firm_id) where coalesce({any}, false)"
    );
    sqlx::query_scalar(&question).bind(firm_ids).fetch_all(connection).await
}

/// Deletes the firm's next rows, up to `limit`, and moves the cursor behind them. Returns the
/// number of deleted rows: fewer than `limit` if no row is left behind the cursor.
pub async fn drop_next(
    connection: &mut PgConnection,
    tables: &[FirmTable],
    firm_id: Uuid,
    cursor: &mut FirmRowsCursor,
    limit: usize,
) -> Result<usize, sqlx::Error> {
    let mut dropped = 0;
    while let Some(table) = tables.get(cursor.table) {
        let keys =
            drop_rows(&mut *connection, table, firm_id, cursor.after, limit - dropped).await?;
        dropped += keys.len();
        if dropped >= limit {
            cursor.after = keys.into_iter().max().unwrap_or(cursor.after);
            return Ok(dropped);
        }
        *cursor = FirmRowsCursor { table: cursor.table + 1, after: Uuid::nil() };
    }
    Ok(dropped)
}

async fn drop_rows(
    connection: &mut PgConnection,
    FirmTable { name, key }: &FirmTable,
    firm_id: Uuid,
    after: Uuid,
    limit: usize,
) -> Result<Vec<Uuid>, sqlx::Error> {
    let statement = format!(
        "delete from {name}
          where ctid = any(array(select ctid from {name} where firm_id = $1 and {key} >= $2
                                  order by {key} limit $3))
         returning {key}"
    );
    sqlx::query_scalar(&statement)
        .bind(firm_id)
        .bind(after)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await
}
