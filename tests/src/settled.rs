//! Waiting until a service has nothing left to do.

use std::time::Duration;

use sqlx::PgPool;

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether every occurrence was fanned out, every delivery is at its end, and history knows.
const SETTLED: &str = "
select not exists (select from outbox)
   and coalesce((select max(position) from events where aggregate_type = 'Occurrence'), 0)
       <= coalesce((select position from checkpoints where name = 'fan_out'), 0)
   and (select count(*) from events where event_type in ('DeliveryQueued', 'DeliveryReissued'))
       = (select count(*) from deliveries where state <> 'pending')";

/// Waits until everything has come to its end, in the outbox and in history; whether it did in time.
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
