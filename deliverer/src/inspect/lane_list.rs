//! Lanes as operators see them, with their rows and their state.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// A selection of lanes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneFilter {
    /// Lanes of this firm only.
    pub firm_id: Option<Uuid>,
    /// Lanes to this host only.
    pub host: Option<String>,
    /// Lanes in the answer, at most.
    pub limit: i64,
}

/// A lane with work.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct LaneRow {
    /// The lane. A subscription's lane has the subscription's id.
    pub lane_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// `hook`, `step` or `notice`.
    pub kind: String,
    /// The host that it sends to.
    pub host: String,
    /// The due time of the lane's next row without a lease.
    pub due_at: Option<DateTime<Utc>>,
    /// The time of the firm's suspension, if it is suspended.
    pub suspended_at: Option<DateTime<Utc>>,
    /// The cause of the closing, if the lane is closed.
    pub cancel_cause: Option<String>,
    /// Deliveries that wait for an attempt.
    pub waiting: i64,
    /// Deliveries in flight.
    pub in_flight: i64,
    /// The earliest due time of a waiting delivery.
    pub oldest_due_at: Option<DateTime<Utc>>,
}

/// Waiting deliveries of a lane that are counted, at most.
const COUNTED_PER_LANE_MAX: i64 = 10_000;

/// The deliveries that wait in these lanes; of each lane 10,000 at most are counted.
pub async fn waiting_in(pool: &PgPool, lane_ids: &[Uuid]) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select coalesce(sum(o.waiting), 0)::bigint
           from unnest($1::uuid[]) as l(lane_id)
          cross join lateral (
                select count(*) as waiting
                  from (select 1 from outbox
                         where lane_id = l.lane_id and leased_at is null limit $2) o) o",
    )
    .bind(lane_ids)
    .bind(COUNTED_PER_LANE_MAX)
    .fetch_one(pool)
    .await
}

/// The lanes with work, the longest due first.
pub async fn list(pool: &PgPool, wanted: &LaneFilter) -> Result<Vec<LaneRow>, sqlx::Error> {
    sqlx::query_as(
        "with leased as materialized (
             select lane_id, count(*) as in_flight from outbox
              where leased_at is not null group by lane_id),
         woken as materialized (select distinct lane_id from lane_wakes)
         select l.lane_id, l.firm_id, l.kind, l.host, l.due_at, l.paused_at as suspended_at,
                l.cancel_cause, o.waiting, coalesce(f.in_flight, 0) as in_flight, o.oldest_due_at
           from (select lane_id, firm_id, kind, host, due_at, paused_at, cancel_cause from lanes
                  where (due_at is not null or lane_id in (select lane_id from leased)
                         or lane_id in (select lane_id from woken))
                    and ($1::uuid is null or firm_id = $1)
                    and ($2::text is null or host = $2)
                  order by due_at, lane_id limit $3) l
           left join leased f on f.lane_id = l.lane_id
          cross join lateral (
                select count(*) as waiting, min(due_at) as oldest_due_at
                  from (select due_at from outbox
                         where lane_id = l.lane_id and leased_at is null
                         order by due_at limit $4) o) o
          order by l.due_at, l.lane_id",
    )
    .bind(wanted.firm_id)
    .bind(&wanted.host)
    .bind(wanted.limit)
    .bind(COUNTED_PER_LANE_MAX)
    .fetch_all(pool)
    .await
}
