//! A sample that an operator sends to the target of a subscription.

use std::time::Duration;

use api::SendingMode;
use domain::access::HolderRole;
use domain::delivery::signature::{SignedRequest, WebhookSecret, verify_request};
use serde_json::{Value, json};
use tests::{AuditEntry, Receiver, Reply, World, activity};
use uuid::Uuid;

use super::Desk;

fn why() -> Value {
    json!({"reason": "the receiver was mended"})
}

async fn test(desk: &Desk, token: &str, hook: Uuid, body: Value) -> tests::Answer {
    let path = format!("/firms/{}/hooks/{hook}/test", desk.firm.id);
    desk.call("POST", token, &path, body).await
}

/// A sample is marked as a test. Its answer is shown once.
#[tokio::test]
async fn a_sample_is_signed_and_kept_nowhere() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/in?token=canary")).await;
    receiver.reply([Reply::status(503).body(b"busy")]);
    let sent = test(&desk, &desk.operator, hook, why()).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let request = &receiver.received()[0];
    let id = request.header("x-service-delivery");
    assert_eq!((&sent.body["id"], &sent.body["status"]), (&json!(id), &json!(503)));
    assert_eq!((&sent.body["answer"], &sent.body["error"]), (&json!("busy"), &Value::Null));
    assert!(!sent.text().contains("canary"), "{}", sent.text());
    assert_eq!(request.header("x-service-test"), "1");
    assert_eq!(request.header("x-service-event"), "form_submitted");
    assert_eq!(request.header("x-service-hook"), hook.to_string());
    assert_eq!(request.header("idempotency-key"), id);
    let secret = desk.get(&desk.operator, &format!("/firms/{}/webhook-secret", desk.firm.id)).await;
    let secret = WebhookSecret::parse(secret.body["secret"].as_str().unwrap()).unwrap();
    let signed =
        SignedRequest { header: request.header("x-service-signature"), body: &request.body };
    assert_eq!(
        verify_request(signed, secret.as_str(), desk.world.clock.now().get().timestamp()),
        Ok(())
    );
    let sample = desk.world.get(&desk.firm, "/triggers/form_submitted/sample").await;
    assert_eq!(request.json(), sample.body[0]);

    desk.world.project().await;
    let entries = desk.world.audit_entries(desk.firm.id).await;
    let of_hook = |entry: &&AuditEntry| entry.subject_id == Some(hook.to_string());
    let tested = entries.iter().rfind(of_hook).unwrap();
    let told = (tested.action.as_str(), tested.reason.as_deref());
    assert_eq!(told, ("hook_tested", Some("the receiver was mended")));
    assert_eq!(tested.evidence, json!({"trigger": "form_submitted", "sample_id": id}));
    assert!(desk.ask_firm("/deliveries").await["items"].as_array().unwrap().is_empty());
    assert_eq!((desk.world.count("answers").await, desk.world.count("bodies").await), (0, 0));
}

/// The test of a deleted form's subscription once sent a submission of another form.
#[tokio::test]
async fn a_sample_uses_its_subscriptions_form() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let Desk { world, firm, .. } = &desk;
    let asked = json!({"target_url": receiver.url("/"), "trigger": "form_submitted",
                       "form_id": firm.form});
    let made = world.create_hook(firm, asked).await;
    let hook: Uuid = made.body["id"].as_str().unwrap().parse().unwrap();
    let other = world.id();
    let created = json!({
        "form_id": other, "title": "Second", "slug": "second", "url": "https://forms.test/f/2",
        "status": "draft", "hidden_fields": [], "created_at": "2026-10-02T09:30:00.000Z",
    });
    let deleted = activity(firm.id, "form.deleted", json!({"form_id": firm.form}));
    let elsewhere = tests::submitted(&tests::Firm { form: other, ..firm.clone() }, world.id());
    let created = activity(firm.id, "form.created", created);
    world.report(&[created, deleted, elsewhere]).await.ok();
    assert_eq!(test(&desk, &desk.operator, hook, why()).await.status, 200);
    let made_up = receiver.received()[0].json();
    assert_eq!(made_up["form"]["id"], json!(firm.form));
    assert_eq!(made_up["respondent"]["name"], "Jane Example");

    let own = world.submit(firm).await;
    assert_eq!(test(&desk, &desk.operator, hook, why()).await.status, 200);
    let sent = receiver.received()[1].json();
    assert_eq!((&sent["form"]["id"], &sent["response"]["id"]), (&json!(firm.form), &json!(own)));
}

/// The answers 410 to samples count towards no removal.
#[tokio::test]
async fn samples_pass_pauses_and_remove_nothing() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    let pause = json!({"host": "127.0.0.1", "reason": "a drill"});
    assert_eq!(desk.call("POST", &desk.operator, "/pauses", pause).await.status, 201);
    receiver.reply((0..3).map(|_| Reply::status(410)));
    for _ in 0..3 {
        let sent = test(&desk, &desk.operator, hook, why()).await;
        assert_eq!(sent.body["status"], 410);
    }
    desk.world.deliver().await;
    let life = desk.ask_firm(&format!("/hooks/{hook}/history")).await;
    assert_eq!(life["state"], "live", "{life}");
    assert_eq!(desk.ask("/receivers").await["items"], json!([]));
}

#[tokio::test]
async fn a_sample_passes_the_delivery_guards() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    for (target, error) in
        [("https://10.0.0.1/", "target_refused"), ("https://does-not-exist.invalid/", "dns")]
    {
        desk.world.change_database(&format!("update hooks set target_url = '{target}'")).await;
        let sent = test(&desk, &desk.operator, hook, why()).await;
        assert_eq!((sent.status.as_u16(), &sent.body["error"]), (200, &json!(error)), "{target}");
        assert_eq!((&sent.body["status"], &sent.body["answer"]), (&Value::Null, &Value::Null));
    }
    assert!(receiver.received().is_empty());
}

/// A sample needs a live subscription and an active firm, too.
#[tokio::test]
async fn a_sample_needs_operator_and_reason() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    for wrong in [json!({}), json!({"reason": " "}), json!({"reason": "r", "trigger": "lead_hot"})]
    {
        let refused = test(&desk, &desk.operator, hook, wrong.clone()).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
    for token in [&desk.auditor, &desk.token(HolderRole::Product).await] {
        test(&desk, token, hook, why()).await.refused(403, "forbidden");
    }
    let other = desk.world.firm().await;
    let limited = desk.limited(vec![other.id]).await;
    test(&desk, &limited, hook, why()).await.refused(404, "firm_not_found");
    let foreign = format!("/firms/{}/hooks/{hook}/test", other.id);
    let refused = desk.call("POST", &desk.operator, &foreign, why()).await;
    assert_eq!(refused.code(), (404, "not_found"));
    let unknown = desk.world.id();
    test(&desk, &desk.operator, unknown, why()).await.refused(404, "not_found");
    desk.world.remove_hook(&desk.firm, hook).await.ok();
    test(&desk, &desk.operator, hook, why()).await.refused(404, "not_found");
    desk.world.close_firm(&desk.firm).await;
    test(&desk, &desk.operator, hook, why()).await.refused(403, "firm_inactive");
    assert!(receiver.received().is_empty());
}

#[tokio::test]
async fn a_held_process_sends_no_sample() {
    let begun = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = begun.world.subscribe(&begun.firm, &receiver.url("/")).await;
    let clock = begun.world.clock.clone();
    clock.advance(Duration::from_secs(1));
    let Desk { world, firm, operator, auditor } = begun;
    let held = World::with(world.database, clock, |setup| service::SystemSetup {
        sending: SendingMode::Held,
        ..setup
    });
    let desk = Desk { world: held.await, firm, operator, auditor };
    let refused = test(&desk, &desk.operator, hook, why()).await;
    assert_eq!(refused.code(), (503, "unavailable"));
    assert!(receiver.received().is_empty());
}
