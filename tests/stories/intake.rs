//! Activities of the product: all of a batch or nothing, each thing once, in the order of the
//! reports, and nothing personal in the log.

use std::collections::BTreeMap;
use std::time::Duration;

use api::commands::keys;
use axum::body::Body;
use domain::aggregate::event_id;
use domain::event::Actor;
use domain::subscription::{Subscription, SubscriptionCommand, Trigger};
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Answer, Firm, Receiver, Reply, World, activity, later, make_request};
use tokio::sync::Notify;
use uuid::Uuid;

const DEMO: &str = include_str!("../../demo/activity.ndjson");

/// Reports line by line.
async fn lines(world: &World, text: impl Into<Body>) -> Answer {
    let headers = [("content-type", "application/x-ndjson")];
    world.internal(make_request("POST", "/internal/v1/activity", &headers, text)).await
}

/// Reports a batch that is taken in: how many activities changed something, how many did not.
async fn take(world: &World, events: &[Value]) -> (u64, u64) {
    counts(&world.report(events).await)
}

fn counts(answer: &Answer) -> (u64, u64) {
    assert_eq!(answer.status, 202, "{}", answer.text());
    let count = |name| answer.body[name].as_u64().unwrap();
    (count("accepted"), count("duplicates"))
}

/// A tab in a name once refused all activities of the batch, and anybody that fills in a form
/// chooses names.
#[tokio::test]
async fn a_strangers_text_refuses_no_batch() {
    let world = World::new().await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let mut typed = response(&firm, "response.submitted", world.id(), 2);
    typed["data"]["respondent"] =
        json!({"name": "Ann\tLee", "company": "\u{0}A\u{1b}[31m", "phone": "1\n2"});
    typed["data"]["hidden"] = json!({"utm_source": "a\u{85}b"});
    typed["data"]["answers"][0]["answer"] = json!("one\ntwo\tthree");
    typed["data"]["respondent"]["last_name"] = json!("half");
    let of = |second| response(&firm, "response.submitted", world.id(), second);
    // JavaScript writes half of a character that was cut.
    let text = [of(1), typed, of(3)].map(|event| event.to_string()).join("\n");
    let text = text.replace("half", r"\ud83c");
    assert_eq!(counts(&lines(&world, text).await), (3, 0));
    world.deliver().await;
    let bodies: Vec<Value> = receiver.received().iter().map(|got| got.json()).collect();
    let sent = bodies.iter().find(|body| body["respondent"]["name"] == "Ann Lee").unwrap();
    assert_eq!(sent["respondent"]["company"], " A [31m");
    assert_eq!(sent["respondent"]["phone"], "1 2");
    assert_eq!(sent["respondent"]["last_name"], "\u{fffd}");
    assert_eq!(sent["hidden"]["utm_source"], "a b");
    assert_eq!(sent["answers"][0]["answer"], "one\ntwo three");
}

fn opened(firm_id: Uuid) -> Value {
    activity(firm_id, "firm.opened", json!({"name": "F", "plan": {"leads_in_full": true}}))
}

fn joined(firm_id: Uuid, member_id: Uuid) -> Value {
    activity(firm_id, "member.joined", json!({"member_id": member_id, "role": "admin"}))
}

fn left(firm_id: Uuid, member_id: Uuid) -> Value {
    later(activity(firm_id, "member.left", json!({"member_id": member_id})), 9)
}

fn form(firm_id: Uuid, form_id: Uuid) -> Value {
    let data = json!({
        "form_id": form_id, "title": "Intake", "slug": "intake",
        "url": "https://forms.test/f/intake", "status": "published", "hidden_fields": [],
        "created_at": "2026-10-01T00:00:00Z",
    });
    activity(firm_id, "form.created", data)
}

fn response(firm: &Firm, kind: &str, id: Uuid, second: u32) -> Value {
    let time = if kind == "response.saved" { "saved_at" } else { "submitted_at" };
    let data = json!({
        "response_id": id, "form_id": firm.form, time: format!("2026-11-01T12:00:{second:02}Z"),
        "answers": [{"id": "q", "question": "Q", "type": "short_text",
                     "answer": second.to_string()}],
    });
    activity(firm.id, kind, data)
}

fn submitted(firm: &Firm, id: Uuid) -> Value {
    response(firm, "response.submitted", id, 1)
}

#[tokio::test]
async fn the_demo_can_be_taken_in_twice() {
    let world = World::new().await;
    // The demonstration ends on 19 November.
    world.pass(Duration::from_secs(20 * 86_400));
    assert_eq!(counts(&lines(&world, DEMO).await), (57, 1), "a submission is there twice");
    let events = world.count("events").await;
    assert_eq!(counts(&lines(&world, DEMO).await), (0, 58));
    assert_eq!(world.count("events").await, events);
    assert_eq!(world.count("responses where submitted_at is not null").await, 30);
}

/// The error names the bad activity by its index.
#[tokio::test]
async fn a_bad_activity_refuses_its_whole_batch() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (new_firm, response_id) = (world.id(), world.id());
    let good = [
        opened(new_firm),
        joined(new_firm, world.id()),
        form(new_firm, world.id()),
        submitted(&firm, response_id),
    ];
    let mut no_time = submitted(&firm, world.id());
    no_time.as_object_mut().unwrap().remove("time");
    let unknown_form = Firm { form: world.id(), ..firm.clone() };
    let before = world.count("events").await;
    for (bad, why) in [
        (no_time, "event 4: time: missing"),
        (
            submitted(&unknown_form, world.id()),
            "event 4: the form is not known: report form.created first",
        ),
        (
            activity(world.id(), "firm.closed", json!({})),
            "event 4: the firm is not known: report firm.opened first",
        ),
        (activity(firm.id, "firm.closed", json!({"why": "x"})), "event 4: data.why: unknown field"),
        (json!(5), "event 4: not a JSON object"),
    ] {
        let batch: Vec<_> = good.iter().cloned().chain([bad]).collect();
        let refused = world.report(&batch).await;
        let body = json!({"error": why, "code": "invalid_request", "index": 4});
        assert_eq!((refused.status.as_u16(), refused.body), (400, body));
    }
    assert_eq!(world.count("events").await, before);
    assert_eq!(world.count("responses").await, 0);
    assert_eq!(take(&world, &good).await, (4, 0), "their ids were not remembered either");
}

#[tokio::test]
async fn a_refusal_names_line_and_index() {
    let world = World::new().await;
    let firm = world.firm().await;
    let good = submitted(&firm, world.id());
    let text = format!("{good}\r\n\n  \n{{\"specversion\":\"1.0\"}}\n{good}\n");
    let refused = lines(&world, text).await;
    assert_eq!(
        (refused.status.as_u16(), refused.body),
        (
            400,
            json!({"error": "event 1 (line 4): id: missing", "code": "invalid_request",
                   "index": 1, "line": 4})
        )
    );
    assert_eq!(counts(&lines(&world, format!("\n{good}\r\n\n{good}")).await), (1, 1));
}

/// B8, from the inside: another firm's objects are unknown.
#[tokio::test]
async fn a_report_cannot_reach_into_another_firm() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let crossed = Firm { id: other.id, ..firm.clone() };
    for bad in [
        submitted(&crossed, world.id()),
        later(activity(other.id, "form.deleted", json!({"form_id": firm.form})), 5),
        later(form(other.id, firm.form), 5),
    ] {
        world.report(&[bad]).await.refused(400, "invalid_request");
    }
    world.get(&firm, &format!("/forms/{}", firm.form)).await.ok();
    let shared_id = world.id();
    let same = [submitted(&firm, shared_id), submitted(&other, shared_id)];
    assert_eq!(take(&world, &same).await, (2, 0), "ids of two firms are two ids");
}

#[tokio::test]
async fn a_later_save_wins_until_submission() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let id = world.id();
    let saved = |second| response(&firm, "response.saved", id, second);
    let sent = |second| response(&firm, "response.submitted", id, second);
    assert_eq!(take(&world, &[saved(2)]).await, (1, 0));
    assert_eq!(take(&world, &[saved(2)]).await, (0, 1), "the same again");
    assert_eq!(take(&world, &[saved(1)]).await, (0, 1), "an older one");
    assert_eq!(take(&world, &[saved(3), saved(4), saved(3)]).await, (2, 1));
    assert_eq!(world.deliver().await, 0, "a save is no submission");
    assert_eq!(take(&world, &[saved(5), sent(4), sent(6), saved(7)]).await, (2, 2));
    assert_eq!(take(&world, &[sent(8)]).await, (0, 1));
    assert_eq!(take(&world, &[saved(9)]).await, (0, 1));
    assert_eq!(world.deliver().await, 1);
    let payload = receiver.received()[0].json();
    assert_eq!(payload["fields"], json!({"q": "4"}), "what was submitted first");
    assert_eq!(payload["response"]["submitted_at"], "2026-11-01T12:00:04.000Z");
}

/// Eight callers report one batch at once: under its own ids and under new ones, in two orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_copies_are_recorded_once() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (new_firm, new_form) = (world.id(), world.id());
    let mut batch = vec![opened(new_firm), form(new_firm, new_form)];
    for _ in 0..20 {
        batch.push(joined(new_firm, world.id()));
        batch.push(submitted(&firm, world.id()));
    }
    let copy = |n: usize| {
        let mut copy = batch.clone();
        if n % 2 == 1 {
            for event in &mut copy {
                event["id"] = json!(world.id());
            }
        }
        if n % 3 == 1 {
            copy[2..].reverse();
        }
        copy
    };
    let before = world.count("events").await;
    let copies: Vec<_> = (0..8).map(copy).collect();
    let taken = join_all(copies.iter().map(|copy| take(&world, copy))).await;
    assert_eq!(taken.iter().map(|(accepted, _)| accepted).sum::<u64>(), 42, "{taken:?}");
    assert_eq!(taken.iter().map(|(_, duplicates)| duplicates).sum::<u64>(), 7 * 42, "{taken:?}");
    assert_eq!(world.count("events").await, before + 42);
    assert_eq!(world.count("responses").await, 20);
}

/// Makes a key and a hook for a member while the firm reports that the member left, and returns the
/// part that was made. `gate` opens when there is a key.
async fn make(world: &World, firm_id: Uuid, member_id: Uuid, gate: &Notify) -> &'static str {
    let service = world.service();
    let made = keys::create(service, firm_id, member_id, "racer").await;
    gate.notify_one();
    let Ok(key) = made else {
        return "nothing";
    };
    let create = SubscriptionCommand::Create {
        key_id: key.id,
        trigger: Trigger::FormSubmitted,
        target_url: "https://hooks.example.com/".into(),
        form_id: None,
    };
    let context = service.context(firm_id, Actor::Key(key.id));
    let hook_id = world.id().to_string();
    match service.store.execute::<Subscription>(&hook_id, create, &context).await {
        Ok(()) => "key and hook",
        Err(_) => "key",
    }
}

/// B4: a key and a hook are made while their member leaves. Every other time the leaving waits for
/// the key, so that it races the hook.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_no_key_or_hook_outlives_membership() {
    let world = World::new().await;
    let mut made = BTreeMap::<_, u32>::new();
    for round in 0..60 {
        let (firm_id, member_id, gate) = (world.id(), world.id(), Notify::new());
        assert_eq!(take(&world, &[opened(firm_id), joined(firm_id, member_id)]).await, (2, 0));
        if round % 2 == 0 {
            gate.notify_one();
        }
        let leave = async {
            gate.notified().await;
            take(&world, &[left(firm_id, member_id)]).await
        };
        let (got, left) = tokio::join!(make(&world, firm_id, member_id, &gate), leave);
        assert_eq!(left, (1, 0));
        *made.entry(got).or_default() += 1;
    }
    assert!(made.len() > 1, "{made:?} is no race");
    assert_eq!(world.count("key_auth where revoked_at is null").await, 0);
    assert_eq!(world.count("hooks where removed_at is null").await, 0);
    assert_eq!(
        world.ask_number("select sum(used)::bigint from quotas").await,
        0,
        "places are free"
    );
}

#[derive(sqlx::FromRow)]
struct Logged {
    aggregate_type: String,
    aggregate_id: String,
    sequence: i64,
    event_type: String,
    metadata: Value,
}

impl Logged {
    fn id(&self) -> Uuid {
        event_id(&self.aggregate_type, &self.aggregate_id, self.sequence)
    }
}

async fn logged_after(world: &World, position: i64) -> Vec<Logged> {
    sqlx::query_as(
        "select aggregate_type, aggregate_id, sequence, event_type, metadata from events
          where position > $1 order by position",
    )
    .bind(position)
    .fetch_all(world.pool())
    .await
    .unwrap()
}

/// The log has the order of the activities, and each consequence names its cause.
#[tokio::test]
async fn the_log_keeps_order_and_causes() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.subscribe(&firm, "https://hooks.example.com/").await;
    let last = world.last_position().await;
    let retitled = json!({"form_id": firm.form, "title": "New title"});
    let batch = [
        submitted(&firm, world.id()),
        later(activity(firm.id, "form.changed", retitled), 1),
        left(firm.id, firm.owner),
        submitted(&firm, world.id()),
        later(activity(firm.id, "firm.suspended", json!({})), 2),
    ];
    assert_eq!(take(&world, &batch).await, (5, 0));
    let logged = logged_after(&world, last).await;
    let types: Vec<_> = logged.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(
        types,
        [
            "OccurrenceRecorded",
            "FormChanged",
            "MemberLeft",
            "KeyRevoked",
            "SubscriptionRemoved",
            "OccurrenceRecorded",
            "FirmSuspended"
        ]
    );
    let id = |n: usize| json!(logged[n].id());
    let causes: Vec<_> =
        logged.iter().map(|event| event.metadata.get("causation_id").cloned()).collect();
    assert_eq!(causes, [None, None, None, Some(id(2)), Some(id(3)), None, None]);
    for event in &logged {
        assert_eq!(event.metadata["correlation_id"], logged[0].metadata["correlation_id"]);
        assert!(event.metadata["actor"].as_str().unwrap().starts_with("product:"));
    }
}

/// Ruling 30, within one batch: a submission before the removal is matched, and its delivery is
/// then cancelled.
#[tokio::test]
async fn a_batchs_order_decides_its_deliveries() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.subscribe(&firm, "https://hooks.example.com/").await;
    let (before, after) = (world.id(), world.id());
    let batch = [submitted(&firm, before), left(firm.id, firm.owner), submitted(&firm, after)];
    assert_eq!(take(&world, &batch).await, (3, 0));
    assert_eq!(world.deliver().await, 0);
    let cancelled = format!("deliveries where response_id = '{before}' and cause = 'key_revoked'");
    assert_eq!((world.count("deliveries").await, world.count(&cancelled).await), (1, 1));
}

#[tokio::test]
async fn stale_and_duplicate_activities_change_nothing() {
    let world = World::new().await;
    let firm = world.firm().await;
    let named =
        |name, second| later(activity(firm.id, "firm.changed", json!({"name": name})), second);
    let titled = |title, second| {
        let data = json!({"form_id": firm.form, "title": title});
        later(activity(firm.id, "form.changed", data), second)
    };
    let role = |role, second| {
        let data = json!({"member_id": firm.owner, "role": role});
        later(activity(firm.id, "member.role_changed", data), second)
    };
    let news = [named("New", 5), titled("New", 5), role("admin", 5)];
    assert_eq!(take(&world, &news).await, (3, 0));
    let old = [
        named("Old", 4),
        named("New", 5),
        titled("Old", 4),
        titled("New", 5),
        role("member", 4),
        role("admin", 5),
        opened(firm.id),
        form(firm.id, firm.form),
    ];
    let before = world.count("events").await;
    let answer = world.report(&old).await;
    assert_eq!(answer.body, json!({"accepted": 0, "duplicates": 5, "stale": 3}));
    assert_eq!(world.count("events").await, before);
    assert_eq!(world.get(&firm, "/me").await.body["firm"]["name"], "New");
    assert_eq!(world.get(&firm, "/forms").await.body[0]["title"], "New");
}

/// A product may report times in whole seconds. Its second activity within one second was once
/// lost.
#[tokio::test]
async fn a_second_activity_of_one_time_counts() {
    let world = World::new().await;
    let firm = world.firm().await;
    let response = world.submit(&firm).await;
    let report = |kind, locked| {
        let data = json!({
            "report_id": Uuid::from_u128(7), "response_id": response, "title": "Report",
            "status": "in_review", "summary": "What was found", "highlights": [],
            "review_url": "https://forms.example.com/r/7", "locked": locked,
        });
        later(activity(firm.id, kind, data), 5)
    };
    let suspended = later(activity(firm.id, "firm.suspended", json!({})), 5);
    let named = later(activity(firm.id, "firm.changed", json!({"name": "New"})), 5);
    assert_eq!(take(&world, &[named, suspended]).await, (2, 0));
    world.get(&firm, "/me").await.refused(403, "firm_inactive");
    let resumed = later(activity(firm.id, "firm.resumed", json!({})), 6);
    assert_eq!(take(&world, &[resumed, report("report.created", true)]).await, (2, 0));
    let paid = report("report.changed", false);
    assert_eq!(take(&world, &[paid]).await, (1, 0));
    assert_eq!(take(&world, &[report("report.changed", false)]).await, (0, 1), "the same again");
    let sample = world.get(&firm, "/triggers/report_sent/sample").await;
    assert_eq!(sample.body[0]["report"]["summary"], "What was found");
}

#[tokio::test]
async fn activity_ids_belong_to_firm_and_source() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let first = later(activity(firm.id, "firm.changed", json!({"name": "One"})), 1);
    let with = |firm_id: Uuid, source: &str, second| {
        let data = json!({"name": "Two"});
        let mut event = later(activity(firm_id, "firm.changed", data), second);
        event["id"] = first["id"].clone();
        event["source"] = json!(source);
        event
    };
    assert_eq!(take(&world, &[first.clone(), first.clone()]).await, (1, 1));
    assert_eq!(take(&world, &[with(firm.id, "urn:tests", 2)]).await, (0, 1), "the same id");
    assert_eq!(take(&world, &[with(firm.id, "urn:other", 3)]).await, (1, 0));
    assert_eq!(take(&world, &[with(other.id, "urn:tests", 4)]).await, (1, 0));
}

/// Ruling 28: a closing removes the hooks of all keys, and no later report opens the firm again.
#[tokio::test]
async fn a_final_closing_removes_the_firms_hooks() {
    let world = World::new().await;
    let firm = world.firm().await;
    let second = world.new_key(&firm, "second").await;
    world.subscribe(&firm, "https://hooks.example.com/1").await;
    let by_second = Firm { key: second.key.as_str().to_owned(), ..firm.clone() };
    world.subscribe(&by_second, "https://hooks.example.com/2").await;
    let closed = later(activity(firm.id, "firm.closed", json!({})), 5);
    assert_eq!(take(&world, std::slice::from_ref(&closed)).await, (1, 0));
    let closed_hooks = world.count("hooks where removal_reason = 'firm_closed'").await;
    assert_eq!((world.count("hooks").await, closed_hooks), (2, 2));
    assert_eq!(world.count("key_auth where revoked_at is null").await, 2);
    assert_eq!(world.ask_number("select used::bigint from quotas where kind = 'hooks'").await, 0);
    let back = [later(activity(firm.id, "firm.resumed", json!({})), 6), opened(firm.id), closed];
    let answer = world.report(&back).await;
    assert_eq!(answer.body, json!({"accepted": 0, "duplicates": 2, "stale": 1}));
    world.get(&firm, "/me").await.refused(403, "firm_inactive");
}

/// One batch closes the hook's firm and ends the hook's key.
#[tokio::test]
async fn a_hook_is_removed_once() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.subscribe(&firm, "https://hooks.example.com/").await;
    let closed = later(activity(firm.id, "firm.closed", json!({})), 5);
    assert_eq!(take(&world, &[closed, left(firm.id, firm.owner)]).await, (2, 0));
    assert_eq!(world.count_events("SubscriptionRemoved").await, 1);
}

/// A member that loses the right for a moment within a batch loses the keys for good.
#[tokio::test]
async fn b4_reenabled_members_get_no_key_back() {
    let world = World::new().await;
    let firm = world.firm().await;
    let member =
        |kind, second| later(activity(firm.id, kind, json!({"member_id": firm.owner})), second);
    let batch = [member("member.disabled", 1), member("member.enabled", 2)];
    assert_eq!(take(&world, &batch).await, (2, 0));
    world.get(&firm, "/me").await.refused(401, "unauthorized");
    world.new_key(&firm, "new").await;
}

/// Every place where a person may stand, in a story that touches every kind of event.
#[tokio::test]
async fn the_log_and_answers_hold_nothing_personal() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let brand = json!({"brand": {"color": "#123456", "reply_to": "canary@example.com"}});
    let data = |time: &str, second: u32| {
        json!({
            "response_id": Uuid::from_u128(5), "form_id": firm.form,
            time: format!("2026-11-01T12:00:{second:02}Z"),
            "device": "canary", "lang": "canary", "ending": "canary",
            "respondent": {"name": "canary", "first_name": "canary", "last_name": "canary",
                           "email": "canary@example.com", "phone": "+1 canary",
                           "company": "canary"},
            "answers": [{"id": "canary", "question": "canary?", "type": "long_text",
                         "answer": "canary"}],
            "variables": {"canary": "canary"}, "hidden": {"utm_source": "canary"},
        })
    };
    let batch = [
        later(activity(firm.id, "firm.changed", brand), 1),
        activity(firm.id, "response.saved", data("saved_at", 1)),
        activity(firm.id, "response.submitted", data("submitted_at", 2)),
    ];
    assert_eq!(take(&world, &batch).await, (3, 0));
    receiver.reply([Reply::status(503).body(b"canary"), Reply::status(410).body(b"canary")]);
    world.deliver().await;
    world.pass(Duration::from_secs(60));
    world.deliver().await;
    assert!(receiver.received()[1].json().to_string().contains("canary"));
    let last = [left(firm.id, firm.owner), later(activity(firm.id, "firm.closed", json!({})), 9)];
    assert_eq!(take(&world, &last).await, (2, 0));

    assert_eq!(world.count("events e where e::text ilike '%canary%'").await, 0);
    let hidden =
        "select count(*) from events e where e::text like '%' || encode('canary', 'hex') || '%'
                     or e::text like '%Y2FuYXJ5%'";
    assert_eq!(world.ask_number(hidden).await, 0);
    for wrong in [
        json!({"submitted_at": "canary"}),
        json!({"respondent": {"email": ["canary"]}}),
        json!({"answers": "canary"}),
        json!({"form_id": "canary"}),
    ] {
        let mut bad = activity(firm.id, "response.submitted", data("submitted_at", 2));
        for (name, value) in wrong.as_object().unwrap() {
            bad["data"][name] = value.clone();
        }
        let refused = world.report(&[bad]).await;
        assert_eq!(refused.code(), (400, "invalid_request"));
        assert!(!refused.text().contains("canary"), "{}", refused.text());
    }
}

/// The log keeps their order, and a larger batch is refused.
#[tokio::test]
async fn a_batch_holds_a_thousand_activities() {
    let world = World::new().await;
    let firm = world.firm().await;
    let responses: Vec<Uuid> = (0..1_000).map(|_| world.id()).collect();
    let mut batch: Vec<_> = responses.iter().map(|id| submitted(&firm, *id)).collect();
    assert_eq!(take(&world, &batch).await, (1_000, 0));
    let logged = world.events_of_type("OccurrenceRecorded").await;
    let logged: Vec<_> = logged.iter().map(|event| event.field("response_id").clone()).collect();
    assert!(logged.into_iter().eq(responses.iter().map(|id| json!(id))));
    assert_eq!(take(&world, &batch).await, (0, 1_000));
    batch.push(submitted(&firm, world.id()));
    world.report(&batch).await.refused(413, "invalid_request");
    assert_eq!(take(&world, &[]).await, (0, 0));
}

/// A form's variables are the form's: none of their numbers is rounded or written otherwise.
#[tokio::test]
async fn a11_variables_keep_every_digit() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let variables =
        r#"{"cents":1.50,"deep":[{"huge":1e400, "a":[]}],"id":123456789012345678901234567890}"#;
    let mut event = submitted(&firm, world.id());
    event["data"]["variables"] = json!("here");
    assert_eq!(
        counts(&lines(&world, event.to_string().replace(r#""here""#, variables)).await),
        (1, 0)
    );
    assert_eq!(world.deliver().await, 1);
    let sent = String::from_utf8(receiver.received()[0].body.to_vec()).unwrap();
    assert!(sent.contains(&format!(r#""variables":{variables},"hidden""#)), "{sent}");
    let sample = world.get(&firm, "/triggers/form_submitted/sample").await;
    assert!(String::from_utf8_lossy(&sample.bytes).contains(variables), "{}", sample.status);
}
