//! Erasure and retention (cases H1, H2, H3 and H9; rulings 21 and 27).

mod copies;
mod in_flight;
mod people;

use std::time::Duration;

use deliverer::send::deliver_once;
use serde_json::{Value, json};
use tests::{Firm, Receiver, Reply, World, activity};
use uuid::Uuid;

const DAY: Duration = Duration::from_secs(86_400);

async fn submit(world: &World, firm: &Firm, email: &str) -> Uuid {
    let response_id = world.id();
    let data = json!({
        "response_id": response_id, "form_id": firm.form, "submitted_at": "2026-11-01T11:00:00Z",
        "respondent": {"email": email},
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "canary"}],
    });
    world.report_one(activity(firm.id, "response.submitted", data)).await;
    response_id
}

async fn report(world: &World, firm: &Firm, kind: &str, data: Value) -> Value {
    world.report_one(activity(firm.id, kind, data)).await.body
}

/// Tables with rows of a single response.
const TABLES_OF_A_RESPONSE: [&str; 7] =
    ["responses", "reports", "bookings", "bodies", "answers", "partials", "response_people"];

/// Rows of the vault and keys of the keyring that are left of a response.
async fn left(world: &World, response_id: Uuid) -> (i64, i64) {
    let mut rows = 0;
    for table in TABLES_OF_A_RESPONSE {
        rows += world.count(&format!("{table} where response_id = '{response_id}'")).await;
    }
    (rows, world.count_data_keys_of(response_id).await)
}

/// Numbers of reports, bookings and waiting facts.
async fn parts(world: &World) -> (i64, i64, i64) {
    let reports = world.count("reports").await;
    (reports, world.count("bookings").await, world.count("waiting_facts").await)
}

async fn causes(world: &World) -> Vec<String> {
    sqlx::query_scalar("select cause from deliveries where state = 'cancelled' order by cause")
        .fetch_all(world.pool())
        .await
        .unwrap()
}

/// Its queued delivery is cancelled, and another response stays.
#[tokio::test]
async fn h1_an_erased_response_leaves_nothing() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    receiver.reply([Reply::status(500).body(b"canary answer")]);
    let erased = submit(&world, &firm, "a@example.com").await;
    let part = json!({
        "report_id": world.id(), "response_id": erased, "title": "T", "status": "draft",
        "review_url": "https://forms.test/r",
    });
    report(&world, &firm, "report.created", part).await;
    world.deliver().await;
    let kept = submit(&world, &firm, "b@example.com").await;
    world.deliver().await;
    assert_eq!(receiver.received().len(), 2, "the first waits for its second try");
    assert_eq!(left(&world, erased).await, (5, 1));
    let body = report(&world, &firm, "response.erased", json!({"response_id": erased})).await;
    assert_eq!(body["accepted"], 1);
    let again = report(&world, &firm, "response.erased", json!({"response_id": erased})).await;
    assert_eq!(again["duplicates"], 1);
    world.erase().await;
    world.project().await;
    assert_eq!((left(&world, erased).await, left(&world, kept).await), ((0, 0), (3, 1)));
    assert_eq!(causes(&world).await, ["source_erased"]);
    world.pass(2 * DAY);
    world.deliver().await;
    assert_eq!(receiver.received().len(), 2);
}

/// The eraser has not come to the erasure yet: the response is not sent, and not sampled.
#[tokio::test]
async fn h1_an_accepted_erasure_holds_at_once() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    let erased = submit(&world, &firm, "a@example.com").await;
    report(&world, &firm, "response.erased", json!({"response_id": erased})).await;
    world.deliver().await;
    assert!(receiver.received().is_empty());
    assert_eq!(causes(&world).await, ["source_erased"]);
    let sample = world.get(&firm, "/triggers/form_submitted/sample").await;
    assert!(!sample.text().contains("canary"));
}

/// The parts come before, in or after the batch that erases the response, in any order.
#[tokio::test]
async fn h1_an_erased_responses_parts_go_too() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (response_id, report_id, booking_id) = (world.id(), world.id(), world.id());
    let moved = json!({"booking_id": booking_id, "moved_at": "2026-11-01T12:00:00Z",
                       "starts_at": "2026-11-02T10:00:00Z", "ends_at": "2026-11-02T10:45:00Z",
                       "duration_min": 45, "time_zone": "Europe/London"});
    let booked = json!({"booking_id": booking_id, "response_id": response_id, "title": "Call",
                        "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
                        "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30,
                        "time_zone": "Europe/Paris"});
    let created = json!({"report_id": report_id, "response_id": response_id, "title": "T",
                         "status": "draft", "review_url": "https://forms.test/r"});
    let approved = json!({"report_id": report_id, "at": "2026-11-01T11:00:00Z"});
    report(&world, &firm, "report.approved", approved.clone()).await;
    report(&world, &firm, "booking.rescheduled", moved.clone()).await;
    let batch = [
        ("booking.made", booked),
        ("booking.rescheduled", moved),
        ("response.erased", json!({"response_id": response_id})),
        ("report.created", created),
        ("report.approved", approved),
    ];
    let batch = batch.map(|(kind, data)| activity(firm.id, kind, data));
    world.report(&batch).await.ok();
    world.erase().await;
    assert_eq!(parts(&world).await, (0, 0, 0));
}

/// A booking is moved and a report approved before their response is known. The response turns out
/// to be erased, after the eraser was there. Such parts once stayed.
#[tokio::test]
async fn h1_early_parts_of_erased_responses_go() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (response_id, report_id, booking_id) = (world.id(), world.id(), world.id());
    let moved = json!({"booking_id": booking_id, "moved_at": "2026-11-01T12:00:00Z",
                       "starts_at": "2026-11-02T10:00:00Z", "ends_at": "2026-11-02T10:45:00Z",
                       "duration_min": 45, "time_zone": "Europe/London"});
    let approved = json!({"report_id": report_id, "at": "2026-11-01T11:00:00Z"});
    report(&world, &firm, "booking.rescheduled", moved).await;
    report(&world, &firm, "report.approved", approved).await;
    report(&world, &firm, "response.erased", json!({"response_id": response_id})).await;
    world.erase().await;
    let booked = json!({"booking_id": booking_id, "response_id": response_id, "title": "Call",
                        "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
                        "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30,
                        "time_zone": "Europe/Paris"});
    let created = json!({"report_id": report_id, "response_id": response_id, "title": "T",
                         "status": "draft", "review_url": "https://forms.test/r"});
    report(&world, &firm, "booking.made", booked).await;
    report(&world, &firm, "report.created", created).await;
    assert_eq!(parts(&world).await, (0, 0, 0));
}

/// The responses are erased before a claim takes their deliveries, which are cancelled.
#[tokio::test]
async fn h1_an_erased_unsent_response_stays_unsent() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    let queued = submit(&world, &firm, "a@example.com").await;
    let early = submit(&world, &firm, "a@example.com").await;
    for response_id in [queued, early] {
        report(&world, &firm, "response.erased", json!({"response_id": response_id})).await;
    }
    world.erase().await;
    world.deliver().await;
    assert!(receiver.received().is_empty());
    assert_eq!(causes(&world).await, ["source_erased", "source_erased"]);
}

/// They are accepted and ignored, in any order.
#[tokio::test]
async fn activities_about_an_erased_response_are_ignored() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    let (response_id, report_id) = (world.id(), world.id());
    report(&world, &firm, "response.erased", json!({"response_id": response_id})).await;
    world.erase().await;
    let submitted = json!({"response_id": response_id, "form_id": firm.form,
                           "submitted_at": "2026-11-01T11:00:00Z"});
    let created = json!({"report_id": report_id, "response_id": response_id, "title": "T",
                         "status": "draft", "review_url": "https://forms.test/r"});
    let approved = json!({"report_id": report_id, "at": "2026-11-01T11:00:00Z"});
    for (kind, data) in [
        ("response.submitted", submitted),
        ("report.created", created),
        ("report.approved", approved),
    ] {
        report(&world, &firm, kind, data).await;
    }
    world.deliver().await;
    assert!(receiver.received().is_empty());
    assert_eq!(world.count("responses").await, 0);
}

/// The response is reported again. Neither a batch that is taken in nor a refused one makes its
/// data key again.
#[tokio::test]
async fn an_erased_response_gets_no_new_key() {
    let world = World::new().await;
    let firm = world.firm().await;
    let response_id = submit(&world, &firm, "a@example.com").await;
    report(&world, &firm, "response.erased", json!({"response_id": response_id})).await;
    world.erase().await;
    let again = json!({"response_id": response_id, "form_id": firm.form,
                       "submitted_at": "2026-11-01T11:00:00Z"});
    let again = activity(firm.id, "response.submitted", again);
    let body = world.report(std::slice::from_ref(&again)).await.body;
    assert_eq!(body, json!({"accepted": 0, "duplicates": 1, "stale": 0}));
    assert_eq!(left(&world, response_id).await, (0, 0));
    let refused = activity(world.id(), "form.deleted", json!({"form_id": firm.form}));
    assert_eq!(world.report(&[again, refused]).await.status, 400);
    assert_eq!(left(&world, response_id).await, (0, 0));
}

/// An approval waits for its report. It makes no occurrence if the report turns out to be an erased
/// response's.
#[tokio::test]
async fn an_erasure_stops_a_waiting_approval() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (response_id, report_id) = (submit(&world, &firm, "a@example.com").await, world.id());
    let approved = json!({"report_id": report_id, "at": "2026-11-01T11:00:00Z"});
    report(&world, &firm, "report.approved", approved).await;
    report(&world, &firm, "response.erased", json!({"response_id": response_id})).await;
    world.erase().await;
    let created = json!({"report_id": report_id, "response_id": response_id, "title": "T",
                         "status": "draft", "review_url": "https://forms.test/r"});
    report(&world, &firm, "report.created", created).await;
    let occurrences = world.count("events where aggregate_type = 'Occurrence'").await;
    assert_eq!(occurrences, 1, "the submission alone");
    assert_eq!(world.count("waiting_facts").await, 0);
}

/// An eraser that found nothing once woke every follower. It would have woken itself too, and gone
/// round as fast as it could.
#[tokio::test]
async fn an_idle_eraser_wakes_no_follower() {
    let world = World::new().await;
    let woken = world.service().store.nudge().subscribe();
    world.erase().await;
    assert!(!woken.has_changed().unwrap());
}

/// H2: bodies go 7 days after delivery and 30 after failure, answers after 30. Digests stay.
#[tokio::test]
async fn h2_bodies_and_answers_expire() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    submit(&world, &firm, "a@example.com").await;
    world.deliver().await;
    receiver.reply([Reply::status(400).body(b"no")]);
    submit(&world, &firm, "b@example.com").await;
    world.deliver().await;
    let count = async || {
        let digests = world.count("deliveries where body_sha256 is not null").await;
        (world.count("bodies").await, world.count("answers").await, digests)
    };
    let (bodies, answers, digests) = count().await;
    assert_eq!((bodies, digests), (2, 2));
    assert!(answers >= 1);
    for (days, expected) in [(7, 2), (1, 1), (22, 1), (1, 0)] {
        world.pass(days * DAY - Duration::from_secs(if days == 7 { 1 } else { 0 }));
        world.purge().await;
        assert_eq!(count().await.0, expected, "after {days} more days");
    }
    assert_eq!(count().await, (0, 0, 2));
}

/// Two subscriptions share a body. The body stays as long as the failed delivery needs it.
#[tokio::test]
async fn h2_a_failure_keeps_the_shared_body() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    for path in ["/one", "/two"] {
        world.subscribe(&firm, &receiver.url(path)).await;
    }
    receiver.reply([Reply::status(400)]);
    submit(&world, &firm, "a@example.com").await;
    world.deliver().await;
    let bodies = async || world.count("bodies").await;
    let shared = bodies().await;
    for (days, expected) in [(8, shared), (23, 0)] {
        world.pass(days * DAY);
        world.purge().await;
        assert_eq!(bodies().await, expected);
    }
    assert_eq!(shared, 1);
}

/// A world with a submission, and its receiver, which answers the first try with this status.
async fn submitted_to(status: u16) -> (World, Receiver) {
    let world = World::new().await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/")).await;
    receiver.reply([Reply::status(status)]);
    submit(&world, &firm, "a@example.com").await;
    (world, receiver)
}

/// A delivery that arrived at its second try keeps its body for seven days from then on.
#[tokio::test]
async fn h2_a_late_arrival_keeps_its_body() {
    let (world, _receiver) = submitted_to(503).await;
    world.deliver().await;
    world.pass(DAY);
    assert_eq!(world.deliver().await, 1);
    for (days, expected) in [(6, 1), (2, 0)] {
        world.pass(days * DAY);
        world.purge().await;
        assert_eq!(world.count("bodies").await, expected, "after {days} more days");
    }
}

/// History does not know yet that the delivery failed.
#[tokio::test]
async fn h2_a_purge_waits_for_history() {
    let (world, _receiver) = submitted_to(400).await;
    world.settle().await;
    assert_eq!(deliver_once(world.deliverer()).await.unwrap(), 1);
    world.pass(8 * DAY);
    world.purge().await;
    assert_eq!((world.count("bodies").await, world.count("deliveries").await), (1, 0));
    world.project().await;
    world.purge().await;
    assert_eq!(world.count("bodies").await, 1);
    world.pass(23 * DAY);
    world.purge().await;
    assert_eq!(world.count("bodies").await, 0);
}

/// More bodies than one step takes were frozen at once, and a failed delivery keeps one of them.
#[tokio::test]
async fn h2_a_purge_passes_kept_bodies() {
    let (world, _receiver) = submitted_to(400).await;
    world.deliver().await;
    world
        .change_database(
            "insert into bodies
             select gen_random_uuid(), firm_id, response_id, sha256, ciphertext, created_at
               from bodies, generate_series(1, 2500)",
        )
        .await;
    world.pass(8 * DAY);
    world.purge().await;
    assert_eq!(world.count("bodies").await, 1);
}
