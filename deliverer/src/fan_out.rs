//! Fan-out: reads the log's occurrences in order, and queues one delivery per occurrence and subscription.
//!
//! One transaction: the `DeliveryQueued` events whose place is free, their outbox rows, the lanes given
//! their work, the checkpoint moved. Done again after a crash, it finds every place taken. Where the process
//! sends too, what there is room for is claimed in the same transaction; of many, those that there is no room
//! for wait for it in the log, a little while: queued first, each would cost a claim of its own.

mod matches;
mod rows;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use domain::context::{Actor, Context};
use domain::pressure::Room;
use domain::trace::Traceparent;
use eventstore::crash;
use eventstore::tail;
use eventstore::worker::{Step, Worker};
use eventstore::{Appending, Done, Fence, Look, RecordedEvent};
use telemetry::figures::CLAIM_SECONDS;
use telemetry::trace::Traced;
use tokio::time::{Instant, sleep_until, timeout_at};

pub(crate) use self::matches::Matches;
use self::rows::Leases;
pub(crate) use self::rows::{Row, lane_ids};
use crate::at_once::{AtOnce, Fits};
use crate::claim::Taken;
use crate::dispatch::{Dispatch, Turn};
use crate::lanes;
use crate::settings::{Courier, DeliveryError};

/// Occurrences read at a time, at most and at least.
const READ: i64 = 500;
const LEAST: i64 = 16;

/// The wait for appends that are under way.
const UNSETTLED: Duration = Duration::from_millis(5);

/// So many deliveries are queued whether or not there is room for them, and are within a claim's memory; of
/// more, a part may wait.
const FEW: usize = 64;

/// From the start of a pass that left a part in the log for want of room to the next: meanwhile room is made
/// for more than a few.
const PACE: Duration = Duration::from_millis(15);

/// The wait for any room at all.
const NO_ROOM: Duration = Duration::from_millis(5);

/// How long deliveries wait in the log while there is no room for any: others wait behind them.
const PATIENCE: Duration = Duration::from_millis(50);

/// The worker.
pub struct FanOut {
    courier: Courier,
    fence: Fence,
    dispatch: Option<Arc<Dispatch>>,
    /// Whether the last pass claimed something at once: then the next one most likely does, and reads
    /// ahead.
    ahead: bool,
    /// Occurrences to read: of many that are read for little room, most are read again.
    read: i64,
    /// Since when a part waits for room, and when it is looked for again.
    waiting: Option<(Instant, Instant)>,
    done: Done,
}

impl FanOut {
    /// A fan-out of this log.
    #[must_use]
    pub fn new(courier: Courier, fence: Fence) -> Self {
        let (dispatch, waiting, done) = (None, None, Done::default());
        Self { courier, fence, dispatch, ahead: true, read: READ, waiting, done }
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
            Ok(Some(passed)) if passed.rest != Rest::All => passed,
            // A transaction that is dropped would hold the checkpoint until some time later, and the next
            // pass would leave it to whoever holds it.
            nothing => {
                let left = appending.leave().await;
                let nothing = nothing?;
                left?;
                return match nothing {
                    Some(passed) => Ok(passed),
                    None => self.begin_at_the_beginning().await,
                };
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
        let read = if room.is_some() { self.read } else { READ };
        let wanted = (Self::NAME, look.settled, read);
        let events = tail::take_occurrences(connection, &upcasters, wanted).await?;
        let Some(last) = events.last() else { return Ok(None) };
        let matches = Matches::of(appending, &events).await?;
        let (now, mut traced) = (self.courier.clock.now(), HashMap::new());
        let by = |occurrence: &RecordedEvent| Context {
            recorded_at: now,
            actor: Actor::System,
            traceparent: fan_out_of(&mut traced, occurrence),
            ..occurrence.context.caused_by(occurrence.event_id)
        };
        let at_once = room.map(|room| self.at_once(room));
        let Some(queued) = queue((appending, at_once), &matches, by).await? else {
            return Ok(Some(Passed { rest: Rest::All, read: 0, taken: None }));
        };
        crash::point("queueing");
        let reached = queued.reached.unwrap_or(last.position);
        tail::move_checkpoint(appending.connection(), Self::NAME, reached).await?;
        let read_all = i64::try_from(events.len()) == Ok(read);
        let rest = match queued.reached {
            _ if queued.is_cut => Rest::Waits,
            Some(_) => Rest::Some,
            None if read_all => Rest::Some,
            None => Rest::None,
        };
        let read = events.partition_point(|event| event.position <= reached);
        Ok(Some(Passed { rest, read, taken: queued.taken }))
    }

    fn at_once<'a>(&'a self, room: &'a Room) -> AtOnce<'a> {
        AtOnce {
            courier: &self.courier,
            room,
            ahead: self.ahead,
            waits: self.waiting.is_some(),
            is_patient: self.is_patient(),
        }
    }

    /// Whether what waits for room may go on waiting.
    fn is_patient(&self) -> bool {
        self.waiting.is_some_and(|(since, _)| since.elapsed() < PATIENCE)
    }

    /// A turn to claim: where a part waits for room, once there is some.
    async fn turn<'a>(&self, dispatch: &'a Dispatch) -> Option<Turn<'a>> {
        let Some((since, _)) = self.waiting else { return dispatch.turn_now() };
        let until = since + PATIENCE;
        timeout_at(until, dispatch.much_room()).await.ok();
        timeout_at(until, dispatch.turn_soon()).await.ok().flatten().or_else(|| dispatch.turn_now())
    }

    /// Makes the place of the first fan-out there ever was: it has everything to do.
    async fn begin_at_the_beginning(&self) -> Result<Passed, DeliveryError> {
        let connections = self.courier.store.connections();
        let mut connection = connections.take().await?;
        let is_first = tail::make_checkpoint(&mut connection, Self::NAME).await?;
        connections.give_back(connection);
        let rest = if is_first { Rest::Some } else { Rest::None };
        Ok(Passed { rest, read: 0, taken: None })
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

    /// What a pass that began then leaves for the next.
    fn after(&mut self, (passed, began): (&Passed, Instant)) {
        let now = Instant::now();
        // What claimed something has not waited in vain.
        let since = self.waiting.filter(|_| !self.ahead).map_or(now, |(since, _)| since);
        (self.waiting, self.read) = match passed.rest {
            Rest::All => (Some((since, now + NO_ROOM)), self.read),
            Rest::Waits => {
                let read = i64::try_from(passed.read * 2).unwrap_or(READ);
                (Some((since, began + PACE)), read.clamp(LEAST, READ))
            }
            Rest::Some | Rest::None => (None, (self.read * 2).min(READ)),
        };
    }
}

/// The place of an occurrence's fan-out in its trace, if it has one; it ends with the queueing.
fn fan_out_of(
    traced: &mut HashMap<i64, Traced>,
    occurrence: &RecordedEvent,
) -> Option<Traceparent> {
    let parent = Some(occurrence.context.traceparent?);
    traced.entry(occurrence.position).or_insert_with(|| Traced::fan_out(parent)).place()
}

/// What a pass came to.
struct Passed {
    /// What it left, up to where the log is settled.
    rest: Rest,
    /// Occurrences that it took in.
    read: usize,
    /// What was claimed at once.
    taken: Option<Taken>,
}

/// What of the log a pass left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    None,
    Some,
    /// Some, for want of room.
    Waits,
    /// All that it read, for want of room.
    All,
}

impl Worker for FanOut {
    const NAME: &'static str = "fan_out";
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<Step, DeliveryError> {
        if let Some((_, next)) = self.waiting {
            sleep_until(next).await;
        }
        let look = self.fence.look_patiently().await?;
        let idle = if look.more { Step::IdleFor(UNSETTLED) } else { Step::IDLE };
        if self.done.is_all(look) {
            return Ok(idle);
        }
        let began = Instant::now();
        let dispatch = self.dispatch.clone();
        let turn = match &dispatch {
            Some(dispatch) => self.turn(dispatch).await.map(|turn| (dispatch, turn)),
            None => None,
        };
        let passed = match turn {
            Some(turn) => {
                let (passed, claimed) = self.pass_in_turn(look, turn).await?;
                self.ahead = claimed;
                passed
            }
            None => self.pass(look, None).await?,
        };
        self.after((&passed, began));
        if passed.rest != Rest::None {
            return Ok(Step::Busy);
        }
        self.done.up_to(look.settled);
        Ok(idle)
    }
}

/// What was queued.
#[derive(Default)]
pub(crate) struct Queued {
    /// That, as it is in the log.
    pub(crate) events: Vec<RecordedEvent>,
    /// The last position taken in, when it is not the last one read.
    pub(crate) reached: Option<i64>,
    /// Whether the rest waits for room.
    is_cut: bool,
    /// What of it was claimed at once.
    taken: Option<Taken>,
}

/// Queues what is not queued, in the order it is found: the events, their outbox rows, the lanes
/// given their work. `by` says for each occurrence who queues it, and as a part of what. None if all of
/// it waits for room.
pub(crate) async fn queue(
    (appending, at_once): (&mut Appending<'_>, Option<AtOnce<'_>>),
    matches: &Matches<'_>,
    mut by: impl FnMut(&RecordedEvent) -> Context,
) -> Result<Option<Queued>, DeliveryError> {
    let mut rows = matches.rows();
    if rows.is_empty() {
        return Ok(Some(Queued { reached: matches.reached, ..Queued::default() }));
    }
    let Some(fits) = fits((appending, at_once), &rows).await? else {
        return Ok(None);
    };
    let is_cut = fits.rows < rows.len();
    rows.truncate(fits.rows);
    let reached = rows.last().filter(|_| is_cut).map(|row| row.position).or(matches.reached);
    let mut new = Vec::with_capacity(rows.len());
    for ((occurred, hook_id), row) in matches.pairs.iter().zip(&mut rows) {
        let context = by(occurred.recorded);
        row.leased.traceparent = context.traceparent.map(|place| place.to_string());
        new.push(occurred.delivery_to(*hook_id, context));
    }
    let read = async {
        match at_once {
            Some(at_once) if at_once.ahead => at_once.read_ahead((&rows, &fits)).await.map(Some),
            Some(_) | None => Ok(None),
        }
    };
    let (events, read) = tokio::join!(appending.append_new(new), read);
    let (events, read) = (events?, read?);
    keep_new(&mut rows, &events);
    let mut queued = Queued { events, reached, is_cut, taken: None };
    let Some(first) = queued.events.first() else {
        return Ok(Some(queued));
    };
    let (now, connection) = (first.context.recorded_at, appending.connection());
    match at_once {
        Some(at_once) => {
            let chosen = at_once.choose(connection, (&rows, &fits), now).await?;
            queued.taken = at_once.take(connection, (chosen, read), now).await?;
        }
        None => lanes::lock(connection, &lane_ids(&rows)).await?,
    }
    let lease = at_once.map(|by| by.courier.settings.scale.lease()).unwrap_or_default();
    let leases = Leases::of(queued.taken.as_ref(), (now.get(), lease));
    rows::insert(connection, &rows, &leases).await?;
    lanes::give(connection, &rows::work(&rows, &leases), leases.end).await?;
    Ok(Some(queued))
}

/// What of these rows is queued now; none if all of them wait for room.
async fn fits(
    (appending, at_once): (&mut Appending<'_>, Option<AtOnce<'_>>),
    rows: &[Row],
) -> Result<Option<Fits>, DeliveryError> {
    match at_once {
        Some(at_once) if at_once.waits || rows.len() > FEW => {
            at_once.fits(appending.connection(), rows).await
        }
        Some(_) | None => {
            let sent = rows.iter().map(|row| row.leased.delivery_id).collect();
            Ok(Some(Fits { rows: rows.len(), sent }))
        }
    }
}

/// Leaves out what was queued before.
fn keep_new(rows: &mut Vec<Row>, events: &[RecordedEvent]) {
    if events.len() < rows.len() {
        let new: HashSet<&str> = events.iter().map(|event| event.aggregate_id.as_str()).collect();
        rows.retain(|row| new.contains(row.leased.delivery_id.to_string().as_str()));
    }
}
