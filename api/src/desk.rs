//! Who comes at the same time is served together: by one statement, or in one transaction, for all.
//!
//! While there is a turn left, who comes is served at once. Who comes while all turns are taken waits, and goes
//! with all others who wait as soon as one ends. While many are being served there is no second turn: they would go
//! by themselves who can go with others a moment later. So would those who wait when many were served, beside
//! those: who calls all the time calls again as soon as it is answered. They are waited for, a moment at most. A
//! turn lasts only so long: what takes longer goes on without one, and holds up nobody else.

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
    /// Who are as many or more that are being served have no turn beside them, and are waited for after it.
    pub(crate) many: usize,
    /// How long they are waited for at most.
    pub(crate) moment: Duration,
    /// How many are served together at most.
    pub(crate) most: usize,
    /// How long a turn lasts at most.
    pub(crate) last: Duration,
}

/// Where those who come at the same time are served together.
pub(crate) struct Desk<Q, A> {
    turns: Turns,
    queue: Mutex<Queue<Q, A>>,
    /// Whoever was waited for has come.
    all_there: Notify,
}

struct Queue<Q, A> {
    turns: usize,
    /// Who are being served in them.
    served: usize,
    waiting: VecDeque<Asker<Q, A>>,
    /// How many are to wait before the next turn begins, while those who were served are waited for.
    awaited: Option<usize>,
}

type Asker<Q, A> = (Q, oneshot::Sender<A>);

impl<Q: Send + 'static, A: Send + 'static> Desk<Q, A> {
    pub(crate) fn new(turns: Turns) -> Arc<Self> {
        let queue = Queue { turns: 0, served: 0, waiting: VecDeque::new(), awaited: None };
        Arc::new(Self { turns, queue: Mutex::new(queue), all_there: Notify::new() })
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
                let turn = Turn { desk: Arc::clone(self), serve, of: 1 };
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
        if queue.awaited == Some(queue.waiting.len()) {
            self.all_there.notify_one();
        }
        Err(answered)
    }

    /// Ends a turn of so many; what is next.
    fn end(&self, of: usize) -> Next<Q, A> {
        let mut queue = self.queue();
        queue.turns -= 1;
        queue.served -= of;
        let waiting = queue.waiting.len();
        let awaited = (waiting + of).min(self.turns.most);
        if of < self.turns.many || awaited == waiting || queue.awaited.is_some() {
            return Next::Turn(queue.next(self.turns));
        }
        queue.awaited = Some(awaited);
        Next::Wait
    }

    /// Waits for those who were served: a moment at most. Who is there too late ends the next wait, which does no
    /// harm.
    async fn next_together(&self) -> Vec<Asker<Q, A>> {
        let _ = timeout(self.turns.moment, self.all_there.notified()).await;
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
    /// A wait for those who were served.
    Wait,
}

/// A turn of so many. However it ends, the next ones have it.
struct Turn<Q: Send + 'static, A: Send + 'static> {
    desk: Arc<Desk<Q, A>>,
    serve: Serve<Q, A>,
    of: usize,
}

impl<Q: Send + 'static, A: Send + 'static> Drop for Turn<Q, A> {
    fn drop(&mut self) {
        let next = self.desk.end(self.of);
        // Without a runtime the process ends, and nobody waits any more.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (desk, serve) = (Arc::clone(&self.desk), Arc::clone(&self.serve));
        match next {
            Next::Turn(next) if next.is_empty() => {}
            Next::Turn(next) => {
                runtime.spawn(Self { desk, serve, of: next.len() }.serve(next));
            }
            Next::Wait => {
                runtime.spawn(async move {
                    let next = desk.next_together().await;
                    if !next.is_empty() {
                        Self { desk, serve, of: next.len() }.serve(next).await;
                    }
                });
            }
        }
    }
}

impl<Q: Send + 'static, A: Send + 'static> Turn<Q, A> {
    /// Serves these; the next ones go when they are served, or when it takes long.
    async fn end(self, questions: Vec<Q>) -> Vec<A> {
        let mut served = (self.serve)(questions);
        let in_time = timeout(self.desk.turns.last, &mut served).await;
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
mod tests {
    use futures::future::join_all;
    use tokio::sync::Semaphore;
    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A desk where each serving waits until it is let, and is written down.
    struct Counter {
        desk: Arc<Desk<u32, u32>>,
        let_go: Arc<Semaphore>,
        served: Arc<Mutex<Vec<Vec<u32>>>>,
    }

    impl Counter {
        fn new(at_once: usize, most: usize) -> Self {
            let (let_go, served) = (Arc::new(Semaphore::new(0)), Arc::default());
            let turns = Turns { at_once, many: most + 1, moment: LONG, most, last: LONG };
            Self { desk: Desk::new(turns), let_go, served }
        }

        /// The same, where so many are many.
        fn with(self, many: usize, moment: Duration) -> Self {
            let turns = Turns { many, moment, ..self.desk.turns };
            Self { desk: Desk::new(turns), ..self }
        }

        fn serve(&self) -> Serve<u32, u32> {
            let (let_go, served) = (Arc::clone(&self.let_go), Arc::clone(&self.served));
            Arc::new(move |questions| {
                let (let_go, served) = (Arc::clone(&let_go), Arc::clone(&served));
                Box::pin(async move {
                    served.lock().unwrap().push(questions.clone());
                    let_go.acquire().await.unwrap().forget();
                    assert!(!questions.contains(&13), "unlucky");
                    questions.into_iter().map(|question| question * 10).collect()
                })
            })
        }

        /// They ask one after the other, and wait.
        async fn come(&self, questions: impl IntoIterator<Item = u32>) -> Vec<Asked> {
            let mut asked = Vec::new();
            for question in questions {
                let (desk, serve) = (Arc::clone(&self.desk), self.serve());
                asked.push(tokio::spawn(async move { desk.ask(question, serve).await }));
                yield_now().await;
            }
            asked
        }

        fn served(&self) -> Vec<Vec<u32>> {
            self.served.lock().unwrap().clone()
        }
    }

    type Asked = JoinHandle<Result<u32, NoAnswer>>;

    async fn answers(asked: Vec<Asked>) -> Vec<Result<u32, NoAnswer>> {
        join_all(asked).await.into_iter().map(Result::unwrap).collect()
    }

    #[tokio::test]
    async fn who_comes_while_another_is_served_waits_and_goes_with_all_who_wait() {
        let counter = Counter::new(1, 10);
        let asked = counter.come(1..=4).await;
        assert_eq!(counter.served(), [vec![1]], "nobody waits for company");
        counter.let_go.add_permits(2);
        assert_eq!(answers(asked).await, [Ok(10), Ok(20), Ok(30), Ok(40)]);
        assert_eq!(counter.served(), [vec![1], vec![2, 3, 4]]);
    }

    #[tokio::test]
    async fn so_many_turns_at_a_time_and_so_many_in_each() {
        let counter = Counter::new(2, 3);
        let asked = counter.come(1..=7).await;
        assert_eq!(counter.served(), [vec![1], vec![2]]);
        counter.let_go.add_permits(4);
        assert_eq!(answers(asked).await.len(), 7);
        assert_eq!(counter.served(), [vec![1], vec![2], vec![3, 4, 5], vec![6, 7]]);
        let later = counter.come([8, 9]).await;
        assert_eq!(counter.served()[4..], [vec![8], vec![9]], "both turns are free again");
        counter.let_go.add_permits(2);
        assert_eq!(answers(later).await, [Ok(80), Ok(90)]);
    }

    #[tokio::test]
    async fn while_many_are_served_who_comes_waits_and_goes_with_others() {
        let counter = Counter::new(2, 10).with(2, Duration::ZERO);
        let mut asked = counter.come(1..=5).await;
        assert_eq!(counter.served(), [vec![1], vec![2]]);
        counter.let_go.add_permits(1);
        assert_eq!(asked.remove(0).await.unwrap(), Ok(10));
        assert_eq!(counter.served()[2..], [vec![3, 4, 5]], "beside one");
        counter.let_go.add_permits(1);
        assert_eq!(asked.remove(0).await.unwrap(), Ok(20));
        asked.extend(counter.come([6, 7]).await);
        assert_eq!(counter.served().len(), 3, "three are many");
        counter.let_go.add_permits(2);
        assert_eq!(answers(asked).await, [Ok(30), Ok(40), Ok(50), Ok(60), Ok(70)]);
        assert_eq!(counter.served()[3..], [vec![6, 7]]);
        let queue = counter.desk.queue();
        assert_eq!((queue.turns, queue.served), (0, 0));
    }

    #[tokio::test]
    async fn who_was_served_with_many_is_waited_for_and_goes_with_those_who_wait() {
        let counter = Counter::new(1, 10).with(2, LONG);
        let asked = counter.come(1..=3).await;
        counter.let_go.add_permits(1);
        while counter.served().len() < 2 {
            yield_now().await;
        }
        assert_eq!(counter.served(), [vec![1], vec![2, 3]]);
        let mut again = counter.come([4]).await;
        counter.let_go.add_permits(1);
        assert_eq!(answers(asked).await, [Ok(10), Ok(20), Ok(30)]);
        again.extend(counter.come([5]).await);
        assert_eq!(counter.served().len(), 2, "one of two has not come again");
        again.extend(counter.come([6]).await);
        counter.let_go.add_permits(1);
        assert_eq!(answers(again).await, [Ok(40), Ok(50), Ok(60)]);
        assert_eq!(counter.served()[2..], [vec![4, 5, 6]]);
    }

    #[tokio::test]
    async fn who_does_not_come_again_is_waited_for_a_moment() {
        let counter = Counter::new(1, 10).with(2, Duration::from_millis(20));
        let asked = counter.come(1..=3).await;
        counter.let_go.add_permits(3);
        assert_eq!(answers(asked).await, [Ok(10), Ok(20), Ok(30)]);
        assert_eq!(answers(counter.come([4]).await).await, [Ok(40)]);
        assert_eq!(counter.served(), [vec![1], vec![2, 3], vec![4]]);
    }

    #[tokio::test]
    async fn a_full_turn_of_those_who_wait_waits_for_nobody() {
        let counter = Counter::new(1, 2).with(2, LONG);
        let asked = counter.come(1..=5).await;
        counter.let_go.add_permits(3);
        assert_eq!(answers(asked).await.len(), 5);
        assert_eq!(counter.served(), [vec![1], vec![2, 3], vec![4, 5]]);
    }

    #[tokio::test]
    async fn what_takes_long_goes_on_and_holds_up_nobody_else() {
        let turns =
            Turns { at_once: 1, many: 10, most: 10, moment: LONG, last: Duration::from_millis(50) };
        let counter = Counter { desk: Desk::new(turns), ..Counter::new(1, 10) };
        let asked = counter.come(1..=3).await;
        while counter.served().len() < 2 {
            yield_now().await;
        }
        assert_eq!(counter.served(), [vec![1], vec![2, 3]], "the first still waits");
        counter.let_go.add_permits(2);
        assert_eq!(answers(asked).await, [Ok(10), Ok(20), Ok(30)]);
        let queue = counter.desk.queue();
        assert_eq!((queue.turns, queue.served), (0, 0), "there is one turn again, not two");
    }

    #[tokio::test]
    async fn who_goes_away_cancels_nothing_that_was_asked_together() {
        let counter = Counter::new(1, 10);
        let mut asked = counter.come(1..=4).await;
        for gone in [2, 0] {
            asked.remove(gone).abort();
        }
        yield_now().await;
        assert_eq!(counter.served(), [vec![1], vec![2, 3, 4]], "the turn went on at once");
        counter.let_go.add_permits(1);
        assert_eq!(answers(asked).await, [Ok(20), Ok(40)]);
    }

    #[tokio::test]
    async fn who_is_served_together_with_one_that_breaks_it_is_told_and_the_next_are_served() {
        let counter = Counter::new(1, 2);
        let asked = counter.come([1, 13, 2, 3]).await;
        counter.let_go.add_permits(3);
        assert_eq!(answers(asked).await, [Ok(10), Err(NoAnswer), Err(NoAnswer), Ok(30)]);
    }
}
