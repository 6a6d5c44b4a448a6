//! Wakes: which lanes have new work. Whoever queues work adds a wake and touches no lane: no two
//! transactions wait for each other at a hot one. The claim takes wakes and lanes together.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

/// Wakes taken at a time.
const WAKES_PER_STEP: i64 = 1_000;

/// Wakes lanes.
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

/// Has woken lanes due now, closed and paused ones too: the cancel worker takes back what lies there.
/// A lane that somebody else has locked keeps its wakes, and holds up no other lane's. Says whether
/// wakes are left.
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
