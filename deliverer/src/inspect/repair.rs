//! The repair: queues deliveries that a proof found missing or lost. It inserts the rows that an
//! append would insert, for the named deliveries only. Deliveries that are queued or recorded
//! meanwhile are left out, so a repair can be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::context::{Actor, EventContext};
use domain::delivery::{Consignment, Delivery, DeliveryEvent, DeliveryOf, DeliveryState};
use domain::event::Event;
use domain::occurrence::{OccurrenceEvent, delivery_id};
use domain::operator::Terminal;
use domain::repair::{RepairEvent, RepairedDeliveries};
use domain::time::Timestamp;
use eventstore::{AppendTransaction, NewEvent, RecordedEvent, Upcasters, load_all, load_first};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::DeliveryError;
use crate::outbox::row::{NewOutboxRow, OutboxRow, insert};
use crate::settings::DelivererContext;

/// Occurrences of one transaction.
const OCCURRENCES_PER_TRANSACTION: usize = 100;

/// The order of an operator.
#[derive(Debug, Clone)]
pub struct RepairOrder {
    /// The operator.
    pub actor: Actor,
    /// The terminal, if the order was given at one.
    pub terminal: Option<Arc<Terminal>>,
    /// The reason, kept in the log.
    pub reason: String,
}

/// Queues these deliveries, with one event per firm. Returns the number of new rows.
///
/// # Errors
/// [`DeliveryError`]; deliveries of earlier transactions stay queued, and the others are still
/// missing.
pub async fn repair(
    deliverer: &DelivererContext,
    missing: &[DeliveryOf],
    order: &RepairOrder,
) -> Result<u64, DeliveryError> {
    let mut wanted: BTreeMap<Uuid, BTreeSet<Uuid>> = BTreeMap::new();
    for of in missing {
        wanted.entry(of.occurrence_id).or_default().insert(of.hook_id);
    }
    let wanted: Vec<(Uuid, BTreeSet<Uuid>)> = wanted.into_iter().collect();
    let mut repaired = 0;
    for some in wanted.chunks(OCCURRENCES_PER_TRANSACTION) {
        repaired += repair_some(deliverer, some, order).await?;
    }
    Ok(repaired)
}

async fn repair_some(
    deliverer: &DelivererContext,
    wanted: &[(Uuid, BTreeSet<Uuid>)],
    order: &RepairOrder,
) -> Result<u64, DeliveryError> {
    let mut appending = deliverer.store.begin().await?;
    let connection = appending.connection();
    let upcasters = deliverer.store.upcasters();
    let ids: Vec<String> = wanted.iter().map(|(id, _)| id.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let events = load_first(connection, &upcasters, "Occurrence", &ids).await?;
    let of = |event: &RecordedEvent| {
        wanted.iter().find(|(id, _)| event.aggregate_id == id.to_string()).map(|(_, hooks)| hooks)
    };
    let mut lost: Vec<LostDelivery<'_>> = events
        .iter()
        .flat_map(|event| {
            of(event).into_iter().flatten().filter_map(|hook_id| LostDelivery::of(event, *hook_id))
        })
        .collect();
    let now = deliverer.clock.now();
    still_lost(connection, &upcasters, &mut lost).await?;
    let repair = RepairBatch::of(deliverer, &lost, order);
    // A delivery that is listed or has a stream needs no event to say that it exists.
    let unsaid = lost.iter().filter(|one| one.is_unsaid());
    let queued = unsaid.map(|one| one.queued(repair.context(one.recorded))).collect();
    appending.append(queued).await?;
    repair.record(&mut appending, &lost).await?;
    let count = lost.len() as u64;
    let row = |one: LostDelivery<'_>| {
        let sequence = one.row.sequence.max(i64::from(one.is_unsaid()));
        NewOutboxRow { row: OutboxRow { sequence, ..one.row }, due_at: now.get(), lease: None }
    };
    let rows: Vec<NewOutboxRow> = lost.into_iter().map(row).collect();
    insert(appending.connection(), &rows).await?;
    appending.deliveries_wait();
    appending.commit().await?;
    Ok(count)
}

/// Leaves out deliveries that are queued or have ended. The others go on at the end of their
/// streams. If another transaction queues one of them meanwhile, the repair is a conflict.
async fn still_lost(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    lost: &mut Vec<LostDelivery<'_>>,
) -> Result<(), DeliveryError> {
    let ids: Vec<Uuid> = lost.iter().map(|one| one.row.delivery_id).collect();
    let queued: Vec<Uuid> =
        sqlx::query_scalar("select delivery_id from outbox where delivery_id = any($1)")
            .bind(&ids)
            .fetch_all(&mut *connection)
            .await?;
    let streams = load_all::<Delivery>(connection, upcasters, &ids).await?;
    lost.retain_mut(|one| {
        let Some((delivery, last)) = streams.get(&one.row.delivery_id) else {
            return !queued.contains(&one.row.delivery_id);
        };
        one.row.sequence = *last;
        one.row.tries = delivery.tries().cast_signed();
        one.row.body_id = delivery.body().map(|body| body.id);
        one.row.body_sha256 = delivery.body().and_then(|body| hex::decode(&body.sha256).ok());
        delivery.state() == Some(DeliveryState::Pending) && !queued.contains(&one.row.delivery_id)
    });
    Ok(())
}

/// A delivery that no process would send.
struct LostDelivery<'a> {
    recorded: &'a RecordedEvent,
    row: OutboxRow,
    is_listed: bool,
}

impl<'a> LostDelivery<'a> {
    /// Whether neither its occurrence nor its own stream names the delivery.
    const fn is_unsaid(&self) -> bool {
        !self.is_listed && self.row.sequence == 0
    }

    fn of(recorded: &'a RecordedEvent, hook_id: Uuid) -> Option<Self> {
        let happening = recorded.event.happening()?;
        let occurrence_id = recorded.aggregate_id.parse().ok()?;
        let delivery_id = delivery_id(occurrence_id, happening.happened_at, hook_id);
        let row = OutboxRow::listed(delivery_id, hook_id, occurrence_id, recorded, happening);
        Some(Self { recorded, row, is_listed: happening.hooks.contains(&hook_id) })
    }

    fn queued(&self, context: EventContext) -> NewEvent {
        let Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(happening)) =
            &self.recorded.event
        else {
            unreachable!("made of an occurrence");
        };
        let consignment = Consignment {
            form_id: happening.form_id,
            hook_id: self.row.lane_id,
            occurrence_id: self.row.occurrence_id,
            response_id: happening.response_id,
            trigger: happening.trigger,
        };
        NewEvent {
            aggregate_id: self.row.delivery_id.to_string(),
            sequence: 1,
            event: DeliveryEvent::DeliveryQueued(consignment).into(),
            context,
        }
    }
}

/// The repair of one transaction. Each firm has a stream.
struct RepairBatch<'a> {
    order: &'a RepairOrder,
    at: Timestamp,
    streams: BTreeMap<Uuid, Uuid>,
}

impl<'a> RepairBatch<'a> {
    fn of(deliverer: &DelivererContext, lost: &[LostDelivery<'_>], order: &'a RepairOrder) -> Self {
        let mut streams = BTreeMap::new();
        for one in lost {
            streams.entry(one.row.firm_id).or_insert_with(|| deliverer.entropy.id());
        }
        Self { order, at: deliverer.clock.now(), streams }
    }

    /// The context of a delivery's event. Its cause is the occurrence, its correlation the repair.
    fn context(&self, occurrence: &RecordedEvent) -> EventContext {
        let caused = occurrence.context.caused_by(occurrence.id());
        let repair = self.streams.get(&occurrence.context.firm_id).copied();
        EventContext {
            recorded_at: self.at,
            actor: self.order.actor,
            terminal: self.order.terminal.clone(),
            correlation_id: repair.unwrap_or(caused.correlation_id),
            ..caused
        }
    }

    async fn record(
        &self,
        appending: &mut AppendTransaction<'_>,
        lost: &[LostDelivery<'_>],
    ) -> Result<(), DeliveryError> {
        let mut events = Vec::new();
        for (firm_id, repair) in &self.streams {
            let deliveries = lost.iter().filter(|one| one.row.firm_id == *firm_id).count() as u64;
            if deliveries == 0 {
                continue;
            }
            let context = EventContext {
                firm_id: *firm_id,
                recorded_at: self.at,
                actor: self.order.actor,
                correlation_id: *repair,
                causation_id: None,
                traceparent: None,
                terminal: self.order.terminal.clone(),
            };
            let repaired = RepairedDeliveries { reason: self.order.reason.clone(), deliveries };
            let event = RepairEvent::DeliveriesRepaired(repaired);
            events.extend(NewEvent::after(0, &repair.to_string(), &context, [event]));
        }
        appending.append(events).await?;
        Ok(())
    }
}
