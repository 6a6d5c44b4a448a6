//! Events of the log, one by one and by stream, and the search for anything by a piece of it.

use domain::access::HolderRole;
use serde_json::{Value, json};
use tests::{Receiver, activity, later};
use uuid::Uuid;

use super::Desk;

/// The position of the first event with this name.
async fn position_of(desk: &Desk, name: &str) -> i64 {
    desk.world.events_of_type(name).await[0].position
}

fn names(steps: &Value) -> Vec<&str> {
    steps.as_array().unwrap().iter().map(|step| step["event"].as_str().unwrap()).collect()
}

/// A firm whose only manager left.
async fn abandoned() -> (Desk, Uuid) {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/in?token=secret")).await;
    let left = json!({"member_id": desk.firm.owner});
    desk.world.report_one(later(activity(desk.firm.id, "member.left", left), 1)).await;
    desk.world.project().await;
    (desk, hook)
}

#[tokio::test]
async fn an_event_shows_its_causes_and_effects() {
    let (desk, hook) = abandoned().await;
    let revoked = position_of(&desk, "KeyRevoked").await;
    let shown = desk.ask(&format!("/events/{revoked}")).await;
    assert_eq!((&shown["event"], &shown["position"]), (&json!("KeyRevoked"), &json!(revoked)));
    assert_eq!(names(&shown["causes"]), ["MemberLeft"]);
    assert_eq!(names(&shown["effects"]), ["SubscriptionRemoved"]);
    assert_eq!(shown["effects"][0]["id"], hook.to_string());
    assert_eq!(shown["facts"], json!({"reason": "member_not_manager"}));
    assert!(shown["entry"]["hash"].as_str().unwrap().len() == 64, "{shown}");
    let (action, _, evidence) = desk.last_entry().await;
    assert_eq!((action.as_str(), &evidence["what"]), ("audit_read", &json!("events")));
    let id = shown["event_id"].as_str().unwrap();
    assert_eq!(desk.ask(&format!("/events/{id}")).await["position"], revoked);
    let last =
        desk.ask(&format!("/events/{}", position_of(&desk, "SubscriptionRemoved").await)).await;
    assert_eq!(names(&last["causes"]), ["KeyRevoked", "MemberLeft"]);
    let made =
        desk.ask(&format!("/events/{}", position_of(&desk, "SubscriptionCreated").await)).await;
    assert!(!made.to_string().contains("secret"), "{made}");
}

#[tokio::test]
async fn a_streams_events_are_listed_in_order() {
    let (desk, hook) = abandoned().await;
    let path = format!("/events?stream={hook}");
    let listed = desk.ask(&path).await;
    assert_eq!(names(&listed["items"]), ["SubscriptionCreated", "SubscriptionRemoved"]);
    let first = desk.ask(&format!("{path}&kind=subscription&limit=1")).await;
    let next = first["next"].as_str().unwrap();
    let rest = desk.ask(&format!("{path}&limit=1&after={next}")).await;
    assert_eq!(names(&rest["items"]), ["SubscriptionRemoved"]);
    let none = format!("{path}&kind=firm");
    desk.get(&desk.auditor, &none).await.refused(404, "not_found");
    for wrong in
        ["", "?stream=x", &format!("?stream={hook}&kind=x"), &format!("?stream={hook}&limit=0")]
    {
        let refused = desk.get(&desk.auditor, &format!("/events{wrong}")).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
}

/// A token of the product is refused, too.
#[tokio::test]
async fn foreign_and_unknown_events_are_refused() {
    let (desk, hook) = abandoned().await;
    let position = position_of(&desk, "KeyRevoked").await;
    let other = desk.world.firm().await;
    let limited = desk.limited(vec![other.id]).await;
    let own = desk.limited(vec![desk.firm.id]).await;
    for path in [format!("/events/{position}"), format!("/events?stream={hook}")] {
        assert_eq!(desk.get(&limited, &path).await.code(), (404, "not_found"), "{path}");
        assert_eq!(desk.get(&own, &path).await.status, 200, "{path}");
        let product = desk.token(HolderRole::Product).await;
        desk.get(&product, &path).await.refused(403, "forbidden");
    }
    for unknown in ["999999", "0", "-1", "x", &desk.world.id().to_string()] {
        let missing = desk.get(&desk.auditor, &format!("/events/{unknown}")).await;
        assert_eq!(missing.code(), (404, "not_found"), "{unknown}");
    }
}

/// The kinds and ids that a search answers with.
async fn found(desk: &Desk, token: &str, text: &str) -> Vec<(String, String)> {
    let answer = desk.get(token, &format!("/find?q={text}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(!answer.text().contains("secret"), "{}", answer.text());
    let items = answer.body["items"].as_array().unwrap().iter();
    let text = |one: &Value| one.as_str().unwrap().to_owned();
    items.map(|one| (text(&one["kind"]), text(&one["id"]))).collect()
}

/// A part of an id, of a key or of a name is enough.
#[tokio::test]
async fn search_finds_ids_keys_hashes_and_names() {
    let (desk, hook) = abandoned().await;
    let position = position_of(&desk, "KeyRevoked").await;
    let event_id = desk.ask(&format!("/events/{position}")).await["event_id"].clone();
    let event_id = event_id.as_str().unwrap();
    let (hash, digest): (String, String) = sqlx::query_as(
        "select encode(a.hash, 'hex'), (select encode(sha256, 'hex') from key_auth)
           from audit_log a where position = $1",
    )
    .bind(position)
    .fetch_one(desk.world.pool())
    .await
    .unwrap();
    desk.world.submit(&desk.firm).await;
    let firm = desk.firm.id.to_string();
    let key = desk.firm.key_id.to_string();
    let at = position.to_string();
    for (text, kind, id) in [
        (firm.as_str(), "firm", firm.as_str()),
        (&firm[..18], "firm", &firm),
        ("HARROW", "firm", &firm),
        (&hook.to_string(), "hook", &hook.to_string()),
        (&desk.firm.owner.to_string(), "member", &desk.firm.owner.to_string()),
        (&desk.firm.form.to_string(), "form", &desk.firm.form.to_string()),
        (&key, "key", &key),
        (&desk.firm.key[..8], "key", &key),
        (&desk.firm.key, "key", &key),
        (&digest, "key", &key),
        (&hash, "entry", &at),
        (&at, "event", &at),
        (event_id, "event", &at),
        ("127.0.0.1", "hook", &hook.to_string()),
    ] {
        let all = found(&desk, &desk.auditor, text).await;
        assert!(all.contains(&(kind.to_owned(), id.to_owned())), "{text}: {all:?}");
    }
    let one = desk.ask(&format!("/find?q={firm}")).await["items"][0].clone();
    assert_eq!((&one["firm"], &one["firm_id"]), (&json!("Harrow Lane"), &json!(firm)));
    let members = format!("firmforms members list --firm {firm}");
    assert!(one["look"].as_array().unwrap().contains(&json!(members)), "{one}");
    assert!(found(&desk, &desk.auditor, "nothing.example").await.is_empty());
    for wrong in ["/find", "/find?q=", "/find?q=a%00b", "/find?q=a&limit=1"] {
        assert_eq!(
            desk.get(&desk.auditor, wrong).await.code(),
            (400, "invalid_request"),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn a_limited_token_finds_only_its_firms() {
    let (desk, hook) = abandoned().await;
    let other = desk.world.firm().await;
    let limited = desk.limited(vec![other.id]).await;
    for text in [desk.firm.id.to_string(), hook.to_string(), "127.0.0.1".to_owned()] {
        assert_eq!(found(&desk, &limited, &text).await, [], "{text}");
    }
    let own = [("firm".to_owned(), other.id.to_string())];
    assert_eq!(found(&desk, &limited, "harrow").await, own);
    let product = desk.token(HolderRole::Product).await;
    desk.get(&product, "/find?q=harrow").await.refused(403, "forbidden");
}
