//! A rebuild copies these columns from the live tables, because the log does not have them.
//!
//! - `deliveries.purged` depends on past retention times. The old value is copied. For a lost row,
//!   the vault's bodies tell. The purge waits meanwhile.
//! - `replays.fed_until` is the time up to which a replay's rate is used up.

use sqlx::{Executor, PgConnection};
use uuid::Uuid;

use super::model::ReadModel;

/// The number of rows marked at once.
const ROWS_PER_STEP: i64 = 5_000;

/// Copies the columns of large tables in batches, before the live tables are locked.
pub(super) async fn prepare(
    connection: &mut PgConnection,
    model: ReadModel,
) -> Result<(), sqlx::Error> {
    if model != ReadModel::Deliveries {
        return Ok(());
    }
    connection.execute("select pg_advisory_lock(hashtext('firmforms purge'))").await?;
    let mut after = Some(Uuid::nil());
    while let Some(last) = after {
        after = take_purged_over(connection, last).await?;
    }
    Ok(())
}

/// Lets the purge go on.
pub(super) async fn resume_purging(
    connection: &mut PgConnection,
    model: ReadModel,
) -> Result<(), sqlx::Error> {
    if model == ReadModel::Deliveries {
        connection.execute("select pg_advisory_unlock(hashtext('firmforms purge'))").await?;
    }
    Ok(())
}

/// Copies the columns of small tables while the live tables are locked.
pub(super) async fn take_over(
    connection: &mut PgConnection,
    model: ReadModel,
) -> Result<(), sqlx::Error> {
    if model == ReadModel::Replays {
        let fed = "update shadow.replays s set fed_until = l.fed_until
                     from public.replays l where l.replay_id = s.replay_id";
        connection.execute(fed).await?;
    }
    Ok(())
}

/// Marks the next purged deliveries. Returns the last delivery it looked at, if there was one.
async fn take_purged_over(
    connection: &mut PgConnection,
    after: Uuid,
) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "with batch as (
             select delivery_id, body_id, ended_at from shadow.deliveries
              where delivery_id > $1 order by delivery_id limit $2
         ), marked as (
             update shadow.deliveries s set purged = true
               from batch b left join public.deliveries l on l.delivery_id = b.delivery_id
              where s.delivery_id = b.delivery_id
                and coalesce(l.purged, b.ended_at is not null and b.body_id is not null
                     and not exists (select 1 from public.bodies where body_id = b.body_id))
         )
         select max(delivery_id::text)::uuid from batch",
    )
    .bind(after)
    .bind(ROWS_PER_STEP)
    .fetch_one(connection)
    .await
}
