//! Lanes: one per subscription, and one per firm and host of workflow steps.
//!
//! A slow or dead receiver delays only its own lane. A claim and a removal lock the same row. The
//! order of their commits decides whether a delivery was in flight (ruling 29, in flight at
//! removal).

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// SQL condition: no operator holds the lane. Columns `lane_id`, `firm_id` and `host` must be
/// in scope.
macro_rules! not_held {
    () => {
        "not exists (select from pauses where kind = 'all')
         and firm_id not in (select firm_id from pauses where kind = 'firm')
         and lane_id not in (select hook_id from pauses where kind = 'hook')
         and host not in (select host from pauses where kind = 'host') "
    };
}
pub(crate) use not_held;

/// Locks these lanes in the order of their ids, and returns the open ones. The lock excludes other
/// work on the lane and its removal. It does not exclude the claim in an append, which takes `for
/// key share`.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn lock_open(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    let rows: Vec<(Uuid, bool)> = sqlx::query_as(
        "select lane_id, cancel_cause is null from lanes
          where lane_id = any($1) order by lane_id for no key update",
    )
    .bind(lane_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().filter(|(_, open)| *open).map(|(lane_id, _)| lane_id).collect())
}

/// Makes the lane due at `until` and not before. A lane that another transaction has locked stays
/// as it is.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn put_off(
    pool: &PgPool,
    lane_id: Uuid,
    until: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with free as materialized (
             select lane_id from lanes where lane_id = $1 for no key update skip locked)
         update lanes l set due_at = $2 from free where l.lane_id = free.lane_id and l.lane_id = $1",
    )
    .bind(lane_id)
    .bind(until)
    .execute(pool)
    .await?;
    Ok(())
}

/// Makes each of these locked lanes due at its time, unless it is due earlier. The lane got a row
/// that waits.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn due_by(
    connection: &mut PgConnection,
    due: &BTreeMap<Uuid, DateTime<Utc>>,
) -> Result<(), sqlx::Error> {
    if due.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update lanes l set due_at = t.due_at
           from unnest($1::uuid[], $2::timestamptz[]) as t(lane_id, due_at)
          where l.lane_id = t.lane_id and l.lane_id = any($1)
            and (l.due_at is null or l.due_at > t.due_at)",
    )
    .bind(due.keys().copied().collect::<Vec<_>>())
    .bind(due.values().copied().collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Sets the due times of these locked lanes after rows were taken out. An open lane is due with its
/// first row. A closed lane is due now, as long as it has rows to cancel.
///
/// Each look reads one index entry, so a lane with 100,000 rows costs as much as a lane with ten.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn reschedule(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update lanes l
            set due_at = (
                select case when l.cancel_cause is null then o.due_at
                            else least(o.due_at, $2) end
                  from outbox o where o.lane_id = l.lane_id and o.leased_at is null
                 order by o.due_at limit 1)
          where l.lane_id = any($1)",
    )
    .bind(lane_ids)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}
