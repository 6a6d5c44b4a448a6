//! Waiting until a service has nothing left to do.

use std::time::Duration;

use sqlx::PgPool;

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The work that is left: rows of the outbox, occurrences that are not spread, and the deliveries
/// that events name and history has not yet shown at their end. There is one delivery for each subscription
/// that an occurrence lists, and for each reissue and repair.
const LEFT: &str = "
select (select count(*) from outbox), (select count(*) from unspread),
    (select coalesce(sum(json_array_length(payload->'OccurrenceRecorded'->'hooks')), 0)::bigint
       from events where event_type = 'OccurrenceRecorded')
    + (select count(*) from events where event_type in ('DeliveryQueued', 'DeliveryReissued'))
    - (select count(*) from deliveries where state <> 'pending' and run_id is null)";

/// Waits until everything has come to its end, in the outbox and in history.
///
/// # Errors
///
/// The work that is left, if this takes longer.
pub async fn until_settled(pool: &PgPool, within: Duration) -> Result<(), String> {
    let mut left = Ok((0, 0, 0));
    let settled = async {
        loop {
            left = sqlx::query_as::<_, (i64, i64, i64)>(LEFT).fetch_one(pool).await;
            // A database that is away has settled nothing.
            if matches!(left, Ok((0, 0, 0))) {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(within, settled).await {
        Ok(()) => Ok(()),
        Err(_) => Err(format!("left in the outbox, unspread and in history: {left:?}")),
    }
}
