//! Lanes: one per subscription, and one per firm and host for what workflow steps send.
//!
//! A slow or dead receiver makes only its own lane sleep. Claim and removal lock the same row, so
//! the order of their commits decides whether a delivery was in flight (ruling 29).

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// Locks these lanes, in the order of their ids.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    sqlx::query("select 1 from lanes where lane_id = any($1) order by lane_id for update")
        .bind(lane_ids)
        .execute(connection)
        .await?;
    Ok(())
}

/// Locks these lanes, in the order of their ids; answers those whose subscription lives.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn lock_open(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    let rows: Vec<(Uuid, bool)> = sqlx::query_as(
        "select lane_id, cancel_cause is null from lanes
          where lane_id = any($1) order by lane_id for update",
    )
    .bind(lane_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().filter(|(_, open)| *open).map(|(lane_id, _)| lane_id).collect())
}

/// Wakes lanes that got work, in the order of their ids.
///
/// Two statements: whoever held a lane before may just have set its time without seeing the work,
/// so the second must look at it as it is under our lock.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn wake(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    due_at: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    lock(connection, lane_ids).await?;
    sqlx::query(
        "update lanes set due_at = $2
          where lane_id = any($1) and (due_at is null or due_at > $2)",
    )
    .bind(lane_ids)
    .bind(due_at)
    .execute(connection)
    .await?;
    Ok(())
}

/// Has this lane due then and not before, unless somebody has it locked.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn put_off(
    pool: &PgPool,
    lane_id: Uuid,
    until: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with free as materialized (
             select lane_id from lanes where lane_id = $1 for update skip locked)
         update lanes l set due_at = $2 from free where l.lane_id = free.lane_id and l.lane_id = $1",
    )
    .bind(lane_id)
    .bind(until)
    .execute(pool)
    .await?;
    Ok(())
}

/// Sets when these locked lanes are next due, and how much of them is in flight. An open lane is due at
/// its earliest work, or when its first lease ends. A closed one: now while anything is queued that must
/// be cancelled, otherwise when its first lease ends.
///
/// Each look is at the edge of an index, or at what is in flight: a lane with 100,000 rows costs what
/// one with ten does.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn reschedule(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update lanes l
            set due_at = coalesce(
                (select $2 from outbox o
                  where l.cancel_cause is not null
                    and o.lane_id = l.lane_id and o.leased_at is null limit 1),
                (select min(o.due_at) from outbox o where o.lane_id = l.lane_id)),
                (running, running_until) = (
                    select count(*), max(o.due_at) from outbox o
                     where o.lane_id = l.lane_id and o.leased_at is not null and o.due_at > $2)
          where l.lane_id = any($1)",
    )
    .bind(lane_ids)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}
