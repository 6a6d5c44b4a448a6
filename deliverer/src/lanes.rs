//! Lanes: one per subscription, and one per firm and host for what workflow steps send.
//!
//! A slow or dead receiver makes only its own lane sleep. Claim and removal lock the same row, so
//! the order of their commits decides whether a delivery was in flight (ruling 29).

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
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
    let work = lane_ids.iter().map(|lane_id| (*lane_id, Work { due_at, leased: 0 })).collect();
    give(connection, &work, due_at).await
}

/// What a lane was given to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    /// When the first of it is due, or its lease ends.
    pub(crate) due_at: DateTime<Utc>,
    /// How many of it are leased.
    pub(crate) leased: i32,
}

/// Gives work to locked lanes: they are due with it, if they are not before. What is in flight of those
/// that lease some is what was counted last: none of them has a lease that has ended.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn give(
    connection: &mut PgConnection,
    work: &BTreeMap<Uuid, Work>,
    leases_end: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update lanes l
            set due_at = least(l.due_at, t.due_at), running = l.running + t.leased,
                running_until = case when t.leased > 0 then greatest(l.running_until, $4)
                                     else l.running_until end
           from unnest($1::uuid[], $2::timestamptz[], $3::int[]) as t(lane_id, due_at, leased)
          where l.lane_id = t.lane_id and l.lane_id = any($1)
            and (t.leased > 0 or l.due_at is null or l.due_at > t.due_at)",
    )
    .bind(work.keys().copied().collect::<Vec<_>>())
    .bind(work.values().map(|work| work.due_at).collect::<Vec<_>>())
    .bind(work.values().map(|work| work.leased).collect::<Vec<_>>())
    .bind(leases_end)
    .execute(connection)
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
