//! Lanes as operators see them: what waits where, and why.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// Which lanes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
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
    /// When its next work is due.
    pub due_at: DateTime<Utc>,
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
const COUNTED: i64 = 10_000;

/// The lanes that have work, longest due first.
///
/// # Errors
/// If the database does not answer.
pub async fn list(
    pool: &PgPool,
    now: DateTime<Utc>,
    wanted: &Wanted,
) -> Result<Vec<LaneRow>, sqlx::Error> {
    sqlx::query_as(
        "select l.lane_id, l.firm_id, l.kind, l.host, l.due_at, l.paused_at as suspended_at,
                l.cancel_cause, o.waiting, o.in_flight, o.oldest_due_at
           from (select lane_id, firm_id, kind, host, due_at, paused_at, cancel_cause from lanes
                  where due_at is not null
                    and ($2::uuid is null or firm_id = $2)
                    and ($3::text is null or host = $3)
                  order by due_at, lane_id limit $4) l
          cross join lateral (
                select count(*) filter (where leased_at is null or due_at <= $1) as waiting,
                       count(*) filter (where leased_at is not null and due_at > $1) as in_flight,
                       min(due_at) as oldest_due_at
                  from (select due_at, leased_at from outbox where lane_id = l.lane_id
                         order by due_at limit $5) o) o
          order by l.due_at, l.lane_id",
    )
    .bind(now)
    .bind(wanted.firm_id)
    .bind(&wanted.host)
    .bind(wanted.limit)
    .bind(COUNTED)
    .fetch_all(pool)
    .await
}
