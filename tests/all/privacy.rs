//! No personal data in the log, nor in any table as it is (architecture, section 2; case H4): a story
//! with everything in it, and every column of both databases looked through.

use serde_json::{Value, json};
use tests::{Firm, Receiver, Reply, World, activity, later};

/// What a person, a firm's contact or a receiver said is nowhere but under a key.
#[tokio::test]
async fn nothing_that_people_said_is_in_a_table_as_it_is() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    for trigger in ["form_submitted", "booking_made", "report_approved", "partial_submission"] {
        let body = json!({"trigger": trigger, "target_url": receiver.url("/")});
        assert_eq!(world.call(&firm.key, "POST", "/hooks", body).await.status, 201);
    }
    receiver.reply([Reply::status(500).body(b"canary answer"), Reply::status(400).body(b"canary")]);
    let said = said(&world, &firm);
    let reported = world.report(&said).await;
    assert_eq!(reported.status, 202, "{}", reported.body);
    world.deliver().await;
    world.pass(std::time::Duration::from_secs(3_600));
    world.time_out().await;
    world.deliver().await;
    assert!(receiver.received().len() >= 4);
    assert_eq!(world.columns_holding("canary").await, Vec::<String>::new());
    let erased = activity(firm.id, "person.erased", json!({"email": "canary@example.com"}));
    assert_eq!(world.report(&[erased]).await.status, 202);
    world.erase().await;
    assert_eq!(world.columns_holding("canary").await, Vec::<String>::new());
}

/// Everything that somebody can say, each with the word in it.
fn said(world: &World, firm: &Firm) -> Vec<Value> {
    let (response, report, unfinished) = (world.id(), world.id(), world.id());
    let person = json!({"name": "Canary Person", "email": "canary@example.com",
                        "phone": "+canary", "company": "Canary Ltd"});
    let answers = json!([{"id": "canary id", "question": "canary?", "type": "short_text",
                          "answer": "canary"}]);
    let brand = json!({"brand": {"reply_to": "canary@firm.example"}});
    vec![
        later(activity(firm.id, "firm.changed", brand), 1),
        activity(
            firm.id,
            "response.saved",
            json!({
                "response_id": unfinished, "form_id": firm.form, "saved_at": "2026-11-01T11:00:00Z",
                "respondent": person, "answers": answers, "variables": {"canary": "canary"},
            }),
        ),
        activity(
            firm.id,
            "response.submitted",
            json!({
                "response_id": response, "form_id": firm.form, "submitted_at": "2026-11-01T11:00:00Z",
                "respondent": person, "answers": answers, "hidden": {"canary": "canary"},
            }),
        ),
        activity(
            firm.id,
            "report.created",
            json!({
                "report_id": report, "response_id": response, "title": "Canary report",
                "status": "draft", "summary": "canary", "highlights": ["canary"],
                "review_url": "https://forms.test/canary",
            }),
        ),
        activity(
            firm.id,
            "report.approved",
            json!({"report_id": report, "at": "2026-11-01T11:00:00Z"}),
        ),
        activity(
            firm.id,
            "booking.made",
            json!({
                "booking_id": world.id(), "response_id": response, "title": "Canary call",
                "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
                "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30, "time_zone": "Europe/Paris",
                "location": "canary street", "join_url": "https://meet.test/canary",
                "invitee": {"name": "Canary", "email": "canary@example.com", "phone": "canary"},
            }),
        ),
        activity(
            firm.id,
            "lead.scored",
            json!({
                "person": "canary@example.com", "response_id": response, "band": "hot", "score": 90,
            }),
        ),
        activity(firm.id, "address.bounced", json!({"email": "canary@example.com"})),
    ]
}
