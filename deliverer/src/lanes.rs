//! Lanes: one per subscription, made and closed with it.
//!
//! A slow or dead receiver makes only its own lane sleep. Claim and removal lock the same row, so
//! the order of their commits decides whether a delivery was in flight (ruling 29).

use chrono::{DateTime, Utc};
use domain::delivery::CancelCause;
use domain::event::Event;
use domain::firm::{FirmEvent, FirmStatus};
use domain::subscription::SubscriptionEvent;
use eventstore::{AppendError, NewEvent, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::types::Json;
use sqlx::{PgConnection, Postgres};
use uuid::Uuid;

/// The lanes, kept in step with the life of their subscriptions.
pub struct Lanes;

impl WithAppend for Lanes {
    fn before<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let closing: Vec<Uuid> = events
                .iter()
                .filter(|new| {
                    matches!(
                        new.event,
                        Event::Subscription(SubscriptionEvent::SubscriptionRemoved { .. })
                    )
                })
                .filter_map(|new| new.aggregate_id.parse().ok())
                .collect();
            if !closing.is_empty() {
                sqlx::query(
                    "select 1 from lanes where lane_id = any($1) order by lane_id for update",
                )
                .bind(closing)
                .execute(connection)
                .await?;
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
                match &recorded.event {
                    Event::Subscription(event) => apply(connection, event, recorded).await?,
                    Event::Firm(FirmEvent::FirmSuspended { .. }) => {
                        follow_firm(connection, recorded, FirmStatus::Suspended).await?;
                    }
                    Event::Firm(FirmEvent::FirmResumed { .. }) => {
                        follow_firm(connection, recorded, FirmStatus::Active).await?;
                    }
                    Event::Firm(_)
                    | Event::Form(_)
                    | Event::Key(_)
                    | Event::Occurrence(_)
                    | Event::Delivery(_)
                    | Event::Invite(_)
                    | Event::Person(_)
                    | Event::Response(_) => {}
                }
            }
            Ok(())
        })
    }
}

/// A suspended firm's lanes sleep until it is back (ruling 28).
async fn follow_firm(
    connection: &mut PgConnection,
    recorded: &RecordedEvent,
    status: FirmStatus,
) -> Result<(), sqlx::Error> {
    let firm_id = recorded.context.firm_id;
    sqlx::query("select 1 from lanes where firm_id = $1 order by lane_id for update")
        .bind(firm_id)
        .execute(&mut *connection)
        .await?;
    sqlx::query("update lanes set paused = $2 where firm_id = $1")
        .bind(firm_id)
        .bind(status == FirmStatus::Suspended)
        .execute(connection)
        .await?;
    Ok(())
}

async fn apply(
    connection: &mut PgConnection,
    event: &SubscriptionEvent,
    recorded: &RecordedEvent,
) -> Result<(), AppendError> {
    let lane_id: Uuid = recorded
        .aggregate_id
        .parse()
        .map_err(|_| AppendError::Unreadable(recorded.aggregate_id.clone()))?;
    let query: sqlx::query::Query<'_, Postgres, _> = match event {
        SubscriptionEvent::SubscriptionCreated { .. } => {
            sqlx::query("insert into lanes (lane_id, firm_id) values ($1, $2)")
                .bind(lane_id)
                .bind(recorded.context.firm_id)
        }
        SubscriptionEvent::SubscriptionRemoved { reason, .. } => sqlx::query(
            "update lanes set cancel_cause = $2, due_at = least(due_at, $3) where lane_id = $1",
        )
        .bind(lane_id)
        .bind(CancelCause::from(*reason).name())
        .bind(recorded.context.recorded_at.get()),
        SubscriptionEvent::TargetGone(answer) => {
            sqlx::query("update lanes set gone = $2 where lane_id = $1")
                .bind(lane_id)
                .bind(Json(answer))
        }
        SubscriptionEvent::TargetAnswered { .. } => {
            sqlx::query("update lanes set gone = null where lane_id = $1").bind(lane_id)
        }
    };
    query.execute(connection).await?;
    Ok(())
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
    sqlx::query("select 1 from lanes where lane_id = any($1) order by lane_id for update")
        .bind(lane_ids)
        .execute(&mut *connection)
        .await?;
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

/// Sets when these locked lanes are next due. An open lane: at its earliest work, but not before a
/// lease ends while as many are in flight as a lane may have. A closed one: now while anything is
/// queued that must be cancelled, otherwise when the first lease ends.
///
/// Each look is at the edge of an index: a lane with 100,000 rows costs what one with ten does.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn reschedule(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    per_lane: i64,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update lanes l
            set due_at = case
                when l.cancel_cause is not null then coalesce(
                    (select $3 from outbox o
                      where o.lane_id = l.lane_id and o.leased_at is null limit 1),
                    (select min(o.due_at) from outbox o
                      where o.lane_id = l.lane_id and o.leased_at is not null))
                when (select count(*) from outbox o
                       where o.lane_id = l.lane_id and o.leased_at is not null) >= $2 then
                    (select min(o.due_at) from outbox o
                      where o.lane_id = l.lane_id and o.leased_at is not null)
                else (select min(o.due_at) from outbox o where o.lane_id = l.lane_id)
                end
          where l.lane_id = any($1)",
    )
    .bind(lane_ids)
    .bind(per_lane)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}
