//! The rows of a table in the order of their positions. They are read page by page, from the lowest
//! position there is. A gap costs nothing, however wide it is.

use std::collections::VecDeque;

use projector::audit::{self, EntryRow};
use projector::seals::{self, SealRow};
use sqlx::PgConnection;

/// Rows in one page.
pub(super) const ROWS_PER_PAGE: i64 = 4_096;

/// A row that has a position.
pub(super) trait PositionedRow: Sized {
    fn position(&self) -> i64;

    /// Reads the next rows at this position and above.
    async fn read_page(connection: &mut PgConnection, from: i64) -> Result<Vec<Self>, sqlx::Error>;
}

impl PositionedRow for EntryRow {
    fn position(&self) -> i64 {
        self.position
    }

    async fn read_page(connection: &mut PgConnection, from: i64) -> Result<Vec<Self>, sqlx::Error> {
        audit::list_from(connection, from, ROWS_PER_PAGE).await
    }
}

impl PositionedRow for SealRow {
    fn position(&self) -> i64 {
        self.last_position
    }

    async fn read_page(connection: &mut PgConnection, from: i64) -> Result<Vec<Self>, sqlx::Error> {
        seals::list_from(connection, from, ROWS_PER_PAGE).await
    }
}

/// All rows of a table, one after the other.
pub(super) struct PagedRows<T> {
    page: VecDeque<T>,
    /// The lowest position of the next page; `None` after the last page.
    from: Option<i64>,
    /// The lowest position of the page after all rows read so far.
    unread_from: i64,
    /// Rows that were handed out.
    pub(super) walked: i64,
}

impl<T> Default for PagedRows<T> {
    fn default() -> Self {
        Self::from_position(i64::MIN)
    }
}

impl<T> PagedRows<T> {
    /// The rows at this position and above.
    pub(super) const fn from_position(position: i64) -> Self {
        Self { page: VecDeque::new(), from: Some(position), unread_from: position, walked: 0 }
    }

    /// Goes on in a later snapshot, which may have rows after the last page.
    pub(super) const fn reopen(&mut self) {
        self.from = Some(self.unread_from);
    }
}

impl<T: PositionedRow> PagedRows<T> {
    /// Removes and returns the next row, if its position is this one or below.
    pub(super) async fn next_through(
        &mut self,
        connection: &mut PgConnection,
        position: i64,
    ) -> Result<Option<T>, sqlx::Error> {
        if self.page.is_empty()
            && let Some(from) = self.from
        {
            self.page = T::read_page(connection, from).await?.into();
            self.from = after_page(&self.page);
            self.unread_from =
                self.page.back().map_or(from, |row| row.position().saturating_add(1));
        }
        let is_due = self.page.front().is_some_and(|row| row.position() <= position);
        let row = if is_due { self.page.pop_front() } else { None };
        self.walked += i64::from(row.is_some());
        Ok(row)
    }
}

/// The lowest position of the page after this one, if there may be one.
fn after_page<T: PositionedRow>(page: &VecDeque<T>) -> Option<i64> {
    let is_last = i64::try_from(page.len()).unwrap_or(i64::MAX) < ROWS_PER_PAGE;
    page.back().filter(|_| !is_last)?.position().checked_add(1)
}
