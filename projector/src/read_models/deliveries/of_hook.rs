//! Totals of a removed subscription's deliveries.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

/// Counts the cancelled deliveries of a subscription by cause.
///
/// # Errors
/// If the database does not answer.
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
///
/// # Errors
/// If the database does not answer.
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
