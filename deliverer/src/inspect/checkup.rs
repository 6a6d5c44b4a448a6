//! The queue in numbers, for `doctor`. Held, suspended and closed lanes are not late.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgPool};

/// The queue in numbers.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct QueueCheckup {
    /// Deliveries that are queued or leased.
    pub queued: i64,
    /// Unspread occurrences.
    pub unspread: i64,
    /// Open lanes that are due.
    pub due_lanes: i64,
    /// The earliest due time of these lanes.
    pub oldest_due_at: Option<DateTime<Utc>>,
    /// Open lanes with a row that waits, and neither a due time nor a wake.
    pub stuck_lanes: i64,
    /// Leases in open lanes that ended before `ended_before`.
    pub ended_leases: i64,
}

/// Counts the queue. A lease counts as ended if it ended before `ended_before`.
pub async fn count_queue(
    pool: &PgPool,
    now: DateTime<Utc>,
    ended_before: DateTime<Utc>,
) -> Result<QueueCheckup, sqlx::Error> {
    sqlx::query_as(
        "with open as (
             select lane_id, due_at from lanes l
              where cancel_cause is null and paused_at is null
                and not exists (
                    select from pauses p
                     where p.kind = 'all' or (p.kind = 'firm' and p.firm_id = l.firm_id)
                        or p.hook_id = l.lane_id or p.host = l.host))
         select (select count(*) from outbox) as queued,
                (select count(*) from unspread) as unspread,
                count(*) filter (where due_at <= $1) as due_lanes,
                min(due_at) filter (where due_at <= $1) as oldest_due_at,
                count(*) filter (where due_at is null
                    and exists (select from outbox o
                                 where o.lane_id = open.lane_id and o.leased_at is null)
                    and not exists (select from lane_wakes w
                                     where w.lane_id = open.lane_id)) as stuck_lanes,
                (select count(*) from outbox o join open l on l.lane_id = o.lane_id
                  where o.leased_at is not null and o.due_at < $2) as ended_leases
           from open",
    )
    .bind(now)
    .bind(ended_before)
    .fetch_one(pool)
    .await
}

/// Live and dead rows of the outbox, as the server last counted them.
pub async fn count_rows(pool: &PgPool) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as(
        "select coalesce(sum(n_live_tup), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint
           from pg_stat_user_tables where relname = 'outbox'",
    )
    .fetch_one(pool)
    .await
}
