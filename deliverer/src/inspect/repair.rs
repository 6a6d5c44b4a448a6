//! The repair: queues deliveries that a proof found missing or lost. It inserts the rows that their
//! appends would insert, for the named deliveries only. Deliveries that are queued or recorded
//! meanwhile are left out, so a repair can be repeated.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use domain::activity::{OccurrenceEvent, delivery_id};
use domain::delivery::{Consignment, DeliveryEvent, DeliveryOf, RepairEvent, RepairedDeliveries};
use domain::event::{Actor, Event, EventContext, Terminal};
use domain::values::Timestamp;
use eventstore::{AppendTransaction, NewEvent, RecordedEvent, Upcasters, load_first};
use sqlx::PgConnection;
use uuid::Uuid;

use super::proof::UnsentDelivery;
use crate::error::DeliveryError;
use crate::outbox::begun;
use crate::outbox::row::{NewOutboxRow, OutboxRow, insert_rows};
use crate::settings::DelivererContext;

/// Occurrences of one transaction, and deliveries of one transaction that have begun.
const REPAIRED_PER_TRANSACTION: usize = 100;

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
/// unsent.
pub async fn repair_deliveries(
    deliverer: &DelivererContext,
    unsent: &[UnsentDelivery],
    order: &RepairOrder,
) -> Result<u64, DeliveryError> {
    let mut unbegun: BTreeMap<Uuid, BTreeSet<Uuid>> = BTreeMap::new();
    let mut begun = BTreeSet::new();
    for one in unsent {
        match one {
            UnsentDelivery::Unbegun(DeliveryOf { hook_id, occurrence_id }) => {
                unbegun.entry(*occurrence_id).or_default().insert(*hook_id);
            }
            UnsentDelivery::Begun(delivery_id) => _ = begun.insert(*delivery_id),
        }
    }
    let mut repaired = 0;
    let unbegun: Vec<(Uuid, BTreeSet<Uuid>)> = unbegun.into_iter().collect();
    for some in unbegun.chunks(REPAIRED_PER_TRANSACTION) {
        repaired += repair_unbegun(deliverer, some, order).await?;
    }
    let begun: Vec<Uuid> = begun.into_iter().collect();
    for some in begun.chunks(REPAIRED_PER_TRANSACTION) {
        repaired += repair_begun(deliverer, some, order).await?;
    }
    Ok(repaired)
}

async fn repair_unbegun(
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
            of(event).into_iter().flatten().filter_map(|hook_id| LostDelivery::new(event, *hook_id))
        })
        .collect();
    keep_unbegun(connection, &upcasters, &mut lost).await?;
    let batch = RepairBatch::new(deliverer, lost.iter().map(|one| one.row.firm_id), order);
    // A listed delivery needs no event to say that it exists.
    let unlisted = lost.iter().filter(|one| !one.is_listed);
    let queued = unlisted.map(|one| one.queued_event(batch.event_context(one.recorded))).collect();
    appending.append(queued).await?;
    batch.record_repairs(&mut appending).await?;
    let count = lost.len() as u64;
    let due_at = batch.at.get();
    let row = |one: LostDelivery<'_>| {
        let sequence = i64::from(!one.is_listed);
        NewOutboxRow { row: OutboxRow { sequence, ..one.row }, due_at, lease: None }
    };
    let rows: Vec<NewOutboxRow> = lost.into_iter().map(row).collect();
    insert_rows(appending.connection(), &rows).await?;
    appending.deliveries_wait();
    appending.commit().await?;
    Ok(count)
}

/// Leaves out deliveries that are queued or have begun meanwhile. If another transaction queues one
/// of the others meanwhile, the repair is a conflict.
async fn keep_unbegun(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    lost: &mut Vec<LostDelivery<'_>>,
) -> Result<(), DeliveryError> {
    let ids: Vec<Uuid> = lost.iter().map(|one| one.row.delivery_id).collect();
    let queued = begun::queued_of(connection, &ids).await?;
    let names: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let begun = load_first(connection, upcasters, "Delivery", &names).await?;
    let begun: HashSet<&str> = begun.iter().map(|first| first.aggregate_id.as_str()).collect();
    lost.retain(|one| {
        let delivery_id = one.row.delivery_id;
        !queued.contains(&delivery_id) && !begun.contains(delivery_id.to_string().as_str())
    });
    Ok(())
}

/// Deliveries that have begun are in the log already, so only the repair itself is an event.
async fn repair_begun(
    deliverer: &DelivererContext,
    wanted: &[Uuid],
    order: &RepairOrder,
) -> Result<u64, DeliveryError> {
    let mut appending = deliverer.store.begin().await?;
    let now = deliverer.clock.now();
    let rows = begun::lost_rows(appending.connection(), wanted, now).await?;
    let batch = RepairBatch::new(deliverer, rows.iter().map(|new| new.row.firm_id), order);
    batch.record_repairs(&mut appending).await?;
    begun::queue_rows(appending.connection(), &rows, now).await?;
    appending.deliveries_wait();
    appending.commit().await?;
    Ok(rows.len() as u64)
}

/// A delivery without a stream that no process would send.
struct LostDelivery<'a> {
    recorded: &'a RecordedEvent,
    row: OutboxRow,
    is_listed: bool,
}

impl<'a> LostDelivery<'a> {
    fn new(recorded: &'a RecordedEvent, hook_id: Uuid) -> Option<Self> {
        let happening = recorded.event.happening()?;
        let occurrence_id = recorded.aggregate_id.parse().ok()?;
        let delivery_id = delivery_id(occurrence_id, happening.happened_at, hook_id);
        let row = OutboxRow::listed(delivery_id, hook_id, occurrence_id, recorded, happening);
        Some(Self { recorded, row, is_listed: happening.hooks.contains(&hook_id) })
    }

    fn queued_event(&self, context: EventContext) -> NewEvent {
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

/// The repair of one transaction.
struct RepairBatch<'a> {
    order: &'a RepairOrder,
    at: Timestamp,
    firms: BTreeMap<Uuid, FirmRepair>,
}

/// The repair of a firm. It has a stream of its own.
struct FirmRepair {
    repair_id: Uuid,
    deliveries: u64,
}

impl<'a> RepairBatch<'a> {
    /// The repair of one delivery for each of these firms. A firm may come more than once.
    fn new(
        deliverer: &DelivererContext,
        firm_ids: impl Iterator<Item = Uuid>,
        order: &'a RepairOrder,
    ) -> Self {
        let mut firms: BTreeMap<Uuid, FirmRepair> = BTreeMap::new();
        for firm_id in firm_ids {
            let new = || FirmRepair { repair_id: deliverer.entropy.new_id(), deliveries: 0 };
            firms.entry(firm_id).or_insert_with(new).deliveries += 1;
        }
        Self { order, at: deliverer.clock.now(), firms }
    }

    /// The context of a delivery's event. Its cause is the occurrence, its correlation the repair.
    fn event_context(&self, occurrence: &RecordedEvent) -> EventContext {
        let caused = occurrence.context.caused_by(occurrence.id());
        let repair = self.firms.get(&occurrence.context.firm_id).map(|firm| firm.repair_id);
        EventContext {
            recorded_at: self.at,
            actor: self.order.actor,
            terminal: self.order.terminal.clone(),
            correlation_id: repair.unwrap_or(caused.correlation_id),
            ..caused
        }
    }

    async fn record_repairs(
        &self,
        appending: &mut AppendTransaction<'_>,
    ) -> Result<(), DeliveryError> {
        let mut events = Vec::new();
        for (firm_id, FirmRepair { repair_id, deliveries }) in &self.firms {
            let context = EventContext {
                firm_id: *firm_id,
                recorded_at: self.at,
                actor: self.order.actor,
                correlation_id: *repair_id,
                causation_id: None,
                traceparent: None,
                terminal: self.order.terminal.clone(),
            };
            let repaired =
                RepairedDeliveries { reason: self.order.reason.clone(), deliveries: *deliveries };
            let event = RepairEvent::DeliveriesRepaired(repaired);
            events.extend(NewEvent::number_after(0, &repair_id.to_string(), &context, [event]));
        }
        appending.append(events).await?;
        Ok(())
    }
}
