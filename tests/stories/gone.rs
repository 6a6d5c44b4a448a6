//! 410s in a row, counted by the ends of the attempts (ruling 26): processes record side by side,
//! in batches, and late.

use std::time::Duration;

use deliverer::attempt::{ClaimedAttempt, FinishedAttempt};
use deliverer::claim::claim_due;
use deliverer::outgoing::OutgoingExchange;
use deliverer::record::record_batch;
use domain::delivery::AttemptAnswer;
use domain::values::Timestamp;
use serde_json::{Value, json};
use tests::{Firm, World};
use uuid::Uuid;

/// A subscription with attempts in flight.
struct Scene {
    world: World,
    firm: Firm,
    hook_id: Uuid,
    claimed: Vec<ClaimedAttempt>,
}

impl Scene {
    /// So many deliveries are claimed at noon, and are answered in the seconds after it.
    async fn with(count: usize) -> Self {
        let world = World::new().await;
        let firm = world.firm().await;
        let hook_id = world.subscribe(&firm, "http://127.0.0.1:7777/hook").await;
        let mut scene = Self { world, firm, hook_id, claimed: Vec::new() };
        scene.claim(count).await;
        scene.world.pass(Duration::from_secs(10));
        scene
    }

    /// Claims `count` more deliveries, and all attempts that are due again.
    async fn claim(&mut self, count: usize) {
        for _ in 0..count {
            self.world.submit(&self.firm).await;
        }
        self.claimed
            .extend(claim_due(self.world.deliverer(), &self.world.limits(16)).await.unwrap());
    }

    /// The answer of one of them, in this second after noon.
    fn answer(&self, index: usize, status: u16, second: u32) -> FinishedAttempt {
        let exchange = OutgoingExchange {
            answer: AttemptAnswer::Status(status),
            retry_after: None,
            hops: Vec::new(),
            snippet: Vec::new(),
            connected: true,
        };
        let finished_at: Timestamp = format!("2026-11-01T12:00:{second:02}.000Z").parse().unwrap();
        FinishedAttempt { claimed: self.claimed[index].clone(), exchange, finished_at }
    }

    async fn record(&self, batch: &[FinishedAttempt]) {
        record_batch(self.world.deliverer(), batch).await.unwrap();
    }

    async fn lives(&self) -> bool {
        let hooks = self.world.get(&self.firm, "/hooks").await;
        hooks.body != json!([])
    }

    /// Events of the subscription's stream after its creation: the 410s and successes by their
    /// number, and the evidence of the removal.
    async fn told(&self) -> Vec<String> {
        let events: Vec<Value> = sqlx::query_scalar(
            "select payload from events where aggregate_id = $1 and sequence > 1 order by sequence",
        )
        .bind(self.hook_id.to_string())
        .fetch_all(self.world.pool())
        .await
        .unwrap();
        let number = |one: &Value| {
            let id = one["delivery_id"].as_str().unwrap();
            self.claimed.iter().position(|one| one.delivery_id.to_string() == id).unwrap()
        };
        let tell = |event: &Value| {
            let (name, of) = event.as_object().unwrap().iter().next().unwrap();
            match of["evidence"].as_array() {
                Some(both) => format!("{name} {:?}", both.iter().map(number).collect::<Vec<_>>()),
                None => format!("{name} {}", number(of)),
            }
        };
        events.iter().map(tell).collect()
    }
}

/// Another process had a success between two 410s of one batch, and recorded it a moment later. The
/// 410s were once taken for two in a row.
#[tokio::test]
async fn d9_a_late_success_separates_two_410s() {
    let mut scene = Scene::with(3).await;
    scene.record(&[scene.answer(0, 410, 1), scene.answer(2, 410, 3)]).await;
    assert!(scene.lives().await, "the answer between them is not recorded yet");
    scene.record(&[scene.answer(1, 200, 2)]).await;
    assert!(scene.lives().await);
    let told = ["TargetGone 0", "TargetGone 2", "TargetAnswered 1", "TargetGone 2"];
    assert_eq!(scene.told().await, told);
    scene.claim(1).await;
    scene.record(&[scene.answer(3, 410, 11)]).await;
    assert!(!scene.lives().await);
    let end = ["TargetGone 3", "SubscriptionRemoved [2, 3]"];
    assert_eq!(scene.told().await[4..], end);
}

/// Another process recorded the success before the batch with the two 410s.
#[tokio::test]
async fn d9_an_early_success_separates_two_410s() {
    let scene = Scene::with(3).await;
    scene.record(&[scene.answer(1, 200, 2)]).await;
    scene.record(&[scene.answer(0, 410, 1), scene.answer(2, 410, 3)]).await;
    assert!(scene.lives().await);
    assert_eq!(scene.told().await, ["TargetGone 0", "TargetAnswered 1", "TargetGone 2"]);
}

/// The success is recorded before the first of the 410s, which come one by one.
#[tokio::test]
async fn d9_successes_count_by_their_end_time() {
    let scene = Scene::with(3).await;
    scene.record(&[scene.answer(1, 200, 2)]).await;
    scene.record(&[scene.answer(0, 410, 1)]).await;
    scene.record(&[scene.answer(2, 410, 3)]).await;
    assert!(scene.lives().await);
}

/// They wait for attempts that could end between them, and no longer.
#[tokio::test]
async fn d9_two_410s_wait_for_answers_between() {
    for (status, second) in [(503, 2), (200, 4), (404, 2)] {
        let scene = Scene::with(3).await;
        scene.record(&[scene.answer(0, 410, 1), scene.answer(2, 410, 3)]).await;
        assert!(scene.lives().await);
        scene.record(&[scene.answer(1, status, second)]).await;
        assert_eq!(scene.lives().await, status == 200, "{status}");
    }
}

/// An attempt claimed after the second 410 cannot be between them.
#[tokio::test]
async fn d9_two_410s_ignore_a_later_claim() {
    let mut scene = Scene::with(2).await;
    scene.claim(1).await;
    scene.record(&[scene.answer(0, 410, 1), scene.answer(1, 410, 3)]).await;
    assert!(!scene.lives().await);
}

/// The attempt's process is gone, and nobody records the answer.
#[tokio::test]
async fn d9_an_ended_lease_is_not_awaited() {
    let mut scene = Scene::with(3).await;
    scene.record(&[scene.answer(0, 410, 1), scene.answer(2, 410, 3)]).await;
    scene.world.pass(Duration::from_secs(111));
    scene.world.end_leases().await;
    assert!(scene.lives().await, "the next answer decides");
    scene.claim(1).await;
    assert_eq!(scene.claimed.len(), 5, "and that which was cut off");
    scene.record(&[scene.answer(4, 503, 12)]).await;
    assert!(!scene.lives().await);
    assert_eq!(scene.told().await[2..], ["SubscriptionRemoved [0, 2]"]);
}

/// Each of three processes has one answer, and they are recorded in every order.
#[tokio::test]
async fn d9_the_order_of_records_changes_nothing() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for (statuses, lives) in [([410, 200, 410], true), ([410, 503, 410], false)] {
            let scene = Scene::with(3).await;
            let answers = [0, 1, 2].map(|index| {
                scene.answer(index, statuses[index], u32::try_from(index).unwrap() + 1)
            });
            for index in order {
                scene.record(&answers[index..=index]).await;
            }
            assert_eq!(scene.lives().await, lives, "{order:?}, {statuses:?}");
        }
    }
}
