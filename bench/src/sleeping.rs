//! Hosts with one retry each: a lane and a row of the outbox that are due in an hour.

use sqlx::{Connection, PgConnection};
use tests::World;

/// Adds so many of these hosts.
pub(crate) async fn add_sleeping_hosts(world: &World, count: i32) -> Result<(), sqlx::Error> {
    // A pool's statements have a time limit.
    let mut connection = PgConnection::connect_with(&world.database.main).await?;
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
    .bind(world.clock.now().get())
    .execute(&mut connection)
    .await?;
    connection.close().await
}

/// Removes the hosts and their retries.
pub(crate) async fn remove_sleeping_hosts(world: &World) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect_with(&world.database.main).await?;
    sqlx::query(
        "with gone as (
             delete from lanes where host like '%.sleeping.example' returning lane_id)
         delete from outbox o using gone g where o.lane_id = g.lane_id",
    )
    .execute(&mut connection)
    .await?;
    connection.close().await
}
