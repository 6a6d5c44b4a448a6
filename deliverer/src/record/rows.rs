//! The outbox rows of a batch of answers.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use domain::delivery::{AnswerVerdict, OutboxPresence};
use eventstore::JoinedWrites;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::attempt::FinishedAttempt;

/// The stream ends of rows whose lease these attempts hold, by delivery and lease. Leases are
/// random and unique, so the two lists need no join, which would compare each with each. Rows of
/// attempts that end their delivery are deleted here. The lanes of the other attempts are locked.
///
/// The statements do not say that the rows are leased, although they are. The planner would then
/// read all leased rows by their index, if it was planned while there were few.
pub(super) async fn take_held_rows(
    connection: &mut PgConnection,
    batch: &[&FinishedAttempt],
) -> Result<HashMap<(Uuid, i64), i64>, sqlx::Error> {
    let (again, end): (Vec<_>, Vec<_>) = batch.iter().copied().partition(|one| row_is_kept(one));
    let mut rows = HashMap::new();
    let statements = [
        (
            end,
            "delete from outbox
              where delivery_id = any($1) and lease = any($2)
             returning delivery_id, lease, sequence",
        ),
        (
            again,
            "select delivery_id, lease, sequence from outbox
              where delivery_id = any($1) and lease = any($2)",
        ),
    ];
    for (tries, statement) in statements {
        // An empty list must not reach the planner, which would read all leased rows for it.
        if tries.is_empty() {
            continue;
        }
        let held: Vec<(Uuid, i64, i64)> = sqlx::query_as(statement)
            .bind(tries.iter().map(|one| one.claimed.delivery_id).collect::<Vec<_>>())
            .bind(tries.iter().map(|one| one.claimed.lease).collect::<Vec<_>>())
            .fetch_all(&mut *connection)
            .await?;
        rows.extend(held.into_iter().map(|(id, lease, sequence)| ((id, lease), sequence)));
    }
    Ok(rows)
}

/// Adds the write that deletes the rows of these attempts, all of which end their deliveries. Each
/// must hold its lease, and no event may have come to its stream since its claim.
pub(super) fn write_ended(writes: &mut JoinedWrites, batch: &[&FinishedAttempt]) {
    let mut batch = batch.to_vec();
    batch.sort_by_key(|one| one.claimed.delivery_id);
    writes
        .add(
            "held as (
                 delete from outbox
                  where delivery_id = any($1) and lease = any($2)
                    and sequence = ($3::bigint[])[width_bucket(delivery_id, $1::uuid[])]
                 returning 1)",
        )
        .bind(batch.iter().map(|one| one.claimed.delivery_id).collect::<Vec<_>>())
        .bind(batch.iter().map(|one| one.claimed.lease).collect::<Vec<_>>())
        .bind(batch.iter().map(|one| one.claimed.sequence).collect::<Vec<_>>());
    let count = i64::try_from(batch.len()).unwrap_or(i64::MAX);
    writes.require("(select count(*) from held) = $1").bind(count);
}

/// Whether the outbox has a row for the delivery's own attempts, not for a replay.
pub(super) async fn outbox_presence(
    connection: &mut PgConnection,
    delivery_id: Uuid,
) -> Result<OutboxPresence, sqlx::Error> {
    let is_queued = sqlx::query_scalar(
        "select exists (select from outbox where delivery_id = $1 and replay_id is null)",
    );
    let is_queued: bool = is_queued.bind(delivery_id).fetch_one(connection).await?;
    Ok(if is_queued { OutboxPresence::Queued } else { OutboxPresence::Absent })
}

/// Whether [`take_held_rows`] keeps the row, because another attempt may follow.
pub(super) fn row_is_kept(finished: &FinishedAttempt) -> bool {
    finished.exchange.answer.verdict() == AnswerVerdict::Retry
}

/// Adds the write that makes these rows due again.
pub(super) fn write_due_again(writes: &mut JoinedWrites, due_again: &[(Uuid, DateTime<Utc>, i64)]) {
    if due_again.is_empty() {
        return;
    }
    writes
        .add(
            "due_again as (
                 update outbox o
                    set due_at = t.due_at, sequence = t.sequence, lease = null, leased_at = null
                   from unnest($1::uuid[], $2::timestamptz[], $3::bigint[])
                        as t(delivery_id, due_at, sequence)
                  where o.delivery_id = t.delivery_id and o.delivery_id = any($1))",
        )
        .bind(due_again.iter().map(|(id, ..)| *id).collect::<Vec<_>>())
        .bind(due_again.iter().map(|(_, at, _)| *at).collect::<Vec<_>>())
        .bind(due_again.iter().map(|(.., sequence)| *sequence).collect::<Vec<_>>());
}

/// Moves the stream ends of these rows.
pub(super) async fn move_streams(
    connection: &mut PgConnection,
    noted: &[(Uuid, i64)],
) -> Result<(), sqlx::Error> {
    if noted.is_empty() {
        return Ok(());
    }
    let (delivery_ids, sequences): (Vec<Uuid>, Vec<i64>) = noted.iter().copied().unzip();
    sqlx::query(
        "update outbox o set sequence = t.sequence
           from unnest($1::uuid[], $2::bigint[]) as t(delivery_id, sequence)
          where o.delivery_id = t.delivery_id and o.delivery_id = any($1)",
    )
    .bind(delivery_ids)
    .bind(sequences)
    .execute(connection)
    .await?;
    Ok(())
}
