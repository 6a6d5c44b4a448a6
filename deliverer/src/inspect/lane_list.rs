//! Lanes as operators see them: what waits where, and why.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// Which lanes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneFilter {
    /// Only this firm's.
    pub firm_id: Option<Uuid>,
    /// Only those to this host.
    pub host: Option<String>,
    /// How many.
    pub limit: i64,
}

/// A lane with work.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct LaneRow {
    /// Its id; a subscription's has the subscription's.
    pub lane_id: Uuid,
    /// Its firm.
    pub firm_id: Uuid,
    /// `hook` or `step`.
    pub kind: String,
    /// Where its work goes.
    pub host: String,
    /// When its next work that nobody has claimed is due, if there is any.
    pub due_at: Option<DateTime<Utc>>,
    /// Since when its firm is suspended, if it is.
    pub suspended_at: Option<DateTime<Utc>>,
    /// Why what is left in it is cancelled, if it is closed.
    pub cancel_cause: Option<String>,
    /// Deliveries that wait for a try.
    pub waiting: i64,
    /// Deliveries that are out.
    pub in_flight: i64,
    /// When the oldest of them was due.
    pub oldest_due_at: Option<DateTime<Utc>>,
}

/// Deliveries of a lane that are counted; there may be more.
const COUNTED_PER_LANE_MAX: i64 = 10_000;

/// The lanes that have work, longest due first.
///
/// # Errors
/// If the database does not answer.
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
