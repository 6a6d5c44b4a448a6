//! Replays (ruling 31): an ended delivery is sent once more, under the same ids and with the same
//! bytes.

use std::collections::BTreeSet;
use std::time::Duration;

use api::commands::tokens::HolderRole;
use deliverer::inspect::proof::{LogFilter, ProofScope, verify};
use serde_json::{Value, json};
use tests::{Answer, Firm, Receiver, Reply, World};
use uuid::Uuid;

use tests::process::firmforms;

/// A world with an operator, a firm with a subscription, and a receiver.
struct Scene {
    world: World,
    firm: Firm,
    hook: Uuid,
    receiver: Receiver,
    token: String,
}

impl Scene {
    async fn new() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
        let token = world.new_token(HolderRole::Operator).await;
        Self { world, firm, hook, receiver, token }
    }

    /// So many deliveries that end at once with this status.
    async fn ended(&self, count: usize, status: u16) -> Vec<Uuid> {
        self.receiver.reply((0..count).map(|_| Reply::status(status)));
        let before = self.receiver.received().len();
        for _ in 0..count {
            self.world.submit(&self.firm).await;
        }
        assert_eq!(self.world.deliver().await, count);
        self.receiver.received()[before..]
            .iter()
            .map(|request| request.header("x-service-delivery").parse().unwrap())
            .collect()
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        self.internal(method, &format!("/replays{path}"), body).await
    }

    async fn internal(&self, method: &str, path: &str, body: Value) -> Answer {
        self.world.call_internally(&self.token, method, path, body).await
    }

    /// Begins a replay.
    async fn start(&self, mut order: Value) -> Answer {
        order["firm_id"] = json!(self.firm.id);
        order["reason"] = json!("the receiver was down");
        self.call("POST", "", order).await
    }

    /// Sends the due deliveries of replays, and returns how many.
    async fn send(&self) -> usize {
        let mut sent = 0;
        for _ in 0..5 {
            self.world.replay().await;
            sent += self.world.deliver().await;
            self.world.pass(Duration::from_secs(1));
        }
        sent
    }

    /// Holds the subscription.
    async fn pause_hook(&self) {
        let scope = json!({"hook_id": self.hook, "reason": "the receiver is down"});
        assert_eq!(self.internal("POST", "/pauses", scope).await.status, 201);
    }

    async fn resume_all(&self) {
        let pauses = self.internal("GET", "/pauses", Value::Null).await;
        for pause in pauses.body["items"].as_array().unwrap() {
            let path = format!("/pauses/{}", pause["id"].as_str().unwrap());
            assert_eq!(self.internal("DELETE", &path, Value::Null).await.status, 200);
        }
    }

    /// Reports that the response was erased that this delivery tells of.
    async fn report_erased(&self, delivery_id: Uuid) {
        let response: Uuid =
            sqlx::query_scalar("select response_id from deliveries where delivery_id = $1")
                .bind(delivery_id)
                .fetch_one(self.world.pool())
                .await
                .unwrap();
        self.world.order_erasure(&self.firm, response).await;
    }

    /// Everything is where it must be, by the log.
    async fn assert_proven(&self) {
        let part = LogFilter { firm_id: None, since: None, until: None };
        let all = ProofScope { from: 1, to: i64::MAX, part, examples: 3 };
        let report = verify(self.world.pool(), all, |_, _| ()).await.unwrap();
        assert!(report.is_proven(), "{:?}", report.examples);
    }

    async fn show(&self, begun: &Answer) -> Value {
        let id = begun.body["id"].as_str().unwrap();
        self.call("GET", &format!("/{id}"), Value::Null).await.body
    }
}

#[tokio::test]
async fn g8_a_replay_sends_the_same_bytes() {
    let scene = Scene::new().await;
    let failed = scene.ended(1, 404).await;
    let begun = scene.start(json!({})).await;
    assert_eq!((begun.status.as_u16(), &begun.body["selected"]), (202, &json!(1)));
    assert_eq!(scene.send().await, 1);
    let received = scene.receiver.received();
    let [first, second] = &received[..] else { panic!("{} requests", received.len()) };
    assert_eq!(first.body, second.body);
    for same in ["x-service-delivery", "idempotency-key", "x-service-hook", "x-service-event"] {
        assert_eq!(first.header(same), second.header(same));
    }
    let (state, outcomes) = scene.world.history(failed[0]).await;
    assert_eq!(
        (state.as_str(), outcomes),
        ("delivered", vec!["failed".into(), "delivered".into()])
    );
    let shown = scene.show(&begun).await;
    assert_eq!(
        (&shown["state"], &shown["outcomes"]),
        (&json!("finished"), &json!({"delivered": 1}))
    );
    assert_eq!(scene.send().await, 0, "once");
}

#[tokio::test]
async fn an_unsuccessful_replay_changes_nothing() {
    let scene = Scene::new().await;
    let failed = scene.ended(1, 404).await;
    for (status, tries) in [(503, 2), (410, 3), (410, 4)] {
        scene.receiver.reply([Reply::status(status)]);
        let begun = scene.start(json!({})).await;
        assert_eq!(scene.send().await, 1, "{status}");
        let (state, outcomes) = scene.world.history(failed[0]).await;
        assert_eq!((state.as_str(), outcomes.len()), ("failed", tries), "{status}");
        assert_eq!(outcomes.last().unwrap(), "failed");
        assert_eq!(scene.show(&begun).await["outcomes"], json!({"failed": 1}));
    }
    scene.world.pass(Duration::from_secs(86_400));
    assert_eq!(scene.send().await, 0, "no retries");
    let hooks = scene.world.get(&scene.firm, "/hooks").await;
    assert_eq!(hooks.body[0]["id"], json!(scene.hook), "410s of replays do not count");
}

#[tokio::test]
async fn a_successful_replay_resets_410_counts() {
    let scene = Scene::new().await;
    scene.ended(1, 410).await;
    scene.start(json!({})).await;
    assert_eq!(scene.send().await, 1);
    scene.ended(1, 410).await;
    let hooks = scene.world.get(&scene.firm, "/hooks").await;
    assert_eq!(hooks.body[0]["id"], json!(scene.hook), "one in a row");
}

/// A call repeated after a lost 202 once sent everything that failed once more.
#[tokio::test]
async fn g8_a_repeated_request_begins_one_replay() {
    let scene = Scene::new().await;
    scene.ended(2, 404).await;
    scene.receiver.reply([Reply::status(404), Reply::status(404)]);
    let order = || json!({"request_id": scene.firm.owner});
    let begun = scene.start(order()).await;
    assert_eq!(begun.status, 202);
    assert_eq!(begun.body["request_id"], json!(scene.firm.owner));
    assert_eq!(scene.send().await, 2);
    let again = scene.start(order()).await;
    assert_eq!(again.status, 202, "{}", again.text());
    for same in ["id", "request_id", "selected", "seconds"] {
        assert_eq!(again.body[same], begun.body[same], "{same}");
    }
    assert_eq!(scene.send().await, 0);
    let other = scene.start(json!({})).await;
    assert_ne!(other.body["id"], begun.body["id"], "another request");
    assert_ne!(other.body["request_id"], begun.body["request_id"]);
    assert_eq!(scene.send().await, 2);
    scene.assert_proven().await;
}

/// All calls have one request id. The later of two finds the request taken in its transaction.
#[tokio::test]
async fn g8_concurrent_calls_begin_one_replay() {
    let scene = Scene::new().await;
    scene.ended(1, 404).await;
    let order = || json!({"request_id": scene.firm.owner});
    let calls: Vec<Answer> = futures::future::join_all((0..6).map(|_| scene.start(order()))).await;
    let ids: BTreeSet<String> =
        calls.iter().map(|answer| answer.body["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(scene.world.count_events("ReplayRequested").await, 1);
    assert_eq!(scene.send().await, 1);
}

#[tokio::test]
async fn g9_only_force_replays_delivered_deliveries() {
    let scene = Scene::new().await;
    let delivered = scene.ended(2, 200).await;
    let order = json!({"delivery_ids": delivered});
    let begun = scene.start(order.clone()).await;
    assert_eq!(begun.body["selected"], 0);
    assert_eq!(begun.body["skipped_counts"], json!({"delivered": 2}));
    assert_eq!(scene.send().await, 0);
    let mut forced = order;
    forced["force"] = json!(true);
    scene.start(forced).await;
    scene.receiver.reply([Reply::status(500)]);
    assert_eq!(scene.send().await, 2);
    for id in delivered {
        assert_eq!(scene.world.history(id).await.0, "delivered", "what has arrived has arrived");
    }
}

/// G10, and the other reasons: each is said, and nothing of a skipped delivery is sent.
#[tokio::test]
async fn g10_a_skip_names_its_reason() {
    let scene = Scene::new().await;
    let removed = world_hook(&scene).await;
    let failed = scene.ended(1, 404).await;
    let pending = scene.ended(1, 503).await;
    let order = json!({"delivery_ids": [failed[0], pending[0]]});
    let begun = scene.start(order).await;
    assert_eq!(begun.body["skipped"], json!([{"delivery_id": pending[0], "why": "pending"}]));
    let nobodys = scene.world.id();
    let order = json!({"delivery_ids": [nobodys], "dry_run": true});
    let named = scene.start(order).await;
    assert_eq!(named.body["skipped"], json!([{"delivery_id": nobodys, "why": "not_selected"}]));

    // Erased and removed between the request and its turn.
    scene.world.remove_hook(&scene.firm, removed).await.ok();
    scene.world.remove_hook(&scene.firm, scene.hook).await.ok();
    let before = scene.receiver.received().len();
    assert_eq!(scene.send().await, 0);
    assert_eq!(scene.receiver.received().len(), before);
    assert_eq!(scene.show(&begun).await["outcomes"], json!({"hook_removed": 1}));
    let begun = scene.start(json!({})).await;
    assert_eq!(begun.body["skipped_counts"], json!({"hook_removed": 1}));
}

async fn world_hook(scene: &Scene) -> Uuid {
    let body = json!({"target_url": scene.receiver.url("/other"), "trigger": "report_sent"});
    let answer = scene.world.create_hook(&scene.firm, body).await;
    answer.body["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn erased_and_purged_deliveries_are_not_replayed() {
    let scene = Scene::new().await;
    let failed = scene.ended(2, 404).await;
    let begun = scene.start(json!({})).await;
    scene.report_erased(failed[0]).await;
    scene.world.erase().await;
    assert_eq!(scene.send().await, 1);
    let shown = scene.show(&begun).await;
    assert_eq!(shown["outcomes"], json!({"delivered": 1, "source_erased": 1}));
    scene.world.pass(Duration::from_secs(31 * 86_400));
    scene.world.purge().await;
    let begun = scene.start(json!({"delivery_ids": failed, "force": true})).await;
    let counts = json!({"source_erased": 1, "body_purged": 1});
    assert_eq!(begun.body["skipped_counts"], counts);
}

/// G11 in small: the replay is no faster than asked for, is paused, goes on and is ended by hand.
#[tokio::test]
async fn g11_a_replay_keeps_its_rate() {
    let scene = Scene::new().await;
    scene.ended(12, 404).await;
    let begun = scene.start(json!({"rate_per_second": 2})).await;
    assert_eq!(begun.body["seconds"], 6);
    let id = begun.body["id"].as_str().unwrap().to_owned();
    let turn = async || {
        scene.world.pass(Duration::from_secs(1));
        scene.world.replay().await;
        scene.world.deliver().await
    };
    assert_eq!((turn().await, turn().await), (2, 2));
    let paused = scene.call("POST", &format!("/{id}/pause"), Value::Null).await;
    assert_eq!(paused.body["state"], "paused");
    assert_eq!((turn().await, turn().await), (0, 0));
    let resumed = scene.call("POST", &format!("/{id}/resume"), Value::Null).await;
    assert_eq!(resumed.body["state"], "running");
    assert_eq!(turn().await, 2);
    let stopped = scene.call("DELETE", &format!("/{id}"), Value::Null).await;
    assert_eq!(stopped.body["state"], "stopped");
    assert_eq!((turn().await, turn().await), (0, 0));
    let outcomes = &scene.show(&begun).await["outcomes"];
    assert_eq!(outcomes, &json!({"delivered": 6, "waiting": 6}));
    let refused = scene.call("POST", &format!("/{id}/resume"), Value::Null).await;
    assert_eq!(refused.code(), (409, "replay_ended"));
    let rest = scene.start(json!({})).await;
    assert_eq!(rest.body["selected"], 6, "what was not sent is still failed");
}

/// G11: deliveries that a receiver does not take wait with the replay, where they can be held and
/// ended. In the queue, all of them would be sent at once when the receiver is back.
#[tokio::test]
async fn g11_a_held_replay_keeps_its_rate() {
    let scene = Scene::new().await;
    scene.ended(12, 404).await;
    scene.pause_hook().await;
    let begun = scene.start(json!({"rate_per_second": 2})).await;
    let id = begun.body["id"].as_str().unwrap().to_owned();
    for _ in 0..5 {
        scene.world.pass(Duration::from_secs(1));
        scene.world.replay().await;
    }
    assert_eq!(scene.show(&begun).await["outcomes"], json!({"queued": 2, "waiting": 10}));
    scene.resume_all().await;
    assert_eq!(scene.world.deliver().await, 2, "what one second may bring");
    scene.world.pass(Duration::from_secs(2));
    scene.world.replay().await;
    assert_eq!(scene.world.deliver().await, 2, "it goes on");
    scene.pause_hook().await;
    scene.world.pass(Duration::from_secs(2));
    scene.world.replay().await;
    let stopped = scene.call("DELETE", &format!("/{id}"), Value::Null).await;
    assert_eq!(stopped.body["state"], "stopped");
    scene.resume_all().await;
    assert_eq!(scene.world.deliver().await, 0, "what was queued of it is not sent");
    let outcomes = &scene.show(&begun).await["outcomes"];
    assert_eq!(outcomes, &json!({"delivered": 4, "dropped": 2, "waiting": 6}));
    scene.assert_proven().await;
}

/// A replay whose receiver takes nothing keeps no other waiting.
#[tokio::test]
async fn a_held_replay_delays_no_other() {
    let scene = Scene::new().await;
    scene.ended(4, 404).await;
    let other = scene.world.firm().await;
    scene.world.subscribe(&other, &scene.receiver.url("/other")).await;
    scene.receiver.reply([Reply::status(404)]);
    scene.world.submit(&other).await;
    assert_eq!(scene.world.deliver().await, 1);
    scene.pause_hook().await;
    let held = scene.start(json!({"rate_per_second": 1})).await;
    scene.world.pass(Duration::from_secs(1));
    scene.world.replay().await;
    let order = json!({"firm_id": other.id, "reason": "the receiver was down"});
    assert_eq!(scene.call("POST", "", order).await.status, 202);
    scene.world.pass(Duration::from_secs(1));
    scene.world.replay().await;
    assert_eq!(scene.world.deliver().await, 1);
    assert_eq!(scene.show(&held).await["outcomes"], json!({"queued": 1, "waiting": 3}));
}

/// A replay that was too fast is stopped, and another one begins. Deliveries that the first had
/// queued were once sent by neither.
#[tokio::test]
async fn the_next_replay_sends_dropped_deliveries() {
    let scene = Scene::new().await;
    scene.ended(3, 404).await;
    scene.pause_hook().await;
    let first = scene.start(json!({"rate_per_second": 2})).await;
    scene.world.replay().await;
    let id = first.body["id"].as_str().unwrap();
    assert_eq!(scene.call("DELETE", &format!("/{id}"), Value::Null).await.status, 200);
    let second = scene.start(json!({"rate_per_second": 5})).await;
    scene.world.replay().await;
    assert_eq!(scene.show(&first).await["outcomes"], json!({"dropped": 2, "waiting": 1}));
    scene.resume_all().await;
    assert_eq!(scene.world.deliver().await, 3);
    assert_eq!(scene.show(&second).await["outcomes"], json!({"delivered": 3}));
    scene.assert_proven().await;
}

/// Both subscriptions are in one replay.
#[tokio::test]
async fn a_paused_subscription_delays_no_other() {
    let scene = Scene::new().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
    scene.receiver.reply((0..6).map(|_| Reply::status(404)));
    for _ in 0..3 {
        scene.world.submit(&scene.firm).await;
    }
    assert_eq!(scene.world.deliver().await, 6);
    scene.pause_hook().await;
    let begun = scene.start(json!({"rate_per_second": 2})).await;
    for _ in 0..4 {
        scene.world.pass(Duration::from_secs(1));
        scene.world.replay().await;
        scene.world.deliver().await;
    }
    let outcomes = &scene.show(&begun).await["outcomes"];
    assert_eq!(outcomes, &json!({"delivered": 3, "queued": 2, "waiting": 1}));
}

/// The response is erased after its delivery was queued and before the eraser comes. The claim
/// takes the delivery out, which once stayed queued in its replay for ever.
#[tokio::test]
async fn a_replay_drops_erased_queued_deliveries() {
    let scene = Scene::new().await;
    let failed = scene.ended(1, 404).await;
    let begun = scene.start(json!({})).await;
    scene.world.replay().await;
    scene.report_erased(failed[0]).await;
    assert_eq!(scene.world.deliver().await, 0);
    scene.world.erase().await;
    assert_eq!(scene.show(&begun).await["outcomes"], json!({"dropped": 1}));
    scene.assert_proven().await;
}

/// One of two replays sends the delivery. Claims race for the turns too.
#[tokio::test]
async fn a_delivery_joins_one_open_replay() {
    let scene = Scene::new().await;
    scene.ended(4, 404).await;
    let (one, two) = (scene.start(json!({})).await, scene.start(json!({})).await);
    tokio::join!(scene.world.replay(), scene.world.replay());
    scene.world.pass(Duration::from_secs(1));
    tokio::join!(scene.world.replay(), scene.world.replay());
    assert_eq!(scene.world.deliver().await, 4);
    let (one, two) = (scene.show(&one).await, scene.show(&two).await);
    let of = |shown: &Value, what: &str| shown["outcomes"][what].as_u64().unwrap_or_default();
    assert_eq!(of(&one, "delivered") + of(&two, "delivered"), 4);
    assert_eq!(of(&one, "replaying") + of(&two, "replaying"), 4);
}

#[tokio::test]
async fn a_replay_needs_reason_and_operator() {
    let scene = Scene::new().await;
    let order = json!({"firm_id": scene.firm.id, "reason": "a test"});
    let with = |field: &str, value: Value| {
        let mut order = order.clone();
        order[field] = value;
        order
    };
    for (order, expected) in [
        (with("reason", json!(" ")), (400, "invalid_request")),
        (with("reason", json!("a".repeat(201))), (400, "invalid_request")),
        (with("rate_per_second", json!(0)), (400, "invalid_request")),
        (with("rate_per_second", json!(5_001)), (400, "invalid_request")),
        (with("state", json!("gone")), (400, "invalid_request")),
        (with("trigger", json!("gone")), (400, "invalid_request")),
        (with("since", json!("yesterday")), (400, "invalid_request")),
        (with("delivery_ids", json!(["1"])), (400, "invalid_request")),
        (with("surprise", json!(1)), (400, "invalid_request")),
        (with("firm_id", json!(scene.world.id())), (404, "firm_not_found")),
    ] {
        assert_eq!(scene.call("POST", "", order.clone()).await.code(), expected, "{order}");
    }
    let unknown = format!("/{}", scene.world.id());
    scene.call("GET", &unknown, Value::Null).await.refused(404, "replay_not_found");
    scene.call("GET", "/x", Value::Null).await.refused(404, "replay_not_found");
    let product = scene.world.token();
    let by_product = scene.world.call_internally(product, "POST", "/replays", order.clone()).await;
    by_product.refused(403, "forbidden");
    let dry = scene.call("POST", "", with("dry_run", json!(true))).await;
    assert_eq!((dry.status.as_u16(), &dry.body["id"]), (200, &Value::Null));
}

/// A replay once began with another number than was confirmed.
#[tokio::test]
async fn a_replay_needs_the_confirmed_number() {
    let scene = Scene::new().await;
    scene.ended(2, 404).await;
    let refused = scene.start(json!({"expected": 1})).await;
    assert_eq!(refused.code(), (409, "selection_changed"));
    assert_eq!(scene.send().await, 0);
    let request_id = scene.world.id();
    let order = json!({"expected": 2, "request_id": request_id});
    let begun = scene.start(order.clone()).await;
    assert_eq!((begun.status.as_u16(), &begun.body["selected"]), (202, &json!(2)));
    let again = scene.start(order).await;
    assert_eq!(again.body["id"], begun.body["id"], "a repeat gets the first replay");
    assert_eq!(scene.start(json!({"expected": "2"})).await.status, 400);
}

/// The end of a replay needs consent, too. Without a terminal nobody can be asked, so `--yes` is
/// needed.
#[tokio::test]
async fn replaying_all_firms_needs_consent() {
    let scene = Scene::new().await;
    scene.ended(2, 404).await;
    let refused = async |arguments: &[&str]| {
        let said = firmforms(&scene.world.database).args(arguments).output().await.unwrap();
        assert!(!said.status.success(), "{arguments:?}: {said:?}");
        String::from_utf8(said.stderr).unwrap()
    };
    let start = ["replay", "start", "--all-firms", "--reason", "an outage"];
    let told = refused(&start).await;
    assert!(told.contains("2 deliveries are sent again: nothing was changed"), "{told}");
    assert_eq!(scene.send().await, 0);
    let begun = scene.start(json!({})).await;
    let id = begun.body["id"].as_str().unwrap().to_owned();
    let told = refused(&["replay", "stop", &id]).await;
    assert!(told.contains("2 deliveries of this replay are not sent"), "{told}");
    assert_eq!(scene.show(&begun).await["state"], "running");
    let stop = ["replay", "stop", &id, "--yes", "--json"];
    let said = firmforms(&scene.world.database).args(stop).output().await.unwrap();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(scene.show(&begun).await["state"], "stopped");
}

/// After an outage one command sends every failed delivery again, of every firm.
#[tokio::test]
async fn the_terminal_replays_all_firms() {
    let scene = Scene::new().await;
    let failed = scene.ended(2, 404).await;
    let quiet = scene.world.firm().await;
    let terminal = async |arguments: &[&str]| -> Value {
        let said = firmforms(&scene.world.database).args(arguments).output().await.unwrap();
        assert!(said.status.success(), "{said:?}");
        serde_json::from_slice(&said.stdout).unwrap()
    };
    let start = ["replay", "start", "--all-firms", "--reason", "an outage", "--json"];
    let dry = terminal(&[&start[..], &["--dry-run"]].concat()).await;
    assert_eq!((&dry[0]["selected"], &dry[0]["id"]), (&json!(2), &Value::Null));
    let begun = terminal(&[&start[..], &["--yes"]].concat()).await;
    assert_eq!(begun.as_array().unwrap().len(), 1, "{quiet:?} has nothing to send");
    let id = begun[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(terminal(&["replay", "pause", &id, "--json"]).await["state"], "paused");
    assert_eq!(scene.send().await, 0);
    assert_eq!(terminal(&["replay", "resume", &id, "--json"]).await["state"], "running");
    assert_eq!(scene.send().await, 2);
    let shown = terminal(&["replay", "show", &id, "--json"]).await;
    assert_eq!(
        (&shown["state"], &shown["outcomes"]),
        (&json!("finished"), &json!({"delivered": 2}))
    );
    for id in failed {
        assert_eq!(scene.world.history(id).await.0, "delivered");
    }
}
