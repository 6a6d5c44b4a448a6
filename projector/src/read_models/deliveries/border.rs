//! Months of history that leave as a whole, and the border between them and the months that are
//! kept. The log is not concerned: the archive has its own border.

use chrono::{DateTime, Utc};
use sqlx::{Acquire, Executor, FromRow, PgConnection, PgPool};

/// The SQL states of a range that is kept, and of a wait for a lock that took too long.
const RANGE_KEPT: &str = "FF002";
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// The border of history, once a month has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct HistoryBorder {
    /// Deliveries that were queued before this time have left.
    pub kept_since: DateTime<Utc>,
    /// The last of these deliveries ended at this time.
    pub last_ended_at: Option<DateTime<Utc>>,
}

impl HistoryBorder {
    /// Whether a question about deliveries queued at this time or later misses some.
    #[must_use]
    pub fn bounds_queued(self, since: Option<DateTime<Utc>>) -> bool {
        since.is_none_or(|since| since < self.kept_since)
    }

    /// Whether a question about attempts at this time or later misses some.
    #[must_use]
    pub fn bounds_attempts(self, since: Option<DateTime<Utc>>) -> bool {
        self.bounds_queued(since) || since <= self.last_ended_at
    }
}

/// Returns the border of history, if a month has left. The table has a row for each such month.
pub async fn history_border(pool: &PgPool) -> Result<Option<HistoryBorder>, sqlx::Error> {
    sqlx::query_as(
        "select max(kept_since) as kept_since, max(last_ended_at) as last_ended_at
           from history_drops having count(*) > 0",
    )
    .fetch_optional(pool)
    .await
}

/// Returns the time from which deliveries are kept, if a month has left.
pub(crate) async fn kept_since(
    connection: &mut PgConnection,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar("select max(kept_since) from public.history_drops")
        .fetch_one(connection)
        .await
}

/// The result of a look at the oldest range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryDrop {
    /// No range is old enough.
    NothingOld,
    /// The range has left.
    Dropped(DroppedMonth),
    /// The database keeps the range, for this reason.
    Kept(String),
    /// Somebody reads history for long, such as a backup.
    InUse,
}

/// A range that has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedMonth {
    /// The name of its table, which names the month.
    pub range: String,
    /// The number of its deliveries.
    pub rows: i64,
}

/// Drops the oldest range of history, if it ended at this time or earlier and nothing needs it.
pub async fn drop_oldest_range(
    pool: &PgPool,
    ended_by: DateTime<Utc>,
) -> Result<HistoryDrop, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let Some(oldest) = oldest_range(&mut connection).await? else {
        return Ok(HistoryDrop::NothingOld);
    };
    if oldest.ends_at > ended_by {
        return Ok(HistoryDrop::NothingOld);
    }
    match drop_range(&mut connection, oldest.ends_at).await {
        Ok(Some(rows)) => Ok(HistoryDrop::Dropped(DroppedMonth { range: oldest.range_name, rows })),
        // Another process was faster.
        Ok(None) => Ok(HistoryDrop::NothingOld),
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(RANGE_KEPT) => {
            Ok(HistoryDrop::Kept(error.message().to_owned()))
        }
        Err(sqlx::Error::Database(error))
            if error.code().as_deref() == Some(LOCK_NOT_AVAILABLE) =>
        {
            Ok(HistoryDrop::InUse)
        }
        Err(error) => Err(error),
    }
}

#[derive(Debug, FromRow)]
struct OldestRange {
    range_name: String,
    ends_at: DateTime<Utc>,
}

async fn oldest_range(connection: &mut PgConnection) -> Result<Option<OldestRange>, sqlx::Error> {
    sqlx::query_as(
        "select relname::text as range_name,
                substring(pg_get_expr(relpartbound, oid)
                          from 'TO \\(''([^'']+)''\\)')::timestamptz as ends_at
           from pg_inherits join pg_class on oid = inhrelid
          where inhparent = 'deliveries'::regclass
          order by ends_at limit 1",
    )
    .fetch_optional(connection)
    .await
}

/// Returns the number of dropped deliveries, if the range was there.
async fn drop_range(
    connection: &mut PgConnection,
    ends_at: DateTime<Utc>,
) -> Result<Option<i64>, sqlx::Error> {
    let mut transaction = connection.begin().await?;
    // The function counts a month of deliveries before it locks anything.
    transaction.execute("set local statement_timeout = 0").await?;
    let rows = sqlx::query_scalar("select drop_history_range($1)")
        .bind(ends_at)
        .fetch_one(&mut *transaction)
        .await;
    // A refused drop holds the lock of rebuilds until the transaction ends.
    match rows {
        Ok(_) => transaction.commit().await?,
        Err(_) => transaction.rollback().await?,
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_border_bounds_what_reaches_before_it() {
        let at = |second| DateTime::from_timestamp(second, 0);
        let border = |last| HistoryBorder { kept_since: at(5).unwrap(), last_ended_at: last };
        for (since, last, queued, attempts) in [
            (None, None, true, true),
            (at(4), None, true, true),
            (at(5), None, false, false),
            (at(5), at(4), false, false),
            (at(5), at(7), false, true),
            (at(7), at(7), false, true),
            (at(8), at(7), false, false),
        ] {
            assert_eq!(border(last).bounds_queued(since), queued, "{since:?}");
            assert_eq!(border(last).bounds_attempts(since), attempts, "{since:?} {last:?}");
        }
    }
}
