//! Deliveries whose row in the outbox is lost. Whatever began a delivery, its stream has all that
//! the row had. So a repair makes the row anew, and the proof is green again (case I1).

use std::time::Duration;

use api::commands::tokens::HolderRole;
use chrono::{DateTime, Utc};
use deliverer::claim::claim_due;
use domain::delivery::LEASE_TIME;
use serde_json::{Value, json};
use tests::{Answer, Firm, Receiver, Reply, World};
use uuid::Uuid;

use tests::process::firmforms;

/// A row as far as a repair has to make it anew.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
struct Row {
    delivery_id: Uuid,
    lane_id: Uuid,
    sequence: i64,
    tries: i32,
    tries_max: i32,
    due_at: DateTime<Utc>,
    replay_id: Option<Uuid>,
    body_id: Option<Uuid>,
    body_sha256: Option<Vec<u8>>,
    step: Option<Value>,
}

struct Scene {
    world: World,
    firm: Firm,
    receiver: Receiver,
    operator: String,
}

impl Scene {
    /// A firm with a subscription, and an operator.
    async fn new() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        world.subscribe(&firm, &receiver.url("/hook")).await;
        let operator = world.new_token(HolderRole::Operator).await;
        Self { world, firm, receiver, operator }
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.world.call_internally(&self.operator, "POST", path, body.clone()).await.ok()
    }

    /// A delivery to the subscription that ended with 404.
    async fn failed(&self) -> Uuid {
        self.receiver.reply([Reply::status(404)]);
        self.world.submit(&self.firm).await;
        assert_eq!(self.world.deliver().await, 1);
        self.last()
    }

    /// The order of a step. Its response is submitted, and its delivery to the subscription sent.
    async fn step(&self) -> Value {
        let response_id = self.world.submit(&self.firm).await;
        self.world.deliver().await;
        json!({
            "firm_id": self.firm.id, "run_id": self.world.id(), "step_id": self.world.id(),
            "method": "POST", "url": self.receiver.url("/step?for=ann"),
            "headers": {"X-Team": "tax"}, "trigger": "form_submitted", "response_id": response_id,
        })
    }

    /// The delivery that came last.
    fn last(&self) -> Uuid {
        let last = self.receiver.received().pop().unwrap();
        last.header("x-service-delivery").parse().unwrap()
    }

    async fn row(&self) -> Row {
        sqlx::query_as(
            "select delivery_id, lane_id, sequence, tries, tries_max, due_at, replay_id, body_id,
                    body_sha256, step from outbox",
        )
        .fetch_one(self.world.pool())
        .await
        .unwrap()
    }

    /// Loses the only row of the outbox, and returns it.
    async fn lose(&self) -> Row {
        let row = self.row().await;
        self.world.change_database("delete from outbox").await;
        self.world.change_database("delete from lane_wakes").await;
        row
    }

    /// Has the lost row made anew by the command, which ends green at once and at the next run.
    async fn repair(&self) -> Row {
        for count in [1, 0] {
            let mut command = firmforms(&self.world.database);
            command.args(["verify", "deliveries", "--repair", "--reason", "a lost row"]);
            let output = command.output().await.unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(0), "{text}");
            let expected = format!("repaired: {count} deliveries queued");
            assert!(text.contains(&expected), "{text}");
        }
        assert_eq!(self.world.count_events("DeliveriesRepaired").await, 1);
        self.row().await
    }

    /// Sends the due deliveries. The command goes by the real clock, so the world's must be past
    /// it.
    async fn deliver(&self) -> usize {
        self.world.pass(Duration::from_secs(400 * 86_400));
        self.world.deliver().await
    }
}

/// A row that was due at once is due from the repair on.
fn but_its_due_time(row: Row, other: &Row) -> Row {
    Row { due_at: other.due_at, ..row }
}

/// Posting the step again was accepted, and queued nothing. A repair looked at no step.
#[tokio::test]
async fn i1_a_lost_step_is_repaired() {
    let scene = Scene::new().await;
    let order = scene.step().await;
    scene.post("/workflow-steps", &order).await;
    let lost = scene.lose().await;
    let row = scene.repair().await;
    assert_eq!(but_its_due_time(row, &lost), lost);
    assert_eq!(scene.deliver().await, 1);
    let sent = scene.receiver.received().pop().unwrap();
    assert_eq!((sent.uri.to_string().as_str(), sent.header("x-team")), ("/step?for=ann", "tax"));
}

#[tokio::test]
async fn i1_posting_again_queues_a_lost_step() {
    let scene = Scene::new().await;
    let order = scene.step().await;
    let posted = scene.post("/workflow-steps", &order).await;
    let lost = scene.lose().await;
    for _ in 0..2 {
        let again = scene.post("/workflow-steps", &order).await;
        assert_eq!((again.status, &again.body), (posted.status, &posted.body));
    }
    assert_eq!(scene.row().await, lost);
    assert_eq!(scene.world.deliver().await, 1);
    scene.post("/workflow-steps", &order).await;
    assert_eq!(scene.world.count("outbox").await, 0, "an ended one is not queued");
}

/// A retried step begins its schedule again. A repair keeps its attempts and its bytes.
#[tokio::test]
async fn i1_repaired_steps_keep_their_second_schedule() {
    let scene = Scene::new().await;
    let order = scene.step().await;
    scene.receiver.reply([400, 503].map(Reply::status));
    scene.post("/workflow-steps", &order).await;
    assert_eq!(scene.world.deliver().await, 1);
    let step = format!("/workflow-steps/{}/{}", order["run_id"], order["step_id"]);
    scene.post(&(step.replace('"', "") + "/retry"), &json!({})).await;
    assert_eq!(scene.world.deliver().await, 1);
    let lost = scene.lose().await;
    assert_eq!((lost.tries, lost.tries_max), (2, 6), "two attempts of six");
    assert_eq!(scene.repair().await, lost);
    assert_eq!(scene.deliver().await, 1);
}

/// The repair looked at the id of the delivery that it was reissued from.
#[tokio::test]
async fn i1_a_repaired_reissue_keeps_its_id() {
    let scene = Scene::new().await;
    let ended = scene.failed().await;
    let path = format!("/firms/{}/deliveries/{ended}/reissue", scene.firm.id);
    let reissued = scene.post(&path, &json!({"reason": "the report was wrong"})).await;
    let lost = scene.lose().await;
    assert_eq!(json!(lost.delivery_id), reissued.body["id"]);
    let row = scene.repair().await;
    assert_eq!(but_its_due_time(row, &lost), lost);
    assert_eq!(scene.deliver().await, 1);
    assert_eq!(scene.last(), lost.delivery_id);
}

#[tokio::test]
async fn i1_a_repaired_replay_ends_as_delivered() {
    let scene = Scene::new().await;
    let ended = scene.failed().await;
    let order = json!({"firm_id": scene.firm.id, "reason": "the receiver was down"});
    scene.post("/replays", &order).await;
    scene.world.pass(Duration::from_secs(2));
    scene.world.replay().await;
    let lost = scene.lose().await;
    let row = scene.repair().await;
    assert_eq!(but_its_due_time(row, &lost), lost);
    assert_eq!(scene.deliver().await, 1);
    assert_eq!(scene.last(), ended);
    assert_eq!(scene.world.count("replay_items where outcome = 'delivered'").await, 1);
}

#[tokio::test]
async fn i1_repaired_retries_keep_their_due_time() {
    let scene = Scene::new().await;
    scene.receiver.reply([503, 503].map(Reply::status));
    scene.world.submit(&scene.firm).await;
    assert_eq!(scene.world.deliver().await, 1);
    // Later than the real clock, by which the command goes.
    scene.world.pass(Duration::from_secs(400 * 86_400));
    assert_eq!(scene.world.deliver().await, 1);
    let lost = scene.lose().await;
    assert_eq!(scene.repair().await, lost);
    assert_eq!(scene.world.deliver().await, 0, "it is not due");
    scene.world.pass(Duration::from_secs(120));
    assert_eq!(scene.world.deliver().await, 1);
    let received = scene.receiver.received();
    assert!(received.iter().all(|one| one.body == received[0].body), "its bytes stay");
}

/// The try was cut off, its lease has ended, and the next try is due.
#[tokio::test]
async fn i1_a_lost_interrupted_try_counts() {
    let scene = Scene::new().await;
    let order = scene.step().await;
    scene.post("/workflow-steps", &order).await;
    let claimed = claim_due(scene.world.deliverer(), &scene.world.limits(1)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    scene.world.pass(LEASE_TIME + Duration::from_secs(1));
    scene.world.end_leases().await;
    let lost = scene.lose().await;
    assert_eq!(lost.tries, 1);
    let row = scene.repair().await;
    assert_eq!(but_its_due_time(row, &lost), lost);
    assert_eq!(scene.deliver().await, 1);
    assert_eq!(scene.world.attempts(lost.delivery_id).await.len(), 2);
}
