//! The ids of activities that report a state. A repeated activity is known at once by its id
//! (rulings, section Occurrences). The table has requests and no events, so it is no read model.
//! Housekeeping forgets old ids.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// The time for which an id is remembered (rulings, section Occurrences).
pub const REMEMBER_FOR: TimeDelta = TimeDelta::days(30);

/// The identity of an activity: the firm, the reporting system, and its id for the activity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, sqlx::FromRow)]
pub struct ActivityId {
    /// The firm.
    pub firm_id: Uuid,
    /// The reporting system.
    pub source: String,
    /// The reporting system's id for the activity.
    pub id: String,
}

/// Remembers these ids and returns the new ones. The call waits for other transactions that
/// remember an id of these. All insert in one order, so no two wait for each other.
pub async fn remember(
    connection: &mut PgConnection,
    activities: &[ActivityId],
    at: DateTime<Utc>,
) -> Result<Vec<ActivityId>, sqlx::Error> {
    if activities.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_as(
        "insert into activity_seen (firm_id, source, id, seen_at)
         select firm_id, source, id, $4
           from unnest($1::uuid[], $2::text[], $3::text[]) as t(firm_id, source, id)
          order by firm_id, source, id
             on conflict (firm_id, source, id) do nothing
         returning firm_id, source, id",
    )
    .bind(activities.iter().map(|activity| activity.firm_id).collect::<Vec<_>>())
    .bind(activities.iter().map(|activity| activity.source.as_str()).collect::<Vec<_>>())
    .bind(activities.iter().map(|activity| activity.id.as_str()).collect::<Vec<_>>())
    .bind(at)
    .fetch_all(connection)
    .await
}

/// Forgets up to `limit` ids older than [`REMEMBER_FOR`]. Returns the number of forgotten ids.
pub async fn forget(pool: &PgPool, now: DateTime<Utc>, limit: i64) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query(
        "delete from activity_seen
          where (firm_id, source, id) in (
                select firm_id, source, id from activity_seen where seen_at < $1
                 order by seen_at limit $2 for update skip locked)",
    )
    .bind(now - REMEMBER_FOR)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(forgotten.rows_affected())
}
