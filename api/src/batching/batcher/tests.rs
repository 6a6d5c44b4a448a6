use std::time::Instant;

use futures::future::join_all;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use super::*;

const LONG: Duration = Duration::from_secs(60);

const MOMENT: Duration = Duration::from_millis(20);

/// A batcher whose turns each wait for a permit, and are written down.
struct Counter {
    desk: Arc<Batcher<u32, u32>>,
    let_go: Arc<Semaphore>,
    served: Arc<Mutex<Vec<Vec<u32>>>>,
}

impl Counter {
    fn new(at_once: usize, most: usize) -> Self {
        let (let_go, served) = (Arc::new(Semaphore::new(0)), Arc::default());
        let turns = BatchPolicy {
            parallel: at_once,
            busy_at: most + 1,
            linger: None,
            max: most,
            turn_max: LONG,
        };
        Self { desk: Batcher::new(turns), let_go, served }
    }

    /// This counter with another threshold and linger.
    fn with(self, many: usize, moment: Option<Duration>) -> Self {
        let turns = BatchPolicy { busy_at: many, linger: moment, ..self.desk.policy };
        Self { desk: Batcher::new(turns), ..self }
    }

    fn serve(&self) -> BatchFn<u32, u32> {
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

    /// Callers ask one after the other, and wait.
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

    /// Waits until so many turns have begun.
    async fn begun(&self, turns: usize) {
        let begun = async {
            while self.served().len() < turns {
                yield_now().await;
            }
        };
        timeout(LONG / 2, begun).await.unwrap();
    }
}

type Asked = JoinHandle<Result<u32, NoAnswer>>;

async fn answers(asked: Vec<Asked>) -> Vec<Result<u32, NoAnswer>> {
    let answers =
        timeout(LONG / 2, join_all(asked)).await.expect("who is waited for does not come");
    answers.into_iter().map(Result::unwrap).collect()
}

/// A call that comes while another is served waits.
#[tokio::test]
async fn calls_that_wait_go_together() {
    let counter = Counter::new(1, 10);
    let asked = counter.come(1..=4).await;
    assert_eq!(counter.served(), [vec![1]], "who comes first waits for nobody");
    counter.let_go.add_permits(2);
    assert_eq!(answers(asked).await, [Ok(10), Ok(20), Ok(30), Ok(40)]);
    assert_eq!(counter.served(), [vec![1], vec![2, 3, 4]]);
}

#[tokio::test]
async fn turns_and_their_sizes_are_bounded() {
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
async fn a_busy_batcher_collects_new_calls() {
    let counter = Counter::new(2, 10).with(2, None);
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
    let queue = counter.desk.lock_queue();
    assert_eq!((queue.turns, queue.served), (0, 0));
}

/// A caller that was served with many is expected again.
#[tokio::test]
async fn a_turn_waits_for_returning_callers() {
    let counter = Counter::new(1, 10).with(2, Some(LONG));
    let asked = counter.come(1..=3).await;
    counter.let_go.add_permits(1);
    counter.begun(2).await;
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
async fn absent_callers_are_awaited_for_a_moment() {
    let counter = Counter::new(1, 10).with(2, Some(MOMENT));
    let asked = counter.come(1..=3).await;
    let began = Instant::now();
    counter.let_go.add_permits(3);
    assert_eq!(answers(asked).await, [Ok(10), Ok(20), Ok(30)]);
    assert_eq!(answers(counter.come([4]).await).await, [Ok(40)]);
    assert!(began.elapsed() >= MOMENT, "for those two");
    assert_eq!(counter.served(), [vec![1], vec![2, 3], vec![4]]);
}

#[tokio::test]
async fn an_unanswered_caller_is_not_awaited() {
    let counter = Counter::new(1, 10).with(2, Some(LONG));
    let turns = BatchPolicy { turn_max: MOMENT, ..counter.desk.policy };
    let counter = Counter { desk: Batcher::new(turns), ..counter };
    let mut asked = counter.come(1..=3).await;
    counter.begun(2).await;
    asked.extend(counter.come([4]).await);
    counter.begun(3).await;
    assert_eq!(counter.served(), [vec![1], vec![2, 3], vec![4]]);
    counter.let_go.add_permits(3);
    assert_eq!(answers(asked).await, [Ok(10), Ok(20), Ok(30), Ok(40)]);
}

#[tokio::test]
async fn a_full_turn_waits_for_nobody() {
    let counter = Counter::new(1, 2).with(2, Some(LONG));
    let mut asked = counter.come(1..=8).await;
    let mut last = asked.split_off(7);
    counter.let_go.add_permits(5);
    assert_eq!(answers(asked).await.len(), 7);
    assert_eq!(counter.served(), [vec![1], vec![2, 3], vec![4, 5], vec![6, 7]]);
    last.extend(counter.come([9]).await);
    assert_eq!(answers(last).await, [Ok(80), Ok(90)], "a turn that is not full waits");
}

/// The long turn goes on.
#[tokio::test]
async fn a_long_turn_holds_up_nobody() {
    let turns = BatchPolicy {
        parallel: 1,
        busy_at: 10,
        max: 10,
        linger: None,
        turn_max: Duration::from_millis(50),
    };
    let counter = Counter { desk: Batcher::new(turns), ..Counter::new(1, 10) };
    let asked = counter.come(1..=3).await;
    counter.begun(2).await;
    assert_eq!(counter.served(), [vec![1], vec![2, 3]], "the first still waits");
    counter.let_go.add_permits(2);
    assert_eq!(answers(asked).await, [Ok(10), Ok(20), Ok(30)]);
    let queue = counter.desk.lock_queue();
    assert_eq!((queue.turns, queue.served), (0, 0), "there is one turn again, not two");
}

#[tokio::test]
async fn a_leaving_caller_cancels_no_turn() {
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

/// Each caller of the turn is told, and the next turn is served.
#[tokio::test]
async fn a_panic_fails_only_its_own_turn() {
    let counter = Counter::new(1, 2).with(2, Some(LONG));
    let asked = counter.come([1, 13, 2, 3]).await;
    counter.let_go.add_permits(3);
    assert_eq!(answers(asked).await, [Ok(10), Err(NoAnswer), Err(NoAnswer), Ok(30)]);
}
