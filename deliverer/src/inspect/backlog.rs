//! The backlog, for metrics. Each question reads a bounded part of an index, and takes no lock.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};

use crate::outbox::lanes::not_held;

/// Rows and lanes that are counted, at most. Beyond that the age says more than the number.
pub const COUNTED_MAX: i64 = 100_000;

/// The oldest wakes that are read, at most. There are few where a process sends.
const WAKES_READ_MAX: i64 = 1_000;

/// Deliveries that have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct DeliveryCounts {
    /// Deliveries that could be sent now if the limits allowed it, also in paused lanes.
    pub due: i64,
    /// Deliveries whose next attempt is due later.
    pub waiting: i64,
    /// Claimed deliveries: being sent, waiting for a slot, or answered and not yet recorded.
    pub in_flight: i64,
}

/// Lanes with work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct LaneCounts {
    /// Lanes with a row that is due.
    pub due: i64,
    /// Lanes whose first row is due later.
    pub waiting: i64,
    /// Lanes of suspended firms.
    pub paused: i64,
    /// Lanes of removed subscriptions with rows to cancel.
    pub closing: i64,
    /// The earliest due time of a row that no pause holds.
    pub oldest_due_at: Option<DateTime<Utc>>,
}

/// Counts deliveries. Reads at most [`COUNTED_MAX`] rows of the outbox, in no particular order. An
/// index on due times would slow every claim and every record.
pub async fn count_deliveries(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<DeliveryCounts, sqlx::Error> {
    sqlx::query_as(
        "select count(*) filter (where due_at <= $1) as due,
                count(*) filter (where due_at > $1 and leased_at is null) as waiting,
                count(*) filter (where due_at > $1 and leased_at is not null) as in_flight
           from (select due_at, leased_at from outbox limit $2) o",
    )
    .bind(now)
    .bind(COUNTED_MAX)
    .fetch_one(connection)
    .await
}

/// Counts lanes, each state up to [`COUNTED_MAX`]. A lane with a wake counts as due.
pub async fn count_lanes(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<LaneCounts, sqlx::Error> {
    sqlx::query_as(concat!(
        "with woken as materialized (
             select distinct lane_id
               from (select lane_id from lane_wakes order by woken_by, wake_id limit $3) w)
         select (select count(*) from (
                     (select lane_id from lanes where due_at <= $1 and due_at is not null
                         and cancel_cause is null and paused_at is null limit $2)
                     union
                     (select l.lane_id from woken join lanes l on l.lane_id = woken.lane_id
                       where l.cancel_cause is null and l.paused_at is null)) l) as due,
                (select count(*) from (
                     select from lanes where due_at > $1 and due_at is not null
                        and cancel_cause is null and paused_at is null limit $2) l) as waiting,
                (select count(*) from (
                     select from lanes where due_at is not null and paused_at is not null
                      limit $2) l) as paused,
                (select count(*) from (
                     select from lanes where due_at is not null and cancel_cause is not null
                      limit $2) l) as closing,
                (select min(due_at) from (
                     select lane_id, firm_id, host, due_at from (
                         select lane_id, firm_id, host, due_at from lanes
                          where due_at <= $1 and due_at is not null
                            and cancel_cause is null and paused_at is null
                          order by due_at limit $2) due
                     union all
                     select l.lane_id, l.firm_id, l.host, o.due_at
                       from woken join lanes l on l.lane_id = woken.lane_id
                      cross join lateral (
                            select due_at from outbox
                             where lane_id = l.lane_id and leased_at is null and due_at <= $1
                             order by due_at limit 1) o
                      where l.cancel_cause is null and l.paused_at is null) l
                  where ",
        not_held!(),
        ") as oldest_due_at"
    ))
    .bind(now)
    .bind(COUNTED_MAX)
    .bind(WAKES_READ_MAX)
    .fetch_one(connection)
    .await
}

/// Counts unspread occurrences, up to [`COUNTED_MAX`].
pub async fn count_unspread(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from (select from unspread limit $1) u")
        .bind(COUNTED_MAX)
        .fetch_one(connection)
        .await
}
