//! `POST /forms/{id}/links` (contract; rulings 7 and 8).

use serde_json::{Value, json};
use tests::{Answer, Firm, World, activity, make_request};

const FORM: &str = "https://forms.test/f/enquiry";

async fn link(world: &World, firm: &Firm, body: Value) -> Answer {
    world.call(&firm.key, "POST", &format!("/forms/{}/links", firm.form), body).await
}

#[tokio::test]
async fn a14_a_link_needs_no_body() {
    let world = World::new().await;
    let firm = world.firm().await;
    for body in
        [Value::Null, json!({}), json!({"hidden": {}}), json!({"hidden": {"partner": null}})]
    {
        let made = link(&world, &firm, body).await;
        assert_eq!(made.status, 201);
        let expected = json!({
            "url": FORM, "form_id": firm.form, "published": true, "hidden": {}, "ignored": [],
        });
        assert_eq!(made.body, expected);
    }
}

/// The answer names the other fields as ignored.
#[tokio::test]
async fn a_link_keeps_only_declared_fields() {
    let world = World::new().await;
    let firm = world.firm().await;
    let body = json!({
        "hidden": {"partner": "a&b", "utm_source": true, "utm_term": 1.5, "x": 1, "y": null},
        "lang": "fr",
    });
    let made = link(&world, &firm, body).await;
    assert_eq!(made.status, 201);
    let url = format!("{FORM}?lang=fr&partner=a%26b&utm_source=true&utm_term=1.5");
    let hidden = json!({"partner": "a&b", "utm_source": "true", "utm_term": "1.5"});
    assert_eq!((&made.body["url"], &made.body["hidden"]), (&json!(url), &hidden));
    assert_eq!(made.body["ignored"], json!(["x"]));
}

/// A11: every digit arrives, whatever a program would make of the number.
#[tokio::test]
async fn a11_numbers_go_out_as_they_came() {
    let world = World::new().await;
    let firm = world.firm().await;
    for number in ["42", "1.50", "-0", "1e400", "123456789012345678901234567890"] {
        let body = format!(r#"{{"hidden":{{"partner":{number}}},"lang":"de"}}"#);
        let path = format!("/api/v1/forms/{}/links", firm.form);
        let request = make_request("POST", &path, &[("x-api-key", &firm.key)], body);
        let made = world.public(request).await;
        assert_eq!(made.body["hidden"]["partner"], number);
        assert_eq!(made.body["url"], format!("{FORM}?partner={number}"));
    }
}

/// A17
#[tokio::test]
async fn a17_a_draft_has_links_too() {
    let world = World::new().await;
    let firm = world.firm().await;
    let event =
        tests::later(activity(firm.id, "form.unpublished", json!({"form_id": firm.form})), 1);
    world.report_one(event).await;
    let made = link(&world, &firm, Value::Null).await;
    assert_eq!((made.status.as_u16(), &made.body["published"]), (201, &json!(false)));
}

#[tokio::test]
async fn link_refusals_come_in_order() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    for body in [
        json!([]),
        json!({"x": 1}),
        json!({"hidden": []}),
        json!({"hidden": {"partner": {}}}),
        json!({"hidden": {"k".repeat(101): 1}}),
        json!({"lang": 5}),
        json!({"lang": "01234567890"}),
    ] {
        let refused = link(&world, &firm, body.clone()).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{body}");
    }
    let elsewhere = |form: String, body| {
        let (world, key) = (&world, &firm.key);
        async move { world.call(key, "POST", &format!("/forms/{form}/links"), body).await }
    };
    let missing = elsewhere(world.id().to_string(), Value::Null).await;
    assert_eq!(missing.code(), (404, "form_not_found"));
    for form in [other.form.to_string(), "abc".to_owned()] {
        assert_eq!(elsewhere(form.clone(), Value::Null).await.bytes, missing.bytes);
        elsewhere(form, json!({"x": 1})).await.refused(400, "invalid_request");
    }
}
