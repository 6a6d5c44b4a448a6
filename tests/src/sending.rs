//! A process that claims and sends, stepped by hand.

use std::sync::Arc;
use std::time::Duration;

use deliverer::send::deliver;
use deliverer::{AnswerInbox, DelivererContext, Dispatcher, SenderCount};
use service::claim_in_appends;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// From one look to the next.
const AGAIN: Duration = Duration::from_millis(5);

/// Such a process.
pub struct Sending {
    deliverer: DelivererContext,
    dispatch: Arc<Dispatcher>,
    answers: AnswerInbox,
    /// The signal that ends it.
    pub stop: CancellationToken,
}

impl Sending {
    /// One that works with this.
    #[must_use]
    pub fn with(deliverer: DelivererContext) -> Self {
        let stop = CancellationToken::new();
        let (dispatch, answers) =
            Dispatcher::new(deliverer.clone(), SenderCount::alone(), stop.clone());
        Self { deliverer, dispatch, answers, stop }
    }

    /// The doors of this world claim for it the deliveries that they record.
    pub fn claims_in_appends(&self, world: &World) {
        claim_in_appends(world.service(), &self.dispatch);
    }

    /// Waits until so many were answered; none of them is recorded yet.
    pub async fn answered(&self, count: usize) {
        while self.answers.unrecorded_count() < count {
            sleep(AGAIN).await;
        }
    }

    /// Waits until nothing is in flight, and records all answers; returns their number.
    pub async fn settle(&mut self) -> usize {
        let mut recorded = 0;
        loop {
            // Asked first: an attempt hands its answer over before it ends.
            let idle = self.dispatch.is_idle();
            recorded += self.answers.record_waiting(&self.deliverer).await.unwrap();
            if idle {
                return recorded;
            }
            sleep(AGAIN).await;
        }
    }

    /// Works by itself until it is stopped, and ends when its attempts are recorded.
    pub fn runs(self) -> JoinHandle<()> {
        let Self { deliverer, dispatch, answers, .. } = self;
        tokio::spawn(async move { deliver(dispatch, answers, deliverer.store.nudge()).await })
    }

    /// Stops, after its claimed attempts are sent and recorded.
    pub async fn ends(self, world: &World) {
        self.stop.cancel();
        deliver(self.dispatch, self.answers, world.service().store.nudge()).await;
        world.project().await;
    }
}
