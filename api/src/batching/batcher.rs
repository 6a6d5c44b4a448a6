//! Runs one statement or one transaction for many concurrent calls.
//!
//! A call that finds a free turn starts at once. Otherwise the call waits, and joins the next batch
//! when a turn ends. While many calls are served no second turn begins: a call in it would run
//! alone and can join a batch a moment later. A turn has a longest duration. A slower batch goes on
//! without a turn and delays no other.
//!
//! A caller in a loop calls again as soon as it has an answer. After a large batch the next one can
//! therefore linger a moment for those callers, and all go together.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// Answers all questions of a batch, in their order.
pub(crate) type BatchFn<Q, A> = Arc<dyn Fn(Vec<Q>) -> BoxFuture<'static, Vec<A>> + Send + Sync>;

/// No answer came: the batch function panicked or was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoAnswer;

/// How calls are put into batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchPolicy {
    /// Concurrent turns.
    pub(crate) parallel: usize,
    /// Number of calls under way at which no further turn begins.
    pub(crate) busy_at: usize,
    /// After a turn of at least `busy_at` calls: longest wait of the next batch for the same
    /// callers.
    pub(crate) linger: Option<Duration>,
    /// Most calls in a batch.
    pub(crate) max: usize,
    /// Longest duration of a turn.
    pub(crate) turn_max: Duration,
}

/// Puts concurrent calls into batches.
pub(crate) struct Batcher<Q, A> {
    policy: BatchPolicy,
    queue: Mutex<BatcherState<Q, A>>,
}

struct BatcherState<Q, A> {
    turns: usize,
    /// Calls under way in all turns.
    served: usize,
    waiting: VecDeque<Waiter<Q, A>>,
    /// A lingering batch. No turn begins while the batch lingers.
    awaited: Option<LingerWait>,
}

#[derive(Clone)]
struct LingerWait {
    /// Number of waiting calls at which the batch starts early.
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

    /// Asks together with other concurrent callers. A caller that joined a batch and disconnects
    /// loses the answer, but the batch is carried out.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub(crate) async fn ask(
        self: &Arc<Self>,
        question: Q,
        serve: BatchFn<Q, A>,
    ) -> Result<A, NoAnswer> {
        match self.begin_or_queue(question) {
            Ok(question) => {
                let turn = BatchTurn::new(Arc::clone(self), serve, 1);
                turn.serve_batch(vec![question]).await.pop().ok_or(NoAnswer)
            }
            Err(answered) => answered.await.map_err(|_| NoAnswer),
        }
    }

    /// Number of calls that wait for a turn.
    pub(crate) fn waiting_count(&self) -> usize {
        self.lock_queue().waiting.len()
    }

    /// Begins a turn, or queues the question.
    fn begin_or_queue(&self, question: Q) -> Result<Q, oneshot::Receiver<A>> {
        let mut queue = self.lock_queue();
        if queue.begin_turn(self.policy, 1) {
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

    /// Ends a turn of `of` calls, of which `answered` have their answer. Answers the next step.
    fn end_turn(&self, of: usize, answered: usize) -> AfterTurn<Q, A> {
        let mut queue = self.lock_queue();
        queue.turns -= 1;
        queue.served -= of;
        let waiting = queue.waiting.len();
        let BatchPolicy { busy_at: many, max: most, .. } = self.policy;
        let can_wait = answered >= many && waiting < most && queue.awaited.is_none();
        let Some(moment) = self.policy.linger.filter(|_| can_wait) else {
            return AfterTurn::Turn(queue.next(self.policy));
        };
        let all = (waiting + answered).min(most);
        let awaited = LingerWait { all, there: Arc::default(), moment };
        queue.awaited = Some(awaited.clone());
        AfterTurn::Wait(awaited)
    }

    /// Begins the lingering batch when all expected callers are there or the time is over.
    async fn next_together(&self, awaited: LingerWait) -> Vec<Waiter<Q, A>> {
        let _ = timeout(awaited.moment, awaited.there.notified()).await;
        let mut queue = self.lock_queue();
        queue.awaited = None;
        queue.next(self.policy)
    }

    fn lock_queue(&self) -> MutexGuard<'_, BatcherState<Q, A>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q, A> BatcherState<Q, A> {
    /// Begins a turn of `of` calls, if one is free.
    fn begin_turn(&mut self, turns: BatchPolicy, of: usize) -> bool {
        let is_left =
            self.turns == 0 || (self.turns < turns.parallel && self.served < turns.busy_at);
        let begins = is_left && self.awaited.is_none();
        if begins {
            self.turns += 1;
            self.served += of;
        }
        begins
    }

    /// Begins the turn of the next batch, if one is free. If none is free, another turn lasts and
    /// its end begins the batch.
    fn next(&mut self, turns: BatchPolicy) -> Vec<Waiter<Q, A>> {
        let count = self.waiting.len().min(turns.max);
        if count > 0 && self.begin_turn(turns, count) {
            self.waiting.drain(..count).collect()
        } else {
            Vec::new()
        }
    }
}

/// Step after a turn.
enum AfterTurn<Q, A> {
    /// The next batch, whose turn has begun. Empty if no batch begins.
    Turn(Vec<Waiter<Q, A>>),
    /// The next batch lingers.
    Wait(LingerWait),
}

/// A turn of `of` calls. Its end frees the turn for the next batch, even after a panic.
struct BatchTurn<Q: Send + 'static, A: Send + 'static> {
    batcher: Arc<Batcher<Q, A>>,
    serve: BatchFn<Q, A>,
    of: usize,
    /// Number of calls that had their answer when the turn ended.
    answered: usize,
}

impl<Q: Send + 'static, A: Send + 'static> Drop for BatchTurn<Q, A> {
    fn drop(&mut self) {
        let next = self.batcher.end_turn(self.of, self.answered);
        // Without a runtime the process ends, and no caller waits any more.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let batcher = Arc::clone(&self.batcher);
        let serve = Arc::clone(&self.serve);
        match next {
            AfterTurn::Turn(next) if next.is_empty() => {}
            AfterTurn::Turn(next) => {
                runtime.spawn(Self::new(batcher, serve, next.len()).serve_waiters(next));
            }
            AfterTurn::Wait(awaited) => {
                runtime.spawn(async move {
                    let next = batcher.next_together(awaited).await;
                    if !next.is_empty() {
                        Self::new(batcher, serve, next.len()).serve_waiters(next).await;
                    }
                });
            }
        }
    }
}

impl<Q: Send + 'static, A: Send + 'static> BatchTurn<Q, A> {
    fn new(batcher: Arc<Batcher<Q, A>>, serve: BatchFn<Q, A>, of: usize) -> Self {
        Self { batcher, serve, of, answered: 0 }
    }

    /// Serves a batch. The next batch begins when this one ends or its turn is over.
    async fn serve_batch(mut self, questions: Vec<Q>) -> Vec<A> {
        let mut served = (self.serve)(questions);
        let in_time = timeout(self.batcher.policy.turn_max, &mut served).await;
        if in_time.is_ok() {
            self.answered = self.of;
        }
        drop(self);
        match in_time {
            Ok(answers) => answers,
            Err(_) => served.await,
        }
    }

    async fn serve_waiters(self, askers: Vec<Waiter<Q, A>>) {
        let (questions, waiting): (Vec<_>, Vec<_>) = askers.into_iter().unzip();
        let answers = self.serve_batch(questions).await;
        for (asker, answer) in waiting.into_iter().zip(answers) {
            // An error means that the caller has disconnected.
            let _ = asker.send(answer);
        }
    }
}

#[cfg(test)]
mod tests;
