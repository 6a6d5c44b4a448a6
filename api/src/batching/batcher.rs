//! Who comes at the same time is served together: by one statement, or in one transaction, for all.
//!
//! While there is a turn left, who comes is served at once. Who comes while all turns are taken waits, and goes
//! with all others who wait as soon as one ends. While many are being served there is no second turn: who would go
//! by itself in it can go with others a moment later. A turn lasts only so long: what takes longer goes on without
//! one, and holds up nobody else.
//!
//! Who asks all the time asks again as soon as it is answered. So after many were answered, those who wait can be
//! made to wait for them, a moment at most, and all go together.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// Answers all of these, in their order.
pub(crate) type BatchFn<Q, A> = Arc<dyn Fn(Vec<Q>) -> BoxFuture<'static, Vec<A>> + Send + Sync>;

/// Nobody answered: whoever should have broke down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoAnswer;

/// How those who come at the same time are served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchPolicy {
    /// Turns at a time.
    pub(crate) parallel: usize,
    /// While so many are being served, no other turn begins.
    pub(crate) busy_at: usize,
    /// After a turn that answered as many: how long the next waits for them to ask again, at most.
    pub(crate) linger: Option<Duration>,
    /// How many are served together at most.
    pub(crate) max: usize,
    /// How long a turn lasts at most.
    pub(crate) turn_max: Duration,
}

/// Where those who come at the same time are served together.
pub(crate) struct Batcher<Q, A> {
    policy: BatchPolicy,
    queue: Mutex<BatcherState<Q, A>>,
}

struct BatcherState<Q, A> {
    turns: usize,
    /// Who are being served in them.
    served: usize,
    waiting: VecDeque<Waiter<Q, A>>,
    /// While those who were answered are waited for: no turn begins.
    awaited: Option<LingerWait>,
}

#[derive(Clone)]
struct LingerWait {
    /// How many wait once all are there.
    all: usize,
    there: Arc<Notify>,
    moment: Duration,
}

type Waiter<Q, A> = (Q, oneshot::Sender<A>);

impl<Q: Send + 'static, A: Send + 'static> Batcher<Q, A> {
    pub(crate) fn new(turns: BatchPolicy) -> Arc<Self> {
        let queue = BatcherState { turns: 0, served: 0, waiting: VecDeque::new(), awaited: None };
        Arc::new(Self { policy: turns, queue: Mutex::new(queue) })
    }

    /// Asks, with whoever asks at this time. Who goes away loses the answer; what was asked together
    /// with others happens.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub(crate) async fn ask(
        self: &Arc<Self>,
        question: Q,
        serve: BatchFn<Q, A>,
    ) -> Result<A, NoAnswer> {
        match self.enter(question) {
            Ok(question) => {
                let turn = BatchTurn::new(Arc::clone(self), serve, 1);
                turn.end(vec![question]).await.pop().ok_or(NoAnswer)
            }
            Err(answered) => answered.await.map_err(|_| NoAnswer),
        }
    }

    /// How many wait for a turn.
    pub(crate) fn waiting(&self) -> usize {
        self.queue().waiting.len()
    }

    /// Takes a turn, or a place among those who wait.
    fn enter(&self, question: Q) -> Result<Q, oneshot::Receiver<A>> {
        let mut queue = self.queue();
        if queue.begins(self.policy, 1) {
            return Ok(question);
        }
        let (sender, answered) = oneshot::channel();
        queue.waiting.push_back((question, sender));
        if let Some(awaited) = &queue.awaited
            && awaited.all == queue.waiting.len()
        {
            awaited.there.notify_one();
        }
        Err(answered)
    }

    /// Ends a turn of so many, of whom so many were answered; what is next.
    fn end(&self, of: usize, answered: usize) -> AfterTurn<Q, A> {
        let mut queue = self.queue();
        queue.turns -= 1;
        queue.served -= of;
        let (waiting, BatchPolicy { busy_at: many, max: most, .. }) =
            (queue.waiting.len(), self.policy);
        let can_wait = answered >= many && waiting < most && queue.awaited.is_none();
        let Some(moment) = self.policy.linger.filter(|_| can_wait) else {
            return AfterTurn::Turn(queue.next(self.policy));
        };
        let all = (waiting + answered).min(most);
        let awaited = LingerWait { all, there: Arc::default(), moment };
        queue.awaited = Some(awaited.clone());
        AfterTurn::Wait(awaited)
    }

    /// The turn of those who wait when all are there, or the moment is over.
    async fn next_together(&self, awaited: LingerWait) -> Vec<Waiter<Q, A>> {
        let _ = timeout(awaited.moment, awaited.there.notified()).await;
        let mut queue = self.queue();
        queue.awaited = None;
        queue.next(self.policy)
    }

    fn queue(&self) -> MutexGuard<'_, BatcherState<Q, A>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q, A> BatcherState<Q, A> {
    /// Begins a turn of so many, if there is one.
    fn begins(&mut self, turns: BatchPolicy, of: usize) -> bool {
        let is_left =
            self.turns == 0 || (self.turns < turns.parallel && self.served < turns.busy_at);
        let begins = is_left && self.awaited.is_none();
        if begins {
            self.turns += 1;
            self.served += of;
        }
        begins
    }

    /// Begins the turn of those who wait, if there is one for them: otherwise another one, which lasts, is followed
    /// by theirs.
    fn next(&mut self, turns: BatchPolicy) -> Vec<Waiter<Q, A>> {
        let count = self.waiting.len().min(turns.max);
        if count > 0 && self.begins(turns, count) {
            self.waiting.drain(..count).collect()
        } else {
            Vec::new()
        }
    }
}

/// What comes after a turn.
enum AfterTurn<Q, A> {
    /// The turn of these, which has begun; of nobody, if there is none.
    Turn(Vec<Waiter<Q, A>>),
    /// A wait for those who were answered.
    Wait(LingerWait),
}

/// A turn of so many. However it ends, the next ones have it.
struct BatchTurn<Q: Send + 'static, A: Send + 'static> {
    desk: Arc<Batcher<Q, A>>,
    serve: BatchFn<Q, A>,
    of: usize,
    /// How many were answered before it ended.
    answered: usize,
}

impl<Q: Send + 'static, A: Send + 'static> Drop for BatchTurn<Q, A> {
    fn drop(&mut self) {
        let next = self.desk.end(self.of, self.answered);
        // Without a runtime the process ends, and nobody waits any more.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (desk, serve) = (Arc::clone(&self.desk), Arc::clone(&self.serve));
        match next {
            AfterTurn::Turn(next) if next.is_empty() => {}
            AfterTurn::Turn(next) => {
                runtime.spawn(Self::new(desk, serve, next.len()).serve(next));
            }
            AfterTurn::Wait(awaited) => {
                runtime.spawn(async move {
                    let next = desk.next_together(awaited).await;
                    if !next.is_empty() {
                        Self::new(desk, serve, next.len()).serve(next).await;
                    }
                });
            }
        }
    }
}

impl<Q: Send + 'static, A: Send + 'static> BatchTurn<Q, A> {
    fn new(desk: Arc<Batcher<Q, A>>, serve: BatchFn<Q, A>, of: usize) -> Self {
        Self { desk, serve, of, answered: 0 }
    }

    /// Serves these; the next ones go when they are served, or when it takes long.
    async fn end(mut self, questions: Vec<Q>) -> Vec<A> {
        let mut served = (self.serve)(questions);
        let in_time = timeout(self.desk.policy.turn_max, &mut served).await;
        if in_time.is_ok() {
            self.answered = self.of;
        }
        drop(self);
        match in_time {
            Ok(answers) => answers,
            Err(_) => served.await,
        }
    }

    async fn serve(self, askers: Vec<Waiter<Q, A>>) {
        let (questions, waiting): (Vec<_>, Vec<_>) = askers.into_iter().unzip();
        let answers = self.end(questions).await;
        for (asker, answer) in waiting.into_iter().zip(answers) {
            // An error is an asker who has gone.
            let _ = asker.send(answer);
        }
    }
}

#[cfg(test)]
mod tests;
