//! Following the log: read a batch below the fence, apply it, move the checkpoint, in one
//! transaction. What has just begun may wait for what follows it: both are written at once then.

use eventstore::tail::{self, Stretch, TailError};
use eventstore::worker::{Step, Worker};
use eventstore::{Clock, Done, Fence, RecordedEvent, Store, crash};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use std::time::Duration;

/// Events read at a time.
const BATCH: i64 = 4_000;

/// Rows written at a time: a transaction stays under 100 ms.
const ROWS: usize = 6_000;

/// Of so many events none waits.
const WAITING: usize = 20_000;

/// Positions passed at a time, however few of their events are read.
const WINDOW: i64 = 10_000;

/// From one look to the next: who asks a read model is told the truth of a moment ago.
const PACE: Duration = Duration::from_millis(100);

/// The same while much happens: what begins and ends within that time is written once.
const LONGEST: Duration = Duration::from_millis(300);

/// What was recorded so long ago waits for nothing that may follow it.
const SOON: Duration = Duration::from_millis(300);

/// The same in a burst, of which most is finished in its turn.
const SOON_IN_A_BURST: Duration = Duration::from_secs(5);

/// So many unfinished events are a burst.
const BURST: usize = 256;

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
    done: Done,
    /// What tells what is young enough to wait, if anything may.
    clock: Option<Clock>,
    read: Read,
}

/// What was read of the log and is not taken in yet.
#[derive(Default)]
struct Read {
    /// The checkpoint before it.
    after: i64,
    until: i64,
    events: Vec<RecordedEvent>,
}

impl Read {
    /// What comes after a checkpoint: nothing of it, if somebody else has moved that.
    fn from(self, after: i64) -> Self {
        if self.after == after { self } else { Self { after, until: after, events: Vec::new() } }
    }
}

impl<P: Projection> Follower<P> {
    /// A follower of this log, which takes in all that is settled.
    pub fn new(store: Store, fence: Fence, projection: P) -> Self {
        Self { store, fence, projection, done: Done::default(), clock: None, read: Read::default() }
    }

    /// The same, but what has just begun waits until it is finished, or was recorded 300 ms ago.
    #[must_use]
    pub fn patient(self, clock: Clock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// How many of these come before the first that waits, and for how long it does.
    fn waits(&self, events: &[RecordedEvent]) -> Option<(usize, Duration)> {
        let now = self.clock.as_ref()?.now().get();
        let unfinished = self.projection.unfinished(events);
        let soon = if unfinished.len() > BURST { SOON_IN_A_BURST } else { SOON };
        let left = |event: &RecordedEvent| {
            let age = (now - event.context.recorded_at.get()).to_std().ok()?;
            soon.checked_sub(age).filter(|left| !left.is_zero())
        };
        unfinished.into_iter().filter_map(|at| Some((at, left(&events[at])?))).next()
    }
}

impl<P: Projection> Worker for Follower<P> {
    const NAME: &'static str = P::NAME;
    const PACE: Duration = PACE;
    const LONGEST: Duration = LONGEST;
    type Error = TailError;

    async fn step(&mut self) -> Result<Step, TailError> {
        let look = self.fence.look().await?;
        let idle = if look.more { Step::IdleFor(PACE) } else { Step::IDLE };
        if self.done.is_all(look) {
            return Ok(idle);
        }
        let mut transaction = self.store.connections().begin().await?;
        let Some(after) = tail::take_checkpoint(&mut transaction, P::NAME).await? else {
            return Ok(Step::IDLE);
        };
        let mut read = std::mem::take(&mut self.read).from(after);
        let settled = look.settled.min(read.until + WINDOW);
        if read.until < settled && read.events.len() < WAITING {
            let upcasters = self.store.upcasters();
            let stretch = Stretch { after: read.until, settled, limit: BATCH };
            let more = tail::read_but(&mut transaction, &upcasters, (stretch, P::PASSES)).await?;
            let full = i64::try_from(more.len()) == Ok(BATCH);
            read.until = more.last().filter(|_| full).map_or(settled, |last| last.position);
            read.events.extend(more);
        }
        let waits = self.waits(&read.events).filter(|_| read.events.len() < WAITING);
        let ready = waits.map_or(read.events.len(), |(before, _)| before);
        let taken = within(read.events[..ready].iter().map(|event| self.projection.rows(event)));
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
        self.read = Read { after: reached, ..read };
        if taken < ready || self.read.until < look.settled {
            return Ok(Step::Busy);
        }
        if let Some((_, left)) = waits {
            return Ok(Step::IdleFor(left.min(LONGEST)));
        }
        self.done.up_to(look.settled);
        Ok(idle)
    }
}

/// How many events with so many rows each are written in one transaction: one at least.
fn within(rows: impl Iterator<Item = usize>) -> usize {
    let sums = rows.scan(0, |sum, rows| {
        *sum += rows;
        Some(*sum)
    });
    sums.enumerate().take_while(|(at, sum)| *at == 0 || *sum <= ROWS).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_writes_so_many_rows_and_one_event_at_least() {
        assert_eq!(within([].into_iter()), 0);
        assert_eq!(within([1; 10].into_iter()), 10);
        assert_eq!(within([100; 100].into_iter()), ROWS / 100);
        assert_eq!(within([ROWS + 1, 1].into_iter()), 1);
        assert_eq!(within([1, ROWS, 1].into_iter()), 1);
    }
}
