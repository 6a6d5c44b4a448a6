//! Following the log: read a batch below the fence, apply it, move the checkpoint, in one
//! transaction.

use eventstore::tail::{self, Stretch, TailError};
use eventstore::worker::{Step, Worker};
use eventstore::{Done, Fence, RecordedEvent, Store, crash};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use std::time::Duration;

/// Events taken in at a time: a transaction stays under 100 ms.
const BATCH: i64 = 4_000;

/// Positions passed at a time, however few of their events are read.
const WINDOW: i64 = 10_000;

/// From one look to the next: who asks a read model is told the truth of a moment ago.
const PACE: Duration = Duration::from_millis(100);

/// The same while much happens: what begins and ends within that time is written once.
const LONGEST: Duration = Duration::from_millis(300);

/// A read model that follows the log.
pub trait Projection: Send + Sync {
    /// Its checkpoint.
    const NAME: &'static str;

    /// Events it has nothing to do with, by their names: they are not read. One that it does not know is.
    const PASSES: &'static [&'static str];

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
}

impl<P: Projection> Follower<P> {
    /// A follower of this log.
    pub fn new(store: Store, fence: Fence, projection: P) -> Self {
        Self { store, fence, projection, done: Done::default() }
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
        let upcasters = self.store.upcasters();
        let settled = look.settled.min(after + WINDOW);
        if settled <= after {
            // Dropped, it would hold the checkpoint until some time later: the next look would skip it.
            transaction.rollback().await?;
            self.store.connections().give_back(transaction);
            self.done.up_to(look.settled);
            return Ok(idle);
        }
        let stretch = Stretch { after, settled, limit: BATCH };
        let events = tail::read_but(&mut transaction, &upcasters, (stretch, P::PASSES)).await?;
        let full = i64::try_from(events.len()) == Ok(BATCH);
        let reached = events.last().filter(|_| full).map_or(settled, |last| last.position);
        if !events.is_empty() {
            self.projection.apply(&mut transaction, &events).await?;
        }
        crash::point("following");
        tail::move_checkpoint(&mut transaction, P::NAME, reached).await?;
        transaction.commit().await?;
        self.store.connections().give_back(transaction);
        if reached < look.settled {
            return Ok(Step::Busy);
        }
        self.done.up_to(look.settled);
        Ok(idle)
    }
}
