//! Questions of operators and auditors about removed subscriptions, and about subscriptions that
//! the next 410 removes.

use chrono::{DateTime, Utc};
use domain::audit::AuditPeriod;
use domain::values::Timestamp;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// The life of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct HookLife {
    /// The id of the subscription.
    pub hook_id: Uuid,
    /// The key that made the subscription.
    pub key_id: Uuid,
    /// The key of the trigger.
    pub trigger: String,
    /// The target, exactly as the caller gave it. A caller masks the target before it shows it.
    pub target_url: String,
    /// The form, or `None` for all forms.
    pub form_id: Option<Uuid>,
    /// The time at which the subscription was made.
    pub created_at: DateTime<Utc>,
    /// The time at which the subscription was removed, if it was.
    pub removed_at: Option<DateTime<Utc>>,
    /// The reason of the removal.
    pub removal_reason: Option<String>,
    /// The position of its first event.
    pub created_position: i64,
}

/// Lists the subscriptions of a firm that were removed in a period, last removed first. The list
/// begins after the subscription removed at the position `after`.
pub async fn list_removed(
    pool: &PgPool,
    firm_id: Uuid,
    AuditPeriod { since, until }: AuditPeriod,
    after: Option<i64>,
    limit: i64,
) -> Result<Vec<HookLife>, sqlx::Error> {
    sqlx::query_as(
        "select hook_id, key_id, trigger, target_url, form_id, created_at, removed_at,
                removal_reason, created_position
           from hooks
          where firm_id = $1 and removed_at is not null
            and ($2::timestamptz is null or removed_at >= $2)
            and ($3::timestamptz is null or removed_at < $3)
            and ($4::bigint is null or removed_position < $4)
          order by removed_position desc limit $5",
    )
    .bind(firm_id)
    .bind(since.map(Timestamp::get))
    .bind(until.map(Timestamp::get))
    .bind(after)
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// Returns the positions at which this subscription of the firm was made and, if so, removed.
pub async fn life_positions(
    pool: &PgPool,
    firm_id: Uuid,
    hook_id: Uuid,
) -> Result<Option<(i64, Option<i64>)>, sqlx::Error> {
    sqlx::query_as(
        "select created_position, removed_position from hooks where hook_id = $2 and firm_id = $1",
    )
    .bind(firm_id)
    .bind(hook_id)
    .fetch_optional(pool)
    .await
}

/// Lists the live subscriptions of a firm, newest first.
pub async fn list_live(pool: &PgPool, firm_id: Uuid) -> Result<Vec<HookLife>, sqlx::Error> {
    sqlx::query_as(
        "select hook_id, key_id, trigger, target_url, form_id, created_at, removed_at,
                removal_reason, created_position
           from hooks where firm_id = $1 and removed_at is null
          order by created_position desc",
    )
    .bind(firm_id)
    .fetch_all(pool)
    .await
}

/// Finds a live subscription of a firm.
pub async fn find_live(
    pool: &PgPool,
    firm_id: Uuid,
    hook_id: Uuid,
) -> Result<Option<HookLife>, sqlx::Error> {
    sqlx::query_as(
        "select hook_id, key_id, trigger, target_url, form_id, created_at, removed_at,
                removal_reason, created_position
           from hooks where hook_id = $2 and firm_id = $1 and removed_at is null",
    )
    .bind(firm_id)
    .bind(hook_id)
    .fetch_optional(pool)
    .await
}

/// Lists the live subscriptions of a firm whose last finished delivery ended with 410. The next 410
/// removes them.
pub async fn list_warned(pool: &PgPool, firm_id: Uuid) -> Result<Vec<HookLife>, sqlx::Error> {
    sqlx::query_as(
        "select h.hook_id, h.key_id, h.trigger, h.target_url, h.form_id, h.created_at,
                h.removed_at, h.removal_reason, h.created_position
           from hooks h
           join lateral (select a.action from audit_log a
                          where a.subject_id = h.hook_id::text
                            and a.action in ('hook_warned', 'hook_recovered')
                          order by a.sequence desc limit 1) last on true
          where h.firm_id = $1 and h.removed_at is null and last.action = 'hook_warned'
          order by h.created_position desc",
    )
    .bind(firm_id)
    .fetch_all(pool)
    .await
}

/// Returns the subscriptions of a firm to this host, removed ones too.
pub async fn of_host(pool: &PgPool, firm_id: Uuid, host: &str) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select hook_id from hooks
          where host = $2 and firm_id = $1 order by created_position",
    )
    .bind(firm_id)
    .bind(host)
    .fetch_all(pool)
    .await
}

/// Returns the firm of a live subscription.
pub async fn firm_of_live(pool: &PgPool, hook_id: Uuid) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar("select firm_id from hooks where hook_id = $1 and removed_at is null")
        .bind(hook_id)
        .fetch_optional(pool)
        .await
}

/// Returns whether a subscription is live.
pub async fn is_live(connection: &mut PgConnection, hook_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (select from hooks where hook_id = $1 and removed_at is null)",
    )
    .bind(hook_id)
    .fetch_one(connection)
    .await
}
