use std::time::Instant;

use futures::future::join_all;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use super::*;

const LONG: Duration = Duration::from_secs(60);

const MOMENT: Duration = Duration::from_millis(20);

/// A desk where each serving waits until it is let, and is written down.
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

    /// The same, where so many are many.
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

#[tokio::test]
async fn who_comes_while_another_is_served_waits_and_goes_with_all_who_wait() {
    let counter = Counter::new(1, 10);
    let asked = counter.come(1..=4).await;
    assert_eq!(counter.served(), [vec![1]], "who comes first waits for nobody");
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
    let queue = counter.desk.queue();
    assert_eq!((queue.turns, queue.served), (0, 0));
}

#[tokio::test]
async fn who_was_served_with_many_is_waited_for_and_goes_with_those_who_wait() {
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
async fn who_does_not_come_again_is_waited_for_a_moment() {
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
async fn who_is_not_answered_yet_is_not_waited_for() {
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
async fn a_full_turn_of_those_who_wait_waits_for_nobody() {
    let counter = Counter::new(1, 2).with(2, Some(LONG));
    let mut asked = counter.come(1..=8).await;
    let mut last = asked.split_off(7);
    counter.let_go.add_permits(5);
    assert_eq!(answers(asked).await.len(), 7);
    assert_eq!(counter.served(), [vec![1], vec![2, 3], vec![4, 5], vec![6, 7]]);
    last.extend(counter.come([9]).await);
    assert_eq!(answers(last).await, [Ok(80), Ok(90)], "a turn that is not full waits");
}

#[tokio::test]
async fn what_takes_long_goes_on_and_holds_up_nobody_else() {
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
    let counter = Counter::new(1, 2).with(2, Some(LONG));
    let asked = counter.come([1, 13, 2, 3]).await;
    counter.let_go.add_permits(3);
    assert_eq!(answers(asked).await, [Ok(10), Err(NoAnswer), Err(NoAnswer), Ok(30)]);
}
