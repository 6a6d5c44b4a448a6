//! Lists for operators: deliveries by filter and page by page, lanes, and workflow steps.

use std::collections::BTreeSet;
use std::time::Duration;

use api::commands::tokens::HolderRole;
use serde_json::{Value, json};
use tests::{Answer, Firm, Receiver, Reply, World};
use uuid::Uuid;

use tests::process::firmforms;

/// A firm with two subscriptions, deliveries in every state a second apart, and a step's.
struct Scene {
    world: World,
    firm: Firm,
    hooks: [Uuid; 2],
    operator: String,
    /// When the first ended.
    began: String,
}

impl Scene {
    async fn new() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        let began = world.clock.now().to_string();
        let first = world.subscribe(&firm, &receiver.url("/first")).await;
        let mut response_id = world.id();
        for status in [200, 404, 404] {
            receiver.reply([Reply::status(status)]);
            response_id = world.submit(&firm).await;
            assert_eq!(world.deliver().await, 1);
            world.pass(Duration::from_secs(1));
        }
        let step = world.step_order(&firm, &receiver.url("/step"), response_id);
        world.order_step(&step).await.ok();
        assert_eq!(world.deliver().await, 1);
        world.pass(Duration::from_secs(1));
        let second = world.subscribe(&firm, &receiver.url("/second")).await;
        receiver.reply([Reply::status(503), Reply::status(503)]);
        world.submit(&firm).await;
        assert_eq!(world.deliver().await, 2);
        let operator = world.new_token(HolderRole::Operator).await;
        Self { world, firm, hooks: [first, second], operator, began }
    }

    async fn list(&self, query: &str) -> Answer {
        let path = format!("/firms/{}/deliveries{query}", self.firm.id);
        self.world.get_internally(&self.operator, &path).await
    }

    async fn count(&self, query: &str) -> usize {
        let answer = self.list(query).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        answer.body["items"].as_array().unwrap().len()
    }

    async fn terminal(&self, arguments: &[&str]) -> Vec<Value> {
        let firm = self.firm.id.to_string();
        let mut command = firmforms(&self.world.database);
        let command = command.args(arguments).args(["--firm", &firm, "--json"]);
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[tokio::test]
async fn deliveries_are_listed_by_filter() {
    let scene = Scene::new().await;
    let [first, second] = scene.hooks;
    let began: domain::values::Timestamp = scene.began.parse().unwrap();
    let later = domain::values::Timestamp::new(began.get() + Duration::from_secs(1));
    for (query, expected) in [
        (String::new(), 6),
        (format!("?hook_id={first}"), 4),
        (format!("?hook_id={second}"), 1),
        (format!("?hook_id={first}&state=failed"), 2),
        ("?state=failed".into(), 2),
        ("?state=delivered".into(), 2),
        ("?state=pending".into(), 2),
        ("?state=cancelled".into(), 0),
        ("?trigger=form_submitted".into(), 6),
        ("?trigger=lead_hot".into(), 0),
        (format!("?since={later}"), 5),
        (format!("?until={later}"), 1),
        (format!("?since={later}&until={later}"), 0),
    ] {
        assert_eq!(scene.count(&query).await, expected, "{query}");
    }
    for wrong in [
        "?state=gone",
        "?trigger=gone",
        "?hook_id=1",
        "?since=now",
        "?after=1",
        "?surprise=1",
        "?limit=0",
        "?limit=501",
        &format!("?after={}", scene.world.id()),
    ] {
        assert_eq!(scene.list(wrong).await.code(), (400, "invalid_request"), "{wrong}");
    }
}

/// Deliveries may be of one instant, and more deliveries are queued between the pages.
#[tokio::test]
async fn pages_show_each_delivery_once() {
    let scene = Scene::new().await;
    let (mut seen, mut query) = (BTreeSet::new(), "?limit=2".to_owned());
    loop {
        let page = scene.list(&query).await.body;
        for item in page["items"].as_array().unwrap() {
            assert!(seen.insert(item["id"].as_str().unwrap().to_owned()), "twice");
        }
        let Some(next) = page["next"].as_str() else {
            break;
        };
        query = format!("?limit=2&after={next}");
        scene.world.pass(Duration::from_secs(1));
        scene.world.submit(&scene.firm).await;
        scene.world.project().await;
    }
    assert_eq!(seen.len(), 6, "what came later is before the first page");
}

/// The terminal lists deliveries, workflow steps and lanes.
#[tokio::test]
async fn the_terminal_lists_by_the_same_filters() {
    let scene = Scene::new().await;
    let failed = scene.terminal(&["deliveries", "list", "--state", "failed", "--limit", "1"]).await;
    let id = failed[0]["id"].as_str().unwrap();
    let rest = ["deliveries", "list", "--state", "failed", "--after", id];
    assert_eq!(scene.terminal(&rest).await.len(), 1);
    let steps = scene.terminal(&["workflows", "list"]).await;
    assert_eq!((steps.len(), &steps[0]["state"]), (1, &json!("delivered")));
    assert!(steps[0]["run_id"].is_string() && steps[0]["hook_id"].is_null());

    let lanes = scene.terminal(&["lanes", "list"]).await;
    assert_eq!(lanes.len(), 2, "those with work");
    assert!(lanes.iter().all(|lane| lane["waiting"] == 1 && lane["state"] == "open"));
    let elsewhere = ["lanes", "list", "--host", "other.example"];
    assert_eq!(scene.terminal(&elsewhere).await, [] as [Value; 0]);
    let second = scene.hooks[1].to_string();
    let pause = ["deliveries", "pause", "--hook", &second, "--reason", "a test"];
    assert!(firmforms(&scene.world.database).args(pause).status().await.unwrap().success());
    let lanes = scene.terminal(&["lanes", "list", "--host", "127.0.0.1"]).await;
    let held = lanes.iter().find(|lane| lane["lane_id"] == json!(second)).unwrap();
    assert_eq!((&held["state"], &held["reason"]), (&json!("paused"), &json!("a test")));
    scene.world.suspend_firm(&scene.firm).await;
    let lanes = scene.terminal(&["lanes", "list"]).await;
    assert!(lanes.iter().all(|lane| lane["state"] == "suspended"));
}

#[tokio::test]
async fn a_lane_shows_claimed_and_cancelled_work() {
    let scene = Scene::new().await;
    scene.world.pass(Duration::from_secs(3_600));
    let claimed =
        deliverer::claim::claim_due(scene.world.deliverer(), &scene.world.limits(1)).await.unwrap();
    let wanted = deliverer::inspect::lane_list::LaneFilter { firm_id: None, host: None, limit: 10 };
    let lanes = deliverer::inspect::lane_list::list(scene.world.pool(), &wanted).await.unwrap();
    let lane = lanes.iter().find(|lane| lane.lane_id == claimed[0].lane_id).unwrap();
    assert_eq!((lane.in_flight, lane.waiting, lanes.len()), (1, 0, 2));
    scene.world.remove_hook(&scene.firm, scene.hooks[0]).await.ok();
    let lanes = deliverer::inspect::lane_list::list(scene.world.pool(), &wanted).await.unwrap();
    let lane = lanes.iter().find(|lane| lane.lane_id == scene.hooks[0]).unwrap();
    assert_eq!(lane.cancel_cause.as_deref(), Some("subscription_deleted"));
}
