//! Growth of tables: bytes and rows a day, and a forecast that continues them.

use serde::Serialize;

/// Longest stretch of days that growth is measured over.
pub(super) const GROWTH_DAYS_MAX: i64 = 30;

/// Rows and bytes of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct TableSize {
    /// Live rows: counted in a small table, else as the server last estimated them.
    pub(super) rows: i64,
    /// Bytes with indexes and TOAST.
    pub(super) bytes: i64,
}

/// Growth of a table, and its size if the growth goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct TableGrowth {
    /// Days between the two sizes.
    pub(super) over_days: i64,
    /// Rows a day. Negative if the table shrinks.
    pub(super) rows_per_day: i64,
    /// Bytes a day. Negative if the table shrinks.
    pub(super) bytes_per_day: i64,
    /// Bytes in 30 days.
    pub(super) bytes_in_30_days: i64,
    /// Bytes in 365 days.
    pub(super) bytes_in_365_days: i64,
}

impl TableGrowth {
    /// The growth of two tables together, over the longer stretch of the two.
    #[must_use]
    pub(super) fn combined_with(self, other: Self) -> Self {
        Self {
            over_days: self.over_days.max(other.over_days),
            rows_per_day: self.rows_per_day + other.rows_per_day,
            bytes_per_day: self.bytes_per_day + other.bytes_per_day,
            bytes_in_30_days: self.bytes_in_30_days.saturating_add(other.bytes_in_30_days),
            bytes_in_365_days: self.bytes_in_365_days.saturating_add(other.bytes_in_365_days),
        }
    }
}

impl TableSize {
    /// The growth from an earlier size. `None` if less than a day lies between.
    #[must_use]
    pub(super) const fn growth_since(self, earlier: Self, over_days: i64) -> Option<TableGrowth> {
        if over_days < 1 {
            return None;
        }
        let bytes_per_day = (self.bytes - earlier.bytes) / over_days;
        Some(TableGrowth {
            over_days,
            rows_per_day: (self.rows - earlier.rows) / over_days,
            bytes_per_day,
            bytes_in_30_days: self.bytes_after(bytes_per_day, 30),
            bytes_in_365_days: self.bytes_after(bytes_per_day, 365),
        })
    }

    const fn bytes_after(self, bytes_per_day: i64, days: i64) -> i64 {
        let then = self.bytes.saturating_add(bytes_per_day.saturating_mul(days));
        if then < 0 { 0 } else { then }
    }

    /// The sizes of two tables together.
    #[must_use]
    pub(super) const fn combined_with(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, bytes: self.bytes + other.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_extrapolated_from_two_days() {
        let earlier = TableSize { rows: 100, bytes: 1_000 };
        let now = TableSize { rows: 400, bytes: 4_000 };
        let growth = now.growth_since(earlier, 3).unwrap();
        assert_eq!((growth.rows_per_day, growth.bytes_per_day), (100, 1_000));
        assert_eq!((growth.bytes_in_30_days, growth.bytes_in_365_days), (34_000, 369_000));
        assert_eq!(now.growth_since(earlier, 0), None);
        let both = growth.combined_with(now.growth_since(earlier, 1).unwrap());
        assert_eq!(
            (both.over_days, both.bytes_per_day, both.bytes_in_30_days),
            (3, 4_000, 128_000)
        );
    }

    #[test]
    fn a_shrinking_table_ends_empty() {
        let earlier = TableSize { rows: 10, bytes: 1_000 };
        let now = TableSize { rows: 9, bytes: 900 };
        let growth = now.growth_since(earlier, 1).unwrap();
        assert_eq!((growth.bytes_per_day, growth.bytes_in_30_days), (-100, 0));
        assert_eq!(now.combined_with(earlier), TableSize { rows: 19, bytes: 1_900 });
    }
}
