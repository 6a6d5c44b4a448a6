//! Retention of answers (ruling 59): a response that nobody reported about for long loses its
//! contents until it is reported again.

use std::time::Duration;

use deliverer::upkeep::{self, EraseWorker, ExpireWorker};
use eventstore::NewFormats;
use eventstore::worker::Worker;
use serde_json::{Value, json};
use tests::{Answer, Firm, Receiver, Reply, World, activity};
use uuid::Uuid;
use vault::Keyring;

const DAY: Duration = Duration::from_hours(24);

/// The retention of these stories, in days.
const KEPT: u32 = 365;

/// Rows and keys of a response.
async fn left(world: &World, response_id: Uuid) -> (i64, i64) {
    let mut rows = 0;
    for table in ["responses", "reports", "bookings", "bodies", "answers", "response_people"] {
        rows += world.count(&format!("{table} where response_id = '{response_id}'")).await;
    }
    (rows, world.count_data_keys_of(response_id).await)
}

fn response(world: &World, firm: &Firm, kind: &str, response_id: Uuid) -> Value {
    let time = if kind == "response.saved" { "saved_at" } else { "submitted_at" };
    let mut data = json!({
        "response_id": response_id, "form_id": firm.form,
        "respondent": {"email": "ann@example.com"},
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "canary"}],
    });
    data[time] = json!(world.clock.now());
    activity(firm.id, kind, data)
}

async fn submit(world: &World, firm: &Firm, response_id: Uuid) -> Answer {
    world.report(&[response(world, firm, "response.submitted", response_id)]).await
}

fn payment(world: &World, firm: &Firm, response_id: Uuid) -> Value {
    let data = json!({"payment_id": world.id(), "response_id": response_id, "amount": 100,
                      "currency": "EUR", "at": world.clock.now()});
    activity(firm.id, "payment.received", data)
}

/// Lets responses expire, and deletes their contents. Each event waits for the eraser.
async fn expire(world: &World) {
    let mut events = -1;
    while events < world.count_events("ResponsesExpired").await {
        events = world.count_events("ResponsesExpired").await;
        world.expire_after(KEPT).await;
        world.erase().await;
    }
}

/// Steps a worker of this retention some times, whatever it says.
async fn expire_in_steps(world: &World, keyring: Keyring, days: Option<u32>) {
    let mut deliverer = world.deliverer().clone();
    deliverer.settings.retention.responses_days = days;
    deliverer.keyring = keyring;
    let mut worker = ExpireWorker::new(deliverer);
    for _ in 0..10 {
        worker.step().await.unwrap();
    }
    world.erase().await;
}

/// The triggers of the requests that a receiver got.
fn triggers(receiver: &Receiver) -> Vec<Value> {
    receiver.received().iter().map(|one| one.json()["event"].clone()).collect()
}

async fn entries(world: &World, action: &str) -> Vec<Value> {
    world.project().await;
    sqlx::query_scalar("select evidence::jsonb from audit_log where action = $1 order by position")
        .bind(action)
        .fetch_all(world.pool())
        .await
        .unwrap()
}

/// A firm with subscriptions of submissions and payments, and one of its responses.
async fn with_response() -> (World, Firm, Receiver, Uuid) {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    for trigger in ["form_submitted", "payment_received"] {
        let hook = json!({"trigger": trigger, "target_url": receiver.url("/")});
        world.create_hook(&firm, hook).await.ok();
    }
    let response_id = world.id();
    submit(&world, &firm, response_id).await.ok();
    world.deliver().await;
    world.project().await;
    (world, firm, receiver, response_id)
}

/// The scene of [`with_response`], after the body is gone and the response has expired.
async fn with_expired() -> (World, Firm, Receiver, Uuid) {
    let (world, firm, receiver, response_id) = with_response().await;
    world.pass(DAY * (KEPT + 1));
    world.purge().await;
    expire(&world).await;
    assert_eq!(left(&world, response_id).await, (0, 0));
    (world, firm, receiver, response_id)
}

#[tokio::test]
async fn an_unreported_response_loses_its_contents() {
    let (world, firm, _, response_id) = with_response().await;
    let unfinished = world.id();
    world.report_one(response(&world, &firm, "response.saved", unfinished)).await;
    world.pass(DAY * KEPT);
    world.time_out().await;
    world.project().await;
    world.purge().await;
    let fresh = world.id();
    submit(&world, &firm, fresh).await.ok();
    expire(&world).await;
    assert_eq!(left(&world, response_id).await, (2, 1), "the last day counts");
    world.pass(DAY);
    expire(&world).await;
    assert_eq!(left(&world, response_id).await, (0, 0));
    assert_eq!(left(&world, unfinished).await, (0, 0));
    assert_eq!(left(&world, fresh).await.1, 1);
    expire(&world).await;
    let evidence = entries(&world, "responses_expired").await;
    let before = "2026-11-02T00:00:00.000Z";
    let one = json!({"responses": 1, "reported_before": before});
    assert_eq!(evidence, [one.clone(), one], "submitted and unfinished ones are read apart");
    assert_eq!(world.event_types_in(&["Response"]).await.len(), 2);
}

/// Without the setting, responses are kept for good.
#[tokio::test]
async fn responses_are_kept_by_default() {
    let (world, _, _, response_id) = with_response().await;
    world.pass(DAY * 3_650);
    world.purge().await;
    let keyring = || world.deliverer().keyring.clone();
    expire_in_steps(&world, keyring(), None).await;
    assert_eq!(left(&world, response_id).await, (2, 1));
    expire_in_steps(&world, keyring(), Some(KEPT)).await;
    assert_eq!(left(&world, response_id).await, (0, 0));
}

/// A payment leaves no row of its own, and keeps its response like any report.
#[tokio::test]
async fn a_report_keeps_its_response() {
    let (world, firm, _, response_id) = with_response().await;
    world.pass(DAY * 300);
    world.report_one(payment(&world, &firm, response_id)).await;
    world.deliver().await;
    world.project().await;
    for (days, kept) in [(300, 1), (100, 0)] {
        world.pass(DAY * days);
        world.purge().await;
        expire(&world).await;
        assert_eq!(left(&world, response_id).await.1, kept);
    }
}

/// Its delivery is queued first, and then waits for the next try.
#[tokio::test]
async fn a_needed_body_keeps_its_response() {
    let (world, firm, receiver, response_id) = with_response().await;
    world.pass(DAY * (KEPT + 1));
    receiver.reply([Reply::status(500)]);
    let order = world.step_order(&firm, &receiver.url("/"), response_id);
    world.order_step(&order).await.ok();
    expire(&world).await;
    assert_eq!(left(&world, response_id).await.1, 1, "its delivery is queued");
    world.deliver().await;
    world.purge().await;
    expire(&world).await;
    assert_eq!(left(&world, response_id).await.1, 1, "its delivery waits for the next try");
    assert_eq!(world.count_events("ResponsesExpired").await, 0);
}

#[tokio::test]
async fn reports_about_expired_responses_are_refused() {
    let (world, firm, receiver, response_id) = with_expired().await;
    let before = receiver.received().len();
    let known = world.id();
    submit(&world, &firm, known).await.ok();
    let batch = [payment(&world, &firm, known), payment(&world, &firm, response_id)];
    let refused = world.report(&batch).await;
    assert_eq!(refused.status, 400);
    let told = refused.text();
    assert!(told.contains("event 1: the response has expired"), "{told}");
    assert_eq!(left(&world, response_id).await, (0, 0));
    let booked = json!({"booking_id": world.id(), "response_id": response_id, "title": "Call",
                        "status": "confirmed", "starts_at": world.clock.now(),
                        "ends_at": world.clock.now(), "duration_min": 30,
                        "time_zone": "Europe/Paris"});
    let refused = world.report(&[activity(firm.id, "booking.made", booked)]).await;
    assert_eq!((refused.status.as_u16(), left(&world, response_id).await), (400, (0, 0)));
    let again = [
        response(&world, &firm, "response.submitted", response_id),
        payment(&world, &firm, response_id),
    ];
    let taken = world.report(&again).await.ok();
    assert_eq!(taken.body["accepted"], 2);
    world.deliver().await;
    let sent = receiver.received().split_off(before);
    let of_response = |event: &str| {
        let is_it =
            |body: &Value| body["event"] == event && body["response"]["id"] == json!(response_id);
        sent.iter().filter(|one| is_it(&one.json())).count()
    };
    assert_eq!((of_response("form_submitted"), of_response("payment_received")), (0, 1));
    assert!(sent.iter().all(|one| one.json().to_string().contains("canary")));
    let repeated = submit(&world, &firm, response_id).await.ok();
    assert_eq!(repeated.body["duplicates"], 1);
}

/// The report of a part names its response by the part's id alone.
#[tokio::test]
async fn parts_of_expired_responses_are_refused() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (response_id, report_id) = (world.id(), world.id());
    submit(&world, &firm, response_id).await.ok();
    let created = json!({"report_id": report_id, "response_id": response_id, "title": "T",
                         "status": "draft", "review_url": "https://forms.test/r"});
    world.report_one(activity(firm.id, "report.created", created.clone())).await;
    world.pass(DAY * (KEPT + 1));
    expire(&world).await;
    assert_eq!(left(&world, response_id).await, (0, 0));
    let approved = json!({"report_id": report_id, "at": world.clock.now()});
    let approval = || activity(firm.id, "report.approved", approved.clone());
    assert_eq!(world.report(&[approval()]).await.status, 400);
    submit(&world, &firm, response_id).await.ok();
    world.report_one(approval()).await;
    assert_eq!(world.count("waiting_facts").await, 1, "the report must come again");
    world.report_one(activity(firm.id, "report.created", created)).await;
    assert_eq!(world.count("waiting_facts").await, 0);
}

/// The report comes between the expiry and the eraser, and uses the key that is to go. Once more the
/// eraser has deleted the key and has stopped before it deleted the rows.
#[tokio::test]
async fn an_expired_response_comes_back_whole() {
    for is_key_gone in [false, true] {
        let (world, firm, receiver, response_id) = with_response().await;
        world.pass(DAY * (KEPT + 1));
        world.purge().await;
        world.expire_after(KEPT).await;
        if is_key_gone {
            let of_response = format!("delete from data_keys where subject_id = '{response_id}'");
            assert_eq!(world.change_keyring(&of_response).await, 1);
        }
        submit(&world, &firm, response_id).await.ok();
        world.erase().await;
        assert_eq!(upkeep::redo_erasures(world.deliverer()).await.unwrap(), 0);
        assert_eq!(left(&world, response_id).await, (2, 1));
        world.report_one(payment(&world, &firm, response_id)).await;
        world.deliver().await;
        assert_eq!(triggers(&receiver), ["form_submitted", "payment_received"]);
        assert!(receiver.received()[1].json().to_string().contains("canary"));
    }
}

/// A backup of the keyring brings the key back. The start deletes it, unless the response was
/// reported again.
#[tokio::test]
async fn a_start_repeats_an_expiry() {
    for is_back in [false, true] {
        let (world, firm, _, response_id) = with_response().await;
        let key: (Uuid, Uuid, Vec<u8>) =
            sqlx::query_as("select * from data_keys").fetch_one(world.keys()).await.unwrap();
        world.pass(DAY * (KEPT + 1));
        world.purge().await;
        expire(&world).await;
        if is_back {
            submit(&world, &firm, response_id).await.ok();
        }
        world.change_keyring("delete from erased_up_to").await;
        sqlx::query("insert into data_keys values ($1, $2, $3) on conflict do nothing")
            .bind(key.0)
            .bind(key.1)
            .bind(key.2)
            .execute(world.keys())
            .await
            .unwrap();
        // The eraser has not come to this one yet.
        let erased = world.id();
        submit(&world, &firm, erased).await.ok();
        world.order_erasure(&firm, erased).await;
        assert_eq!(upkeep::redo_erasures(world.deliverer()).await.unwrap(), 2);
        let expected = if is_back { (2, 1) } else { (0, 0) };
        assert_eq!(left(&world, response_id).await, expected);
        assert_eq!(left(&world, erased).await, (0, 0));
    }
}

/// The keyring's mark commits with the keys, so a copy of the keyring from before has both to do.
#[tokio::test]
async fn the_keyring_marks_expiries_with_keys() {
    let (world, _, _, response_id) = with_response().await;
    world.pass(DAY * (KEPT + 1));
    world.purge().await;
    world.expire_after(KEPT).await;
    let marked = async || {
        let mark = world.deliverer().keyring.erased_up_to().await.unwrap();
        (mark.is_some(), world.count_data_keys_of(response_id).await)
    };
    let mut eraser = EraseWorker::new(world.deliverer().clone(), world.system.fence.clone());
    eraser.step().await.unwrap();
    assert_eq!(marked().await, (false, 1), "it has only begun");
    world.erase().await;
    assert_eq!(marked().await, (true, 0));
}

/// A draft that was never submitted still fires when it is.
#[tokio::test]
async fn a_late_first_submission_fires() {
    let (world, firm, receiver, submitted) = with_response().await;
    let unfinished = world.id();
    world.report_one(response(&world, &firm, "response.saved", unfinished)).await;
    world.pass(DAY * (KEPT + 1));
    world.time_out().await;
    world.project().await;
    world.purge().await;
    expire(&world).await;
    assert_eq!(left(&world, unfinished).await, (0, 0));
    let saved = response(&world, &firm, "response.saved", submitted);
    let answer = world.report(&[saved]).await.ok();
    assert_eq!(answer.body["duplicates"], 1, "a submission is final");
    assert_eq!(left(&world, submitted).await, (0, 0), "and no key is left");
    submit(&world, &firm, unfinished).await.ok();
    world.deliver().await;
    assert_eq!(triggers(&receiver), ["form_submitted", "form_submitted"]);
    assert_eq!(left(&world, unfinished).await.1, 1);
}

#[tokio::test]
async fn an_expired_response_can_be_erased() {
    let (world, firm, _, response_id) = with_expired().await;
    world.order_erasure(&firm, response_id).await;
    world.erase().await;
    assert_eq!(world.event_types_in(&["Response"]).await, ["ResponsesExpired", "ResponseErased"]);
    let answer = submit(&world, &firm, response_id).await.ok();
    assert_eq!(answer.body["duplicates"], 1, "an erasure is final");
    assert_eq!(left(&world, response_id).await, (0, 0));
}

/// A build before 0.3.0 stops at an event that it does not know.
#[tokio::test]
async fn nothing_expires_beside_an_older_build() {
    let (world, _, _, response_id) = with_response().await;
    world.pass(DAY * (KEPT + 1));
    world.purge().await;
    let keyring = world.deliverer().keyring.clone();
    let beside_older = keyring.clone().with_formats(NewFormats::default());
    expire_in_steps(&world, beside_older, Some(KEPT)).await;
    assert_eq!(left(&world, response_id).await.1, 1);
    expire_in_steps(&world, keyring, Some(KEPT)).await;
    assert_eq!(left(&world, response_id).await.1, 0);
}

/// One event lists at most 1,000 responses, and a sweep goes on behind those it may not touch.
#[tokio::test]
async fn thousands_expire_in_a_few_events() {
    let world = World::new().await;
    let firm = world.firm().await;
    let kept = world.id();
    submit(&world, &firm, kept).await.ok();
    for _ in 0..2 {
        let of = |_| response(&world, &firm, "response.submitted", world.id());
        world.report(&(0..1_000).map(of).collect::<Vec<_>>()).await.ok();
    }
    world.pass(DAY * KEPT);
    world.report_one(payment(&world, &firm, kept)).await;
    world.pass(DAY);
    expire(&world).await;
    assert_eq!(world.count("responses").await, 1);
    assert_eq!(world.count("subjects where expired_as = 'submitted'").await, 2_000);
    assert_eq!(world.count_events("ResponsesExpired").await, 3);
}
