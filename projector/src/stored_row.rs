//! Rows of tables that decide and are in no chain. Each follows from one stream of the log, so a
//! verifier compares the two.

use eventstore::RecordedEvent;
use sqlx::PgConnection;
use uuid::Uuid;

/// A row of a table, as its stream leads to it.
pub trait StoredRow: Sized {
    /// The name of the table.
    const TABLE: &'static str;

    /// The kind of the stream that leads to the row.
    const AGGREGATE: &'static str;

    /// A column that decides. A login that may not read it cannot compare.
    const COLUMN: &'static str;

    /// Returns the id of the row.
    fn row_id(&self) -> Uuid;

    /// Returns the id of the row's stream.
    fn stream_id(&self) -> Uuid {
        self.row_id()
    }

    /// Makes the row that a stream leads to. Returns `None` if the stream makes no row.
    fn from_stream(stream: &[&RecordedEvent]) -> Option<Self>;

    /// Returns for each column its name, and whether it equals the other row's.
    fn compared_columns(&self, other: &Self) -> Vec<ComparedColumn>;

    /// Lists up to `limit` rows after one, in the order of their ids.
    fn rows_after(
        connection: &mut PgConnection,
        after: Option<Uuid>,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<Self>, sqlx::Error>> + Send;

    /// Returns the first column that differs from the other row's.
    fn first_difference(&self, other: &Self) -> Option<&'static str> {
        self.compared_columns(other)
            .into_iter()
            .find(|column| !column.is_equal)
            .map(|column| column.name)
    }
}

/// A column of two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparedColumn {
    /// The name of the column.
    pub name: &'static str,
    /// Whether both rows have the same value.
    pub is_equal: bool,
}

/// Compares these fields of two rows. A field has the name of its column.
macro_rules! compare_columns {
    ($one:expr, $other:expr, [$($column:ident),+ $(,)?]) => {
        vec![$($crate::stored_row::ComparedColumn {
            name: stringify!($column),
            is_equal: $one.$column == $other.$column,
        }),+]
    };
}
pub(crate) use compare_columns;
