//! Pauses: paused deliveries wait in every process, and go on where they were.

use std::time::Duration;

use api::commands::tokens::HolderRole;
use deliverer::attempt::ClaimedAttempt;
use deliverer::attempt::FinishedAttempt;
use deliverer::claim::{claim_due, next_due};
use deliverer::outgoing::OutgoingExchange;
use deliverer::record::record_batch;
use domain::delivery::INSTALLATION_FIRM_ID;
use serde_json::{Value, json};
use tests::{Answer, Firm, Receiver, Reply, World, submitted};
use uuid::Uuid;

use tests::process::{call, firmforms, get, report, serve, serve_with};

/// A world with an operator, a firm with a subscription, and a receiver.
struct Scene {
    world: World,
    firm: Firm,
    hook: Uuid,
    receiver: Receiver,
    operator: String,
}

impl Scene {
    async fn new() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
        let operator = world.new_token(HolderRole::Operator).await;
        Self { world, firm, hook, receiver, operator }
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        self.world.call_internally(&self.operator, method, path, body).await
    }

    /// Pauses the scope and returns the pause's id.
    async fn pause(&self, mut scope: Value) -> String {
        scope["reason"] = json!("the receiver asked for it");
        let answer = self.call("POST", "/pauses", scope).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body["id"].as_str().unwrap().to_owned()
    }

    async fn resume(&self, id: &str) {
        let answer = self.call("DELETE", &format!("/pauses/{id}"), Value::Null).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    async fn queue_step(&self, url: &str, response_id: Uuid) {
        let order = json!({
            "firm_id": self.firm.id, "run_id": self.world.id(), "step_id": self.world.id(),
            "method": "POST", "url": url, "headers": {}, "trigger": "form_submitted",
            "response_id": response_id,
        });
        assert_eq!(self.call("POST", "/workflow-steps", order).await.status, 202);
    }

    /// The pause of each delivery in the firm's list.
    async fn held(&self) -> Vec<Value> {
        let path = format!("/firms/{}/deliveries", self.firm.id);
        let list = self.call("GET", &path, Value::Null).await;
        let items = list.body["items"].as_array().unwrap().clone();
        items.into_iter().map(|item| item["paused"].clone()).collect()
    }

    /// The actions of a chain, with their reasons.
    async fn audited(&self, chain: Uuid) -> Vec<(String, Option<String>)> {
        let entries = self.world.audit_entries(chain).await.into_iter();
        let entries = entries.filter(|entry| entry.action.starts_with("deliveries_"));
        entries.map(|entry| (entry.action, entry.reason)).collect()
    }

    async fn terminal(&self, arguments: &[&str]) -> (i32, Value) {
        let output = firmforms(&self.world.database).args(arguments).output().await.unwrap();
        let said = serde_json::from_slice(&output.stdout);
        let said = said.unwrap_or_else(|_| String::from_utf8_lossy(&output.stderr).into());
        (output.status.code().unwrap(), said)
    }
}

/// All other deliveries go on, and paused deliveries are sent when the pause ends.
#[tokio::test]
async fn a_pause_holds_its_scope_alone() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let other = world.firm().await;
    let elsewhere = Receiver::start_at("127.0.0.2").await;
    world.subscribe(&other, &elsewhere.url("/hook")).await;
    for (scope, goes_on) in [
        (json!({"all": true}), 0),
        (json!({"firm_id": scene.firm.id}), 1),
        (json!({"hook_id": scene.hook}), 1),
        (json!({"host": "127.0.0.1"}), 1),
    ] {
        let id = scene.pause(scope.clone()).await;
        world.submit(&scene.firm).await;
        world.submit(&other).await;
        assert_eq!(world.deliver().await, goes_on, "{scope}");
        let queued = world.count("outbox").await;
        assert_eq!(queued, 2 - i64::try_from(goes_on).unwrap(), "queueing goes on: {scope}");
        assert!(scene.held().await.contains(&json!(id)), "{scope}");
        let due = next_due(world.deliverer(), &world.limits(8)).await.unwrap();
        assert_eq!(due, None, "a claim does not wake for what is held");
        scene.resume(&id).await;
        assert_eq!(world.deliver().await, 2 - goes_on, "{scope}");
        assert!(scene.held().await.iter().all(Value::is_null));
    }
}

/// The pause is of all firms, of their firm or of their host.
#[tokio::test]
async fn pauses_hold_workflow_steps_too() {
    let scene = Scene::new().await;
    let response_id = scene.world.submit(&scene.firm).await;
    assert_eq!(scene.world.deliver().await, 1);
    for scope in
        [json!({"all": true}), json!({"firm_id": scene.firm.id}), json!({"host": "127.0.0.1"})]
    {
        let id = scene.pause(scope).await;
        scene.queue_step(&scene.receiver.url("/step"), response_id).await;
        assert_eq!(scene.world.deliver().await, 0);
        assert!(scene.held().await.contains(&json!(id)));
        scene.resume(&id).await;
        assert_eq!(scene.world.deliver().await, 1);
    }
}

#[tokio::test]
async fn a_pause_holds_new_subscriptions_too() {
    let scene = Scene::new().await;
    for scope in
        [json!({"firm_id": scene.firm.id}), json!({"host": "127.0.0.1"}), json!({"all": true})]
    {
        let id = scene.pause(scope).await;
        scene.world.subscribe(&scene.firm, &scene.receiver.url("/new")).await;
        scene.world.submit(&scene.firm).await;
        assert_eq!(scene.world.deliver().await, 0);
        scene.resume(&id).await;
        assert!(scene.world.deliver().await > 1);
    }
}

/// A retry that was due on the first day goes out on the fortieth, as the second attempt and with
/// the same bytes.
#[tokio::test]
async fn a_paused_delivery_does_not_age() {
    let scene = Scene::new().await;
    let world = &scene.world;
    scene.receiver.reply([Reply::status(503), Reply::status(503)]);
    world.submit(&scene.firm).await;
    assert_eq!(world.deliver().await, 1);
    let id = scene.pause(json!({"hook_id": scene.hook})).await;
    for _day in 0..40 {
        world.pass(Duration::from_secs(86_400));
        assert_eq!(world.deliver().await, 0);
        world.purge().await;
    }
    scene.resume(&id).await;
    assert_eq!(world.deliver().await, 1);
    let received = scene.receiver.received();
    assert_eq!(received[0].body, received[1].body);
    let delivery: Uuid = received[1].header("x-service-delivery").parse().unwrap();
    let two = vec!["retry".to_owned(), "retry".to_owned()];
    assert_eq!(world.history(delivery).await, ("pending".to_owned(), two));
    world.pass(Duration::from_secs(86_400));
    assert_eq!(world.deliver().await, 1);
    assert_eq!(world.history(delivery).await.0, "delivered");
}

#[tokio::test]
async fn replays_are_held_like_first_tries() {
    let scene = Scene::new().await;
    scene.receiver.reply([Reply::status(404)]);
    scene.world.submit(&scene.firm).await;
    assert_eq!(scene.world.deliver().await, 1);
    let id = scene.pause(json!({"all": true})).await;
    let order = json!({"firm_id": scene.firm.id, "reason": "the receiver was down"});
    assert_eq!(scene.call("POST", "/replays", order).await.status, 202);
    scene.world.replay().await;
    assert_eq!(scene.world.deliver().await, 0);
    scene.resume(&id).await;
    assert_eq!(scene.world.deliver().await, 1);
}

/// The subscription is removed during the pause. Its deliveries are not kept for ever.
#[tokio::test]
async fn a_removal_cancels_paused_deliveries() {
    let scene = Scene::new().await;
    scene.pause(json!({"all": true})).await;
    scene.world.submit(&scene.firm).await;
    assert_eq!(scene.world.deliver().await, 0);
    scene.world.remove_hook(&scene.firm, scene.hook).await.ok();
    assert_eq!(scene.world.deliver().await, 0);
    assert_eq!(scene.world.delivery_states().await[0].0, "cancelled");
}

/// The subscription is removed by its own key or by its receiver. All other pauses stay.
#[tokio::test]
async fn a_pause_ends_with_its_subscription() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let listed = async || {
        let list = scene.call("GET", "/pauses", Value::Null).await.body;
        let items = list["items"].as_array().unwrap().clone();
        items.into_iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let of_host = scene.pause(json!({"host": "held.example.com"})).await;
    let of_hook = scene.pause(json!({"hook_id": scene.hook})).await;
    world.remove_hook(&scene.firm, scene.hook).await.ok();
    assert_eq!(listed().await, [of_host.as_str()]);
    let resumed = scene.call("DELETE", &format!("/pauses/{of_hook}"), Value::Null).await;
    assert_eq!(resumed.code(), (404, "pause_not_found"));

    let gone = world.subscribe(&scene.firm, &scene.receiver.url("/gone")).await;
    for _ in 0..2 {
        world.submit(&scene.firm).await;
    }
    let claimed = claim_due(world.deliverer(), &world.limits(8)).await.unwrap();
    scene.pause(json!({"hook_id": gone})).await;
    let gone_twice: Vec<FinishedAttempt> =
        claimed.into_iter().map(|claimed| answered_gone(world, claimed)).collect();
    assert_eq!(gone_twice.len(), 2);
    record_batch(world.deliverer(), &gone_twice).await.unwrap();
    assert_eq!(listed().await, [of_host]);
}

/// The receiver of a claimed attempt is gone.
fn answered_gone(world: &World, claimed: ClaimedAttempt) -> FinishedAttempt {
    let exchange = OutgoingExchange {
        answer: domain::delivery::AttemptAnswer::Status(410),
        retry_after: None,
        hops: Vec::new(),
        snippet: Vec::new(),
        connected: true,
    };
    FinishedAttempt { claimed, exchange, finished_at: world.clock.now() }
}

/// The chain of the firm or of the installation has the operator, the scope and the reason.
#[tokio::test]
async fn the_audit_log_explains_each_pause() {
    let scene = Scene::new().await;
    let firm = scene.firm.id;
    for scope in [json!({"all": true}), json!({"host": "A.example."}), json!({"firm_id": firm})] {
        let id = scene.pause(scope.clone()).await;
        assert_eq!(scene.pause(scope).await, id, "held once");
        scene.resume(&id).await;
        let again = scene.call("DELETE", &format!("/pauses/{id}"), Value::Null).await;
        assert_eq!(again.code(), (404, "pause_not_found"));
    }
    let hook = scene.pause(json!({"hook_id": scene.hook})).await;
    let list = scene.call("GET", "/pauses", Value::Null).await;
    assert_eq!(list.body["items"].as_array().unwrap().len(), 1);
    let item = &list.body["items"][0];
    assert_eq!((&item["id"], &item["kind"]), (&json!(hook), &json!("hook")));
    assert_eq!((&item["hook_id"], &item["firm_id"]), (&json!(scene.hook), &json!(firm)));
    assert_eq!(item["reason"], "the receiver asked for it");
    assert!(item["paused_by"].as_str().unwrap().starts_with("operator:"));

    scene.world.project().await;
    let entry = |action: &str, reason: Option<&str>| {
        (format!("deliveries_{action}"), reason.map(str::to_owned))
    };
    let held = || entry("paused", Some("the receiver asked for it"));
    let over = || entry("resumed", None);
    assert_eq!(scene.audited(INSTALLATION_FIRM_ID).await, [held(), over(), held(), over()]);
    assert_eq!(scene.audited(firm).await, [held(), over(), held()]);
    let nil = INSTALLATION_FIRM_ID.to_string();
    let (code, entries) = scene.terminal(&["audit", "list", "--firm", &nil, "--json"]).await;
    let pauses =
        entries.as_array().unwrap().iter().filter(|entry| entry["subject"]["kind"] == "pause");
    assert_eq!((code, pauses.count()), (0, 4), "{entries}");
    assert_eq!(scene.terminal(&["audit", "checkpoint"]).await.0, 0);
    assert_eq!(scene.terminal(&["audit", "verify"]).await.0, 0);
}

/// It needs a reason, an operator and a scope that is there.
#[tokio::test]
async fn a_pause_needs_a_complete_order() {
    let scene = Scene::new().await;
    let nobody = scene.world.id();
    for (order, expected) in [
        (json!({}), (400, "invalid_request")),
        (json!({"reason": " "}), (400, "invalid_request")),
        (json!({"reason": "a".repeat(201)}), (400, "invalid_request")),
        (json!({"reason": "a", "all": true, "surprise": 1}), (400, "invalid_request")),
        // An order without an id pauses nothing, and not everything.
        (json!({"reason": "a"}), (400, "invalid_request")),
        (json!({"reason": "a", "all": false}), (400, "invalid_request")),
        (json!({"reason": "a", "hook_id": null}), (400, "invalid_request")),
        (json!({"reason": "a", "all": true, "host": "a.example"}), (400, "invalid_request")),
        (json!({"reason": "a", "host": "a/b"}), (400, "invalid_request")),
        (json!({"reason": "a", "host": "a.example", "firm_id": nobody}), (400, "invalid_request")),
        (json!({"reason": "a", "firm_id": nobody}), (404, "firm_not_found")),
        (json!({"reason": "a", "hook_id": nobody}), (404, "not_found")),
    ] {
        assert_eq!(scene.call("POST", "/pauses", order.clone()).await.code(), expected, "{order}");
    }
    for id in ["x".to_owned(), nobody.to_string()] {
        let refused = scene.call("DELETE", &format!("/pauses/{id}"), Value::Null).await;
        assert_eq!(refused.code(), (404, "pause_not_found"));
    }
    for (method, path) in [("POST", "/pauses"), ("GET", "/pauses"), ("DELETE", "/pauses/x")] {
        let product = scene.world.token();
        let refused = scene.world.call_internally(product, method, path, Value::Null).await;
        assert_eq!(refused.code(), (403, "forbidden"), "{method}");
    }
}

/// The pause begins at the terminal before the service starts, and ends there while it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminals_pause_outlives_restarts() {
    let scene = Scene::new().await;
    let database = &scene.world.database;
    let wrong = scene.terminal(&["deliveries", "pause", "--reason", "a"]).await;
    assert_eq!(wrong.0, 2, "what is to be held must be said");
    assert_eq!(scene.terminal(&["deliveries", "resume", "--all"]).await.0, 1);
    let pause = ["deliveries", "pause", "--all", "--reason", "maintenance", "--json"];
    let (code, held) = scene.terminal(&pause).await;
    assert_eq!((code, &held["scope"]), (0, &json!("everything")));
    scene.world.submit(&scene.firm).await;
    let first = serve(database, &[]).await;
    until(&scene.world, "select exists (select from outbox)").await;
    drop(first);
    let second = serve(database, &[]).await;
    let (_, listed) = scene.terminal(&["deliveries", "paused", "--json"]).await;
    assert_eq!(listed, json!([held]));
    assert!(scene.receiver.received().is_empty());
    assert_eq!(scene.terminal(&["deliveries", "resume", "--all", "--json"]).await.0, 0);
    scene.receiver.wait_for(1).await;
    drop(second);
}

/// G14: a service that starts on a restored backup takes everything in and sends nothing, until
/// somebody has looked and starts it without `--paused`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g14_a_paused_process_sends_nothing() {
    let scene = Scene::new().await;
    let (world, database) = (&scene.world, &scene.world.database);
    scene.receiver.reply([Reply::status(404)]);
    world.submit(&scene.firm).await;
    assert_eq!(world.deliver().await, 1);
    let order = json!({"firm_id": scene.firm.id, "reason": "the receiver was down"});
    let replay = scene.call("POST", "/replays", order).await.body["id"].clone();

    let paused = serve_with(database, &[], &[("FIRMFORMS_PAUSED", "true")]).await;
    let ready = get(paused.internal, "/readyz").await.1;
    assert!(ready.contains(r#"{"ok":true,"paused":true"#), "{ready}");
    let batch = json!([submitted(&scene.firm, world.id())]).to_string();
    assert_eq!(report(paused.internal, world.token(), &batch).await.unwrap(), 202);
    until(world, "select exists (select from outbox)").await;
    until(world, "select count(*) = 2 from deliveries").await;
    let send = format!("/forms/{}/send", scene.firm.form);
    let invite = json!({"email": "ann@example.com"}).to_string();
    let (status, said) = call(paused.public, ("POST", &send), &scene.firm.key, &invite).await;
    assert_eq!(status, 502, "{said}");
    assert_eq!(world.count("replay_items where outcome is null").await, 1);
    assert_eq!(scene.receiver.received().len(), 1);
    drop(paused);

    let mails = world.mails.path().to_str().unwrap();
    let open = serve(database, &["--mail-dir", mails]).await;
    let ready = get(open.internal, "/readyz").await.1;
    assert!(ready.ends_with(r#"{"ok":true}"#), "{ready}");
    scene.receiver.wait_for(3).await;
    until(world, "select state = 'finished' from replays").await;
    assert!(replay.is_string());
    let (status, said) = call(open.public, ("POST", &send), &scene.firm.key, &invite).await;
    assert_eq!(status, 202, "the place of the day was given back: {said}");
}

async fn until(world: &World, question: &'static str) {
    while !sqlx::query_scalar::<_, bool>(question).fetch_one(world.pool()).await.unwrap() {
        tokio::task::yield_now().await;
    }
}
