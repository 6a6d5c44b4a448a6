//! Fan-out: reads the log's occurrences in order, and queues one delivery per occurrence and subscription.
//!
//! One transaction: the `DeliveryQueued` events whose place is free, their outbox rows, the lanes given
//! their work, the checkpoint moved. Done again after a crash, it finds every place taken. A few are
//! claimed in the same transaction, where the process sends too.

mod rows;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::context::{Actor, Context};
use domain::delivery::{Consignment, DeliveryEvent};
use domain::event::Event;
use domain::occurrence::{Happening, OccurrenceEvent, delivery_id};
use domain::pressure::Room;
use eventstore::crash;
use eventstore::tail;
use eventstore::worker::{Step, Worker};
use eventstore::{Appending, Done, Fence, Look, NewEvent, RecordedEvent};
use projector::hooks::{Matchable, matching};
use telemetry::figures::CLAIM_SECONDS;
use telemetry::trace::Traced;
use tokio::time::Instant;
use uuid::Uuid;
use vault::Subject;

use self::rows::{Leases, OutboxRows};
use crate::at_once::AtOnce;
use crate::claim::{Leased, Taken};
use crate::compose::Wanted;
use crate::dispatch::{Dispatch, Turn};
use crate::lanes;
use crate::settings::{Courier, DeliveryError};

/// Occurrences read at a time.
const READ: i64 = 500;

/// Deliveries queued at a time: a transaction stays well under 100 ms, and what it holds small.
const QUEUE: usize = 1_000;

/// The wait for appends that are under way.
const UNSETTLED: Duration = Duration::from_millis(5);

/// Deliveries queued at a time of which some are claimed at once: of more, a claim of its own shares
/// out what room there is.
const FEW: usize = 64;

/// The worker.
pub struct FanOut {
    courier: Courier,
    fence: Fence,
    dispatch: Option<Arc<Dispatch>>,
    /// Whether the last pass claimed something at once: then the next one most likely does, and reads
    /// ahead.
    ahead: bool,
    done: Done,
}

impl FanOut {
    /// A fan-out of this log.
    #[must_use]
    pub fn new(courier: Courier, fence: Fence) -> Self {
        Self { courier, fence, dispatch: None, ahead: true, done: Done::default() }
    }

    /// The same where the process sends too.
    #[must_use]
    pub fn that_claims(self, dispatch: &Arc<Dispatch>) -> Self {
        Self { dispatch: Some(Arc::clone(dispatch)), ..self }
    }

    /// Queues what is new up to where the log is settled.
    async fn pass(&self, look: Look, room: Option<&Room>) -> Result<Passed, DeliveryError> {
        let (mut appending, began) = (self.courier.store.begin().await?, Instant::now());
        let passed = match self.pass_by(&mut appending, (look, room)).await {
            Ok(Some(passed)) => passed,
            // A transaction that is dropped would hold the checkpoint until some time later, and the next
            // pass would leave it to whoever holds it.
            nothing => {
                let left = appending.leave().await;
                nothing?;
                left?;
                return self.begin_at_the_beginning().await;
            }
        };
        appending.commit().await?;
        crash::point("queued");
        if passed.taken.is_some() {
            CLAIM_SECONDS.took(&[], began.elapsed());
        }
        Ok(passed)
    }

    /// The same in this transaction; none if there is nothing, or another process has it.
    async fn pass_by(
        &self,
        appending: &mut Appending<'_>,
        (look, room): (Look, Option<&Room>),
    ) -> Result<Option<Passed>, DeliveryError> {
        let (connection, upcasters) = (appending.connection(), self.courier.store.upcasters());
        let wanted = (Self::NAME, look.settled, READ);
        let events = tail::take_occurrences(connection, &upcasters, wanted).await?;
        let Some(last) = events.last() else { return Ok(None) };
        let matches = Matches::of(appending, &events).await?;
        let reached = matches.reached.unwrap_or(last.position);
        let (now, traced) = (self.courier.clock.now(), matches.traced());
        let by = |occurrence: &RecordedEvent| Context {
            recorded_at: now,
            actor: Actor::System,
            traceparent: traced.get(&occurrence.position).and_then(Traced::place),
            ..occurrence.context.caused_by(occurrence.event_id)
        };
        let at_once = room.map(|room| AtOnce { courier: &self.courier, room, ahead: self.ahead });
        let Queued { taken, .. } = queue((appending, at_once), &matches, by).await?;
        crash::point("queueing");
        tail::move_checkpoint(appending.connection(), Self::NAME, reached).await?;
        let is_rest = i64::try_from(events.len()) == Ok(READ) || matches.reached.is_some();
        Ok(Some(Passed { all: !is_rest, taken }))
    }

    /// Makes the place of the first fan-out there ever was: it has everything to do.
    async fn begin_at_the_beginning(&self) -> Result<Passed, DeliveryError> {
        let connections = self.courier.store.connections();
        let mut connection = connections.take().await?;
        let is_first = tail::make_checkpoint(&mut connection, Self::NAME).await?;
        connections.give_back(connection);
        Ok(Passed { all: !is_first, taken: None })
    }

    /// The same, with a turn to claim; says whether there was something to claim at once. What keeps it
    /// from claiming keeps nothing from being queued.
    async fn pass_in_turn(
        &self,
        look: Look,
        (dispatch, turn): (&Arc<Dispatch>, Turn<'_>),
    ) -> Result<(Passed, bool), DeliveryError> {
        let mut passed = match self.pass(look, Some(&turn.room)).await {
            Ok(passed) => passed,
            Err(error) => {
                tracing::warn!(%error, "could not claim what is queued at once; it is only queued");
                self.pass(look, None).await?
            }
        };
        let Some(taken) = passed.taken.take() else { return Ok((passed, false)) };
        let claimed = taken.hand_over(&self.courier).await?;
        dispatch.send(claimed, turn).await?;
        Ok((passed, true))
    }
}

/// What a pass came to.
struct Passed {
    /// Whether that was all there is up to where the log is settled.
    all: bool,
    /// What was claimed at once.
    taken: Option<Taken>,
}

impl Worker for FanOut {
    const NAME: &'static str = "fan_out";
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<Step, DeliveryError> {
        let look = self.fence.look_patiently().await?;
        let idle = if look.more { Step::IdleFor(UNSETTLED) } else { Step::IDLE };
        if self.done.is_all(look) {
            return Ok(idle);
        }
        let turn =
            self.dispatch.as_ref().and_then(|dispatch| Some((dispatch, dispatch.turn_now()?)));
        let passed = match turn {
            Some(turn) => {
                let (passed, claimed) = self.pass_in_turn(look, turn).await?;
                self.ahead = claimed;
                passed
            }
            None => self.pass(look, None).await?,
        };
        if !passed.all {
            return Ok(Step::Busy);
        }
        self.done.up_to(look.settled);
        Ok(idle)
    }
}

/// What was queued.
pub(crate) struct Queued {
    /// That, as it is in the log.
    pub(crate) events: Vec<RecordedEvent>,
    /// What of it was claimed at once.
    taken: Option<Taken>,
}

/// Queues what is not queued, in the order it is found: the events, their outbox rows, the lanes
/// given their work. `by` says for each occurrence who queues it, and as a part of what.
pub(crate) async fn queue(
    (appending, at_once): (&mut Appending<'_>, Option<AtOnce<'_>>),
    matches: &Matches<'_>,
    by: impl Fn(&RecordedEvent) -> Context,
) -> Result<Queued, DeliveryError> {
    let new: Vec<NewEvent> = matches
        .pairs
        .iter()
        .map(|(occurrence, hook_id)| occurrence.delivery_to(*hook_id, by(occurrence.recorded)))
        .collect();
    let at_once = at_once.filter(|_| (1..=FEW).contains(&new.len()));
    let ahead = async {
        match at_once {
            Some(at_once) if at_once.ahead => {
                Ok(Some(at_once.read_ahead(&matches.wanted()).await?))
            }
            Some(_) | None => Ok::<_, DeliveryError>(None),
        }
    };
    let (appended, read) = tokio::join!(append((appending, at_once), matches, new), ahead);
    let (Appended { events, rows, chosen }, read) = (appended?, read?);
    let Some(first) = events.first() else {
        return Ok(Queued { events, taken: None });
    };
    let (now, connection) = (first.context.recorded_at, appending.connection());
    let taken = match at_once {
        Some(at_once) => at_once.take(connection, (chosen, read), now).await?,
        None => None,
    };
    let lease = at_once.map(|by| by.courier.settings.scale.lease()).unwrap_or_default();
    let leases = Leases::of(taken.as_ref(), (now.get(), lease));
    rows.insert(connection, &leases).await?;
    lanes::give(connection, &rows.work(&leases), leases.end).await?;
    Ok(Queued { events, taken })
}

/// What was appended, whose lanes are locked.
#[derive(Default)]
struct Appended {
    events: Vec<RecordedEvent>,
    rows: OutboxRows,
    /// What of it can be claimed at once.
    chosen: Vec<Leased>,
}

async fn append(
    (appending, at_once): (&mut Appending<'_>, Option<AtOnce<'_>>),
    matches: &Matches<'_>,
    new: Vec<NewEvent>,
) -> Result<Appended, DeliveryError> {
    let events = appending.append_new(new).await?;
    let Some(first) = events.first() else {
        return Ok(Appended::default());
    };
    let (now, connection) = (first.context.recorded_at, appending.connection());
    let rows = OutboxRows::of(&events, matches);
    let chosen = match at_once {
        Some(at_once) => at_once.choose(connection, rows.leased(), now).await?,
        None => {
            lanes::lock(connection, &rows.lane_ids).await?;
            Vec::new()
        }
    };
    Ok(Appended { events, rows, chosen })
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
    /// What their deliveries are composed from.
    fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        for (Occurred { recorded, happening, .. }, hook_id) in &self.pairs {
            let firm_id = recorded.context.firm_id;
            wanted.firm_ids.insert(firm_id);
            wanted.hook_ids.insert(*hook_id);
            wanted.subjects.insert(Subject { firm_id, subject_id: happening.response_id });
            wanted.form_ids.insert((firm_id, happening.form_id));
        }
        wanted.fresh.clone_from(&wanted.subjects);
        wanted
    }

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
