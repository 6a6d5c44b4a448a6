//! Repair: queues deliveries that were proved missing. By fan-out's own code, from the same table and
//! under the same locks, and nothing but what both name: what the proof misses and fan-out would
//! queue. A place in the log that is taken meanwhile is left out, so it can be done twice.

use std::collections::{BTreeMap, HashSet};

use domain::context::{Actor, Context};
use domain::repair::{RepairEvent, Repaired};
use domain::time::Timestamp;
use eventstore::{Appending, NewEvent, RecordedEvent, proof};
use uuid::Uuid;

use crate::fan_out::{Matches, Queued, queue};
use crate::settings::{Courier, DeliveryError};

/// Occurrences looked at in one transaction, which also ends where fan-out's would.
const OCCURRENCES: usize = 500;

/// Who repairs, and why.
#[derive(Debug, Clone)]
pub struct Order {
    /// Who.
    pub actor: Actor,
    /// Why; kept in the log.
    pub reason: String,
}

/// A delivery that is missing: the place of its occurrence in the log, and its subscription.
pub type Missing = (i64, Uuid);

/// Queues these, each firm's with an event that says so; answers how many were new.
///
/// # Errors
/// [`DeliveryError`]; what was queued until then stays so, and the rest is still missing.
pub async fn repair(
    courier: &Courier,
    missing: &[Missing],
    order: &Order,
) -> Result<u64, DeliveryError> {
    let wanted: HashSet<Missing> = missing.iter().copied().collect();
    let mut positions: Vec<i64> = missing.iter().map(|(position, _)| *position).collect();
    positions.sort_unstable();
    positions.dedup();
    let (mut rest, mut repaired) = (positions.as_slice(), 0);
    while !rest.is_empty() {
        let some = &rest[..rest.len().min(OCCURRENCES)];
        let (reached, queued) = repair_some(courier, some, &wanted, order).await?;
        repaired += queued;
        rest = &rest[rest.partition_point(|position| *position <= reached)..];
    }
    Ok(repaired)
}

async fn repair_some(
    courier: &Courier,
    positions: &[i64],
    wanted: &HashSet<Missing>,
    order: &Order,
) -> Result<(i64, u64), DeliveryError> {
    let mut appending = courier.store.begin().await?;
    let events = proof::occurrences_at(appending.connection(), positions).await?;
    let mut matches = Matches::of(&mut appending, &events).await?;
    matches.pairs.retain(|(occurred, hook)| wanted.contains(&(occurred.recorded.position, *hook)));
    let last = positions.last().copied().unwrap_or(i64::MAX);
    let repair = Repair::of(courier, &matches, order);
    let by = |occurrence: &RecordedEvent| repair.context(occurrence);
    let Queued { events, reached, .. } = queue((&mut appending, None), &matches, by).await?;
    repair.record(&mut appending, &events).await?;
    appending.commit().await?;
    Ok((reached.unwrap_or(last), events.len() as u64))
}

/// One transaction's repair: a stream of its own for each firm.
struct Repair<'a> {
    order: &'a Order,
    at: Timestamp,
    streams: BTreeMap<Uuid, Uuid>,
}

impl<'a> Repair<'a> {
    fn of(courier: &Courier, matches: &Matches<'_>, order: &'a Order) -> Self {
        let mut streams = BTreeMap::new();
        for (occurred, _) in &matches.pairs {
            let firm_id = occurred.recorded.context.firm_id;
            streams.entry(firm_id).or_insert_with(|| courier.entropy.id());
        }
        Self { order, at: courier.clock.now(), streams }
    }

    /// What is queued for an occurrence is caused by it, and belongs to the repair.
    fn context(&self, occurrence: &RecordedEvent) -> Context {
        let caused = occurrence.context.caused_by(occurrence.event_id);
        let repair = self.streams.get(&occurrence.context.firm_id).copied();
        Context {
            recorded_at: self.at,
            actor: self.order.actor,
            correlation_id: repair.unwrap_or(caused.correlation_id),
            ..caused
        }
    }

    async fn record(
        &self,
        appending: &mut Appending<'_>,
        queued: &[RecordedEvent],
    ) -> Result<(), DeliveryError> {
        let mut events = Vec::new();
        for (firm_id, repair) in &self.streams {
            let of_firm = queued.iter().filter(|event| event.context.firm_id == *firm_id);
            let deliveries = of_firm.count() as u64;
            if deliveries == 0 {
                continue;
            }
            let context = Context {
                firm_id: *firm_id,
                recorded_at: self.at,
                actor: self.order.actor,
                correlation_id: *repair,
                causation_id: None,
                traceparent: None,
            };
            let repaired = Repaired { reason: self.order.reason.clone(), deliveries };
            let event = RepairEvent::DeliveriesRepaired(repaired);
            events.extend(NewEvent::after(0, &repair.to_string(), &context, [event]));
        }
        appending.append(events).await?;
        Ok(())
    }
}
