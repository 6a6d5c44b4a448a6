//! Wakes name lanes with new rows. A transaction that inserts rows adds a wake and locks no lane.
//! So no two transactions wait for each other at a busy lane. The claim absorbs wakes.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

/// Wakes taken at a time.
const WAKES_PER_STEP: i64 = 1_000;

/// Adds a wake for each of these lanes.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn add(
    connection: &mut PgConnection,
    lane_ids: impl IntoIterator<Item = Uuid>,
) -> Result<(), sqlx::Error> {
    let lane_ids: BTreeSet<Uuid> = lane_ids.into_iter().collect();
    if lane_ids.is_empty() {
        return Ok(());
    }
    sqlx::query("insert into lane_wakes (lane_id) select unnest($1::uuid[])")
        .bind(lane_ids.into_iter().collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Makes woken lanes due now, and deletes their wakes. Closed and paused lanes are woken too,
/// because the cancel worker takes back their rows. A lane that another transaction has locked
/// keeps its wakes, and delays no other lane. Returns whether wakes are left.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn absorb(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "with taken as materialized (
             select w.wake_id, l.lane_id
               from lane_wakes w join lanes l on l.lane_id = w.lane_id
              order by w.wake_id limit $2
                for no key update of l skip locked),
         gone as (delete from lane_wakes where wake_id in (select wake_id from taken)),
         due as (
             update lanes set due_at = least(due_at, $1)
              where lane_id in (select lane_id from taken))
         select exists (select from lane_wakes where wake_id not in (select wake_id from taken))",
    )
    .bind(now)
    .bind(WAKES_PER_STEP)
    .fetch_one(connection)
    .await
}
