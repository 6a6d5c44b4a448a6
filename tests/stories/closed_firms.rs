//! Closed firms (case H8; ruling 45): 30 days after the closing nothing personal of the firm is
//! left.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use api::queries::as_of;
use deliverer::upkeep::ClosedFirmWorker;
use domain::values::AsOf;
use eventstore::worker::{NextStep, Worker};
use serde_json::{Value, json};
use tests::{Firm, Receiver, Reply, World, activity, later};
use uuid::Uuid;

use tests::process::firmforms;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// Tables whose rows of a closed firm stay: they follow from the log, or hold ids for 30 days.
const STAY: [&str; 11] = [
    "activity_seen",
    "audit_heads",
    "audit_log",
    "deliveries",
    "events",
    "firms",
    "forms",
    "hooks",
    "key_auth",
    "members",
    "quotas",
];

async fn report(world: &World, event: Value) -> Value {
    world.report_one(event).await.body
}

/// A response with a report, a booking, a frozen body and a receiver's answer, beside an unfinished
/// response, a fact that waits and a reply address.
async fn with_everything(world: &World, firm: &Firm, receiver: &Receiver) -> Uuid {
    world.subscribe(firm, &receiver.url("/")).await;
    receiver.reply([Reply::status(503).body(b"canary answer")]);
    let response_id = world.submit(firm).await;
    let of = |kind, data| activity(firm.id, kind, data);
    let reported = json!({
        "report_id": world.id(), "response_id": response_id, "title": "T", "status": "draft",
        "review_url": "https://forms.test/r",
    });
    let booked = json!({
        "booking_id": world.id(), "response_id": response_id, "title": "Call",
        "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
        "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30, "time_zone": "Europe/Paris",
    });
    let paid = json!({"payment_id": world.id(), "response_id": world.id(), "amount": 100,
                      "currency": "EUR", "at": "2026-11-01T11:00:00Z"});
    let saved = json!({
        "response_id": world.id(), "form_id": firm.form, "saved_at": world.clock.now(),
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "a"}],
    });
    let contact = json!({"brand": {"reply_to": "ann@firm.example"}});
    for event in [
        of("report.created", reported),
        of("booking.made", booked),
        of("payment.received", paid),
        of("response.saved", saved),
        later(of("firm.changed", contact), 1),
    ] {
        report(world, event).await;
    }
    world.deliver().await;
    response_id
}

async fn close(world: &World, firm: &Firm) {
    report(world, later(activity(firm.id, "firm.closed", json!({})), 2)).await;
    world.deliver().await;
}

/// Rows of a firm in every table of the main database that says whose its rows are.
async fn rows(world: &World, firm: &Firm) -> BTreeMap<String, i64> {
    let tables: Vec<String> = sqlx::query_scalar(
        "select t.relname::text from pg_class t
           join pg_attribute a on a.attrelid = t.oid and a.attname = 'firm_id'
          where t.relnamespace = 'public'::regnamespace and t.relkind in ('r', 'p')",
    )
    .fetch_all(world.pool())
    .await
    .unwrap();
    let mut rows = BTreeMap::new();
    for table in tables {
        let count = world.count(&format!("{table} where firm_id = '{}'", firm.id)).await;
        if count > 0 {
            rows.insert(table, count);
        }
    }
    rows
}

async fn keys(world: &World, firm: &Firm) -> i64 {
    world.count_in_keyring(&format!("data_keys where firm_id = '{}'", firm.id)).await
}

/// Events that say that the data of a firm are dropped.
async fn said_so(world: &World, firm: &Firm) -> usize {
    let events = world.events_of_type("FirmDataDropped").await.into_iter();
    events.filter(|event| event.firm_id == firm.id).count()
}

/// The rows and keys of a firm that must go.
async fn left(world: &World, firm: &Firm) -> (BTreeMap<String, i64>, i64) {
    let mut rows = rows(world, firm).await;
    rows.retain(|table, _| !STAY.contains(&table.as_str()) && table != "lanes");
    (rows, keys(world, firm).await)
}

/// The data go 30 days after the closing. They once stayed for ever.
#[tokio::test]
async fn h8_a_closed_firm_loses_its_data() {
    let world = World::new().await;
    let (firm, other, receiver) = (world.firm().await, world.firm().await, Receiver::start().await);
    let response_id = with_everything(&world, &firm, &receiver).await;
    with_everything(&world, &other, &receiver).await;
    close(&world, &firm).await;
    let (before, others) = (left(&world, &firm).await, rows(&world, &other).await);
    for table in vault::FIRM_TABLES.iter().chain(projector::FIRM_TABLES) {
        let absent = ["step_headers", "mails"];
        assert!(
            before.0.contains_key(table.name) || absent.contains(&table.name),
            "{}",
            table.name
        );
    }
    world.pass(30 * DAY - HOUR);
    world.drop_closed_firms().await;
    assert_eq!((left(&world, &firm).await, said_so(&world, &firm).await), (before, 0));
    world.pass(HOUR);
    world.drop_closed_firms().await;
    world.project().await;
    assert_eq!(left(&world, &firm).await, (BTreeMap::new(), 0));
    assert_eq!((rows(&world, &other).await, keys(&world, &other).await), (others, 2));
    let entries = world.audit_entries(firm.id).await.into_iter();
    let entries = entries.filter(|entry| entry.action == "firm_data_dropped").count();
    assert_eq!((said_so(&world, &firm).await, entries), (1, 1));
    world.pass(DAY);
    world.drop_closed_firms().await;
    assert_eq!(said_so(&world, &firm).await, 1, "once");
    for command in
        [&["audit", "checkpoint"][..], &["audit", "verify"], &["projections", "verify", "--all"]]
    {
        let output = firmforms(&world.database).args(command).output().await.unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
    }
    let shown = as_of::deliveries(world.service(), firm.id, AsOf::NOW, 10).await.unwrap();
    assert_eq!(shown.1, HashSet::from([response_id]), "its deliveries are shown as erased");
}

/// Later activities about the firm are accepted and ignored, of every kind.
#[tokio::test]
async fn h8_a_late_report_restores_no_data() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = with_everything(&world, &firm, &receiver).await;
    close(&world, &firm).await;
    let late = |world: &World| {
        let booked = json!({
            "booking_id": world.id(), "response_id": response_id, "title": "Call",
            "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
            "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30, "time_zone": "Europe/Paris",
        });
        let paid = json!({"payment_id": world.id(), "response_id": world.id(), "amount": 1,
                          "currency": "EUR", "at": "2026-11-01T11:00:00Z"});
        let contact = json!({"brand": {"reply_to": "ann@firm.example"}});
        [
            activity(firm.id, "response.submitted", submission(world, &firm)),
            activity(firm.id, "booking.made", booked),
            activity(firm.id, "payment.received", paid),
            activity(firm.id, "response.erased", json!({"response_id": world.id()})),
            activity(firm.id, "person.erased", json!({"email": "zoe@example.com"})),
            activity(firm.id, "member.joined", json!({"member_id": world.id(), "role": "owner"})),
            later(activity(firm.id, "firm.changed", contact), 9),
        ]
    };
    let before = keys(&world, &firm).await;
    report(&world, activity(firm.id, "response.submitted", submission(&world, &firm))).await;
    assert_eq!(keys(&world, &firm).await, before + 1, "within the grace time as ever");
    world.pass(30 * DAY);
    world.drop_closed_firms().await;
    let members = rows(&world, &firm).await["members"];
    let events = rows(&world, &firm).await["events"];
    let answer = world.report(&late(&world)).await;
    assert_eq!((answer.status.as_u16(), &answer.body["duplicates"]), (202, &json!(7)));
    assert_eq!(left(&world, &firm).await, (BTreeMap::new(), 0));
    let after = rows(&world, &firm).await;
    assert_eq!((after["members"], after["events"]), (members, events));
}

fn submission(world: &World, firm: &Firm) -> Value {
    json!({
        "response_id": world.id(), "form_id": firm.form, "submitted_at": "2026-11-01T11:00:00Z",
        "respondent": {"email": "zoe@example.com"},
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "canary"}],
    })
}

/// Documents and keys of a closed firm, more than a step takes.
async fn put(world: &World, firm: &Firm, responses: i32) {
    sqlx::query(
        "insert into responses (firm_id, response_id, form_id, saved_at, document)
         select $1, gen_random_uuid(), $2, now(), 'x' from generate_series(1, $3)",
    )
    .bind(firm.id)
    .bind(firm.form)
    .bind(responses)
    .execute(world.pool())
    .await
    .unwrap();
    sqlx::query(
        "insert into data_keys (firm_id, subject_id, wrapped)
         select $1, gen_random_uuid(), 'x' from generate_series(1, $2)",
    )
    .bind(firm.id)
    .bind(responses)
    .execute(world.keys())
    .await
    .unwrap();
}

/// A step takes 1,000 rows, however many a firm has. A process that goes away leaves the rest to
/// the next.
#[tokio::test]
async fn h8_a_large_firm_goes_in_steps() {
    let world = World::new().await;
    let firm = world.firm().await;
    close(&world, &firm).await;
    put(&world, &firm, 2_500).await;
    world.pass(30 * DAY);
    let rest =
        async || (keys(&world, &firm).await, left(&world, &firm).await.0.get("responses").copied());
    let mut worker = ClosedFirmWorker::new(world.deliverer().clone());
    let mut seen = vec![rest().await];
    while rest().await.0 > 500 {
        assert_eq!(worker.step().await.unwrap(), NextStep::Busy);
        seen.push(rest().await);
    }
    seen.dedup();
    assert_eq!(seen, [2_500, 1_500, 500].map(|keys| (keys, Some(2_500))), "the keys go first");
    let mut worker = ClosedFirmWorker::new(world.deliverer().clone());
    let mut rows = 2_500;
    while worker.step().await.unwrap() == NextStep::Busy {
        let now = rest().await.1.unwrap_or_default();
        assert!(rows - now <= 1_000, "{rows} {now}");
        rows = now;
    }
    assert_eq!(
        (left(&world, &firm).await, said_so(&world, &firm).await),
        ((BTreeMap::new(), 0), 1)
    );
}

/// An old dump of the keyring or of the main database brings rows back. Each sweep looks for such
/// rows.
#[tokio::test]
async fn h8_a_restored_backup_is_swept_again() {
    let world = World::new().await;
    let firm = world.firm().await;
    close(&world, &firm).await;
    world.pass(30 * DAY);
    let mut worker = ClosedFirmWorker::new(world.deliverer().clone());
    let mut sweep = async || while worker.step().await.unwrap() == NextStep::Busy {};
    sweep().await;
    put(&world, &firm, 3).await;
    sweep().await;
    assert_eq!(keys(&world, &firm).await, 3, "it is not time yet");
    world.pass(HOUR);
    sweep().await;
    assert_eq!(
        (left(&world, &firm).await, said_so(&world, &firm).await),
        ((BTreeMap::new(), 0), 1)
    );
}

/// The cancel worker comes first, so no delivery loses its data before its end is recorded.
#[tokio::test]
async fn h8_queued_deliveries_keep_their_data() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    world.submit(&firm).await;
    report(&world, later(activity(firm.id, "firm.closed", json!({})), 2)).await;
    world.pass(30 * DAY);
    world.drop_closed_firms().await;
    assert_eq!((said_so(&world, &firm).await, keys(&world, &firm).await), (0, 1));
    world.deliver().await;
    world.drop_closed_firms().await;
    assert_eq!((said_so(&world, &firm).await, keys(&world, &firm).await), (1, 0));
    assert!(receiver.received().is_empty());
}

#[tokio::test]
async fn h8_a_dropped_firms_secret_stays_hidden() {
    let world = World::new().await;
    let firm = world.firm().await;
    let id = firm.id.to_string();
    let reveal = async || {
        let command = ["secrets", "reveal", "--firm", &id];
        firmforms(&world.database).args(command).output().await.unwrap().status.success()
    };
    close(&world, &firm).await;
    assert!(reveal().await, "a closed firm's last deliveries can be verified");
    world.pass(30 * DAY);
    world.drop_closed_firms().await;
    assert!(!reveal().await);
}
