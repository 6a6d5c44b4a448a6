//! Rows that an index leads to. A row that an index does not have would be passed over.

use eventstore::proof;
use sqlx::PgConnection;

use super::{FlawLocation, VerifyStop, broken_at};

/// Rows in one read.
pub(super) const ROWS_PER_READ: i64 = 500;

/// Rows that were visited by an index.
pub(super) struct VisitedRows {
    pub(super) table: &'static str,
    /// The condition of the visited rows, in SQL.
    pub(super) condition: &'static str,
    pub(super) count: i64,
}

impl VisitedRows {
    /// Requires that the index led to as many rows as the table has.
    pub(super) async fn require_all(
        &self,
        connection: &mut PgConnection,
    ) -> Result<(), VerifyStop> {
        let Self { table, condition, count } = self;
        let statement = format!("select count(*) from {table} where {condition}");
        proof::read_without_indexes(connection).await?;
        let there: i64 = sqlx::query_scalar(&statement).fetch_one(&mut *connection).await?;
        proof::read_with_indexes(connection).await?;
        if there == *count {
            return Ok(());
        }
        let why = format!("it has {there} rows, and an index leads to {count} of them");
        broken_at(FlawLocation::Table { name: table }, why)
    }
}
