//! Bodies and answers of deliveries are shown for a reason, and each reading is recorded (ruling
//! 50). The export of deliveries selects by firm, subscription, host and time.

use std::time::Duration;

use domain::access::HolderRole;
use serde_json::{Value, json};
use tests::{Receiver, Reply, activity};
use uuid::Uuid;

use super::{Desk, ids};

/// A delivery that was refused once, and the bytes that it sent.
async fn refused(desk: &Desk, receiver: &Receiver) -> (Uuid, String) {
    receiver.reply([Reply::status(400).body(b"no such form")]);
    let before = receiver.received().len();
    desk.world.submit(&desk.firm).await;
    desk.world.deliver().await;
    let received = receiver.received();
    let sent = &received[before];
    let id = sent.header("x-service-delivery").parse().unwrap();
    (id, str::from_utf8(&sent.body).unwrap().to_owned())
}

fn states(shown: &Value) -> (&Value, &Value) {
    (&shown["body"]["state"], &shown["attempts"][0]["answer_state"])
}

#[tokio::test]
async fn each_reading_is_recorded_with_its_reason() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    let (id, body) = refused(&desk, &receiver).await;
    let path = format!("/deliveries/{id}");
    let without = desk.ask_firm(&path).await;
    assert_eq!(states(&without), (&json!("withheld"), &json!("withheld")));
    assert_eq!(without["body"]["text"], Value::Null);
    assert_eq!(desk.last_entry().await.0, "audit_read");
    let with = desk.ask_firm(&format!("{path}?show_body=a+claim")).await;
    assert_eq!(with["body"], json!({"state": "shown", "text": body}));
    assert_eq!(with["attempts"][0]["answer_state"], "withheld");
    let (action, reason, evidence) = desk.last_entry().await;
    assert_eq!((action.as_str(), reason.as_deref()), ("body_read", Some("a claim")));
    assert_eq!(evidence["delivery_id"], id.to_string());
    let with = desk.ask_firm(&format!("{path}?show_answer=a+fault")).await;
    assert_eq!(with["attempts"][0]["answer"], "no such form");
    let (action, reason, _) = desk.last_entry().await;
    assert_eq!((action.as_str(), reason.as_deref()), ("answer_read", Some("a fault")));
    for wrong in ["show_body=", "show_answer=%20", &format!("show_body={}", "x".repeat(201))] {
        let path = format!("/firms/{}{path}?{wrong}", desk.firm.id);
        desk.get(&desk.auditor, &path).await.refused(400, "invalid_request");
    }
    let product = desk.token(HolderRole::Product).await;
    let path = format!("/firms/{}{path}?show_body=mine", desk.firm.id);
    desk.get(&product, &path).await.refused(403, "forbidden");
}

#[tokio::test]
async fn missing_content_says_purged_erased_or_empty() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    let (purged, _) = refused(&desk, &receiver).await;
    let asked = |id: Uuid| format!("/deliveries/{id}?show_body=a+claim&show_answer=a+claim");
    receiver.reply([Reply::status(200)]);
    desk.world.submit(&desk.firm).await;
    desk.world.deliver().await;
    let empty = ids(&desk.ask_firm("/deliveries?state=delivered").await)[0];
    let shown = desk.ask_firm(&asked(empty)).await;
    assert_eq!(states(&shown), (&json!("shown"), &json!("empty")));
    desk.world.pass(Duration::from_hours(40 * 24));
    desk.world.project().await;
    desk.world.purge().await;
    let shown = desk.ask_firm(&asked(purged)).await;
    assert_eq!(states(&shown), (&json!("purged"), &json!("purged")));

    let (erased, _) = refused(&desk, &receiver).await;
    let response = desk.ask_firm(&format!("/deliveries/{erased}")).await["response_id"].clone();
    let order = activity(desk.firm.id, "response.erased", json!({ "response_id": response }));
    desk.world.report_one(order).await;
    let shown = desk.ask_firm(&asked(erased)).await;
    assert_eq!(states(&shown), (&json!("erased"), &json!("erased")));
    assert_eq!(
        (&shown["body"]["text"], &shown["attempts"][0]["answer"]),
        (&Value::Null, &Value::Null)
    );
}

/// The lines of an export.
async fn lines(desk: &Desk, query: &str) -> Vec<Value> {
    let path = format!("/firms/{}/deliveries/export{query}", desk.firm.id);
    let answer = desk.get(&desk.auditor, &path).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A delivery without an attempt has one line, too.
#[tokio::test]
async fn an_export_has_one_line_per_attempt() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/in?token=secret")).await;
    receiver.reply([Reply::status(503), Reply::status(200)]);
    desk.world.submit(&desk.firm).await;
    desk.world.deliver().await;
    desk.world.pass(Duration::from_hours(1));
    desk.world.deliver().await;
    let pause = json!({"firm_id": desk.firm.id, "reason": "a drill"});
    assert_eq!(desk.call("POST", &desk.operator, "/pauses", pause).await.status, 201);
    let waiting = desk.world.submit(&desk.firm).await;
    desk.world.project().await;

    let all = lines(&desk, "").await;
    let told: Vec<_> = all.iter().map(|line| (&line["attempt"], &line["status"])).collect();
    assert_eq!(
        told,
        [(&Value::Null, &Value::Null), (&json!("1"), &json!("503")), (&json!("2"), &json!("200"))]
    );
    assert_eq!((&all[0]["response_id"], &all[0]["state"]), (&json!(waiting), &json!("pending")));
    assert_eq!((&all[1]["host"], &all[1]["hook_id"]), (&json!("127.0.0.1"), &json!(hook)));
    assert!(all[1]["body_sha256"].is_string() && !json!(all).to_string().contains("secret"));
    let (action, _, evidence) = desk.last_entry().await;
    assert_eq!((action.as_str(), &evidence["how"]), ("audit_exported", &json!("ndjson")));
    for (query, count) in [
        (format!("?hook_id={hook}"), 3),
        (format!("?hook_id={}", desk.world.id()), 0),
        ("?host=127.0.0.1".to_owned(), 3),
        ("?host=elsewhere.example".to_owned(), 0),
        ("?since=2026-11-01T12:30:00Z".to_owned(), 2),
        ("?until=2026-11-01T12:30:00Z".to_owned(), 1),
    ] {
        assert_eq!(lines(&desk, &query).await.len(), count, "{query}");
    }
    let path = format!("/firms/{}/deliveries/export", desk.firm.id);
    let csv = desk.get(&desk.auditor, &format!("{path}?format=csv")).await;
    assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8");
    assert_eq!(csv.text().lines().count(), 4);
    assert!(csv.text().starts_with("delivery_id,created_at,trigger,state"), "{}", csv.text());
    let exported = desk.last_entry().await;
    for wrong in ["format=xml", "host=a/b", "since=x", "state=failed"] {
        let refused = desk.get(&desk.auditor, &format!("{path}?{wrong}")).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
    let both = format!("{path}?hook_id={hook}&host=127.0.0.1");
    desk.get(&desk.auditor, &both).await.refused(400, "invalid_request");
    assert_eq!(desk.last_entry().await, exported, "a refused export is no export");
    let missing = format!("/firms/{}/deliveries/export", desk.world.id());
    desk.get(&desk.auditor, &missing).await.refused(404, "firm_not_found");
}

/// The time of an export once selected deliveries by their queuing. The export of a month then had
/// no retry and no replay of older deliveries.
#[tokio::test]
async fn a_timed_export_includes_retries_and_replays() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    receiver.reply([Reply::status(503), Reply::status(400), Reply::status(200)]);
    desk.world.submit(&desk.firm).await;
    desk.world.deliver().await;
    desk.world.pass(Duration::from_hours(1));
    desk.world.deliver().await;
    desk.world.pass(Duration::from_hours(24));
    let order = json!({"firm_id": desk.firm.id, "reason": "the receiver is mended"});
    assert_eq!(desk.call("POST", &desk.operator, "/replays", order).await.status, 202);
    desk.world.replay().await;
    desk.world.deliver().await;
    desk.world.project().await;
    let statuses = async |query: &str| {
        let told = lines(&desk, query).await;
        told.iter().map(|line| line["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let replay = "since=2026-11-02T12:30:00Z&until=2026-11-03";
    for (query, told) in [
        ("?since=2026-11-01T12:00:00Z&until=2026-11-01T12:30:00Z".to_owned(), vec!["503"]),
        ("?since=2026-11-01T12:30:00Z&until=2026-11-02".to_owned(), vec!["400"]),
        (format!("?{replay}"), vec!["200"]),
        (format!("?{replay}&hook_id={hook}"), vec!["200"]),
        (format!("?{replay}&host=127.0.0.1"), vec!["200"]),
        ("?since=2026-11-03".to_owned(), vec![]),
        ("?until=2026-11-01".to_owned(), vec![]),
    ] {
        assert_eq!(statuses(&query).await, told, "{query}");
    }
}

/// The export reads several pages, and each delivery is in it once.
#[tokio::test]
async fn an_export_misses_no_workflow_step() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let response_id = desk.world.submit(&desk.firm).await;
    for _ in 0..203 {
        let step = json!({
            "firm_id": desk.firm.id, "run_id": desk.world.id(), "step_id": desk.world.id(),
            "method": "POST", "url": receiver.url("/step"), "trigger": "form_submitted",
            "response_id": response_id,
        });
        let queued = desk.call("POST", &desk.operator, "/workflow-steps", step).await;
        assert_eq!(queued.status, 202, "{}", queued.text());
    }
    desk.world.project().await;
    for query in ["", "?host=127.0.0.1"] {
        let lines = lines(&desk, query).await;
        let mut ids: Vec<_> = lines.iter().map(|line| line["delivery_id"].to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!((lines.len(), ids.len()), (203, 203), "{query}");
        assert!(lines.iter().all(|line| line["run_id"].is_string()));
    }
    assert!(lines(&desk, "?host=elsewhere.example").await.is_empty());
}
