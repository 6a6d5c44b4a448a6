//! Totals of a subscription's deliveries.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// Counts the cancelled deliveries of a subscription by cause.
pub async fn count_cancelled(
    pool: &PgPool,
    hook_id: Uuid,
) -> Result<Vec<(String, i64)>, sqlx::Error> {
    sqlx::query_as(
        "select cause, count(*) from deliveries
          where hook_id = $1 and state = 'cancelled' group by cause order by cause",
    )
    .bind(hook_id)
    .fetch_all(pool)
    .await
}

/// Counts the deliveries of a subscription that were delivered after `after` and up to `through`.
pub async fn count_delivered(
    pool: &PgPool,
    hook_id: Uuid,
    after: DateTime<Utc>,
    through: DateTime<Utc>,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*) from deliveries
          where hook_id = $1 and state = 'delivered' and ended_at > $2 and ended_at <= $3",
    )
    .bind(hook_id)
    .bind(after)
    .bind(through)
    .fetch_one(pool)
    .await
}

/// Newest deliveries of a subscription that count for its health.
const HEALTH_DELIVERIES: i64 = 100;

/// The health of a subscription, by its newest deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, FromRow)]
pub struct HookHealth {
    /// The subscription.
    pub hook_id: Uuid,
    /// Number of these deliveries that arrived.
    pub delivered: i64,
    /// Number of these deliveries that failed.
    pub failed: i64,
    /// Number of these deliveries that wait for a try.
    pub pending: i64,
    /// Time of the last of these that arrived.
    pub delivered_at: Option<DateTime<Utc>>,
}

/// The health of subscriptions of a firm. One without deliveries has zeros.
pub async fn hook_health(
    pool: &PgPool,
    firm_id: Uuid,
    hook_ids: &[Uuid],
) -> Result<Vec<HookHealth>, sqlx::Error> {
    sqlx::query_as(
        "select h.hook_id, n.delivered, n.failed, n.pending, n.delivered_at
           from unnest($2::uuid[]) as h(hook_id)
          cross join lateral (
                select count(*) filter (where state = 'delivered') as delivered,
                       count(*) filter (where state = 'failed') as failed,
                       count(*) filter (where state = 'pending') as pending,
                       max(ended_at) filter (where state = 'delivered') as delivered_at
                  from (select state, ended_at from deliveries
                         where hook_id = h.hook_id and firm_id = $1
                         order by created_at desc, delivery_id desc limit $3) as newest) as n",
    )
    .bind(firm_id)
    .bind(hook_ids)
    .bind(HEALTH_DELIVERIES)
    .fetch_all(pool)
    .await
}
