//! Lanes: one per subscription, made and closed with it.
//!
//! A slow or dead receiver makes only its own lane sleep. Claim and removal lock the same row, so
//! the order of their commits decides whether a delivery was in flight (ruling 29).

use chrono::{DateTime, Utc};
use domain::delivery::CancelCause;
use domain::event::Event;
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
                if let (Event::Subscription(event), Ok(lane_id)) =
                    (&recorded.event, recorded.aggregate_id.parse())
                {
                    apply(connection, lane_id, event, recorded).await?;
                }
            }
            Ok(())
        })
    }
}

async fn apply(
    connection: &mut PgConnection,
    lane_id: Uuid,
    event: &SubscriptionEvent,
    recorded: &RecordedEvent,
) -> Result<(), sqlx::Error> {
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
/// # Errors
/// If the database does not answer.
pub(crate) async fn wake(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    due_at: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with sleeping as (
             select lane_id from lanes
              where lane_id = any($1) and (due_at is null or due_at > $2)
              order by lane_id for update)
         update lanes l set due_at = $2 from sleeping s where l.lane_id = s.lane_id",
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
            set due_at = case when l.cancel_cause is not null then w.cancel_at
                              when w.in_flight >= $2 then w.lease_ends
                              else w.due_at end
           from (select t.lane_id, min(o.due_at) as due_at,
                        count(o.leased_at) as in_flight,
                        min(o.due_at) filter (where o.leased_at is not null) as lease_ends,
                        min(case when o.leased_at is null then $3 else o.due_at end)
                            filter (where o.delivery_id is not null) as cancel_at
                   from unnest($1::uuid[]) as t(lane_id)
                   left join outbox o on o.lane_id = t.lane_id
                  group by t.lane_id) w
          where l.lane_id = w.lane_id",
    )
    .bind(lane_ids)
    .bind(per_lane)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}
