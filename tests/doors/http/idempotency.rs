//! `Idempotency-Key` on `POST /hooks` (rulings 40 and 61).

use std::time::Duration;

use eventstore::worker::{NextStep, Worker};
use futures::future::join_all;
use projector::housekeeping::HousekeepingWorker;
use serde_json::{Value, json};
use tests::{Answer, Firm, World, make_request};

fn body() -> Value {
    json!({"trigger": "form_submitted", "target_url": "https://hooks.example.com/catch"})
}

async fn subscribe(world: &World, key: &str, name: &str, body: &Value) -> Answer {
    let headers = [("x-api-key", key), ("idempotency-key", name)];
    world.public(make_request("POST", "/api/v1/hooks", &headers, body.to_string())).await
}

async fn made(world: &World, firm: &Firm, name: &str) -> String {
    let answer = subscribe(world, &firm.key, name, &body()).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.body["id"].as_str().unwrap().to_owned()
}

async fn hooks(world: &World, firm: &Firm) -> usize {
    world.get(firm, "/hooks").await.body.as_array().unwrap().len()
}

async fn remembered(world: &World) -> i64 {
    world.count("hook_requests").await
}

/// A retry after a lost 201 once made a second subscription, which doubled every delivery.
#[tokio::test]
async fn a_repeated_request_makes_no_second_subscription() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let first = subscribe(&world, &firm.key, "setup 1", &body()).await;
    assert_eq!(first.status, 201);
    let event = json!({"event": "form_submitted", "x": 1,
                       "target_url": "https://hooks.example.com/catch", "form_id": null});
    for body in [&body(), &event] {
        let again = subscribe(&world, &firm.key, "setup 1", body).await;
        assert_eq!((again.status, &again.bytes), (first.status, &first.bytes));
    }
    assert_eq!(hooks(&world, &firm).await, 1);
    assert_ne!(made(&world, &firm, "setup 2").await, first.body["id"].as_str().unwrap());
    assert_ne!(made(&world, &other, "setup 1").await, first.body["id"].as_str().unwrap());
    for changed in [
        json!({"trigger": "lead_hot", "target_url": "https://hooks.example.com/catch"}),
        json!({"trigger": "form_submitted", "target_url": "https://hooks.example.com/"}),
        json!({"trigger": "form_submitted", "target_url": "https://hooks.example.com/catch",
               "form_id": firm.form}),
    ] {
        let refused = subscribe(&world, &firm.key, "setup 1", &changed).await;
        assert_eq!(refused.code(), (409, "idempotency_conflict"), "{changed}");
    }
    assert_eq!((hooks(&world, &firm).await, hooks(&world, &other).await), (2, 1));
    world.subscribe(&firm, "https://hooks.example.com/catch").await;
    assert_eq!(hooks(&world, &firm).await, 3, "without the header each call makes one");
}

#[tokio::test]
async fn a_bad_idempotency_key_is_refused() {
    let world = World::new().await;
    let firm = world.firm().await;
    for name in [String::new(), "a".repeat(256), "a\tb".to_owned(), "é".to_owned()] {
        let refused = subscribe(&world, &firm.key, &name, &body()).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{name:?}");
    }
    let headers = [("x-api-key", &*firm.key), ("idempotency-key", "a"), ("idempotency-key", "a")];
    let twice = make_request("POST", "/api/v1/hooks", &headers, body().to_string());
    world.public(twice).await.refused(400, "invalid_request");
    assert_eq!((hooks(&world, &firm).await, remembered(&world).await), (0, 0));
    made(&world, &firm, &"a".repeat(255)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_repetitions_make_one_subscription() {
    let world = World::new().await;
    let firm = world.firm().await;
    // One place is left, so that a second subscription of the request would exceed the limit.
    world.set_quota(&firm, "hooks", "-infinity", 99).await;
    let ids = join_all((0..8).map(|_| made(&world, &firm, "one"))).await;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!((hooks(&world, &firm).await, remembered(&world).await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repetitions_after_removal_make_one_subscription() {
    let world = World::new().await;
    let firm = world.firm().await;
    let first = made(&world, &firm, "one").await;
    let removed = world.remove_hook(&firm, &first).await;
    assert_eq!(removed.status, 200);
    let other = json!({"trigger": "lead_hot", "target_url": "https://hooks.example.com/catch"});
    let refused = subscribe(&world, &firm.key, "one", &other).await;
    assert_eq!(refused.code(), (409, "idempotency_conflict"), "its key is still that request's");
    let ids = join_all((0..8).map(|_| made(&world, &firm, "one"))).await;
    assert!(ids.iter().all(|id| *id == ids[0] && *id != first), "{first}: {ids:?}");
    assert_eq!((hooks(&world, &firm).await, remembered(&world).await), (1, 1));
}

#[tokio::test]
async fn a_refused_request_is_not_remembered() {
    let world = World::new().await;
    let firm = world.firm().await;
    let private = json!({"trigger": "form_submitted", "target_url": "https://10.0.0.1/"});
    let refused = subscribe(&world, &firm.key, "one", &private).await;
    assert_eq!(refused.code(), (400, "invalid_target"));
    world.set_quota(&firm, "hooks", "-infinity", 100).await;
    let full = subscribe(&world, &firm.key, "one", &body()).await;
    assert_eq!(full.code(), (409, "too_many_hooks"));
    assert_eq!(remembered(&world).await, 0);
    world.change_database("update quotas set used = 0").await;
    made(&world, &firm, "one").await;
}

#[tokio::test]
async fn a_request_is_remembered_for_24_hours() {
    let world = World::new().await;
    let firm = world.firm().await;
    let mut worker = HousekeepingWorker::new(world.pool().clone(), world.clock.clone());
    let first = made(&world, &firm, "one").await;
    world.pass(Duration::from_hours(24));
    assert_eq!(worker.step().await.unwrap(), NextStep::IDLE);
    assert_eq!(made(&world, &firm, "one").await, first, "24 hours, and no longer");
    world.pass(Duration::from_millis(1));
    let second = made(&world, &firm, "one").await;
    assert_ne!(second, first, "housekeeping has not been there yet");
    world.pass(Duration::from_hours(25));
    assert_eq!(worker.step().await.unwrap(), NextStep::IDLE);
    assert_eq!(remembered(&world).await, 0);
    assert_eq!(hooks(&world, &firm).await, 2);
}

#[tokio::test]
async fn revoked_keys_and_closed_firms_forget_requests() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let second = world.new_key(&firm, "second").await;
    for key in [&*firm.key, second.key.as_str(), &*other.key] {
        assert_eq!(subscribe(&world, key, "one", &body()).await.status, 201);
    }
    world.revoke_key(&firm, second.id).await;
    assert_eq!(remembered(&world).await, 2, "the second key's is gone");
    world.close_firm(&firm).await;
    let of_other = world.count(&format!("hook_requests where firm_id = '{}'", other.id)).await;
    assert_eq!((remembered(&world).await, of_other), (1, 1));
}
