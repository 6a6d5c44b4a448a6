//! Waiting until a service has nothing left to do.

use std::time::Duration;

use sqlx::PgPool;

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether every occurrence is spread, every delivery is at its end, and history has followed.
/// There is one delivery for each subscription that an occurrence lists, and for each reissue and
/// repair.
const SETTLED: &str = "
select not exists (select from outbox) and not exists (select from unspread)
   and (select coalesce(sum(json_array_length(payload->'OccurrenceRecorded'->'hooks')), 0)
          from events where event_type = 'OccurrenceRecorded')
       + (select count(*) from events where event_type in ('DeliveryQueued', 'DeliveryReissued'))
       = (select count(*) from deliveries where state <> 'pending' and run_id is null)";

/// Waits until everything has come to its end, in the outbox and in history. Returns whether this
/// was in time.
pub async fn settles(pool: &PgPool, within: Duration) -> bool {
    let settled = async {
        loop {
            // A database that is away has settled nothing.
            if sqlx::query_scalar(SETTLED).fetch_one(pool).await.unwrap_or(false) {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(within, settled).await.is_ok()
}
