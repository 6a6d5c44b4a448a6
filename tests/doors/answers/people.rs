//! Everything that was sent about a person, by the keyed hash of the address.

use domain::access::HolderRole;
use serde_json::{Value, json};
use tests::{Receiver, activity};
use uuid::Uuid;

use super::{Desk, ids};

const ADDRESS: &str = "canary@example.com";

/// A response that names this person.
async fn submit(desk: &Desk, address: &str) -> Uuid {
    let response_id = desk.world.id();
    let data = json!({
        "response_id": response_id, "form_id": desk.firm.form, "submitted_at": desk.world.clock.now(),
        "respondent": {"email": address},
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "a"}],
    });
    desk.world.report_one(activity(desk.firm.id, "response.submitted", data)).await;
    response_id
}

async fn trail(desk: &Desk, address: &str) -> Value {
    let body = json!({"address": address, "reason": "asked for access"});
    let path = format!("/firms/{}/people", desk.firm.id);
    let answer = desk.call("POST", &desk.auditor, &path, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(!answer.text().contains("canary"), "{}", answer.text());
    answer.body
}

/// Responses, deliveries, subscriptions, invites and erasures are listed.
#[tokio::test]
async fn everything_about_a_person_is_listed() {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/in?token=canary")).await;
    let response = submit(&desk, ADDRESS).await;
    submit(&desk, "bob@example.com").await;
    let invite = json!({"email": ADDRESS});
    desk.world.send_invite(&desk.firm, invite).await.ok();
    desk.world.deliver().await;

    let told = trail(&desk, "  Canary@Example.com ").await;
    assert_eq!(ids(&told["responses"]), [response]);
    assert_eq!(told["deliveries"].as_array().unwrap().len(), 1);
    assert_eq!(told["deliveries"][0]["response_id"], response.to_string());
    assert_eq!((ids(&told["subscriptions"]), &told["mail"]), (vec![hook], &json!("allowed")));
    let events: Vec<_> =
        told["invites"].as_array().unwrap().iter().map(|step| step["event"].clone()).collect();
    assert_eq!(events, ["InviteReserved", "InviteSent"]);
    let (action, reason, evidence) = desk.last_entry().await;
    assert_eq!((action.as_str(), reason.as_deref()), ("person_read", Some("asked for access")));
    assert_eq!(evidence["person_id"], told["person_id"]);
    assert_eq!(desk.world.columns_holding("canary@example.com").await, Vec::<String>::new());

    let unsubscribed = activity(desk.firm.id, "address.unsubscribed", json!({"email": ADDRESS}));
    let erased = activity(desk.firm.id, "person.erased", json!({"email": ADDRESS}));
    desk.world.report(&[unsubscribed, erased]).await.ok();
    desk.world.erase().await;
    let told = trail(&desk, ADDRESS).await;
    assert_eq!((&told["responses"], &told["mail"]), (&json!([]), &json!("unsubscribed")));
    assert_eq!(told["erased_at"], "2026-11-01T12:00:00.000Z");
    let events: Vec<_> =
        told["events"].as_array().unwrap().iter().map(|step| step["event"].clone()).collect();
    assert_eq!(events, ["AddressUnsubscribed", "PersonErased"]);
}

#[tokio::test]
async fn a_firm_knows_only_its_own_people() {
    let desk = Desk::new().await;
    let other = desk.world.firm().await;
    submit(&desk, ADDRESS).await;
    let nobody = trail(&desk, "nobody@example.com").await;
    for list in ["responses", "deliveries", "subscriptions", "invites", "events"] {
        assert_eq!(nobody[list], json!([]), "{list}");
    }
    let ask = async |token: &str, firm: Uuid, body: Value| {
        desk.call("POST", token, &format!("/firms/{firm}/people"), body).await
    };
    let whole = json!({"address": ADDRESS, "reason": "asked for access"});
    let there = ask(&desk.auditor, other.id, whole.clone()).await;
    assert_eq!(there.body["responses"], json!([]));
    for wrong in [
        json!({"address": ADDRESS}),
        json!({"reason": "r"}),
        json!({"address": ADDRESS, "reason": ""}),
        json!({"address": ADDRESS, "reason": "r", "more": 1}),
    ] {
        let refused = ask(&desk.auditor, desk.firm.id, wrong.clone()).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
    let product = desk.token(HolderRole::Product).await;
    ask(&product, desk.firm.id, whole.clone()).await.refused(403, "forbidden");
    let limited = desk.limited(vec![other.id]).await;
    let hidden = ask(&limited, desk.firm.id, whole.clone()).await;
    assert_eq!(hidden.code(), (404, "firm_not_found"));
    ask(&desk.auditor, desk.world.id(), whole).await.refused(404, "firm_not_found");
}
