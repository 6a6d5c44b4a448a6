//! Lanes: one per subscription, made and closed with it.
//!
//! A slow or dead receiver makes only its own lane sleep. Claim and removal lock the same row, so
//! the order of their commits decides whether a delivery was in flight (ruling 29).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::delivery::CancelCause;
use domain::event::Event;
use domain::firm::FirmEvent;
use domain::subscription::{GoneAnswer, SubscriptionEvent};
use eventstore::{AppendError, NewEvent, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use sqlx::types::Json;
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
            let changes = Changes::of(events)?;
            for (lane_id, firm_id) in changes.made {
                make(connection, lane_id, firm_id).await?;
            }
            if !changes.paused.is_empty() {
                lock_of_firms(connection, &changes.paused).await?;
                pause(connection, &changes.paused).await?;
            }
            if !changes.lanes.is_empty() {
                write(connection, &changes.lanes).await?;
            }
            Ok(())
        })
    }
}

/// What events, in order, come to.
#[derive(Debug, Default)]
struct Changes<'a> {
    /// With their firms. A command makes one, and no batch does.
    made: Vec<(Uuid, Uuid)>,
    /// Whether the lanes of firms sleep: a suspended firm's do until it is back (ruling 28).
    paused: BTreeMap<Uuid, bool>,
    lanes: BTreeMap<Uuid, Change<'a>>,
}

/// What is new of a lane; what is none stays.
#[derive(Debug, Default, Clone, Copy)]
struct Change<'a> {
    cancel_cause: Option<CancelCause>,
    removed_at: Option<DateTime<Utc>>,
    gone: Option<Gone<'a>>,
}

/// What the last delivery at its end says of the target.
#[derive(Debug, Clone, Copy)]
enum Gone<'a> {
    Answered,
    Said(&'a GoneAnswer),
}

impl<'a> Changes<'a> {
    fn of(events: &'a [RecordedEvent]) -> Result<Self, AppendError> {
        let mut changes = Self::default();
        for recorded in events {
            let firm_id = recorded.context.firm_id;
            match &recorded.event {
                Event::Subscription(event) => changes.take(event, recorded)?,
                Event::Firm(FirmEvent::FirmSuspended { .. }) => {
                    changes.paused.insert(firm_id, true);
                }
                Event::Firm(FirmEvent::FirmResumed { .. }) => {
                    changes.paused.insert(firm_id, false);
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
        Ok(changes)
    }

    fn take(
        &mut self,
        event: &'a SubscriptionEvent,
        recorded: &RecordedEvent,
    ) -> Result<(), AppendError> {
        let lane_id: Uuid = recorded
            .aggregate_id
            .parse()
            .map_err(|_| AppendError::Unreadable(recorded.aggregate_id.clone()))?;
        match event {
            SubscriptionEvent::SubscriptionCreated { .. } => {
                self.made.push((lane_id, recorded.context.firm_id));
            }
            SubscriptionEvent::SubscriptionRemoved { reason, .. } => {
                let lane = self.lane(lane_id);
                lane.cancel_cause = Some((*reason).into());
                lane.removed_at = Some(recorded.context.recorded_at.get());
            }
            SubscriptionEvent::TargetGone(answer) => {
                self.lane(lane_id).gone = Some(Gone::Said(answer));
            }
            SubscriptionEvent::TargetAnswered { .. } => {
                self.lane(lane_id).gone = Some(Gone::Answered);
            }
        }
        Ok(())
    }

    fn lane(&mut self, lane_id: Uuid) -> &mut Change<'a> {
        self.lanes.entry(lane_id).or_default()
    }
}

impl<'a> Change<'a> {
    fn says_gone(&self) -> Option<&'a GoneAnswer> {
        match self.gone {
            Some(Gone::Said(answer)) => Some(answer),
            Some(Gone::Answered) | None => None,
        }
    }
}

async fn make(
    connection: &mut PgConnection,
    lane_id: Uuid,
    firm_id: Uuid,
) -> Result<(), sqlx::Error> {
    sqlx::query("insert into lanes (lane_id, firm_id) values ($1, $2)")
        .bind(lane_id)
        .bind(firm_id)
        .execute(connection)
        .await?;
    Ok(())
}

async fn lock_of_firms(
    connection: &mut PgConnection,
    paused: &BTreeMap<Uuid, bool>,
) -> Result<(), sqlx::Error> {
    sqlx::query("select 1 from lanes where firm_id = any($1) order by lane_id for update")
        .bind(paused.keys().copied().collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

async fn pause(
    connection: &mut PgConnection,
    paused: &BTreeMap<Uuid, bool>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update lanes l set paused = t.paused
           from unnest($1::uuid[], $2::bool[]) as t(firm_id, paused) where l.firm_id = t.firm_id",
    )
    .bind(paused.keys().copied().collect::<Vec<_>>())
    .bind(paused.values().copied().collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

async fn write(
    connection: &mut PgConnection,
    changes: &BTreeMap<Uuid, Change<'_>>,
) -> Result<(), sqlx::Error> {
    let of = || changes.values();
    sqlx::query(
        "update lanes l
            set cancel_cause = coalesce(t.cancel_cause, l.cancel_cause),
                due_at = least(l.due_at, t.removed_at),
                gone = case when t.concluded then t.gone else l.gone end
           from unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::bool[], $5::jsonb[])
                as t(lane_id, cancel_cause, removed_at, concluded, gone)
          where l.lane_id = t.lane_id",
    )
    .bind(changes.keys().copied().collect::<Vec<_>>())
    .bind(of().map(|change| change.cancel_cause.map(CancelCause::name)).collect::<Vec<_>>())
    .bind(of().map(|change| change.removed_at).collect::<Vec<_>>())
    .bind(of().map(|change| change.gone.is_some()).collect::<Vec<_>>())
    .bind(of().map(|change| change.says_gone().map(Json)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
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
