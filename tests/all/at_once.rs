//! What is queued is claimed in the same transaction where its lane has nothing else to do; whatever
//! speaks against that leaves it to a claim of its own.

mod ahead;

use std::collections::BTreeSet;
use std::time::Duration;

use api::commands::tokens::{self, Role};
use axum::body::Body;
use axum::http::Request;
use deliverer::Courier;
use deliverer::engine::turn;
use deliverer::fan_out::FanOut;
use domain::pressure::Caps;
use eventstore::connect;
use eventstore::worker::{Step, Worker};
use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::Executor;
use tests::{Firm, Receiver, Sending, World, activity, later, submitted};
use uuid::Uuid;
use vault::{Keyring, WrappingKey};

struct Scene {
    world: World,
    firm: Firm,
    receiver: Receiver,
}

impl Scene {
    async fn new() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        world.subscribe(&firm, &receiver.url("/hook")).await;
        Self { world, firm, receiver }
    }

    fn process(&self, change: impl FnOnce(&mut Courier)) -> Sending {
        let mut courier = self.world.courier().clone();
        change(&mut courier);
        Sending::with(courier)
    }

    /// Something happens, and this process hears of it first; answers what is in flight then, and what
    /// is only queued.
    async fn happens_to(&self, process: &Sending) -> (i64, i64) {
        self.world.submit(&self.firm).await;
        process.fan_out(&self.world).await;
        self.queue().await
    }

    /// A step of fan-out, once the log is settled: transactions of other tests are over.
    async fn step(&self, fan_out: &mut FanOut) -> Step {
        while self.world.system.fence.look().await.unwrap().more {}
        fan_out.step().await.unwrap()
    }

    /// Its fan-out, after its first step.
    async fn begun(&self, process: &Sending) -> FanOut {
        let mut fan_out = process.fan_out_worker(&self.world);
        assert_eq!(self.step(&mut fan_out).await, Step::Busy, "its place in the log is made");
        fan_out
    }

    /// So many responses come in together.
    async fn submit(&self, count: usize) {
        let all: Vec<Value> = (0..count).map(|_| submitted(&self.firm, self.world.id())).collect();
        assert_eq!(self.world.report(&all).await.status, 202);
    }

    async fn queue(&self) -> (i64, i64) {
        let queue = "select count(*) filter (where leased_at is not null),
                            count(*) filter (where leased_at is null) from outbox";
        sqlx::query_as(queue).fetch_one(self.world.pool()).await.unwrap()
    }

    /// What an operator does, and is answered.
    async fn operate(&self, method: &str, path: &str, body: String) -> Value {
        let made = tokens::create(self.world.service(), "operator", Role::Operator).await.unwrap();
        let request = Request::builder()
            .method(method)
            .uri(format!("/internal/v1{path}"))
            .header("authorization", format!("Bearer {}", made.token))
            .body(Body::from(body))
            .unwrap();
        let answer = self.world.internal(request).await;
        assert!(answer.status.is_success(), "{}", answer.body);
        answer.body
    }

    async fn reported(&self, activity: Value) {
        assert_eq!(self.world.report(&[activity]).await.status, 202);
    }
}

/// The deliveries' states, each with its tries.
async fn histories(world: &World) -> Vec<(String, Vec<String>)> {
    let ids: Vec<Uuid> = sqlx::query_scalar("select delivery_id from deliveries")
        .fetch_all(world.pool())
        .await
        .unwrap();
    join_all(ids.into_iter().map(|id| world.history(id))).await
}

fn once() -> (String, Vec<String>) {
    ("delivered".to_owned(), vec!["delivered".to_owned()])
}

#[tokio::test]
async fn an_event_that_comes_alone_is_sent_without_a_claim_of_its_own() {
    let scene = Scene::new().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
    let process = scene.process(|_| {});
    assert_eq!(scene.happens_to(&process).await, (2, 0));
    assert_eq!(turn(scene.world.courier()).await.unwrap(), 0);
    let received = scene.receiver.wait_for(2).await;
    assert_eq!(received[0].body, received[1].body);
    process.ends(&scene.world).await;
    assert_eq!(histories(&scene.world).await, [once(), once()]);
    let idle = "select count(*) from lanes where running = 0 and due_at is null";
    let idle: i64 = sqlx::query_scalar(idle).fetch_one(scene.world.pool()).await.unwrap();
    assert_eq!(idle, 2);
    let bodies = "select count(*) from bodies";
    let bodies: i64 = sqlx::query_scalar(bodies).fetch_one(scene.world.pool()).await.unwrap();
    assert_eq!(bodies, 1, "built once");
}

#[tokio::test]
async fn only_what_is_left_to_a_claim_wakes_who_claims() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    scene.happens_to(&process).await;
    process.answered(1).await;
    let claims = scene.world.service().store.nudge().subscribe_to_all_but_occurrences();
    assert_eq!(scene.happens_to(&process).await, (2, 0));
    assert!(!claims.has_changed().unwrap(), "all of it is claimed");
    process.stop.cancel();
    assert_eq!(scene.happens_to(&process).await, (2, 1));
    assert!(claims.has_changed().unwrap());
}

#[tokio::test]
async fn where_nothing_was_recorded_since_it_looked_fan_out_asks_nobody() {
    let scene = Scene::new().await;
    let store = scene.world.courier().store.by(connect(scene.world.database.main.clone(), 5));
    let process = scene.process(|courier| courier.store = store.clone());
    let mut fan_out = scene.begun(&process).await;
    scene.submit(1).await;
    while scene.step(&mut fan_out).await == Step::Busy {}
    assert_eq!(scene.queue().await, (1, 0));
    store.connections().close().await;
    assert_eq!(fan_out.step().await.unwrap(), Step::IDLE);
    scene.submit(1).await;
    fan_out.step().await.expect_err("there is something, and no connection to ask for it");
}

#[tokio::test]
async fn what_is_claimed_at_once_and_not_recorded_is_tried_again() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    assert_eq!(scene.happens_to(&process).await, (1, 0));
    scene.receiver.wait_for(1).await;
    scene.world.pass(domain::delivery::LEASE);
    assert_eq!(scene.world.deliver().await, 1);
    let received = scene.receiver.wait_for(2).await;
    assert_eq!(received[0].body, received[1].body);
    let tries = ["interrupted", "delivered"].map(str::to_owned).to_vec();
    assert_eq!(histories(&scene.world).await, [("delivered".to_owned(), tries)]);
}

#[tokio::test]
async fn what_is_held_is_only_queued() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let hook: Uuid = sqlx::query_scalar("select hook_id from hooks")
        .fetch_one(scene.world.pool())
        .await
        .unwrap();
    for scope in [
        json!({"all": true}),
        json!({"firm_id": scene.firm.id}),
        json!({"hook_id": hook}),
        json!({"host": "127.0.0.1"}),
    ] {
        let mut order = scope.clone();
        order["reason"] = json!("a test");
        let pause = scene.operate("POST", "/pauses", order.to_string()).await;
        assert_eq!(scene.happens_to(&process).await, (0, 1), "{scope}");
        let id = pause["id"].as_str().unwrap();
        scene.operate("DELETE", &format!("/pauses/{id}"), String::new()).await;
        assert_eq!(scene.world.deliver().await, 1, "{scope}");
    }
    let suspended = activity(scene.firm.id, "firm.suspended", json!({}));
    scene.reported(later(suspended, 1)).await;
    assert_eq!(scene.happens_to(&process).await, (0, 1), "suspended");
}

#[tokio::test]
async fn what_comes_behind_something_due_waits_for_its_turn() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    scene.world.submit(&scene.firm).await;
    scene.world.fan_out().await;
    assert_eq!(scene.happens_to(&process).await, (0, 2));
    assert_eq!(scene.world.deliver().await, 2);
}

/// Of 80 that a receiver may have 32 of at once.
#[tokio::test]
async fn of_many_what_there_is_no_room_for_waits_in_the_log_for_a_moment() {
    let scene = Scene::new().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
    let process = scene.process(|_| {});
    scene.receiver.hold();
    scene.submit(40).await;
    let mut fan_out = scene.begun(&process).await;
    assert_eq!(scene.step(&mut fan_out).await, Step::Busy);
    assert_eq!(scene.queue().await, (32, 0));
    while scene.step(&mut fan_out).await != Step::IDLE {}
    assert_eq!(scene.queue().await, (32, 48), "in the end they are queued");
    scene.receiver.release();
    process.ends(&scene.world).await;
    while scene.world.deliver().await > 0 {}
    assert_eq!(histories(&scene.world).await, vec![once(); 80]);
}

/// What is in flight is what a receiver has not answered, recorded or not.
#[tokio::test]
async fn what_is_answered_makes_room_before_it_is_recorded() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    scene.submit(40).await;
    let mut fan_out = scene.begun(&process).await;
    assert_eq!(scene.step(&mut fan_out).await, Step::Busy);
    process.answered(32).await;
    assert_eq!(scene.queue().await, (32, 0));
    assert_eq!(scene.step(&mut fan_out).await, Step::IDLE);
    assert_eq!(scene.queue().await, (40, 0));
    process.ends(&scene.world).await;
    assert_eq!(histories(&scene.world).await, vec![once(); 40]);
}

/// One receiver has 32 of 100 and says nothing: what another firm's is told of waits for none of the others.
#[tokio::test]
async fn nobody_waits_in_the_log_for_another_firms_receivers() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    scene.receiver.hold();
    scene.submit(100).await;
    let mut fan_out = scene.begun(&process).await;
    assert_eq!(scene.step(&mut fan_out).await, Step::Busy);
    assert_eq!(scene.queue().await, (32, 0));
    let (other, receiver) = (scene.world.firm().await, Receiver::start().await);
    scene.world.subscribe(&other, &receiver.url("/hook")).await;
    scene.world.submit(&other).await;
    assert_eq!(scene.step(&mut fan_out).await, Step::IDLE);
    assert_eq!(scene.queue().await, (33, 68));
    receiver.wait_for(1).await;
    scene.receiver.release();
}

/// The same where both are read together.
#[tokio::test]
async fn what_another_firms_comes_after_is_queued() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    scene.receiver.hold();
    let (other, receiver) = (scene.world.firm().await, Receiver::start().await);
    scene.world.subscribe(&other, &receiver.url("/hook")).await;
    scene.submit(40).await;
    scene.world.submit(&other).await;
    let mut fan_out = scene.begun(&process).await;
    assert_eq!(scene.step(&mut fan_out).await, Step::IDLE);
    assert_eq!(scene.queue().await.1, 8);
    receiver.wait_for(1).await;
    scene.receiver.release();
}

#[tokio::test]
async fn nothing_waits_in_the_log_for_longer_than_ten_seconds() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    scene.receiver.hold();
    scene.submit(40).await;
    let mut fan_out = scene.begun(&process).await;
    assert_eq!(scene.step(&mut fan_out).await, Step::Busy);
    assert_eq!(scene.queue().await, (32, 0));
    scene.world.pass(Duration::from_millis(10_001));
    assert_eq!(scene.step(&mut fan_out).await, Step::IDLE);
    assert_eq!(scene.queue().await, (32, 8));
    scene.receiver.release();
}

/// What is due is about to be claimed: what comes after it waits for that, and then goes at once.
#[tokio::test]
async fn many_behind_something_due_wait_until_it_is_claimed() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    scene.world.submit(&scene.firm).await;
    scene.world.fan_out().await;
    scene.submit(20).await;
    let just_due = sqlx::query("update lanes set due_at = $1").bind(scene.world.clock.now().get());
    just_due.execute(scene.world.pool()).await.unwrap();
    let mut fan_out = process.fan_out_worker(&scene.world);
    assert_eq!(scene.step(&mut fan_out).await, Step::Busy);
    assert_eq!(scene.queue().await, (0, 1));
    assert_eq!(turn(scene.world.courier()).await.unwrap(), 1);
    assert_eq!(scene.step(&mut fan_out).await, Step::IDLE);
    assert_eq!(scene.queue().await, (20, 0));
    process.ends(&scene.world).await;
    assert_eq!(histories(&scene.world).await, vec![once(); 21]);
}

#[tokio::test]
async fn of_many_that_nothing_may_be_claimed_of_all_are_queued() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let order = json!({"firm_id": scene.firm.id, "reason": "a test"});
    scene.operate("POST", "/pauses", order.to_string()).await;
    scene.submit(70).await;
    let mut fan_out = scene.begun(&process).await;
    assert_eq!(scene.step(&mut fan_out).await, Step::IDLE);
    assert_eq!(scene.queue().await, (0, 70));
}

#[tokio::test]
async fn limits_hold_at_once_too() {
    let scene = Scene::new().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
    scene.receiver.hold();
    let one_per_host = Caps { per_firm_and_host: 1, per_host: 1 };
    let process = scene.process(|courier| courier.settings.caps = one_per_host);
    assert_eq!(scene.happens_to(&process).await, (1, 1));
    assert_eq!(scene.happens_to(&process).await, (1, 3));
    let few = scene.process(|courier| courier.settings.permits = 2);
    scene.world.drop_in_flight().await;
    scene.world.pool().execute("delete from outbox").await.unwrap();
    scene.world.pool().execute("update lanes set due_at = null").await.unwrap();
    assert_eq!(scene.happens_to(&few).await, (1, 1), "the last permit is kept for other firms");
    scene.receiver.release();
}

/// F9
#[tokio::test]
async fn f9_what_is_claimed_at_once_is_no_more_than_a_claim_holds() {
    let scene = Scene::new().await;
    let process = scene.process(|courier| courier.settings.claim_bytes = 1);
    for _ in 0..3 {
        scene.world.submit(&scene.firm).await;
    }
    process.fan_out(&scene.world).await;
    assert_eq!(scene.queue().await, (1, 2));
    process.ends(&scene.world).await;
    while scene.world.deliver().await > 0 {}
    assert_eq!(histories(&scene.world).await, vec![once(); 3]);
}

#[tokio::test]
async fn a_process_that_stops_claims_nothing_more() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    process.stop.cancel();
    assert_eq!(scene.happens_to(&process).await, (0, 1));
}

/// As after a repair, or a place in the log that was set back.
#[tokio::test]
async fn what_was_queued_before_is_passed_by_and_what_comes_with_it_is_queued() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    assert_eq!(scene.happens_to(&process).await, (1, 0));
    let back = "update checkpoints set position = 0 where name = 'fan_out'";
    scene.world.pool().execute(back).await.unwrap();
    assert_eq!(scene.happens_to(&process).await, (1, 1));
    assert_eq!(scene.world.deliver().await, 1);
    process.answered(1).await;
    assert_eq!(scene.happens_to(&process).await.1, 0, "the next is claimed at once again");
    process.ends(&scene.world).await;
    assert_eq!(histories(&scene.world).await, [once(), once(), once()]);
}

/// E11
#[tokio::test]
async fn e11_without_a_keyring_it_is_queued_all_the_same() {
    let scene = Scene::new().await;
    let nowhere = connect(scene.world.database.keyring.clone().database("nowhere"), 1);
    let process = scene.process(|courier| {
        courier.keyring = Keyring::new(nowhere, WrappingKey::new(&[7; 32]));
    });
    assert_eq!(scene.happens_to(&process).await, (0, 1));
    assert_eq!(scene.world.deliver().await, 1);
    assert_eq!(histories(&scene.world).await, [once()]);
}

/// H1
#[tokio::test]
async fn h1_what_was_erased_before_it_was_queued_is_not_claimed_at_once() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let erased = scene.world.submit(&scene.firm).await;
    let erasure = activity(scene.firm.id, "response.erased", json!({"response_id": erased}));
    scene.reported(erasure).await;
    process.fan_out(&scene.world).await;
    assert_eq!(scene.queue().await, (0, 1));
    assert_eq!(scene.world.deliver().await, 0);
    assert_eq!(histories(&scene.world).await, [("cancelled".to_owned(), Vec::new())]);
    assert!(scene.receiver.received().is_empty());
}

/// Ruling 27: whether it was finished meanwhile, a claim asks.
#[tokio::test]
async fn a_partial_submission_is_left_to_a_claim() {
    let scene = Scene::new().await;
    let hook =
        json!({"target_url": scene.receiver.url("/partial"), "trigger": "partial_submission"});
    assert_eq!(scene.world.call(&scene.firm.key, "POST", "/hooks", hook).await.status, 201);
    let saved = json!({
        "response_id": scene.world.id(), "form_id": scene.firm.form,
        "saved_at": "2026-11-01T12:00:00Z",
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "A"}],
    });
    scene.reported(activity(scene.firm.id, "response.saved", saved)).await;
    scene.world.pass(Duration::from_secs(3_601));
    scene.world.time_out().await;
    let process = scene.process(|_| {});
    process.fan_out(&scene.world).await;
    assert_eq!(scene.queue().await, (0, 1));
    assert_eq!(scene.world.deliver().await, 1);
}

/// E20: processes that queue, claim at once, claim and record beside each other
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e20_what_racing_processes_claim_at_once_and_later_is_sent_once() {
    let scene = Scene::new().await;
    for place in 0..4 {
        scene.world.subscribe(&scene.firm, &scene.receiver.url(&format!("/{place}"))).await;
    }
    let processes = [scene.process(|_| {}), scene.process(|_| {})];
    let claims = async || turn(scene.world.courier()).await.unwrap();
    let mut claimed_later = 0;
    for _ in 0..40 {
        scene.world.submit(&scene.firm).await;
        scene.world.submit(&scene.firm).await;
        let fan_outs = join_all(processes.iter().map(|process| process.fan_out(&scene.world)));
        let (_, some, more) = tokio::join!(fan_outs, claims(), claims());
        claimed_later += some + more;
    }
    for process in processes {
        process.ends(&scene.world).await;
    }
    claimed_later += scene.world.deliver().await;
    let received = scene.receiver.received();
    let ids: BTreeSet<_> =
        received.iter().map(|one| one.header("x-service-delivery").to_owned()).collect();
    assert_eq!((received.len(), ids.len()), (400, 400));
    assert!(claimed_later < 400, "some were claimed at once");
    assert_eq!(histories(&scene.world).await, vec![once(); 400]);
    assert_eq!(scene.queue().await, (0, 0));
}
