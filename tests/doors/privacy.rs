//! No personal data are in the log, and no table holds personal data as plain text
//! (docs/explanation/personal-data.md; case H4). A story has all kinds of data, and the test
//! searches every column of both databases. An erasure leaves the log as it was.

use api::commands::tokens::HolderRole;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::subscription::Trigger;
use serde_json::{Value, json};
use tests::{ATTEMPTS, Firm, Receiver, Reply, World, activity, later};
use uuid::Uuid;

/// Words of a person, a firm's contact, a firm's step or a receiver are stored only under a key.
/// The test searches before and after the deliveries, and after an erasure.
#[tokio::test]
async fn no_table_holds_personal_data_plainly() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    for trigger in Trigger::ALL {
        let body = json!({"trigger": trigger.key(), "target_url": receiver.url("/")});
        assert_eq!(world.create_hook(&firm, body).await.status, 201);
    }
    let onward = |status| Reply::status(status).header("location", "/canary/canary@example.com");
    let busy = || Reply::status(500).header("retry-after", "canary").body(b"canary answer");
    receiver.reply([busy(), Reply::status(400).body(b"canary")]);
    receiver.reply([onward(303), onward(307), Reply::status(302).header("location", "canary:x")]);
    let (gone, other) = (world.id(), world.id());
    for (response_id, email) in [(gone, "gone.canary@example.com"), (other, "canary@example.com")] {
        let said = said(&world, &firm, response_id, email);
        let reported = world.report(&said).await;
        assert_eq!(reported.status, 202, "{}", reported.body);
        step(&world, &firm, &receiver, response_id).await;
        invite(&world, &firm, email).await;
    }
    assert_unseen(&world).await;
    assert!(world.deliver().await >= 12);
    world.pass(std::time::Duration::from_secs(3_600));
    world.time_out().await;
    receiver.reply([busy(), busy()]);
    world.deliver().await;
    assert!(receiver.received().len() >= 18, "with retries and redirects");
    assert_unseen(&world).await;
    let erased = activity(firm.id, "person.erased", json!({"email": "canary@example.com"}));
    let of_response = activity(firm.id, "response.erased", json!({"response_id": gone}));
    world.report(&[erased, of_response]).await.ok();
    assert_unseen(&world).await;
    world.erase().await;
    world.deliver().await;
    assert_unseen(&world).await;
}

/// Searches every column of both databases, in plain text, in hex and in base64.
async fn assert_unseen(world: &World) {
    assert_eq!(world.columns_holding("canary").await, Vec::<String>::new());
}

/// The search finds its word in texts and in bytes, in every encoding.
#[tokio::test]
async fn a_word_in_any_disguise_is_found() {
    let world = World::new().await;
    world.change_database("create table told (told text, sealed bytea)").await;
    let before = ["", "a", "ab"].map(|before| STANDARD.encode(format!("{before}canary and more")));
    let hidden = ["a Canary".to_owned(), hex::encode("canary")];
    for text in hidden.iter().chain(&before) {
        for (columns, of) in [("told", text.as_str()), ("sealed", text.as_str())] {
            let put = format!("insert into told ({columns}) values (convert_from($1, 'UTF8'))");
            let put = if columns == "told" {
                put
            } else {
                "insert into told (sealed) values ($1)".into()
            };
            sqlx::query(&put).bind(of.as_bytes()).execute(world.pool()).await.unwrap();
            assert_eq!(
                world.columns_holding("canary").await,
                [format!("told.{columns}")],
                "{text}"
            );
            world.change_database("delete from told").await;
        }
    }
}

/// A workflow step about a response, with a secret of the firm in its headers.
async fn step(world: &World, firm: &Firm, receiver: &Receiver, response_id: Uuid) {
    let url = receiver.url("/step/canary?email=canary%40example.com");
    let mut order = world.step_order(firm, &url, response_id);
    order["headers"] = json!({"Authorization": "Bearer canary"});
    world.order_step(&order).await.ok();
}

async fn invite(world: &World, firm: &Firm, email: &str) {
    let body = json!({"email": email, "name": "canary name", "first_name": "canary",
                      "message": "canary note", "hidden": {"partner": "canary", "canary": "x"}});
    world.send_invite(firm, body).await.ok();
}

/// The log holds no erasable data, so that an erasure changes nothing in the log.
#[tokio::test]
async fn an_erasure_leaves_the_log_verifiable() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    let response_id = world.id();
    let said = said(&world, &firm, response_id, "canary@example.com");
    world.report(&said).await.ok();
    world.deliver().await;
    let (before, broken) = world.verify_log().await;
    assert_eq!((before > 10, broken), (true, vec![]));
    let event = activity(firm.id, "person.erased", json!({"email": "canary@example.com"}));
    world.report_one(event).await;
    world.erase().await;
    world.deliver().await;
    let (after, broken) = world.verify_log().await;
    assert_eq!((after > before, broken), (true, vec![]));
    let tampered = "alter table events disable trigger user;
                    update events set sequence = 77 where position = 3";
    world.change_database(tampered).await;
    assert_eq!(world.verify_log().await, (after, vec![3]), "an event that was changed is found");
}

/// A redirect target is foreign text, and the log keeps its content for good. The log once kept the
/// whole target.
#[tokio::test]
async fn the_log_keeps_only_redirect_origins() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/mine?key=1")).await;
    let onward = |to| Reply::status(303).header("location", to);
    receiver.reply([onward("/thanks/canary@example.com?canary"), onward("/canary/2")]);
    let response_id = world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
    assert_eq!(receiver.received().len(), 3);
    assert_eq!(world.columns_holding("canary").await, Vec::<String>::new());
    let hops = format!("select hops from {ATTEMPTS}");
    let hops: Value = sqlx::query_scalar(&hops).fetch_one(world.pool()).await.unwrap();
    let urls: Vec<&str> =
        hops.as_array().unwrap().iter().filter_map(|h| h["url"].as_str()).collect();
    let origin = receiver.url("");
    assert_eq!(urls, [&origin, &origin], "{response_id}");
}

/// A restored keyring has the key again, and a door may be open before the eraser runs. The answer
/// was once shown until then.
#[tokio::test]
async fn an_erased_response_hides_its_answers() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    receiver.reply([Reply::status(400).body(b"canary")]);
    let response_id = world.submit(&firm).await;
    world.deliver().await;
    let operator = world.new_token(HolderRole::Operator).await;
    let delivery_id = world.first_delivery_id().await;
    let path = format!("/firms/{}/deliveries/{delivery_id}?show_answer=a+fault", firm.id);
    let shown =
        async || world.get_internally(&operator, &path).await.body["attempts"][0]["answer"].clone();
    assert_eq!(shown().await, "canary");
    world.order_erasure(&firm, response_id).await;
    assert_eq!(shown().await, Value::Null);
}

/// One activity of each kind with personal data, with the word in each text.
pub(crate) fn said(world: &World, firm: &Firm, response: Uuid, email: &str) -> Vec<Value> {
    let of = |kind, data| activity(firm.id, kind, data);
    let (form, at) = (firm.form, "2026-11-01T11:00:00Z");
    let person = json!({"name": "canary person", "email": email,
                        "phone": "+canary", "company": "canary ltd"});
    let answers = json!([{"id": "canary id", "question": "canary?", "type": "short_text",
                          "answer": "canary"}]);
    let unfinished = json!({
        "response_id": world.id(), "form_id": form, "saved_at": at, "respondent": person,
        "answers": answers, "variables": {"canary": "canary"},
    });
    let finished = json!({
        "response_id": response, "form_id": form, "submitted_at": at, "respondent": person,
        "answers": answers, "hidden": {"canary": "canary"},
    });
    let brand = json!({"brand": {"reply_to": "canary@firm.example"}});
    let lead = json!({"person": email, "response_id": response, "band": "hot", "score": 90});
    let mut said = vec![
        later(of("firm.changed", brand), 1),
        of("response.saved", unfinished),
        of("response.submitted", finished),
        of("lead.scored", lead),
        of("address.bounced", json!({"email": format!("b.{email}")})),
    ];
    said.extend(said_of_a_report(world, firm, response));
    said.extend(said_of_a_call(world, firm, (response, email)));
    said
}

fn said_of_a_report(world: &World, firm: &Firm, response: Uuid) -> Vec<Value> {
    let (report, at) = (world.id(), "2026-11-01T11:00:00Z");
    let created = json!({
        "report_id": report, "response_id": response, "title": "canary report", "status": "draft",
        "summary": "canary", "highlights": ["canary"],
        "review_url": "https://forms.test/canary",
    });
    let paid = json!({"payment_id": world.id(), "response_id": response, "report_id": report,
                      "amount": 100, "currency": "EUR", "at": at});
    let moved = |kind| activity(firm.id, kind, json!({"report_id": report, "at": at}));
    vec![
        activity(firm.id, "report.created", created),
        moved("report.approved"),
        moved("report.sent"),
        moved("report.opened"),
        activity(firm.id, "payment.received", paid),
    ]
}

fn said_of_a_call(world: &World, firm: &Firm, (response, email): (Uuid, &str)) -> Vec<Value> {
    let booking = world.id();
    let made = json!({
        "booking_id": booking, "response_id": response, "title": "canary call",
        "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
        "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30, "time_zone": "Europe/Paris",
        "location": "canary street", "join_url": "https://meet.test/canary",
        "invitee": {"name": "canary", "email": email, "phone": "canary"},
    });
    let moved = json!({
        "booking_id": booking, "moved_at": "2026-11-01T11:00:00Z",
        "starts_at": "2026-11-03T10:00:00Z", "ends_at": "2026-11-03T10:45:00Z",
        "duration_min": 45, "time_zone": "Europe/London",
    });
    vec![
        activity(firm.id, "booking.made", made),
        activity(firm.id, "booking.rescheduled", moved),
        activity(firm.id, "booking.cancelled", json!({"booking_id": booking})),
    ]
}
