//! The work queue of replays: the deliveries of each replay, in order, with their outcomes.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::replays::ReplayTurn;

/// Counts a replay's deliveries by outcome. `waiting` counts the deliveries whose turn has not
/// come.
pub async fn count_outcomes(
    pool: &PgPool,
    replay_id: Uuid,
) -> Result<Vec<(String, i64)>, sqlx::Error> {
    sqlx::query_as(
        "select coalesce(outcome, 'waiting'), count(*) from replay_items
          where replay_id = $1 group by 1 order by 1",
    )
    .bind(replay_id)
    .fetch_all(pool)
    .await
}

/// Inserts the next deliveries of a replay, beginning at this place.
pub async fn put_items(
    pool: &PgPool,
    replay_id: Uuid,
    first_place: i64,
    delivery_ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into replay_items (replay_id, place, delivery_id, hook_id)
         select $1, $2 + t.place - 1, t.delivery_id, d.hook_id
           from unnest($3::uuid[]) with ordinality as t(delivery_id, place)
           join deliveries d using (delivery_id)",
    )
    .bind(replay_id)
    .bind(first_place)
    .bind(delivery_ids)
    .execute(pool)
    .await?;
    Ok(())
}

/// Returns whether some deliveries of a locked replay still wait for their turn.
pub async fn has_waiting(
    connection: &mut PgConnection,
    replay_id: Uuid,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (select from replay_items where replay_id = $1 and outcome is null)",
    )
    .bind(replay_id)
    .fetch_one(connection)
    .await
}

/// Returns whether a delivery waits for its turn in a replay that goes on or is paused.
pub async fn is_waiting(
    connection: &mut PgConnection,
    delivery_id: Uuid,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (
            select from replay_items i join replays r using (replay_id)
             where i.delivery_id = $1 and i.outcome is null and r.state in ('running', 'paused'))",
    )
    .bind(delivery_id)
    .fetch_one(connection)
    .await
}

/// Returns the next deliveries of a locked replay, in order, up to `limit`. A subscription with
/// `queued` deliveries gets only as many as are missing to `per_hook`.
pub async fn next_items(
    connection: &mut PgConnection,
    turn: &ReplayTurn,
    queued: &[(Uuid, i64)],
    per_hook: i64,
    limit: i64,
) -> Result<Vec<Uuid>, sqlx::Error> {
    let (hook_ids, counts): (Vec<Uuid>, Vec<i64>) = queued.iter().copied().unzip();
    sqlx::query_scalar(
        "select i.delivery_id
           from hooks h
           left join unnest($3::uuid[], $4::bigint[]) as q(hook_id, queued) using (hook_id)
          cross join lateral (
                select delivery_id, place from replay_items
                 where replay_id = $1 and hook_id = h.hook_id and outcome is null
                 order by place
                 limit least($6, greatest($5 - coalesce(q.queued, 0), 0))) i
          where h.firm_id = $2
          order by i.place limit $6",
    )
    .bind(turn.replay_id)
    .bind(turn.firm_id)
    .bind(hook_ids)
    .bind(counts)
    .bind(per_hook)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Writes the outcomes of deliveries: triples of replay, delivery and outcome.
pub async fn write_outcomes(
    connection: &mut PgConnection,
    outcomes: &[(Uuid, Uuid, &'static str)],
) -> Result<(), sqlx::Error> {
    if outcomes.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update replay_items i set outcome = t.outcome
           from unnest($1::uuid[], $2::uuid[], $3::text[]) as t(replay_id, delivery_id, outcome)
          where i.replay_id = t.replay_id and i.delivery_id = t.delivery_id",
    )
    .bind(outcomes.iter().map(|(replay_id, ..)| *replay_id).collect::<Vec<_>>())
    .bind(outcomes.iter().map(|(_, delivery_id, _)| *delivery_id).collect::<Vec<_>>())
    .bind(outcomes.iter().map(|(.., outcome)| *outcome).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// The time for which the deliveries of an ended replay are listed.
pub const KEEP_FOR: TimeDelta = TimeDelta::days(30);

/// Forgets up to `limit` deliveries of replays that ended longer than [`KEEP_FOR`] ago. Returns
/// their number. The events of a replay keep its totals.
pub async fn forget(pool: &PgPool, now: DateTime<Utc>, limit: i64) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query(
        "delete from replay_items
          where ctid = any(array(
                select i.ctid from replays r
                 cross join lateral (select ctid from replay_items where replay_id = r.replay_id
                                      order by place limit $2) i
                 where r.ended_at < $1 limit $2))",
    )
    .bind(now - KEEP_FOR)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(forgotten.rows_affected())
}

/// Counts the deliveries that a replay has queued, whatever came of them since, and the deliveries
/// that it skipped.
pub async fn count_totals(
    connection: &mut PgConnection,
    replay_id: Uuid,
) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as(
        "select count(*) filter (where outcome in ('queued', 'delivered', 'failed', 'interrupted',
                                                   'dropped')),
                count(*) filter (where outcome not in ('queued', 'delivered', 'failed',
                                                       'interrupted', 'dropped'))
           from replay_items where replay_id = $1",
    )
    .bind(replay_id)
    .fetch_one(connection)
    .await
}

/// A delivery that a replay has queued (outcome `queued`). Its result is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct QueuedItem {
    /// The replay.
    pub replay_id: Uuid,
    /// The place in the replay.
    pub place: i64,
    /// The delivery.
    pub delivery_id: Uuid,
}

/// Lists the queued deliveries of replays after this place, of one firm or of all firms.
pub async fn queued_after(
    connection: &mut PgConnection,
    replay_id: Uuid,
    place: i64,
    firm_id: Option<Uuid>,
    limit: i64,
) -> Result<Vec<QueuedItem>, sqlx::Error> {
    sqlx::query_as(
        "select i.replay_id, i.place, i.delivery_id from replay_items i join replays r using (replay_id)
          where i.outcome = 'queued' and (i.replay_id, i.place) > ($1, $2)
            and ($3::uuid is null or r.firm_id = $3)
          order by i.replay_id, i.place limit $4",
    )
    .bind(replay_id)
    .bind(place)
    .bind(firm_id)
    .bind(limit)
    .fetch_all(connection)
    .await
}
