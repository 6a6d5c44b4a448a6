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
pub(crate) type Serve<Q, A> = Arc<dyn Fn(Vec<Q>) -> BoxFuture<'static, Vec<A>> + Send + Sync>;

/// Nobody answered: whoever should have broke down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoAnswer;

/// How those who come at the same time are served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    /// Turns at a time.
    pub(crate) at_once: usize,
    /// While so many are being served, no other turn begins.
    pub(crate) many: usize,
    /// After a turn that answered as many: how long the next waits for them to ask again, at most.
    pub(crate) moment: Option<Duration>,
    /// How many are served together at most.
    pub(crate) most: usize,
    /// How long a turn lasts at most.
    pub(crate) last: Duration,
}

/// Where those who come at the same time are served together.
pub(crate) struct Desk<Q, A> {
    turns: Turns,
    queue: Mutex<Queue<Q, A>>,
}

struct Queue<Q, A> {
    turns: usize,
    /// Who are being served in them.
    served: usize,
    waiting: VecDeque<Asker<Q, A>>,
    /// While those who were answered are waited for: no turn begins.
    awaited: Option<Awaited>,
}

#[derive(Clone)]
struct Awaited {
    /// How many wait once all are there.
    all: usize,
    there: Arc<Notify>,
    moment: Duration,
}

type Asker<Q, A> = (Q, oneshot::Sender<A>);

impl<Q: Send + 'static, A: Send + 'static> Desk<Q, A> {
    pub(crate) fn new(turns: Turns) -> Arc<Self> {
        let queue = Queue { turns: 0, served: 0, waiting: VecDeque::new(), awaited: None };
        Arc::new(Self { turns, queue: Mutex::new(queue) })
    }

    /// Asks, with whoever asks at this time. Who goes away loses the answer; what was asked together
    /// with others happens.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub(crate) async fn ask(
        self: &Arc<Self>,
        question: Q,
        serve: Serve<Q, A>,
    ) -> Result<A, NoAnswer> {
        match self.enter(question) {
            Ok(question) => {
                let turn = Turn::new(Arc::clone(self), serve, 1);
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
        if queue.begins(self.turns, 1) {
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
    fn end(&self, of: usize, answered: usize) -> Next<Q, A> {
        let mut queue = self.queue();
        queue.turns -= 1;
        queue.served -= of;
        let (waiting, Turns { many, most, .. }) = (queue.waiting.len(), self.turns);
        let can_wait = answered >= many && waiting < most && queue.awaited.is_none();
        let Some(moment) = self.turns.moment.filter(|_| can_wait) else {
            return Next::Turn(queue.next(self.turns));
        };
        let all = (waiting + answered).min(most);
        let awaited = Awaited { all, there: Arc::default(), moment };
        queue.awaited = Some(awaited.clone());
        Next::Wait(awaited)
    }

    /// The turn of those who wait when all are there, or the moment is over.
    async fn next_together(&self, awaited: Awaited) -> Vec<Asker<Q, A>> {
        let _ = timeout(awaited.moment, awaited.there.notified()).await;
        let mut queue = self.queue();
        queue.awaited = None;
        queue.next(self.turns)
    }

    fn queue(&self) -> MutexGuard<'_, Queue<Q, A>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q, A> Queue<Q, A> {
    /// Begins a turn of so many, if there is one.
    fn begins(&mut self, turns: Turns, of: usize) -> bool {
        let is_left = self.turns == 0 || (self.turns < turns.at_once && self.served < turns.many);
        let begins = is_left && self.awaited.is_none();
        if begins {
            self.turns += 1;
            self.served += of;
        }
        begins
    }

    /// Begins the turn of those who wait, if there is one for them: otherwise another one, which lasts, is followed
    /// by theirs.
    fn next(&mut self, turns: Turns) -> Vec<Asker<Q, A>> {
        let count = self.waiting.len().min(turns.most);
        if count > 0 && self.begins(turns, count) {
            self.waiting.drain(..count).collect()
        } else {
            Vec::new()
        }
    }
}

/// What comes after a turn.
enum Next<Q, A> {
    /// The turn of these, which has begun; of nobody, if there is none.
    Turn(Vec<Asker<Q, A>>),
    /// A wait for those who were answered.
    Wait(Awaited),
}

/// A turn of so many. However it ends, the next ones have it.
struct Turn<Q: Send + 'static, A: Send + 'static> {
    desk: Arc<Desk<Q, A>>,
    serve: Serve<Q, A>,
    of: usize,
    /// How many were answered before it ended.
    answered: usize,
}

impl<Q: Send + 'static, A: Send + 'static> Drop for Turn<Q, A> {
    fn drop(&mut self) {
        let next = self.desk.end(self.of, self.answered);
        // Without a runtime the process ends, and nobody waits any more.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (desk, serve) = (Arc::clone(&self.desk), Arc::clone(&self.serve));
        match next {
            Next::Turn(next) if next.is_empty() => {}
            Next::Turn(next) => {
                runtime.spawn(Self::new(desk, serve, next.len()).serve(next));
            }
            Next::Wait(awaited) => {
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

impl<Q: Send + 'static, A: Send + 'static> Turn<Q, A> {
    fn new(desk: Arc<Desk<Q, A>>, serve: Serve<Q, A>, of: usize) -> Self {
        Self { desk, serve, of, answered: 0 }
    }

    /// Serves these; the next ones go when they are served, or when it takes long.
    async fn end(mut self, questions: Vec<Q>) -> Vec<A> {
        let mut served = (self.serve)(questions);
        let in_time = timeout(self.desk.turns.last, &mut served).await;
        if in_time.is_ok() {
            self.answered = self.of;
        }
        drop(self);
        match in_time {
            Ok(answers) => answers,
            Err(_) => served.await,
        }
    }

    async fn serve(self, askers: Vec<Asker<Q, A>>) {
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
