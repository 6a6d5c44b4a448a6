//! Replays: where each stands, and which deliveries they may send again (ruling 31).

mod items;
mod queued;

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use domain::delivery::DeliveryState;
use domain::event::Event;
use domain::replay::{ReplayConditions, ReplayEvent, ReplaySelection, ReplayState};
use eventstore::{AppendError, NewEvent, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

pub use items::{conclude, has_waiting, next_items, outcomes, put_items, totals};
pub use queued::{QueuedItem, queued_after};

/// The writer.
pub(crate) struct ReplayWriter;

impl WithAppend for ReplayWriter {
    fn before<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a mut [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            for new in events {
                if let (Event::Replay(_), Ok(replay_id)) = (&new.event, new.aggregate_id.parse()) {
                    lock(connection, replay_id).await?;
                }
            }
            Ok(())
        })
    }

    fn after<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            for recorded in events {
                if let (Event::Replay(event), Ok(replay_id)) =
                    (&recorded.event, recorded.aggregate_id.parse())
                {
                    apply(connection, replay_id, event, recorded).await?;
                }
            }
            Ok(())
        })
    }
}

/// Locks a replay, before the streams: whoever queues for it holds it while it appends.
async fn lock(connection: &mut PgConnection, replay_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query("select 1 from replays where replay_id = $1 for update")
        .bind(replay_id)
        .execute(connection)
        .await?;
    Ok(())
}

async fn apply(
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
        ReplayEvent::ReplayStopped {} => ReplayState::Stopped,
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

/// A replay as it is read.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ReplayRow {
    /// Its id.
    pub replay_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// `running`, `paused`, `stopped` or `finished`.
    pub state: String,
    /// Why it was asked for.
    pub reason: String,
    /// Whether it sends again what was delivered.
    pub force: bool,
    /// Deliveries a second.
    pub rate_per_second: i32,
    /// How many were selected.
    pub selected: i64,
    /// When it was asked for.
    pub requested_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
}

/// A replay.
///
/// # Errors
/// If the database does not answer.
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

/// How many run, how many are held, and how many run and have queued nothing since then.
///
/// # Errors
/// If the database does not answer.
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

/// How many replays run, and how many are paused.
///
/// # Errors
/// If the database does not answer.
pub async fn count_open(connection: &mut PgConnection) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as(
        "select (select count(*) from replays where state = 'running'),
                (select count(*) from replays where state = 'paused')",
    )
    .fetch_one(connection)
    .await
}

/// A delivery that may be sent again.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ReplayableRow {
    /// It.
    pub delivery_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// Its subscription.
    pub hook_id: Uuid,
    /// What happened.
    pub occurrence_id: Uuid,
    /// The trigger's key.
    pub trigger: String,
    /// The form.
    pub form_id: Uuid,
    /// The response.
    pub response_id: Uuid,
    /// The bytes it sent.
    pub body_id: Option<Uuid>,
    /// SHA-256 of them, lower-case hex.
    pub body_sha256: Option<String>,
    state: String,
    purged: bool,
    hook_lives: bool,
    erased: bool,
}

impl ReplayableRow {
    /// What decides whether it is sent again; whether it is under way is not known here.
    #[must_use]
    pub fn standing(&self) -> ReplayConditions {
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
            body_kept: self.body_id.is_some() && !self.purged,
        }
    }
}

macro_rules! replayable {
    ($condition:literal) => {
        concat!(
            "select d.delivery_id, d.firm_id, d.hook_id, d.occurrence_id, d.trigger, d.form_id,
                    d.response_id, d.body_id, d.body_sha256, d.state, d.purged,
                    h.removed_at is null as hook_lives, coalesce(s.erased, false) as erased
               from deliveries d
               join hooks h on h.hook_id = d.hook_id
               left join subjects s on s.firm_id = d.firm_id and s.subject_id = d.response_id
              where ",
            $condition
        )
    };
}

/// The firm's deliveries that are selected, oldest first, at most `limit`.
///
/// # Errors
/// If the database does not answer.
pub async fn selected(
    pool: &PgPool,
    firm_id: Uuid,
    selection: &ReplaySelection,
    limit: i64,
) -> Result<Vec<ReplayableRow>, sqlx::Error> {
    sqlx::query_as(replayable!(
        "d.firm_id = $1
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
    .bind(selection.trigger.map(domain::trigger::Trigger::key))
    .bind(selection.form_id)
    .bind(selection.state.map(DeliveryState::name))
    .bind(selection.since.map(domain::time::Timestamp::get))
    .bind(selection.until.map(domain::time::Timestamp::get))
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// A replay whose turn it is; it is locked.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ReplayTurn {
    /// It.
    pub replay_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// Whether it sends again what was delivered.
    pub force: bool,
    /// Deliveries a second.
    pub rate_per_second: i32,
    /// Up to when its rate is used up.
    pub fed_until: Option<DateTime<Utc>>,
    /// The last event of its stream.
    pub sequence: i64,
}

/// Locks the running replay that has waited longest, but for these, unless all are locked.
///
/// # Errors
/// If the database does not answer.
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

/// Those of these replays that were stopped.
///
/// # Errors
/// If the database does not answer.
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

/// Says up to when the rate of a locked replay is used up.
///
/// # Errors
/// If the database does not answer.
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

/// These deliveries, as they stand.
///
/// # Errors
/// If the database does not answer.
pub async fn replayable(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
) -> Result<Vec<ReplayableRow>, sqlx::Error> {
    sqlx::query_as(replayable!("d.delivery_id = any($1) order by d.created_at, d.delivery_id"))
        .bind(delivery_ids)
        .fetch_all(connection)
        .await
}
