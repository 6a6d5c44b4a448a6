//! Following the log: read a batch below the fence, apply it, move the checkpoint, in one
//! transaction. What has just begun may wait for what follows it: both are written at once then.

use eventstore::tail::{self, LogRange, TailError};
use eventstore::worker::{NextStep, Worker};
use eventstore::{CaughtUp, Clock, Fence, RecordedEvent, Store, crash};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use std::time::Duration;

/// Events read at a time.
const EVENTS_PER_READ: i64 = 4_000;

/// Rows written at a time: a transaction stays under 100 ms.
const ROWS_PER_TRANSACTION: usize = 6_000;

/// Of so many events none waits.
const WAITING_EVENTS_MAX: usize = 20_000;

/// Positions passed at a time, however few of their events are read.
const POSITIONS_PER_STEP: i64 = 10_000;

/// From one look to the next: who asks a read model is told the truth of a moment ago.
const STEP_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The same while much happens: what begins and ends within that time is written once.
const STEP_INTERVAL_MAX: Duration = Duration::from_millis(300);

/// What was recorded so long ago waits for nothing that may follow it.
const HOLD_FOR: Duration = Duration::from_millis(300);

/// The same in a burst, of which most is finished in its turn.
const HOLD_IN_BURST_FOR: Duration = Duration::from_secs(5);

/// So many unfinished events are a burst.
const BURST_EVENTS_MIN: usize = 256;

/// A read model that follows the log.
pub trait Projection: Send + Sync {
    /// Its checkpoint.
    const NAME: &'static str;

    /// Events it has nothing to do with, by their names: they are not read. One that it does not know is.
    const PASSES: &'static [&'static str];

    /// How many rows it writes for an event, at most.
    fn rows(&self, _event: &RecordedEvent) -> usize {
        1
    }

    /// Those of these events, in order, that nothing here has followed, and that are cheaper to take in with what
    /// most likely follows soon.
    fn unfinished(&self, _events: &[RecordedEvent]) -> Vec<usize> {
        Vec::new()
    }

    /// Takes in a batch, in order.
    fn apply<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;
}

/// The worker behind a read model.
pub struct Follower<P> {
    store: Store,
    fence: Fence,
    projection: P,
    done: CaughtUp,
    /// What tells what is young enough to wait, if anything may.
    clock: Option<Clock>,
    read_ahead: ReadAhead,
}

/// What was read of the log and is not taken in yet.
#[derive(Default)]
struct ReadAhead {
    /// The checkpoint before it.
    after: i64,
    until: i64,
    events: Vec<RecordedEvent>,
}

impl ReadAhead {
    /// What comes after a checkpoint: nothing of it, if somebody else has moved that.
    fn from(self, after: i64) -> Self {
        if self.after == after { self } else { Self { after, until: after, events: Vec::new() } }
    }
}

impl<P: Projection> Follower<P> {
    /// A follower of this log, which takes in all that is settled.
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

    /// The same, but what has just begun waits until it is finished, or was recorded 300 ms ago.
    #[must_use]
    pub fn holding_unfinished(self, clock: Clock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// How many of these come before the first that waits, and for how long it does.
    fn waits(&self, events: &[RecordedEvent]) -> Option<(usize, Duration)> {
        let now = self.clock.as_ref()?.now().get();
        let unfinished = self.projection.unfinished(events);
        let soon = if unfinished.len() > BURST_EVENTS_MIN { HOLD_IN_BURST_FOR } else { HOLD_FOR };
        let left = |event: &RecordedEvent| {
            let age = (now - event.context.recorded_at.get()).to_std().ok()?;
            soon.checked_sub(age).filter(|left| !left.is_zero())
        };
        unfinished.into_iter().filter_map(|at| Some((at, left(&events[at])?))).next()
    }
}

impl<P: Projection> Worker for Follower<P> {
    const NAME: &'static str = P::NAME;
    const STEP_INTERVAL_MIN: Duration = STEP_INTERVAL_MIN;
    const STEP_INTERVAL_MAX: Duration = STEP_INTERVAL_MAX;
    type Error = TailError;

    async fn step(&mut self) -> Result<NextStep, TailError> {
        let look = self.fence.look().await?;
        let idle = if look.more { NextStep::IdleFor(STEP_INTERVAL_MIN) } else { NextStep::IDLE };
        if self.done.covers(look) {
            return Ok(idle);
        }
        let mut transaction = self.store.connections().begin().await?;
        let Some(after) = tail::take_checkpoint(&mut transaction, P::NAME).await? else {
            return Ok(NextStep::IDLE);
        };
        let mut read = std::mem::take(&mut self.read_ahead).from(after);
        let settled = look.settled.min(read.until + POSITIONS_PER_STEP);
        if read.until < settled && read.events.len() < WAITING_EVENTS_MAX {
            let upcasters = self.store.upcasters();
            let stretch = LogRange { after: read.until, settled, limit: EVENTS_PER_READ };
            let more =
                tail::read_except(&mut transaction, &upcasters, (stretch, P::PASSES)).await?;
            let full = i64::try_from(more.len()) == Ok(EVENTS_PER_READ);
            read.until = more.last().filter(|_| full).map_or(settled, |last| last.position);
            read.events.extend(more);
        }
        let waits = self.waits(&read.events).filter(|_| read.events.len() < WAITING_EVENTS_MAX);
        let ready = waits.map_or(read.events.len(), |(before, _)| before);
        let taken =
            events_within(read.events[..ready].iter().map(|event| self.projection.rows(event)));
        let reached = read.events.get(taken).map_or(read.until, |first| first.position - 1);
        if reached > after {
            if taken > 0 {
                self.projection.apply(&mut transaction, &read.events[..taken]).await?;
            }
            crash::point("following");
            tail::move_checkpoint(&mut transaction, P::NAME, reached).await?;
            transaction.commit().await?;
        } else {
            // Dropped, it would hold the checkpoint until some time later: the next look would skip it.
            transaction.rollback().await?;
        }
        self.store.connections().give_back(transaction);
        read.events.drain(..taken);
        self.read_ahead = ReadAhead { after: reached, ..read };
        if taken < ready || self.read_ahead.until < look.settled {
            return Ok(NextStep::Busy);
        }
        if let Some((_, left)) = waits {
            return Ok(NextStep::IdleFor(left.min(STEP_INTERVAL_MAX)));
        }
        self.done.up_to(look.settled);
        Ok(idle)
    }
}

/// How many events with so many rows each are written in one transaction: one at least.
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

    #[test]
    fn a_transaction_writes_so_many_rows_and_one_event_at_least() {
        assert_eq!(events_within([].into_iter()), 0);
        assert_eq!(events_within([1; 10].into_iter()), 10);
        assert_eq!(events_within([100; 100].into_iter()), ROWS_PER_TRANSACTION / 100);
        assert_eq!(events_within([ROWS_PER_TRANSACTION + 1, 1].into_iter()), 1);
        assert_eq!(events_within([1, ROWS_PER_TRANSACTION, 1].into_iter()), 1);
    }
}
