//! A process that queues and sends, stepped by hand.

use std::sync::Arc;
use std::time::Duration;

use deliverer::engine::deliver;
use deliverer::fan_out::FanOut;
use deliverer::{Answers, Courier, Dispatch};
use eventstore::worker::run;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::world::{World, drain};

/// From one look to the next.
const AGAIN: Duration = Duration::from_millis(5);

/// Such a process.
pub struct Sending {
    courier: Courier,
    dispatch: Arc<Dispatch>,
    answers: Answers,
    /// The signal that ends it.
    pub stop: CancellationToken,
}

impl Sending {
    /// One that works with this.
    #[must_use]
    pub fn with(courier: Courier) -> Self {
        let stop = CancellationToken::new();
        let (dispatch, answers) = Dispatch::new(courier.clone(), stop.clone());
        Self { courier, dispatch, answers, stop }
    }

    /// It fans everything out, and claims at once what may be.
    pub async fn fan_out(&self, world: &World) {
        drain(self.fan_out_worker(world)).await;
    }

    /// The worker that does.
    #[must_use]
    pub fn fan_out_worker(&self, world: &World) -> FanOut {
        let fan_out = FanOut::new(self.courier.clone(), world.system.fence.clone());
        fan_out.that_claims(&self.dispatch)
    }

    /// Waits until so many were answered; none of them is recorded yet.
    pub async fn answered(&self, count: usize) {
        while self.answers.waiting() < count {
            sleep(AGAIN).await;
        }
    }

    /// It works by itself until it is stopped, and ends with what is out then.
    pub fn runs(self, world: &World) -> JoinHandle<()> {
        let fan_out = self.fan_out_worker(world);
        let Self { courier, dispatch, answers, stop } = self;
        tokio::spawn(async move {
            let nudge = courier.store.nudge();
            let fan_out = run(fan_out, nudge.subscribe_to_occurrences(), stop);
            tokio::join!(fan_out, deliver(dispatch, answers, nudge));
        })
    }

    /// It stops: what is out is sent and recorded.
    pub async fn ends(self, world: &World) {
        self.stop.cancel();
        deliver(self.dispatch, self.answers, world.service().store.nudge()).await;
        world.project().await;
    }
}
