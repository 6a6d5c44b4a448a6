//! How much is on its way, for those who watch: bounded questions, each by an index, none that locks.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};

use crate::outbox::lanes::not_held;

/// Rows and lanes are counted so far: beyond, the number says less than the age does.
pub const COUNTED_MAX: i64 = 100_000;

/// Wakes that are looked at: the oldest. Where something sends, there are few.
const WAKES_READ_MAX: i64 = 1_000;

/// Deliveries that are not at their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct DeliveryCounts {
    /// Those that could be sent now, if there were room; what waits in paused lanes too.
    pub due: i64,
    /// Those whose next try has its time.
    pub waiting: i64,
    /// Those that are claimed: being sent, waiting for a place at their host, or answered and about to be recorded.
    pub in_flight: i64,
}

/// Lanes with work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct LaneCounts {
    /// Work that could be sent now.
    pub due: i64,
    /// Work whose time is yet to come.
    pub waiting: i64,
    /// Of suspended firms.
    pub paused: i64,
    /// Of removed subscriptions, with leftovers to take back.
    pub closing: i64,
    /// Since when the work that has been due longest, and that no pause holds, has been due.
    pub oldest_due_at: Option<DateTime<Utc>>,
}

/// Counts deliveries. Reads no more than [`COUNTED_MAX`] rows of the outbox, whichever come first: an index
/// on when they are due would cost every claim and every record.
///
/// # Errors
/// If the database does not answer.
pub async fn deliveries(
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

/// Counts lanes, each state up to [`COUNTED_MAX`]. A lane that was woken is due, though nobody has looked yet.
///
/// # Errors
/// If the database does not answer.
pub async fn lanes(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<LaneCounts, sqlx::Error> {
    sqlx::query_as(concat!(
        "with woken as materialized (
             select distinct lane_id
               from (select lane_id from lane_wakes order by wake_id limit $3) w)
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

/// Counts occurrences whose deliveries are not in the outbox yet, up to [`COUNTED_MAX`].
///
/// # Errors
/// If the database does not answer.
pub async fn unspread(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from (select from unspread limit $1) u")
        .bind(COUNTED_MAX)
        .fetch_one(connection)
        .await
}
