//! Receivers over all firms: their failures, and their waiting work.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Receiver, Reply, World};
use uuid::Uuid;

use super::Desk;

/// A subscription to a made-up host, whose deliveries got these statuses.
async fn told(desk: &Desk, host: &str, statuses: &[u16]) -> Uuid {
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    receiver.reply(statuses.iter().map(|status| Reply::status(*status)));
    for _ in statuses {
        desk.world.submit(&desk.firm).await;
        desk.world.deliver().await;
        desk.world.pass(Duration::from_secs(1));
    }
    // All receivers of the tests are one host.
    for table in ["receivers", "receiver_hours"] {
        let renamed = format!("update {table} set host = '{host}' where host = '127.0.0.1'");
        desk.world.change_database(&renamed).await;
    }
    desk.world.remove_hook(&desk.firm, hook).await.ok();
    hook
}

fn hosts(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["host"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn receivers_failing_longest_come_first() {
    let desk = Desk::new().await;
    told(&desk, "fine.example", &[503, 200]).await;
    told(&desk, "gone.example", &[200, 404]).await;
    told(&desk, "bad.example", &[400, 400, 404]).await;
    told(&desk, "also-fine.example", &[200]).await;
    let listed = desk.ask("/receivers").await;
    let expected = ["gone.example", "bad.example", "also-fine.example", "fine.example"];
    assert_eq!(hosts(&listed), expected);
    let gone = &listed["items"][0];
    assert_eq!((&gone["attempts"], &gone["delivered"]), (&json!(2), &json!(1)));
    assert_eq!((&gone["last_status"], &gone["failures"]), (&json!(404), &json!(1)));
    assert_eq!(gone["failing"], false, "for a day, and ten times");
    assert_eq!(gone["failing_since"], gone["last_attempt_at"]);
    assert!(gone["last_success_at"].as_str() < gone["last_attempt_at"].as_str());
    let fine = &listed["items"][3];
    assert_eq!((&fine["failing_since"], &fine["failures"]), (&Value::Null, &json!(0)));
    let first = desk.ask("/receivers?limit=3").await;
    let next = first["next"].as_str().unwrap();
    assert_eq!(hosts(&desk.ask(&format!("/receivers?after={next}")).await), expected[3..]);
    let one = desk.ask("/receivers?host=BAD.example.").await;
    assert_eq!(hosts(&one), ["bad.example"]);
    let refused = desk.get(&desk.auditor, "/receivers?host=a/b").await;
    assert_eq!(refused.code(), (400, "invalid_request"));
    let limited = desk.limited(vec![desk.firm.id]).await;
    desk.get(&limited, "/receivers").await.refused(403, "forbidden");
}

#[tokio::test]
async fn a_receiver_shows_waiting_work_and_pauses() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    for path in ["/a", "/b"] {
        desk.world.subscribe(&desk.firm, &receiver.url(path)).await;
    }
    receiver.reply((0..2).map(|_| Reply::status(503)));
    desk.world.submit(&desk.firm).await;
    desk.world.deliver().await;
    let pause = json!({"host": "127.0.0.1", "reason": "a drill"});
    let paused = desk.call("POST", &desk.operator, "/pauses", pause).await.body;
    let listed = desk.ask("/receivers").await;
    let one = &listed["items"][0];
    assert_eq!((&one["host"], &one["subscriptions"]), (&json!("127.0.0.1"), &json!(2)));
    assert_eq!((&one["waiting"], &one["last_status"]), (&json!(2), &json!(503)));
    assert!(one["oldest_due_at"].as_str() > one["last_attempt_at"].as_str(), "{one}");
    assert_eq!(one["paused"]["id"], paused["id"]);
    assert_eq!(one["paused"]["reason"], "a drill");
    desk.world.pass(Duration::from_hours(26));
    let later = desk.ask("/receivers").await;
    assert_eq!(later["items"][0]["attempts"], 0, "of the last day only");
}

/// A retry and a workflow step count like a first attempt, although their events name no
/// subscription.
#[tokio::test]
async fn each_recorded_attempt_counts_once() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    receiver.reply((0..3).map(|_| Reply::status(503)));
    let response_id = desk.world.submit(&desk.firm).await;
    for _ in 0..4 {
        desk.world.deliver().await;
        desk.world.pass(Duration::from_hours(1));
    }
    let step = json!({
        "firm_id": desk.firm.id, "run_id": desk.world.id(), "step_id": desk.world.id(),
        "method": "POST", "url": receiver.url("/step"), "trigger": "form_submitted",
        "response_id": response_id,
    });
    let queued = desk.call("POST", &desk.operator, "/workflow-steps", step).await;
    assert_eq!(queued.status, 202, "{}", queued.text());
    desk.world.deliver().await;
    desk.world.project().await;
    let one = desk.ask("/receivers").await["items"][0].clone();
    assert_eq!(
        (&one["attempts"], &one["delivered"], &one["failures"]),
        (&json!(5), &json!(2), &json!(0))
    );
}

#[tokio::test]
async fn doctor_names_receivers_failing_for_a_day() {
    let desk = Desk::new().await;
    told(&desk, "dead.example", &[404; 10]).await;
    desk.world.pass(Duration::from_hours(25));
    let found = desk.ask("/receivers").await;
    assert_eq!(found["items"][0]["failing"], true);
    let forward = "update receivers set failing_since = now() - interval '25 hours'";
    desk.world.change_database(forward).await;
    let receivers = async || {
        let (_, out, error) = desk.run(&["doctor", "--json"]).await;
        let findings: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{error}"));
        let findings = findings.as_array().unwrap().iter();
        findings.clone().find(|one| one["check"] == "receivers").unwrap().clone()
    };
    let found = receivers().await;
    assert_eq!(found["verdict"], "notice");
    assert!(
        found["says"].as_str().unwrap().ends_with("failing for a day: dead.example"),
        "{found}"
    );
    let now = "update receiver_hours set hour = date_trunc('hour', now())";
    desk.world.change_database(now).await;
    assert_eq!(receivers().await["verdict"], "wrong", "nothing arrived anywhere");
}

/// A thousand hosts, and as many attempts in each hour of two days as a busy installation has.
#[tokio::test]
async fn a_thousand_receivers_list_within_a_second() {
    let desk = Desk::on(World::new().await).await;
    let many = "
        insert into receivers (host, attempted_at, last_status, failing_since, failures)
        select n || '.example', '2026-11-01 12:00Z', 200,
               case when n % 10 = 0 then '2026-11-01 11:00Z' else 'infinity'::timestamptz end, n % 10
          from generate_series(1, 1000) n;
        insert into receiver_hours (host, hour, attempts, delivered)
        select n || '.example', timestamptz '2026-11-01 12:00Z' - h * interval '1 hour', 20, 19
          from generate_series(1, 1000) n, generate_series(0, 47) h;
        analyze receivers, receiver_hours";
    desk.world.change_database(many).await;
    desk.ask("/receivers?limit=500").await;
    let begun = Instant::now();
    let listed = desk.ask("/receivers?limit=500").await;
    let took = begun.elapsed();
    assert_eq!(listed["items"].as_array().unwrap().len(), 500);
    assert_eq!(listed["items"][0]["attempts"], 25 * 20);
    assert!(took < Duration::from_millis(1_000), "{took:?}");
}
