//! Reissues (ruling 31): an ended delivery is made anew, with a body that is read anew and an id of
//! its own.

use std::fmt::Display;
use std::time::Duration;

use api::commands::tokens::HolderRole;
use domain::activity::reissue_id;
use domain::delivery::LEASE_TIME;
use serde_json::{Value, json};
use tests::invariants::{self, Acknowledged, Run};
use tests::{Answer, AuditEntry, Firm, Receiver, Reply, World, activity, later, place_witness};
use uuid::Uuid;

use tests::process::firmforms;

fn reissue_path(firm: &Firm, delivery_id: impl Display) -> String {
    format!("/firms/{}/deliveries/{delivery_id}/reissue", firm.id)
}

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
        place_witness(world.pool()).await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
        let operator = world.new_token(HolderRole::Operator).await;
        Self { world, firm, hook, receiver, operator }
    }

    /// A delivery that ended with this status, and its response.
    async fn ended(&self, status: u16) -> (Uuid, Uuid) {
        self.receiver.reply([Reply::status(status)]);
        let response_id = self.world.submit(&self.firm).await;
        assert_eq!(self.world.deliver().await, 1);
        (self.last(), response_id)
    }

    /// The delivery that came last.
    fn last(&self) -> Uuid {
        let last = self.receiver.received().pop().unwrap();
        last.header("x-service-delivery").parse().unwrap()
    }

    async fn call(&self, delivery_id: impl Display, order: &Value) -> Answer {
        let path = reissue_path(&self.firm, delivery_id);
        self.world.call_internally(&self.operator, "POST", &path, order.clone()).await
    }

    /// Makes one anew; the new one's id.
    async fn reissue(&self, delivery_id: Uuid) -> Uuid {
        let answer = self.call(delivery_id, &json!({"reason": "the report was wrong"})).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        answer.body["id"].as_str().unwrap().parse().unwrap()
    }

    async fn show(&self, delivery_id: Uuid) -> Value {
        let path = format!("/firms/{}/deliveries/{delivery_id}", self.firm.id);
        self.world.get_internally(&self.operator, &path).await.body
    }

    async fn assert_held(&self) {
        let received = self.receiver.received();
        let requests: Vec<_> = received.iter().map(invariants::Request::new).collect();
        let acknowledged = Acknowledged::default();
        let pool = self.world.pool();
        Run { pool, requests: &requests, acknowledged: &acknowledged, lease: LEASE_TIME }
            .assert_held()
            .await;
    }
}

/// I1: a reissue stands beside the one delivery of occurrence and subscription, and names it. Its
/// body is read anew.
#[tokio::test]
async fn i1_a_reissue_has_its_own_id() {
    let scene = Scene::new().await;
    for (status, state) in [(200, "delivered"), (404, "failed")] {
        let (old, _) = scene.ended(status).await;
        let renamed = json!({"form_id": scene.firm.form, "title": format!("After {status}")});
        let renamed = activity(scene.firm.id, "form.changed", renamed);
        scene.world.report_one(later(renamed, u32::from(status % 100 + 1))).await;
        let new = scene.reissue(old).await;
        assert_eq!(scene.world.deliver().await, 1);
        let received = scene.receiver.received();
        let [.., first, second] = &received[..] else { panic!("{}", received.len()) };
        assert_eq!(second.header("x-service-delivery"), new.to_string());
        assert_eq!(first.header("x-service-delivery"), old.to_string());
        assert_ne!(first.body, second.body, "read anew");
        assert_eq!(first.json()["response"]["id"], second.json()["response"]["id"]);
        assert_eq!(second.header("x-service-hook"), scene.hook.to_string());
        let (old, new) = (scene.show(old).await, scene.show(new).await);
        assert_eq!((&old["state"], &old["reissue_of"]), (&json!(state), &Value::Null));
        assert_eq!((&new["state"], &new["reissue_of"]), (&json!("delivered"), &old["id"]));
    }
    scene.assert_held().await;
}

/// A failed reissue can be reissued itself.
#[tokio::test]
async fn a_reissue_gets_eight_attempts() {
    let scene = Scene::new().await;
    let (old, _) = scene.ended(404).await;
    let new = scene.reissue(old).await;
    scene.receiver.reply((0..8).map(|_| Reply::status(500)));
    let mut tries = scene.world.deliver().await;
    while scene.world.history(new).await.0 == "pending" {
        scene.world.pass(Duration::from_secs(86_400));
        tries += scene.world.deliver().await;
    }
    assert_eq!((tries, scene.world.history(new).await.0.as_str()), (8, "failed"));
    let third = scene.reissue(new).await;
    assert_eq!(scene.world.deliver().await, 1);
    assert_eq!(scene.show(third).await["reissue_of"], json!(new));
    scene.assert_held().await;
}

/// The request is repeated at once and later, at the door and at the terminal.
#[tokio::test]
async fn a_repeated_request_makes_one_reissue() {
    let scene = Scene::new().await;
    let (old, _) = scene.ended(404).await;
    let request_id = scene.world.id();
    let order = json!({"reason": "again", "request_id": request_id});
    let (one, two) = tokio::join!(scene.call(old, &order), scene.call(old, &order));
    let expected =
        json!({"id": reissue_id(old, request_id), "reissue_of": old, "request_id": request_id});
    assert_eq!((one.status.as_u16(), two.status.as_u16()), (202, 202), "{}", two.body);
    assert_eq!((&one.body, &two.body), (&expected, &expected));
    assert_eq!(scene.world.deliver().await, 1);
    assert_eq!(scene.call(old, &order).await.body, expected);
    let (firm, old) = (scene.firm.id.to_string(), old.to_string());
    let request = request_id.to_string();
    let terminal = async |more: &[&str]| {
        let arguments = ["reissue", "--firm", &firm, &old, "--reason", "again", "--json"];
        let mut command = firmforms(&scene.world.database);
        let output = command.args(arguments).args(more).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(terminal(&["--request-id", &request]).await, expected);
    assert_eq!(scene.world.count("outbox").await, 0);
    assert_ne!(terminal(&[]).await["id"], expected["id"], "another request");
    assert_eq!(scene.world.count("outbox").await, 1);
}

#[tokio::test]
async fn the_audit_log_explains_each_reissue() {
    let scene = Scene::new().await;
    let (old, _) = scene.ended(404).await;
    let new = scene.reissue(old).await;
    scene.world.deliver().await;
    let entries = scene.world.audit_entries_of("delivery_reissued").await;
    let [AuditEntry { subject_id, reason, actor_kind, evidence, .. }] = &entries[..] else {
        panic!("{entries:?}")
    };
    assert_eq!(*subject_id, Some(new.to_string()));
    assert_eq!(reason.as_deref(), Some("the report was wrong"));
    assert_eq!((actor_kind.as_str(), &evidence["reissue_of"]), ("operator", &json!(old)));
    assert_eq!(evidence["hook_id"], json!(scene.hook));
}

/// The bytes that were sent are gone, and their source is not.
#[tokio::test]
async fn a_purged_delivery_can_be_reissued() {
    let scene = Scene::new().await;
    let (old, _) = scene.ended(200).await;
    scene.world.pass(Duration::from_secs(8 * 86_400));
    scene.world.purge().await;
    let new = scene.reissue(old).await;
    assert_eq!(scene.world.deliver().await, 1);
    assert_eq!(scene.last(), new);
}

/// It has not ended, its response was erased, it is a step's, or its subscription was removed.
#[tokio::test]
async fn an_unfit_delivery_is_not_reissued() {
    let scene = Scene::new().await;
    let order = json!({"reason": "a test"});
    let not = |answer: Answer, why: &str| {
        assert_eq!(answer.code(), (409, "not_reissued"));
        assert!(answer.body["error"].as_str().unwrap().contains(why), "{}", answer.body);
    };
    let (pending, _) = scene.ended(503).await;
    not(scene.call(pending, &order).await, "has not ended");
    let (erased, response_id) = scene.ended(404).await;
    scene.world.order_erasure(&scene.firm, response_id).await;
    not(scene.call(erased, &order).await, "was erased");
    let (removed, response_id) = scene.ended(404).await;
    let step = scene.world.step_order(&scene.firm, &scene.receiver.url("/step"), response_id);
    scene.receiver.reply([Reply::status(404)]);
    scene.world.order_step(&step).await.ok();
    assert_eq!(scene.world.deliver().await, 1);
    not(scene.call(scene.last(), &order).await, "only a subscription's");
    scene.world.remove_hook(&scene.firm, scene.hook).await.ok();
    not(scene.call(removed, &order).await, "was removed");
}

/// It needs a reason, an operator, an open firm and a delivery of the firm.
#[tokio::test]
async fn a_reissue_needs_a_complete_order() {
    let scene = Scene::new().await;
    let (old, _) = scene.ended(404).await;
    for order in [
        json!({}),
        json!({"reason": " "}),
        json!({"reason": "a".repeat(201)}),
        json!({"reason": "a", "request_id": "1"}),
        json!({"reason": "a", "surprise": 1}),
    ] {
        assert_eq!(scene.call(old, &order).await.code(), (400, "invalid_request"), "{order}");
    }
    let order = json!({"reason": "a test"});
    for unknown in ["x".to_owned(), scene.world.id().to_string()] {
        scene.call(unknown, &order).await.refused(404, "delivery_not_found");
    }
    let other = scene.world.firm().await;
    let post = async |token: &str, firm: &Firm, order: &Value| {
        scene.world.call_internally(token, "POST", &reissue_path(firm, old), order.clone()).await
    };
    post(scene.world.token(), &scene.firm, &order).await.refused(403, "forbidden");
    let made = json!({"reason": "a test", "request_id": scene.world.id()});
    assert_eq!(scene.call(old, &made).await.status, 202);
    // Also of a request that was answered before.
    for order in [order.clone(), made] {
        post(&scene.operator, &other, &order).await.refused(404, "delivery_not_found");
    }
    scene.world.close_firm(&scene.firm).await;
    scene.call(old, &order).await.refused(403, "firm_inactive");
}

/// A reissue is queued while its firm is suspended. It is cancelled when its subscription goes, as
/// any other delivery.
#[tokio::test]
async fn a_suspended_firms_reissue_waits() {
    let scene = Scene::new().await;
    let (old, _) = scene.ended(404).await;
    scene.world.suspend_firm(&scene.firm).await;
    let new = scene.reissue(old).await;
    assert_eq!(scene.world.deliver().await, 0);
    scene.world.report_one(later(activity(scene.firm.id, "firm.closed", json!({})), 2)).await;
    assert_eq!(scene.world.deliver().await, 0);
    assert_eq!(scene.world.history(new).await.0, "cancelled");
    scene.assert_held().await;
}
