//! Keeps lanes in step with the events of subscriptions, firms and deliveries.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::delivery::{CancelCause, DeliveryEvent, ReissuedDelivery, RetriedStep};
use domain::event::Event;
use domain::firm::{FirmEvent, SuspensionChange};
use domain::subscription::{GoneAnswer, SubscriptionEvent, host_of};
use eventstore::{AppendError, NewEvent, RecordedEvent, WithAppend, crash};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{reissue, steps};

/// The writer of lanes. It runs in the transaction of every append.
pub struct LaneWriter;

impl WithAppend for LaneWriter {
    fn prepare_append<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a mut [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let mut changing: Vec<Uuid> = Vec::new();
            let mut firms = Vec::new();
            for new in &*events {
                match &new.event {
                    Event::Subscription(SubscriptionEvent::SubscriptionRemoved { .. }) => {
                        changing.extend(new.aggregate_id.parse::<Uuid>());
                    }
                    Event::Firm(
                        FirmEvent::FirmSuspended { .. }
                        | FirmEvent::FirmResumed { .. }
                        | FirmEvent::FirmClosed { .. },
                    ) => firms.push(new.context.firm_id),
                    _ => {}
                }
            }
            if !changing.is_empty() || !firms.is_empty() {
                lock_lanes(connection, &changing, &firms).await?;
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
            let changes = LaneEffects::new(events)?;
            for (lane_id, firm_id, target) in changes.made {
                make_lane(connection, lane_id, firm_id, target).await?;
            }
            if !changes.paused.is_empty() {
                pause_lanes(connection, &changes.paused).await?;
            }
            if !changes.lanes.is_empty() {
                write_changes(connection, &changes.lanes).await?;
            }
            if !changes.closed.is_empty() {
                steps::close_lanes(connection, &changes.closed).await?;
            }
            for (recorded, retried) in changes.steps {
                steps::queue_step(connection, recorded, &retried).await?;
            }
            for (recorded, reissued) in changes.reissued {
                reissue::queue_reissued(connection, recorded, reissued).await?;
            }
            Ok(())
        })
    }
}

/// The effects of events, taken in their order.
#[derive(Debug, Default)]
struct LaneEffects<'a> {
    /// New lanes with their firms and targets. Only a command makes a lane, so there is at most
    /// one.
    made: Vec<(Uuid, Uuid, &'a str)>,
    /// Firms that were suspended, or are active again (ruling 28, suspended firm).
    paused: BTreeMap<Uuid, SuspensionChange<DateTime<Utc>>>,
    /// Closed firms, and the times of closing.
    closed: BTreeMap<Uuid, DateTime<Utc>>,
    lanes: BTreeMap<Uuid, LaneChange<'a>>,
    /// Only a command queues a step, so there is at most one.
    steps: Vec<(&'a RecordedEvent, Cow<'a, RetriedStep>)>,
    /// Only a command reissues a delivery, so there is at most one.
    reissued: Vec<(&'a RecordedEvent, &'a ReissuedDelivery)>,
}

/// Changes to one lane's row. `None` leaves the column as it is.
#[derive(Debug, Default, Clone, Copy)]
struct LaneChange<'a> {
    cancel_cause: Option<CancelCause>,
    removed_at: Option<DateTime<Utc>>,
    gone: Option<GoneChange<'a>>,
}

/// The answer of the last delivery that has ended.
#[derive(Debug, Clone, Copy)]
enum GoneChange<'a> {
    Answered,
    Said(&'a GoneAnswer),
}

impl<'a> LaneEffects<'a> {
    fn new(events: &'a [RecordedEvent]) -> Result<Self, AppendError> {
        let mut changes = Self::default();
        for recorded in events {
            let firm_id = recorded.context.firm_id;
            let recorded_at = recorded.context.recorded_at.get();
            match &recorded.event {
                Event::Subscription(event) => changes.add_event(event, recorded)?,
                Event::Firm(FirmEvent::FirmClosed { .. }) => {
                    changes.closed.insert(firm_id, recorded_at);
                }
                Event::Firm(event) => {
                    let known = changes.paused.get(&firm_id).copied();
                    let change = SuspensionChange::after_event(known, event, recorded_at);
                    changes.paused.extend(change.map(|change| (firm_id, change)));
                }
                Event::Delivery(DeliveryEvent::StepQueued(order)) => {
                    let first = RetriedStep { order: order.clone(), tries: 0, body: None };
                    changes.steps.push((recorded, Cow::Owned(first)));
                }
                Event::Delivery(DeliveryEvent::StepRetried(retried)) => {
                    changes.steps.push((recorded, Cow::Borrowed(retried)));
                }
                Event::Delivery(DeliveryEvent::DeliveryReissued(reissued)) => {
                    changes.reissued.push((recorded, reissued));
                }
                Event::Form(_)
                | Event::Key(_)
                | Event::Occurrence(_)
                | Event::Delivery(_)
                | Event::Invite(_)
                | Event::Person(_)
                | Event::Response(_)
                | Event::Reading(_)
                | Event::Replay(_)
                | Event::Pause(_)
                | Event::Repair(_)
                | Event::LateEntry(_)
                | Event::CheckpointSeries(_)
                | Event::AccessToken(_)
                | Event::Maintenance(_)
                | Event::TargetTest(_)
                | Event::SignIn(_)
                | Event::NoticeSending(_) => {}
            }
        }
        Ok(changes)
    }

    fn add_event(
        &mut self,
        event: &'a SubscriptionEvent,
        recorded: &RecordedEvent,
    ) -> Result<(), AppendError> {
        let lane_id: Uuid = recorded
            .aggregate_id
            .parse()
            .map_err(|_| AppendError::Unreadable(recorded.aggregate_id.clone()))?;
        match event {
            SubscriptionEvent::SubscriptionCreated { target_url, .. } => {
                self.made.push((lane_id, recorded.context.firm_id, target_url));
            }
            SubscriptionEvent::SubscriptionRemoved { reason, .. } => {
                let lane = self.lane_change(lane_id);
                lane.cancel_cause = Some((*reason).into());
                lane.removed_at = Some(recorded.context.recorded_at.get());
            }
            SubscriptionEvent::TargetGone(answer) => {
                self.lane_change(lane_id).gone = Some(GoneChange::Said(answer));
            }
            SubscriptionEvent::TargetAnswered { .. } => {
                self.lane_change(lane_id).gone = Some(GoneChange::Answered);
            }
        }
        Ok(())
    }

    fn lane_change(&mut self, lane_id: Uuid) -> &mut LaneChange<'a> {
        self.lanes.entry(lane_id).or_default()
    }
}

impl<'a> LaneChange<'a> {
    fn says_gone(&self) -> Option<&'a GoneAnswer> {
        match self.gone {
            Some(GoneChange::Said(answer)) => Some(answer),
            Some(GoneChange::Answered) | None => None,
        }
    }
}

async fn make_lane(
    connection: &mut PgConnection,
    lane_id: Uuid,
    firm_id: Uuid,
    target: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("insert into lanes (lane_id, firm_id, kind, host) values ($1, $2, 'hook', $3)")
        .bind(lane_id)
        .bind(firm_id)
        .bind(host_of(target))
        .execute(connection)
        .await?;
    Ok(())
}

/// Locks these lanes and all lanes of these firms, before the streams. All transactions lock lanes
/// in the order of their ids, because a recorder holds some lanes and waits for the next.
async fn lock_lanes(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    firm_ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    // Two index scans and a union. For an `or` the plans of workers read all lanes.
    sqlx::query(
        "select 1 from lanes
          where lane_id in (select unnest($1) union
                            select lane_id from lanes where firm_id = any($2))
          order by lane_id for update",
    )
    .bind(lane_ids)
    .bind(firm_ids)
    .execute(connection)
    .await?;
    Ok(())
}

/// Suspends or wakes the lanes of firms. A lane that sleeps already keeps the begin of its
/// suspension (ruling 28). A lane that wakes is due from now on, because a claim does not look for
/// due times that it has passed.
async fn pause_lanes(
    connection: &mut PgConnection,
    paused: &BTreeMap<Uuid, SuspensionChange<DateTime<Utc>>>,
) -> Result<(), sqlx::Error> {
    let changes = || paused.values().copied();
    let goes_on = |change| matches!(change, SuspensionChange::Suspended(_));
    sqlx::query(
        "update lanes l
            set paused_at = case when t.goes_on then coalesce(l.paused_at, t.paused_at)
                                 else t.paused_at end,
                due_at = case when l.due_at < t.changed_at and t.paused_at is null
                              then t.changed_at else l.due_at end
           from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::bool[])
                as t(firm_id, paused_at, changed_at, goes_on)
          where l.firm_id = t.firm_id",
    )
    .bind(paused.keys().copied().collect::<Vec<_>>())
    .bind(changes().map(SuspensionChange::suspended_at).collect::<Vec<_>>())
    .bind(changes().map(SuspensionChange::moment).collect::<Vec<_>>())
    .bind(changes().map(goes_on).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

async fn write_changes(
    connection: &mut PgConnection,
    changes: &BTreeMap<Uuid, LaneChange<'_>>,
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
    crash::point("lane_changed");
    Ok(())
}
