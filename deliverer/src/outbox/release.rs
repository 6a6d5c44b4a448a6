//! Releases attempts that were claimed and will not be sent. A released attempt does not count
//! (case E25).

use eventstore::AppendError;
use sqlx::PgConnection;

use crate::attempt::ClaimedAttempt;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Undoes the claim of these attempts.
///
/// # Errors
/// [`DeliveryError`]; their leases end by themselves then.
pub async fn release_attempts(
    deliverer: &DelivererContext,
    claimed: &[ClaimedAttempt],
) -> Result<(), DeliveryError> {
    if claimed.is_empty() {
        return Ok(());
    }
    let now = deliverer.clock.now().get();
    let mut appending = deliverer.store.begin().await?;
    let connection = appending.connection();
    release_rows(connection, claimed, now).await?;
    appending.deliveries_wait();
    appending.commit().await?;
    Ok(())
}

/// Makes the rows due again, and wakes their lanes.
async fn release_rows(
    connection: &mut PgConnection,
    claimed: &[ClaimedAttempt],
    now: chrono::DateTime<chrono::Utc>,
) -> Result<(), AppendError> {
    sqlx::query(
        "with released as (
             update outbox o
                set tries = o.tries - 1, lease = null, leased_at = null,
                    due_at = least(o.leased_at, $3)
               from unnest($1::uuid[], $2::bigint[]) as t(delivery_id, lease)
              where o.delivery_id = t.delivery_id and o.delivery_id = any($1)
                and o.lease = t.lease
             returning o.lane_id, o.due_at)
         insert into lane_wakes (lane_id, due_at)
         select lane_id, min(due_at) from released group by lane_id",
    )
    .bind(claimed.iter().map(|one| one.delivery_id).collect::<Vec<_>>())
    .bind(claimed.iter().map(|one| one.lease).collect::<Vec<_>>())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}
