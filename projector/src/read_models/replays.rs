//! The read model of replays: the state of each replay, and the deliveries that it may send again
//! (ruling 31, replay).

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use domain::delivery::DeliveryState;
use domain::delivery::replay::{ReplayConditions, ReplayEvent, ReplaySelection, ReplayState};
use domain::event::Event;
use eventstore::{AppendError, NewEvent, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

pub use crate::replay_items::{
    QueuedItem, count_outcomes, count_totals, has_waiting, next_items, put_items, queued_after,
    write_outcomes,
};

/// The writer of the table `replays`.
pub(crate) struct ReplayWriter;

impl WithAppend for ReplayWriter {
    fn prepare_append<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a mut [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            for new in events {
                if let (Event::Replay(_), Ok(replay_id)) = (&new.event, new.aggregate_id.parse()) {
                    lock_replay(connection, replay_id).await?;
                }
            }
            Ok(())
        })
    }

    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            for recorded in events {
                if let (Event::Replay(event), Ok(replay_id)) =
                    (&recorded.event, recorded.aggregate_id.parse())
                {
                    apply_event(connection, replay_id, event, recorded).await?;
                }
            }
            Ok(())
        })
    }
}

/// Locks a replay before the streams. A worker that queues for the replay holds the same lock while
/// it appends.
async fn lock_replay(connection: &mut PgConnection, replay_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query("select 1 from replays where replay_id = $1 for update")
        .bind(replay_id)
        .execute(connection)
        .await?;
    Ok(())
}

async fn apply_event(
    connection: &mut PgConnection,
    replay_id: Uuid,
    event: &ReplayEvent,
    recorded: &RecordedEvent,
) -> Result<(), sqlx::Error> {
    let state = match event {
        ReplayEvent::ReplayRequested(order) => {
            sqlx::query(
                "insert into replays (replay_id, firm_id, state, reason, force, rate_per_second,
                                      selected, requested_at, sequence)
                 values ($1, $2, 'running', $3, $4, $5, $6, $7, $8)",
            )
            .bind(replay_id)
            .bind(recorded.context.firm_id)
            .bind(&order.reason)
            .bind(order.force)
            .bind(order.rate_per_second.cast_signed())
            .bind(order.selected.cast_signed())
            .bind(recorded.context.recorded_at.get())
            .bind(recorded.sequence)
            .execute(connection)
            .await?;
            return Ok(());
        }
        ReplayEvent::ReplayPaused {} => ReplayState::Paused,
        ReplayEvent::ReplayResumed {} => ReplayState::Running,
        ReplayEvent::ReplayStopped { .. } => ReplayState::Stopped,
        ReplayEvent::ReplayFinished { .. } => ReplayState::Finished,
    };
    sqlx::query("update replays set state = $2, sequence = $3, ended_at = $4 where replay_id = $1")
        .bind(replay_id)
        .bind(state.name())
        .bind(recorded.sequence)
        .bind(state.has_ended().then_some(recorded.context.recorded_at.get()))
        .execute(connection)
        .await?;
    Ok(())
}

/// A replay as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ReplayRow {
    /// The id of the replay.
    pub replay_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// The state: `running`, `paused`, `stopped` or `finished`.
    pub state: String,
    /// The reason of the request.
    pub reason: String,
    /// Tells whether the replay also sends delivered deliveries again.
    pub force: bool,
    /// The rate in deliveries per second.
    pub rate_per_second: i32,
    /// The number of selected deliveries.
    pub selected: i64,
    /// The time of the request.
    pub requested_at: DateTime<Utc>,
    /// The time at which the replay ended.
    pub ended_at: Option<DateTime<Utc>>,
}

/// Finds a replay.
pub async fn find(pool: &PgPool, replay_id: Uuid) -> Result<Option<ReplayRow>, sqlx::Error> {
    sqlx::query_as(
        "select replay_id, firm_id, state, reason, force, rate_per_second, selected, requested_at,
                ended_at
           from replays where replay_id = $1",
    )
    .bind(replay_id)
    .fetch_optional(pool)
    .await
}

/// Lists the replays of all firms, newest first, after one of them.
pub async fn list(
    pool: &PgPool,
    after: Option<&ReplayRow>,
    limit: i64,
) -> Result<Vec<ReplayRow>, sqlx::Error> {
    sqlx::query_as(
        "select replay_id, firm_id, state, reason, force, rate_per_second, selected, requested_at,
                ended_at
           from replays
          where (requested_at, replay_id)
                < (coalesce($1, 'infinity'), coalesce($2, '00000000-0000-0000-0000-000000000000'))
          order by requested_at desc, replay_id desc limit $3",
    )
    .bind(after.map(|row| row.requested_at))
    .bind(after.map(|row| row.replay_id))
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// Lists the replays of a firm, newest first, after one of them.
pub async fn list_of_firm(
    pool: &PgPool,
    firm_id: Uuid,
    after: Option<&ReplayRow>,
    limit: i64,
) -> Result<Vec<ReplayRow>, sqlx::Error> {
    sqlx::query_as(
        "select replay_id, firm_id, state, reason, force, rate_per_second, selected, requested_at,
                ended_at
           from replays
          where firm_id = $1
            and (requested_at, replay_id)
                < (coalesce($2, 'infinity'), coalesce($3, '00000000-0000-0000-0000-000000000000'))
          order by requested_at desc, replay_id desc limit $4",
    )
    .bind(firm_id)
    .bind(after.map(|row| row.requested_at))
    .bind(after.map(|row| row.replay_id))
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// Counts running replays, paused replays, and running replays that have queued nothing since
/// `since`.
pub async fn under_way(
    pool: &PgPool,
    since: DateTime<Utc>,
) -> Result<(i64, i64, i64), sqlx::Error> {
    sqlx::query_as(
        "select count(*) filter (where state = 'running'), count(*) filter (where state = 'paused'),
                count(*) filter (where state = 'running'
                                   and greatest(fed_until, requested_at) < $1)
           from replays where state in ('running', 'paused')",
    )
    .bind(since)
    .fetch_one(pool)
    .await
}

/// Counts running and paused replays.
pub async fn count_open(connection: &mut PgConnection) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as(
        "select (select count(*) from replays where state = 'running'),
                (select count(*) from replays where state = 'paused')",
    )
    .fetch_one(connection)
    .await
}

/// A delivery that a replay may send again.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ReplayableRow {
    /// The id of the delivery.
    pub delivery_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// The subscription.
    pub hook_id: Uuid,
    /// The occurrence.
    pub occurrence_id: Uuid,
    /// The key of the trigger.
    pub trigger: String,
    /// The form.
    pub form_id: Uuid,
    /// The response.
    pub response_id: Uuid,
    /// The body that the delivery sent.
    pub body_id: Option<Uuid>,
    /// The SHA-256 of the body, in lower-case hex.
    pub body_sha256: Option<String>,
    state: String,
    hook_lives: bool,
    erased: bool,
}

impl ReplayableRow {
    /// Returns the conditions that decide about a replay. The outbox knows whether the delivery is
    /// under way, and this table does not. `kept` has the bodies that the vault keeps.
    #[must_use]
    pub fn replay_conditions(&self, kept: &HashSet<Uuid>) -> ReplayConditions {
        let state = match self.state.as_str() {
            "delivered" => DeliveryState::Delivered,
            "failed" => DeliveryState::Failed,
            "cancelled" => DeliveryState::Cancelled,
            _ => DeliveryState::Pending,
        };
        ReplayConditions {
            state,
            under_way: false,
            hook_lives: self.hook_lives,
            erased: self.erased,
            body_kept: self.body_id.is_some_and(|body_id| kept.contains(&body_id)),
        }
    }
}

macro_rules! replayable {
    ($deliveries:literal, $condition:literal) => {
        concat!(
            "select d.delivery_id, d.firm_id, d.hook_id, d.occurrence_id, d.trigger, d.form_id,
                    d.response_id, d.body_id, d.body_sha256, d.state,
                    h.removed_at is null as hook_lives, coalesce(s.erased, false) as erased
               from ",
            $deliveries,
            " d
               join hooks h on h.hook_id = d.hook_id
               left join subjects s on s.firm_id = d.firm_id and s.subject_id = d.response_id ",
            $condition
        )
    };
}

/// Lists up to `limit` selected deliveries of the firm, oldest first.
pub async fn list_selected(
    pool: &PgPool,
    firm_id: Uuid,
    selection: &ReplaySelection,
    limit: i64,
) -> Result<Vec<ReplayableRow>, sqlx::Error> {
    sqlx::query_as(replayable!(
        "deliveries",
        "where d.firm_id = $1
         and (cardinality($2::uuid[]) = 0 or d.delivery_id = any($2))
         and ($3::uuid is null or d.hook_id = $3)
         and ($4::text is null or d.trigger = $4)
         and ($5::uuid is null or d.form_id = $5)
         and ($6::text is null or d.state = $6)
         and ($7::timestamptz is null or d.created_at >= $7)
         and ($8::timestamptz is null or d.created_at < $8)
         order by d.created_at, d.delivery_id limit $9"
    ))
    .bind(firm_id)
    .bind(&selection.delivery_ids)
    .bind(selection.hook_id)
    .bind(selection.trigger.map(domain::subscription::Trigger::key))
    .bind(selection.form_id)
    .bind(selection.state.map(DeliveryState::name))
    .bind(selection.since.map(domain::values::Timestamp::get))
    .bind(selection.until.map(domain::values::Timestamp::get))
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// A locked replay whose turn has come.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ReplayTurn {
    /// The id of the replay.
    pub replay_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// Tells whether the replay also sends delivered deliveries again.
    pub force: bool,
    /// The rate in deliveries per second.
    pub rate_per_second: i32,
    /// The time up to which the rate is used up.
    pub fed_until: Option<DateTime<Utc>>,
    /// The sequence of the last event in its stream.
    pub sequence: i64,
}

/// Locks the running replay that has waited longest, except the given ones. Returns `None` if all
/// are locked.
pub async fn take_turn(
    connection: &mut PgConnection,
    but: &[Uuid],
) -> Result<Option<ReplayTurn>, sqlx::Error> {
    sqlx::query_as(
        "select replay_id, firm_id, force, rate_per_second, fed_until, sequence from replays
          where state = 'running' and replay_id <> all($1)
          order by fed_until nulls first limit 1 for update skip locked",
    )
    .bind(but)
    .fetch_optional(connection)
    .await
}

/// Returns the stopped replays among these.
pub async fn stopped_of(
    connection: &mut PgConnection,
    replay_ids: &HashSet<Uuid>,
) -> Result<Vec<Uuid>, sqlx::Error> {
    if replay_ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_scalar(
        "select replay_id from replays where replay_id = any($1) and state = 'stopped'",
    )
    .bind(replay_ids.iter().copied().collect::<Vec<_>>())
    .fetch_all(connection)
    .await
}

/// Sets the time up to which the rate of a locked replay is used up.
pub async fn set_fed_until(
    connection: &mut PgConnection,
    replay_id: Uuid,
    until: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query("update replays set fed_until = $2 where replay_id = $1")
        .bind(replay_id)
        .bind(until)
        .execute(connection)
        .await?;
    Ok(())
}

/// Finds these deliveries with their current state.
pub async fn find_replayable(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
) -> Result<Vec<ReplayableRow>, sqlx::Error> {
    // The limit keeps the planner from reading a range that has been short until now.
    sqlx::query_as(replayable!(
        "unnest($1::uuid[]) as asked(id)
          cross join lateral (select * from deliveries where delivery_id = asked.id limit 1)",
        "order by d.created_at, d.delivery_id"
    ))
    .bind(delivery_ids)
    .fetch_all(connection)
    .await
}
