//! What read models have that is not in the log, and is taken over when they are made anew.
//!
//! - `deliveries.purged`: retention has come and gone. It is as it was; of a row that was lost, what the
//!   vault holds tells. Nobody purges meanwhile.
//! - `replays.fed_until`: up to when a replay's rate is used up.

use sqlx::{Executor, PgConnection};
use uuid::Uuid;

use super::model::ReadModel;

/// Rows marked at a time.
const ROWS_PER_STEP: i64 = 5_000;

/// Takes over, a batch at a time, what there may be much of.
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

/// Lets purging go on.
pub(super) async fn resume_purging(
    connection: &mut PgConnection,
    model: ReadModel,
) -> Result<(), sqlx::Error> {
    if model == ReadModel::Deliveries {
        connection.execute("select pg_advisory_unlock(hashtext('firmforms purge'))").await?;
    }
    Ok(())
}

/// Takes over, while the live tables are held, what there is little of.
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

/// Marks the next deliveries that were purged; the last one looked at, if there was any.
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
