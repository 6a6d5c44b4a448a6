//! Following the log: read a batch below the fence, apply it, move the checkpoint, in one
//! transaction.

use eventstore::tail::{self, Stretch, TailError};
use eventstore::worker::{Step, Worker};
use eventstore::{Fence, RecordedEvent, Store, crash};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use std::time::Duration;

/// Events taken in at a time: a transaction stays well under 100 ms.
const BATCH: i64 = 1_000;

/// From one look to the next: who asks a read model is told the truth of a moment ago.
const PACE: Duration = Duration::from_millis(25);

/// The wait for appends that are under way.
const UNSETTLED: Duration = Duration::from_millis(5);

/// A read model that follows the log.
pub trait Projection: Send + Sync {
    /// Its checkpoint.
    const NAME: &'static str;

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
}

impl<P: Projection> Follower<P> {
    /// A follower of this log.
    pub const fn new(store: Store, fence: Fence, projection: P) -> Self {
        Self { store, fence, projection }
    }
}

impl<P: Projection> Worker for Follower<P> {
    const NAME: &'static str = P::NAME;
    const PACE: Duration = PACE;
    type Error = TailError;

    async fn step(&mut self) -> Result<Step, TailError> {
        let look = self.fence.look_patiently().await?;
        let mut transaction = self.store.pool().begin().await?;
        let Some(after) = tail::take_checkpoint(&mut transaction, P::NAME).await? else {
            return Ok(Step::IDLE);
        };
        let upcasters = self.store.upcasters();
        let stretch = Stretch { after, settled: look.settled, limit: BATCH };
        let events = tail::read(&mut transaction, &upcasters, stretch).await?;
        let whole = events.len() < usize::try_from(BATCH).unwrap_or(usize::MAX);
        let Some(last) = events.last() else {
            // Dropped, it would hold the checkpoint until some time later: the next look would skip it.
            transaction.rollback().await?;
            return Ok(if look.more { Step::IdleFor(UNSETTLED) } else { Step::IDLE });
        };
        self.projection.apply(&mut transaction, &events).await?;
        crash::point("following");
        tail::move_checkpoint(&mut transaction, P::NAME, last.position).await?;
        transaction.commit().await?;
        Ok(match (whole, look.more) {
            (false, _) => Step::Busy,
            (true, true) => Step::IdleFor(UNSETTLED),
            (true, false) => Step::IDLE,
        })
    }
}
