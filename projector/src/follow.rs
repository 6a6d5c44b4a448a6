//! A follower reads events below the fence into memory. It then applies a batch of them and moves
//! its checkpoint in one transaction.
//!
//! A follower may hold an event that begins a delivery back for a moment. The event that ends the
//! delivery usually arrives in that time. Both are then applied in one transaction, which writes
//! the delivery once.

use eventstore::tail::{self, LogRange, TailError};
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{
    CaughtUp, Clock, Fence, JoinedWrites, LifeNumber, RecordedEvent, SeenEvent, Store, checkpoint,
    crash,
};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use std::time::Duration;

/// The number of events read at once.
const EVENTS_PER_READ: i64 = 4_000;

/// The number of rows written at once. Only events that were held back are so many, and most of
/// their deliveries begin and end in one transaction.
const ROWS_PER_TRANSACTION: usize = 40_000;

/// With this many events in memory, no event is held back.
const WAITING_EVENTS_MAX: usize = 20_000;

/// The number of positions that one step passes, however few of their events it reads.
const POSITIONS_PER_STEP: i64 = 10_000;

/// An event older than this is not held back.
const HOLD_FOR: Duration = Duration::from_millis(300);

/// An event in a burst older than this is not held back. Most deliveries of a burst end when their
/// turn comes, which takes longer.
const HOLD_IN_BURST_FOR: Duration = Duration::from_secs(5);

/// More rows of unfinished events than this are a burst.
const QUIET_ROWS_MAX: usize = 256;

/// A read model that follows the log.
pub trait Projection: Send + Sync {
    /// The name of the checkpoint.
    const NAME: &'static str;

    /// The events whose nudge runs the follower.
    const WAKES: WakeOn;

    /// The names of events that this read model does not use. The follower does not read them. An
    /// event with an unknown name is read, and stops the follower.
    const PASSES: &'static [&'static str];

    /// The shortest time from one step to the step that a nudge asks for. A busy follower does not
    /// wait. The read model is behind the log by up to this much.
    const STEP_INTERVAL_MIN: Duration = Duration::from_millis(100);

    /// The longest time between two looks while events keep coming.
    const STEP_INTERVAL_MAX: Duration = Duration::from_millis(300);

    /// Returns the largest number of rows that an event writes.
    fn rows_max(&self, _event: &RecordedEvent) -> usize {
        1
    }

    /// Returns the events that are cheaper to apply together with a later one, in ascending order.
    fn open_events(&self, _events: &[RecordedEvent]) -> Vec<OpenEvent> {
        Vec::new()
    }

    /// Applies a batch in order.
    fn apply_batch<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;

    /// Counts a batch that was applied, in the same transaction. A rebuild applies events again and
    /// counts none. The joined writes are sent with the move of the checkpoint.
    fn count_batch<'a>(
        &'a self,
        _connection: &'a mut PgConnection,
        _writes: &'a mut JoinedWrites,
        _events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async { Ok(()) })
    }
}

/// An event that is cheaper to apply together with a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenEvent {
    /// The index of the event.
    pub at: usize,
    /// The index of the later event. `None` if that has not come yet, and probably comes soon.
    pub closed_at: Option<usize>,
}

/// The worker behind a read model.
pub struct Follower<P> {
    store: Store,
    fence: Fence,
    projection: P,
    done: CaughtUp,
    /// The clock that tells the age of unfinished events. `None` holds no event back.
    clock: Option<Clock>,
    read_ahead: ReadAhead,
}

/// Events that were read from the log and are not applied yet.
#[derive(Default)]
struct ReadAhead {
    /// The life of the server in which these events were read.
    life: LifeNumber,
    /// The checkpoint before these events.
    after: i64,
    until: i64,
    events: Vec<RecordedEvent>,
}

impl ReadAhead {
    /// Returns the events after this checkpoint. Returns no events if another process has moved the
    /// checkpoint, or if the server is in another life: the log may have lost them.
    fn from(self, life: LifeNumber, after: i64) -> Self {
        if self.life == life && self.after == after {
            self
        } else {
            Self { life, after, until: after, events: Vec::new() }
        }
    }
}

impl<P: Projection> Follower<P> {
    /// Makes a follower that applies all settled events at once.
    pub fn new(store: Store, fence: Fence, projection: P) -> Self {
        Self {
            store,
            fence,
            projection,
            done: CaughtUp::default(),
            clock: None,
            read_ahead: ReadAhead::default(),
        }
    }

    /// Makes a follower that holds unfinished events back until they are finished or too old: 300
    /// ms, in a burst 5 s.
    #[must_use]
    pub fn holding_unfinished(self, clock: Clock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Returns the number of events before the first one held back, and for how long that one
    /// waits. An event is held back with every event that it is applied together with.
    fn first_held(&self, events: &[RecordedEvent]) -> Option<(usize, Duration)> {
        let now = self.clock.as_ref()?.now().get();
        let open = self.projection.open_events(events);
        let unfinished = open.iter().filter(|one| one.closed_at.is_none());
        let rows: usize = unfinished.map(|one| self.projection.rows_max(&events[one.at])).sum();
        let soon = if rows > QUIET_ROWS_MAX { HOLD_IN_BURST_FOR } else { HOLD_FOR };
        let left = |event: &RecordedEvent| {
            let age = (now - event.context.recorded_at.get()).to_std().ok()?;
            soon.checked_sub(age).filter(|left| !left.is_zero())
        };
        let mut held = None;
        for one in open.iter().rev() {
            let ready = held.map_or(events.len(), |(ready, _)| ready);
            if one.closed_at.is_none_or(|closed_at| closed_at >= ready) {
                held = left(&events[one.at]).map(|left| (one.at, left)).or(held);
            }
        }
        held
    }
}

impl<P: Projection> Worker for Follower<P> {
    const NAME: &'static str = P::NAME;
    const WAKES: WakeOn = P::WAKES;
    const STEP_INTERVAL_MIN: Duration = P::STEP_INTERVAL_MIN;
    const STEP_INTERVAL_MAX: Duration = P::STEP_INTERVAL_MAX;
    type Error = TailError;

    async fn step(&mut self) -> Result<NextStep, TailError> {
        let look = self.fence.look().await?;
        let idle = if look.more { NextStep::IdleFor(P::STEP_INTERVAL_MIN) } else { NextStep::IDLE };
        if self.done.covers(look) {
            return Ok(idle);
        }
        let mut transaction = self.store.connections().begin().await?;
        let Some(after) = checkpoint::lock_position(&mut transaction, P::NAME).await? else {
            return Ok(NextStep::HELD_UP);
        };
        if !self.fence.still_holds(look) {
            return Ok(NextStep::Busy);
        }
        let mut read = std::mem::take(&mut self.read_ahead).from(look.life, after);
        let settled = look.settled.min(read.until + POSITIONS_PER_STEP);
        if read.until < settled && read.events.len() < WAITING_EVENTS_MAX {
            let upcasters = self.store.upcasters();
            let range = LogRange { after: read.until, settled, limit: EVENTS_PER_READ };
            let more = tail::read_except(&mut transaction, &upcasters, range, P::PASSES).await?;
            let full = i64::try_from(more.len()) == Ok(EVENTS_PER_READ);
            read.until = more.last().filter(|_| full).map_or(settled, |last| last.position);
            if let Some(last) = more.last() {
                self.store.life().remember_event(SeenEvent::new(last));
            }
            read.events.extend(more);
        }
        let held = self.first_held(&read.events).filter(|_| read.events.len() < WAITING_EVENTS_MAX);
        let ready = held.map_or(read.events.len(), |(before, _)| before);
        let taken =
            events_within(read.events[..ready].iter().map(|event| self.projection.rows_max(event)));
        let reached = read.events.get(taken).map_or(read.until, |first| first.position - 1);
        if reached > after {
            let mut writes = JoinedWrites::default();
            if taken > 0 {
                let events = &read.events[..taken];
                self.projection.apply_batch(&mut transaction, events).await?;
                self.projection.count_batch(&mut transaction, &mut writes, events).await?;
            }
            crash::point("following");
            checkpoint::write_move(&mut writes, P::NAME, reached);
            writes.execute(&mut transaction).await?;
            transaction.commit().await?;
        } else {
            // A dropped transaction would hold the checkpoint for some time, and the next look
            // would skip it.
            transaction.rollback().await?;
        }
        self.store.connections().give_back(transaction);
        read.events.drain(..taken);
        self.read_ahead = ReadAhead { after: reached, ..read };
        if taken < ready || self.read_ahead.until < look.settled {
            return Ok(NextStep::Busy);
        }
        if let Some((_, left)) = held {
            return Ok(NextStep::IdleFor(left.min(HOLD_FOR)));
        }
        self.done.up_to(look);
        Ok(idle)
    }
}

/// Returns the number of leading events that fit into one transaction by their row counts. At least
/// one event fits.
fn events_within(rows: impl Iterator<Item = usize>) -> usize {
    let sums = rows.scan(0, |sum, rows| {
        *sum += rows;
        Some(*sum)
    });
    sums.enumerate().take_while(|(at, sum)| *at == 0 || *sum <= ROWS_PER_TRANSACTION).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction takes one event at least.
    #[test]
    fn a_transactions_rows_have_a_limit() {
        assert_eq!(events_within([].into_iter()), 0);
        assert_eq!(events_within([1; 10].into_iter()), 10);
        assert_eq!(events_within([1_000; 100].into_iter()), ROWS_PER_TRANSACTION / 1_000);
        assert_eq!(events_within([ROWS_PER_TRANSACTION + 1, 1].into_iter()), 1);
        assert_eq!(events_within([1, ROWS_PER_TRANSACTION, 1].into_iter()), 1);
    }
}
