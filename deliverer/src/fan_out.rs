//! Fan-out: reads the log's occurrences in order, and queues one delivery per occurrence and subscription.
//!
//! One transaction: the `DeliveryQueued` events whose place is free, their outbox rows, the lanes given
//! their work, the checkpoint moved. Done again after a crash, it finds every place taken. Where the process
//! sends too, what there is room for is claimed in the same transaction, which takes every place for free: where one
//! is not, it is left for another that claims nothing. Of many of one firm, those that there
//! is no room for wait for it in the log, while nobody else comes after them: queued first, each would cost a
//! claim of its own.

mod matches;
mod patience;
mod queue;
mod rows;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::context::{Actor, Context};
use domain::trace::Traceparent;
use eventstore::crash;
use eventstore::tail;
use eventstore::worker::{Step, Worker};
use eventstore::{AppendError, Appending, Done, Fence, Look, RecordedEvent};
use telemetry::figures::CLAIM_SECONDS;
use telemetry::trace::Traced;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

pub(crate) use self::matches::Matches;
use self::patience::{PACE, Patience, Rest};
use self::queue::read_ahead;
pub(crate) use self::queue::{Queued, queue};
pub(crate) use self::rows::{Row, lane_ids};
use crate::at_once::AtOnce;
use crate::claim::Taken;
use crate::dispatch::{Dispatch, Turn};
use crate::settings::{Courier, DeliveryError};

/// Occurrences read at a time, at most and at least.
const READ: i64 = 500;
const LEAST: i64 = 16;

/// The wait for appends that are under way.
const UNSETTLED: Duration = Duration::from_millis(5);

/// The worker.
pub struct FanOut {
    courier: Courier,
    fence: Fence,
    dispatch: Option<Arc<Dispatch>>,
    /// Whether the last pass claimed something at once, or waited for room: then the next one most likely
    /// claims, and reads ahead.
    ahead: bool,
    /// Occurrences to read: of many that are read for little room, most are read again.
    read: i64,
    patience: Patience,
    done: Done,
    /// Says when this process recorded occurrences, or another may have.
    news: watch::Receiver<u64>,
    /// Whether everything is done that was there at the last look; what came since, its news say.
    is_through: bool,
    /// Whether the last pass left something of what was settled.
    has_more: bool,
}

impl FanOut {
    /// A fan-out of this log.
    #[must_use]
    pub fn new(courier: Courier, fence: Fence) -> Self {
        let news = courier.store.nudge().subscribe_to_occurrences();
        Self {
            courier,
            fence,
            dispatch: None,
            ahead: true,
            read: READ,
            patience: Patience::default(),
            done: Done::default(),
            news,
            is_through: false,
            has_more: false,
        }
    }

    /// The same where the process sends too.
    #[must_use]
    pub fn that_claims(self, dispatch: &Arc<Dispatch>) -> Self {
        Self { dispatch: Some(Arc::clone(dispatch)), ..self }
    }

    /// Queues what is new up to where the log is settled.
    async fn pass(
        &self,
        mut appending: Appending<'_>,
        (look, turn): (Look, Option<&Turn<'_>>),
    ) -> Result<Passed, DeliveryError> {
        let began = Instant::now();
        let passed = match self.pass_by(&mut appending, (look, turn)).await {
            Ok(Some(passed)) if !passed.rest.took_nothing() => passed,
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
        (look, turn): (Look, Option<&Turn<'_>>),
    ) -> Result<Option<Passed>, DeliveryError> {
        let (connection, upcasters) = (appending.connection(), self.courier.store.upcasters());
        let read = if turn.is_some() { self.read } else { READ };
        // Where a part waits for room, most passes leave all as it is.
        let moves = self.patience.waiting.is_none();
        let wanted = (Self::NAME, look.settled, read, moves);
        let events = tail::take_occurrences(connection, &upcasters, wanted).await?;
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(None) };
        let now = self.courier.clock.now();
        let age = now.get() - first.context.recorded_at.get();
        let at_once = turn.map(|turn| AtOnce {
            courier: &self.courier,
            turn,
            ahead: self.ahead,
            may_wait: self.patience.allows((first.position, age), Instant::now()),
            looks: self.patience.waiting.is_some(),
        });
        let ahead = read_ahead(at_once, &events);
        let (matches, ahead) = tokio::join!(Matches::of(appending, &events), ahead);
        let (matches, ahead) = (matches?, ahead?);
        let mut traced = HashMap::new();
        let by = |occurrence: &RecordedEvent| Context {
            recorded_at: now,
            actor: Actor::System,
            traceparent: fan_out_of(&mut traced, occurrence),
            ..occurrence.context.caused_by(occurrence.event_id)
        };
        let at_once = at_once.map(|at_once| (at_once, ahead));
        let queued = queue((appending, at_once), &matches, by).await?;
        let read_to = matches.reached.unwrap_or(last.position);
        let reached = queued.reached.unwrap_or(read_to);
        let read_all = i64::try_from(events.len()) == Ok(read);
        let rest = match queued.left {
            Some(firm_id) => Rest::Waits { firm_id, alone_to: read_to, reached: queued.reached },
            None if matches.reached.is_some() || read_all => Rest::Some,
            None => Rest::None,
        };
        if rest.took_nothing() {
            return Ok(Some(Passed { rest, ..Passed::NOTHING }));
        }
        if queued.all_is_taken() {
            appending.none_is_left();
        }
        crash::point("queueing");
        if !moves || reached != last.position {
            tail::move_checkpoint(appending.connection(), Self::NAME, reached).await?;
        }
        let read = events.partition_point(|event| event.position <= reached);
        Ok(Some(Passed { rest, read, taken: queued.taken, ahead: None }))
    }

    /// A turn to claim: where a part waits for room, once there is some.
    async fn turn<'a>(&self, dispatch: &'a Dispatch) -> Option<Turn<'a>> {
        if self.patience.waiting.is_none() {
            return dispatch.turn_now();
        }
        let soon = timeout(PACE, dispatch.turn_soon()).await;
        soon.ok().flatten().or_else(|| dispatch.turn_now())
    }

    /// Makes the place of the first fan-out there ever was: it has everything to do.
    async fn begin_at_the_beginning(&self) -> Result<Passed, DeliveryError> {
        let connections = self.courier.store.connections();
        let mut connection = connections.take().await?;
        let is_first = tail::make_checkpoint(&mut connection, Self::NAME).await?;
        connections.give_back(connection);
        let rest = if is_first { Rest::Some } else { Rest::None };
        Ok(Passed { rest, ..Passed::NOTHING })
    }

    /// How far the log is settled. Where the last pass left something, there is no need to wait for what is being
    /// appended.
    async fn look(&mut self) -> Result<Look, sqlx::Error> {
        let mut looks = || _ = self.news.borrow_and_update();
        let look = if self.has_more {
            looks();
            self.fence.look().await?
        } else {
            self.fence.look_patiently(looks).await?
        };
        self.look_behind(look.settled).await?;
        Ok(look)
    }

    /// A pass with a turn to claim. What keeps it from claiming keeps nothing from being queued.
    async fn pass_in_turn(
        &self,
        (appending, look): (Appending<'_>, Look),
        (dispatch, turn): (&Arc<Dispatch>, Turn<'_>),
    ) -> Result<Passed, DeliveryError> {
        let queueing = if self.has_more { Some(dispatch.queueing().await) } else { None };
        let mut passed = match self.pass(appending, (look, Some(&turn))).await {
            Ok(passed) => passed,
            Err(error) => {
                let why = "could not claim what is queued at once; it is only queued";
                match error {
                    // Some was queued before: by a repair, or before the checkpoint was set back.
                    DeliveryError::Append(AppendError::Conflict) => {
                        tracing::debug!(%error, "{why}");
                    }
                    _ => tracing::warn!(%error, "{why}"),
                }
                self.pass(self.courier.store.begin().await?, (look, None)).await?
            }
        };
        drop(queueing);
        let taken = passed.taken.take();
        if passed.read > 0 || passed.rest.took_nothing() {
            passed.ahead = Some(taken.is_some() || passed.rest.took_nothing());
        }
        if let Some(taken) = taken {
            let claimed = taken.hand_over(&self.courier).await?;
            dispatch.send(claimed, turn).await?;
        }
        Ok(passed)
    }

    /// Whether somebody else's occurrence comes after what waits.
    async fn look_behind(&mut self, settled: i64) -> Result<(), sqlx::Error> {
        let Some(waiting) = self.patience.waiting.filter(|one| one.alone_to < settled) else {
            return Ok(());
        };
        let connections = self.courier.store.connections();
        let mut connection = connections.take().await?;
        let stretch = (waiting.alone_to, settled);
        let other = tail::occurrence_of_another(&mut connection, stretch, waiting.firm_id).await?;
        connections.give_back(connection);
        self.patience.looked_behind(settled, other);
        if other.is_some() {
            self.read = READ;
        }
        Ok(())
    }

    /// What a pass that began then leaves for the next.
    fn after(&mut self, (passed, began): (&Passed, Instant)) {
        self.patience.after(passed.rest, (began, Instant::now()));
        self.has_more = passed.rest != Rest::None;
        self.ahead = passed.ahead.unwrap_or(self.ahead);
        self.read = match passed.rest {
            Rest::Waits { .. } if passed.rest.took_nothing() => self.read,
            Rest::Waits { .. } => i64::try_from(passed.read * 2).unwrap_or(READ).clamp(LEAST, READ),
            Rest::Some | Rest::None => (self.read * 2).min(READ),
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
    /// Whether the next one most likely claims, if this one tells.
    ahead: Option<bool>,
}

impl Passed {
    const NOTHING: Self = Self { rest: Rest::None, read: 0, taken: None, ahead: None };
}

impl Worker for FanOut {
    const NAME: &'static str = "fan_out";
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<Step, DeliveryError> {
        // The timer takes a millisecond even for what is over.
        if let Some(waiting) = self.patience.waiting.filter(|one| one.next > Instant::now()) {
            sleep_until(waiting.next).await;
        }
        let has_news = self.news.has_changed().unwrap_or(true);
        if self.is_through && !has_news && self.done.is_believed() {
            return Ok(Step::IDLE);
        }
        self.is_through = false;
        // Most likely there is something: its transaction begins meanwhile.
        let store = self.courier.store.clone();
        let (look, begun) = tokio::join!(self.look(), store.begin());
        let (look, appending) = (look?, begun?);
        let idle = if look.more { Step::IdleFor(UNSETTLED) } else { Step::IDLE };
        if self.done.is_all(look) {
            appending.leave().await?;
            self.is_through = !look.more;
            return Ok(idle);
        }
        let began = Instant::now();
        let dispatch = self.dispatch.clone();
        let turn = match &dispatch {
            Some(dispatch) => self.turn(dispatch).await.map(|turn| (dispatch, turn)),
            None => None,
        };
        let passed = match turn {
            Some(turn) => self.pass_in_turn((appending, look), turn).await?,
            None => self.pass(appending, (look, None)).await?,
        };
        self.after((&passed, began));
        if self.has_more {
            return Ok(Step::Busy);
        }
        self.done.up_to(look.settled);
        self.is_through = !look.more;
        Ok(idle)
    }
}
