//! Compares the lanes of subscriptions with the log. A lane decides whether a queued delivery is
//! sent, and no chain has it. Its closing, its firm's suspension and its host follow from the log.

use std::collections::{BTreeSet, HashMap};

use domain::delivery::CancelCause;
use domain::event::Event;
use domain::firm::FirmEvent;
use domain::subscription::{SubscriptionEvent, host_of};
use eventstore::tail::TailError;
use eventstore::{RecordedEvent, StreamName, Upcasters, load_many, proof};
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::error::DeliveryError;

/// Lanes in one read.
const LANES_PER_READ: i64 = 500;

/// The first lane that is not what the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneFault {
    /// The lane, which has the id of its subscription.
    pub lane_id: Uuid,
    /// The difference, as a person reads it.
    pub why: &'static str,
}

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneComparison {
    /// Lanes that are as the log says.
    pub lanes: u64,
    /// Lanes whose events this build cannot read.
    pub unread: u64,
    /// The first other lane.
    pub fault: Option<LaneFault>,
}

/// A lane of a subscription.
#[derive(Debug, FromRow)]
struct ComparedLane {
    lane_id: Uuid,
    firm_id: Uuid,
    host: String,
    is_paused: bool,
    cancel_cause: Option<String>,
}

/// Compares the lanes of all subscriptions with the log, as they are at one moment.
pub async fn compare_all_lanes(pool: &PgPool) -> Result<LaneComparison, DeliveryError> {
    let mut transaction = proof::long_snapshot(pool).await?;
    let connection = &mut *transaction;
    let mut compared = LaneComparison::default();
    let mut after = None;
    loop {
        let lanes = lanes_after(connection, after).await?;
        let Some(last) = lanes.last() else {
            break;
        };
        after = Some(last.lane_id);
        compare_lanes(connection, &lanes, &mut compared).await?;
        if compared.fault.is_some() {
            return Ok(compared);
        }
    }
    compared.fault = without_lane(connection)
        .await?
        .map(|lane_id| LaneFault { lane_id, why: "a live subscription has no lane" });
    Ok(compared)
}

async fn compare_lanes(
    connection: &mut PgConnection,
    lanes: &[ComparedLane],
    compared: &mut LaneComparison,
) -> Result<(), DeliveryError> {
    let firms: BTreeSet<Uuid> = lanes.iter().map(|lane| lane.firm_id).collect();
    let name =
        |aggregate_type, id: &Uuid| StreamName { aggregate_type, aggregate_id: id.to_string() };
    let names: Vec<StreamName> = lanes
        .iter()
        .map(|lane| name("Subscription", &lane.lane_id))
        .chain(firms.iter().map(|firm_id| name("Firm", firm_id)))
        .collect();
    let events = match load_many(connection, &Upcasters::current(), &names).await {
        Ok(events) => events,
        Err(TailError::Unreadable { .. }) if lanes.len() > 1 => {
            for lane in lanes {
                let lane = std::slice::from_ref(lane);
                Box::pin(compare_lanes(connection, lane, compared)).await?;
            }
            return Ok(());
        }
        Err(TailError::Unreadable { .. }) => {
            compared.unread += 1;
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let mut streams: HashMap<&str, Vec<&RecordedEvent>> = HashMap::new();
    for event in &events {
        streams.entry(&event.aggregate_id).or_default().push(event);
    }
    for lane in lanes {
        let stream = |id: Uuid| streams.get(id.to_string().as_str()).map_or(&[][..], Vec::as_slice);
        if let Some(why) =
            lane.first_fault(stream(lane.lane_id), is_suspended(stream(lane.firm_id)))
        {
            compared.fault =
                compared.fault.take().or(Some(LaneFault { lane_id: lane.lane_id, why }));
        } else {
            compared.lanes += 1;
        }
    }
    Ok(())
}

/// Whether the service has suspended a firm, by its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirmState {
    Running,
    Suspended,
}

fn is_suspended(firm: &[&RecordedEvent]) -> FirmState {
    firm.iter().fold(FirmState::Running, |state, recorded| match recorded.event {
        Event::Firm(FirmEvent::FirmSuspended { .. }) => FirmState::Suspended,
        Event::Firm(FirmEvent::FirmResumed { .. }) => FirmState::Running,
        _ => state,
    })
}

impl ComparedLane {
    /// The first difference from the events of the subscription and the state of the firm.
    fn first_fault(
        &self,
        subscription: &[&RecordedEvent],
        firm: FirmState,
    ) -> Option<&'static str> {
        let mut made = None;
        let mut closed = None;
        for recorded in subscription {
            match &recorded.event {
                Event::Subscription(SubscriptionEvent::SubscriptionCreated {
                    target_url, ..
                }) => {
                    made = Some((recorded.context.firm_id, host_of(target_url)));
                }
                Event::Subscription(SubscriptionEvent::SubscriptionRemoved { reason, .. }) => {
                    closed = Some(CancelCause::from(*reason).name());
                }
                _ => {}
            }
        }
        let Some((firm_id, host)) = made else {
            return Some("it is there, and the log does not know its subscription");
        };
        if (self.firm_id, &self.host) != (firm_id, &host) {
            Some("its firm or host is not that of its subscription")
        } else if self.cancel_cause.as_deref() != closed {
            Some("its cancel_cause is not what the log says")
        } else if self.is_paused != (firm == FirmState::Suspended) {
            Some("its paused_at is not what the log says of its firm")
        } else {
            None
        }
    }
}

async fn lanes_after(
    connection: &mut PgConnection,
    after: Option<Uuid>,
) -> Result<Vec<ComparedLane>, sqlx::Error> {
    sqlx::query_as(
        "select lane_id, firm_id, host, paused_at is not null as is_paused, cancel_cause from lanes
          where kind = 'hook' and ($1::uuid is null or lane_id > $1) order by lane_id limit $2",
    )
    .bind(after)
    .bind(LANES_PER_READ)
    .fetch_all(connection)
    .await
}

async fn without_lane(connection: &mut PgConnection) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select hook_id from hooks h
          where removed_at is null
            and not exists (select from lanes where lane_id = h.hook_id) limit 1",
    )
    .fetch_optional(connection)
    .await
}
