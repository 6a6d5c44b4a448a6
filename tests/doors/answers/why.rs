//! How a subscription, a key and a delivery came to their states: the whole chain of causes.

use std::time::Duration;

use serde_json::{Value, json};
use tests::{Receiver, Reply, activity, later};
use uuid::Uuid;

use super::Desk;

fn sentences(history: &Value) -> Vec<String> {
    let steps = history["steps"].as_array().unwrap().iter();
    steps.map(|step| step["sentence"].as_str().unwrap().to_owned()).collect()
}

fn events(history: &Value) -> Vec<&str> {
    history["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["event"].as_str().unwrap())
        .collect()
}

/// Member left, key revoked, subscription removed, delivery cancelled.
async fn member_leaves(desk: &Desk) -> (Uuid, Uuid) {
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/in?token=secret")).await;
    desk.world.submit(&desk.firm).await;
    let leaves = json!({"member_id": desk.firm.owner});
    desk.world.report_one(later(activity(desk.firm.id, "member.left", leaves), 1)).await;
    desk.world.deliver().await;
    desk.world.project().await;
    let delivery = desk.world.first_delivery_id().await;
    (hook, delivery)
}

/// The histories of the subscription, the key and the cancelled delivery show one chain.
#[tokio::test]
async fn histories_lead_back_to_the_leaving_member() {
    let desk = Desk::new().await;
    let (hook, delivery) = member_leaves(&desk).await;
    let (owner, prefix) = (desk.firm.owner, &desk.firm.key[..12]);
    let key = format!("the key \"Zapier\" ({prefix}…)");
    let chain = [
        format!("member {owner} left the firm"),
        format!("{key} was revoked, because its member may not make keys any more"),
        format!("subscription {hook} was removed, because its key was revoked"),
    ];
    let of_hook = desk.ask_firm(&format!("/hooks/{hook}/history")).await;
    assert_eq!(sentences(&of_hook)[1..], chain);
    let made = &sentences(&of_hook)[0];
    assert!(
        made.contains("of form_submitted to http://127.0.0.1") && made.contains(&key),
        "{made}"
    );
    assert!(!of_hook.to_string().contains("secret"), "{of_hook}");
    assert_eq!(of_hook["key"], json!({"name": "Zapier", "prefix": prefix, "member_id": owner}));
    let cancelled = json!([{"cause": "key_revoked", "deliveries": 1}]);
    assert_eq!(of_hook["removal"]["cancelled_by_cause"], cancelled);
    let steps = of_hook["steps"].as_array().unwrap();
    for pair in steps[1..].windows(2) {
        assert_eq!(pair[1]["caused_by"], pair[0]["event_id"]);
        assert!(pair[0]["position"].as_i64() < pair[1]["position"].as_i64());
    }
    proved_by_their_entries(&desk, steps).await;
    assert!(steps[1]["by"].as_str().unwrap().starts_with("the product with the token"));
    assert_eq!(steps[1]["at"], "2026-11-01T12:00:00.000Z");

    let of_key = desk.ask_firm(&format!("/keys/{}/history", desk.firm.key_id)).await;
    assert_eq!(sentences(&of_key)[1..], chain);
    assert_eq!((&of_key["state"], &of_key["cancelled"]), (&json!("revoked"), &cancelled));
    assert_eq!(of_key["hooks_removed"], json!([hook]));

    let of_delivery = desk.ask_firm(&format!("/deliveries/{delivery}/history")).await;
    let told = sentences(&of_delivery);
    assert_eq!(told[2..5], chain);
    let end = format!(
        "delivery {delivery} was cancelled, because the key of its subscription was revoked"
    );
    assert_eq!(told[5], end);
    assert!(told[1].starts_with("form_submitted happened to response"), "{told:?}");
    assert_eq!(
        (&of_delivery["state"], &of_delivery["cause"]),
        (&json!("cancelled"), &json!("key_revoked"))
    );
}

/// The entries of the member and of the key were found by their events alone.
async fn proved_by_their_entries(desk: &Desk, steps: &[Value]) {
    for (step, action) in steps[1..].iter().zip(["member_left", "key_revoked", "hook_removed"]) {
        let sequence = step["audit_entry"].as_i64().unwrap();
        let entry = desk.ask_firm(&format!("/audit/{sequence}")).await;
        assert_eq!(entry["action"], action, "{entry}");
    }
}

/// A member left an hour before the report. The history once named the time of the report alone.
#[tokio::test]
async fn a_step_shows_the_reported_time() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    let mut left = activity(desk.firm.id, "member.left", json!({"member_id": desk.firm.owner}));
    left["time"] = json!("2026-11-01T12:30:00.000Z");
    desk.world.pass(Duration::from_hours(1));
    desk.world.report_one(left).await;
    let told = desk.ask_firm(&format!("/hooks/{hook}/history")).await;
    let step = &told["steps"][1];
    assert_eq!(
        (&step["at"], &step["reported_for"]),
        (&json!("2026-11-01T13:00:00.000Z"), &json!("2026-11-01T12:30:00.000Z"))
    );
    let end = "left the firm, reported for 2026-11-01T12:30:00.000Z";
    assert!(sentences(&told)[1].ends_with(end), "{told}");
    assert_eq!(told["steps"][2].get("reported_for"), None);
}

/// The history of an active key shows its making alone.
#[tokio::test]
async fn a_key_history_names_its_revoker() {
    let desk = Desk::new().await;
    let path = format!("/keys/{}/history", desk.firm.key_id);
    let active = desk.ask_firm(&path).await;
    assert_eq!((&active["state"], events(&active)), (&json!("active"), vec!["KeyCreated"]));
    assert_eq!(desk.last_entry().await.2["what"], "key");
    let revoke = format!("/firms/{}/keys/{}", desk.firm.id, desk.firm.key_id);
    assert_eq!(desk.call("DELETE", &desk.operator, &revoke, Value::Null).await.status, 200);
    let revoked = desk.ask_firm(&path).await;
    let end = &revoked["steps"][1];
    assert!(end["sentence"].as_str().unwrap().ends_with("was revoked on request"));
    assert_eq!(end["by"], "an operator with the token \"operator\"");
    let missing = format!("/firms/{}/keys/{}/history", desk.firm.id, desk.world.id());
    desk.get(&desk.auditor, &missing).await.refused(404, "not_found");
    let other = desk.world.firm().await;
    let foreign = format!("/firms/{}/keys/{}/history", desk.firm.id, other.key_id);
    desk.get(&desk.auditor, &foreign).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_gone_subscription_shows_both_410s() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    receiver.reply([Reply::status(410), Reply::status(410)]);
    for _ in 0..2 {
        desk.world.submit(&desk.firm).await;
        desk.world.deliver().await;
        desk.world.pass(Duration::from_secs(1));
    }
    let told = desk.ask_firm(&format!("/hooks/{hook}/history")).await;
    let names = events(&told);
    assert_eq!(names[0], "SubscriptionCreated");
    assert_eq!(names.last(), Some(&"SubscriptionRemoved"));
    let count = |name: &str| names.iter().filter(|one| **one == name).count();
    assert_eq!((count("DeliveryAttempted"), count("TargetGone")), (2, 2));
    let gone: Vec<String> =
        sentences(&told).into_iter().filter(|told| told.contains("ended with 410 at")).collect();
    assert!(gone[0].ends_with("a second one in a row removes the subscription"), "{gone:?}");
    assert!(gone[1].ends_with(", the second one in a row"), "{gone:?}");
    let last = sentences(&told).pop().unwrap();
    for deciding in told["removal"]["deciding"].as_array().unwrap() {
        assert!(last.contains(deciding["delivery_id"].as_str().unwrap()), "{last}");
    }
}

#[tokio::test]
async fn a_waiting_delivery_names_attempt_and_pause() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    receiver.reply([Reply::status(503)]);
    desk.world.submit(&desk.firm).await;
    desk.world.deliver().await;
    let pause = json!({"firm_id": desk.firm.id, "reason": "a drill"});
    let paused = desk.call("POST", &desk.operator, "/pauses", pause).await.body;
    let listed = desk.ask_firm("/deliveries").await;
    let id = listed["items"][0]["id"].as_str().unwrap();
    let told = desk.ask_firm(&format!("/deliveries/{id}/history")).await;
    assert_eq!(events(&told), ["OccurrenceRecorded", "DeliveryAttempted"]);
    assert!(sentences(&told)[1].contains("answered 503: the next one was due at"));
    assert_eq!(told["next_try_at"], listed["items"][0]["next_try_at"]);
    assert_eq!((&told["held"]["id"], &told["held"]["reason"]), (&paused["id"], &json!("a drill")));
    assert_eq!(desk.last_entry().await.2["delivery_id"], id);
    let missing = format!("/firms/{}/deliveries/{}/history", desk.firm.id, desk.world.id());
    desk.get(&desk.auditor, &missing).await.refused(404, "delivery_not_found");
}

/// Erasure, suspension and a submission before the first attempt end deliveries, too.
#[tokio::test]
async fn a_cancelled_delivery_names_its_ending_event() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    let erased = desk.world.submit(&desk.firm).await;
    desk.world.order_erasure(&desk.firm, erased).await;
    desk.world.erase().await;
    desk.world.project().await;
    let newest = async || {
        let listed = desk.ask_firm("/deliveries?limit=1").await;
        let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
        desk.ask_firm(&format!("/deliveries/{id}/history")).await
    };
    let told = newest().await;
    assert_eq!(told["cause"], "source_erased");
    assert!(events(&told).contains(&"ResponseErased"), "{told}");

    desk.world.pass(Duration::from_secs(1));
    desk.world.submit(&desk.firm).await;
    desk.world.report_one(later(activity(desk.firm.id, "firm.suspended", json!({})), 2)).await;
    desk.world.pass(Duration::from_hours(48));
    desk.world.report_one(later(activity(desk.firm.id, "firm.suspended", json!({})), 3)).await;
    desk.world.pass(Duration::from_hours(25));
    desk.world.deliver().await;
    let told = newest().await;
    assert_eq!(told["cause"], "firm_suspended");
    let steps = told["steps"].as_array().unwrap();
    let begin: Vec<_> = steps.iter().filter(|step| step["event"] == "FirmSuspended").collect();
    assert_eq!(begin.len(), 1, "{told}");
    assert_eq!(begin[0]["at"], "2026-11-01T12:00:01.000Z", "the begin of the suspension");
}

#[tokio::test]
async fn replayed_and_reissued_deliveries_name_their_orders() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    receiver.reply([Reply::status(400)]);
    desk.world.submit(&desk.firm).await;
    desk.world.deliver().await;
    let order = json!({"firm_id": desk.firm.id, "reason": "the receiver is mended"});
    assert_eq!(desk.call("POST", &desk.operator, "/replays", order).await.status, 202);
    desk.world.replay().await;
    desk.world.deliver().await;
    let listed = desk.ask_firm("/deliveries").await;
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    let told = desk.ask_firm(&format!("/deliveries/{id}/history")).await;
    let order = sentences(&told).into_iter().find(|told| told.starts_with("replay ")).unwrap();
    assert!(order.ends_with("because: the receiver is mended"), "{order}");
    let path = format!("/firms/{}/deliveries/{id}/reissue", desk.firm.id);
    let reissued = desk.call("POST", &desk.operator, &path, json!({"reason": "asked for"})).await;
    assert_eq!(reissued.status, 202, "{}", reissued.text());
    let new = reissued.body["id"].as_str().unwrap();
    let told = desk.ask_firm(&format!("/deliveries/{new}/history")).await;
    let first = format!("delivery {new} was reissued from {id}, because: asked for");
    assert!(sentences(&told).contains(&first), "{told}");
}
