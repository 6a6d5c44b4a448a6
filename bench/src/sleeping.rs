//! Hosts with one retry each: a lane and a row of the outbox that are due in an hour.

use chrono::{DateTime, Utc};
use sqlx::PgPool;

/// Adds so many of these hosts. Their retries are due an hour after `now`.
pub(crate) async fn add_sleeping_hosts(
    pool: &PgPool,
    count: i32,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with retries as (
             insert into lanes (lane_id, firm_id, kind, host, due_at)
             select gen_random_uuid(), gen_random_uuid(), 'hook', n || '.sleeping.example',
                    $2 + interval '1 hour' + n * interval '1 ms'
               from generate_series(1, $1) as n
             returning lane_id, firm_id, due_at)
         insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                             response_id, position, due_at, tries, tries_max)
         select gen_random_uuid(), lane_id, firm_id, gen_random_uuid(), 'form_submitted',
                gen_random_uuid(), gen_random_uuid(), 1, due_at, 1, 8
           from retries",
    )
    .bind(count)
    .bind(now)
    .execute(pool)
    .await?;
    Ok(())
}

/// Removes the hosts and their retries.
pub(crate) async fn remove_sleeping_hosts(pool: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with gone as (
             delete from lanes where host like '%.sleeping.example' returning lane_id)
         delete from outbox o using gone g where o.lane_id = g.lane_id",
    )
    .execute(pool)
    .await?;
    Ok(())
}
