//! Fan-out: reads the log's occurrences in order, and queues one delivery per occurrence and subscription.
//!
//! One transaction: the `DeliveryQueued` events whose place is free, their outbox rows, the lanes
//! woken, the checkpoint moved. Done again after a crash, it finds every place taken.

use std::collections::HashMap;
use std::time::Duration;

use domain::context::{Actor, Context};
use domain::delivery::{Consignment, DeliveryEvent};
use domain::event::Event;
use domain::occurrence::{Happening, OccurrenceEvent, delivery_id};
use domain::retry::Schedule;
use eventstore::crash;
use eventstore::tail::{self, Stretch};
use eventstore::worker::{Step, Worker};
use eventstore::{Appending, Fence, NewEvent, RecordedEvent};
use projector::hooks::{Matchable, matching};
use sqlx::PgConnection;
use telemetry::trace::Traced;
use uuid::Uuid;

use crate::lanes;
use crate::settings::{Courier, DeliveryError};

/// Occurrences read at a time.
const READ: i64 = 500;

/// Deliveries queued at a time: a transaction stays well under 100 ms.
const QUEUE: usize = 2_000;

/// The wait for appends that are under way.
const UNSETTLED: Duration = Duration::from_millis(5);

/// The worker.
pub struct FanOut {
    courier: Courier,
    fence: Fence,
}

impl FanOut {
    /// A fan-out of this log.
    #[must_use]
    pub const fn new(courier: Courier, fence: Fence) -> Self {
        Self { courier, fence }
    }
}

impl Worker for FanOut {
    const NAME: &'static str = "fan_out";
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<Step, DeliveryError> {
        let look = self.fence.look_patiently().await?;
        let mut appending = self.courier.store.begin().await?;
        let Some(after) = tail::take_checkpoint(appending.connection(), Self::NAME).await? else {
            return Ok(Step::IDLE);
        };
        let upcasters = self.courier.store.upcasters();
        let stretch = Stretch { after, settled: look.settled, limit: READ };
        let events = tail::read_occurrences(appending.connection(), &upcasters, stretch).await?;
        let Some(last) = events.last() else {
            appending.leave().await?;
            return Ok(if look.more { Step::IdleFor(UNSETTLED) } else { Step::IDLE });
        };
        let matches = Matches::of(&mut appending, &events).await?;
        let reached = matches.reached.unwrap_or(last.position);
        let (now, traced) = (self.courier.clock.now(), matches.traced());
        let by = |occurrence: &RecordedEvent| Context {
            recorded_at: now,
            actor: Actor::System,
            traceparent: traced.get(&occurrence.position).and_then(Traced::place),
            ..occurrence.context.caused_by(occurrence.event_id)
        };
        queue(&mut appending, &matches, by).await?;
        crash::point("queueing");
        tail::move_checkpoint(appending.connection(), Self::NAME, reached).await?;
        appending.commit().await?;
        crash::point("queued");
        Ok(Step::Busy)
    }
}

/// Queues what is not queued, in the order it is found: the events, their outbox rows, the lanes
/// woken. `by` says for each occurrence who queues it, and as a part of what. Answers what is new.
pub(crate) async fn queue(
    appending: &mut Appending<'_>,
    matches: &Matches<'_>,
    by: impl Fn(&RecordedEvent) -> Context,
) -> Result<Vec<RecordedEvent>, DeliveryError> {
    let events = matches
        .pairs
        .iter()
        .map(|(occurrence, hook_id)| occurrence.delivery_to(*hook_id, by(occurrence.recorded)))
        .collect();
    let queued = appending.append_new(events).await?;
    let Some(first) = queued.first() else {
        return Ok(queued);
    };
    let now = first.context.recorded_at.get();
    let rows = OutboxRows::of(&queued, matches);
    rows.insert(appending.connection(), now).await?;
    lanes::wake(appending.connection(), &rows.lane_ids, now).await?;
    Ok(queued)
}

#[derive(Clone, Copy)]
pub(crate) struct Occurred<'a> {
    id: Uuid,
    pub(crate) recorded: &'a RecordedEvent,
    happening: &'a Happening,
}

impl<'a> Occurred<'a> {
    fn of(recorded: &'a RecordedEvent) -> Option<Self> {
        match (&recorded.event, recorded.aggregate_id.parse()) {
            (Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(happening)), Ok(id))
                if !happening.silent =>
            {
                Some(Self { id, recorded, happening })
            }
            _ => None,
        }
    }

    fn matchable(&self) -> Matchable {
        Matchable {
            position: self.recorded.position,
            firm_id: self.recorded.context.firm_id,
            trigger: self.happening.trigger.key(),
            form_id: self.happening.form_id,
        }
    }

    fn delivery_to(&self, hook_id: Uuid, context: Context) -> NewEvent {
        NewEvent {
            aggregate_id: delivery_id(self.id, hook_id).to_string(),
            sequence: 1,
            event: DeliveryEvent::DeliveryQueued(Consignment {
                occurrence_id: self.id,
                hook_id,
                trigger: self.happening.trigger,
                form_id: self.happening.form_id,
                response_id: self.happening.response_id,
            })
            .into(),
            context,
        }
    }
}

/// Who gets what, for as many occurrences as one transaction takes.
pub(crate) struct Matches<'a> {
    pub(crate) pairs: Vec<(Occurred<'a>, Uuid)>,
    /// The last position taken in, when it is not the last one read.
    pub(crate) reached: Option<i64>,
}

impl<'a> Matches<'a> {
    pub(crate) async fn of(
        appending: &mut Appending<'_>,
        events: &'a [RecordedEvent],
    ) -> Result<Self, DeliveryError> {
        let occurred: Vec<_> = events.iter().filter_map(Occurred::of).collect();
        let matchable: Vec<_> = occurred.iter().map(Occurred::matchable).collect();
        if matchable.is_empty() {
            return Ok(Self { pairs: Vec::new(), reached: None });
        }
        let mut matched = matching(appending.connection(), &matchable).await?;
        let reached = cut(&mut matched, QUEUE);
        let mut rest = occurred.into_iter().peekable();
        let pairs = matched
            .into_iter()
            .filter_map(|(position, hook_id)| {
                while rest.peek().is_some_and(|occurred| occurred.recorded.position < position) {
                    rest.next();
                }
                rest.peek().map(|occurred| (*occurred, hook_id))
            })
            .collect();
        Ok(Self { pairs, reached })
    }
}

impl Matches<'_> {
    /// The fan-outs of those that belong to a trace, by position; they end with the queueing.
    fn traced(&self) -> HashMap<i64, Traced> {
        let mut traced = HashMap::new();
        for (Occurred { recorded, .. }, _) in &self.pairs {
            if let parent @ Some(_) = recorded.context.traceparent {
                traced.entry(recorded.position).or_insert_with(|| Traced::fan_out(parent));
            }
        }
        traced
    }
}

/// Cuts what is more than `most` off, between two occurrences and never before the first; says which
/// position is the last one whole, if anything was cut.
fn cut(matched: &mut Vec<(i64, Uuid)>, most: usize) -> Option<i64> {
    let (position, _) = *matched.get(most)?;
    let first = matched.first()?.0;
    let end = if position == first {
        matched.partition_point(|(at, _)| *at == first)
    } else {
        matched.partition_point(|(at, _)| *at < position)
    };
    if end == matched.len() {
        return None;
    }
    matched.truncate(end);
    matched.last().map(|(at, _)| *at)
}

/// The rows of the outbox, by column.
#[derive(Default)]
struct OutboxRows {
    delivery_ids: Vec<Uuid>,
    lane_ids: Vec<Uuid>,
    firm_ids: Vec<Uuid>,
    occurrence_ids: Vec<Uuid>,
    triggers: Vec<&'static str>,
    form_ids: Vec<Uuid>,
    response_ids: Vec<Uuid>,
    report_ids: Vec<Option<Uuid>>,
    booking_ids: Vec<Option<Uuid>>,
    positions: Vec<i64>,
    traceparents: Vec<Option<String>>,
}

impl OutboxRows {
    fn of(queued: &[RecordedEvent], matches: &Matches<'_>) -> Self {
        let mut rows = Self::default();
        let mut pairs = matches.pairs.iter();
        for recorded in queued {
            let Event::Delivery(DeliveryEvent::DeliveryQueued(consignment)) = &recorded.event
            else {
                continue;
            };
            let pair = pairs.find(|(occurred, hook_id)| {
                occurred.id == consignment.occurrence_id && *hook_id == consignment.hook_id
            });
            if let Some((occurred, hook_id)) = pair {
                rows.delivery_ids.push(delivery_id(occurred.id, *hook_id));
                rows.lane_ids.push(*hook_id);
                rows.firm_ids.push(recorded.context.firm_id);
                rows.occurrence_ids.push(occurred.id);
                rows.triggers.push(consignment.trigger.key());
                rows.form_ids.push(consignment.form_id);
                rows.response_ids.push(consignment.response_id);
                rows.report_ids.push(occurred.happening.report_id);
                rows.booking_ids.push(occurred.happening.booking_id);
                rows.positions.push(occurred.recorded.position);
                let place = recorded.context.traceparent;
                rows.traceparents.push(place.map(|place| place.to_string()));
            }
        }
        rows
    }

    async fn insert(
        &self,
        connection: &mut PgConnection,
        due_at: chrono::DateTime<chrono::Utc>,
    ) -> Result<(), sqlx::Error> {
        sqlx::query(
            "insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                                 response_id, report_id, booking_id, position, traceparent, due_at,
                                 tries_max)
             select t.*, $12, $13 from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[],
                                         $6::uuid[], $7::uuid[], $8::uuid[], $9::uuid[],
                                         $10::bigint[], $11::text[]) t",
        )
        .bind(&self.delivery_ids)
        .bind(&self.lane_ids)
        .bind(&self.firm_ids)
        .bind(&self.occurrence_ids)
        .bind(&self.triggers)
        .bind(&self.form_ids)
        .bind(&self.response_ids)
        .bind(&self.report_ids)
        .bind(&self.booking_ids)
        .bind(&self.positions)
        .bind(&self.traceparents)
        .bind(due_at)
        .bind(Schedule::RestHook.tries().cast_signed())
        .execute(connection)
        .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(positions: &[i64]) -> Vec<(i64, Uuid)> {
        positions.iter().map(|position| (*position, Uuid::nil())).collect()
    }

    #[test]
    fn a_batch_is_cut_between_occurrences() {
        let cut_at = |positions: &[i64], most| {
            let mut matched = pairs(positions);
            let reached = cut(&mut matched, most);
            (matched.len(), reached)
        };
        assert_eq!(cut_at(&[], 2), (0, None));
        assert_eq!(cut_at(&[1, 2], 2), (2, None));
        assert_eq!(cut_at(&[1, 2, 3], 2), (2, Some(2)));
        assert_eq!(cut_at(&[1, 2, 2], 2), (1, Some(1)));
        // One occurrence with more than fits is taken whole.
        assert_eq!(cut_at(&[1, 1, 1], 2), (3, None));
        assert_eq!(cut_at(&[1, 1, 1, 2], 2), (3, Some(1)));
    }
}
