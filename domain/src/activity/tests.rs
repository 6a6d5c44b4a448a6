use super::*;
use serde_json::{Value, json};

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn read(kind: &str, data: Value) -> Result<Activity, String> {
    let data = serde_json::from_value(data).unwrap();
    Activity::read(kind, data).map_err(|error| error.to_string())
}

#[test]
fn each_kind_is_read() {
    let member = json!({"member_id": ID, "role": "admin"});
    assert!(read("firm.opened", json!({"name": "A", "plan": {"leads_in_full": true}})).is_ok());
    assert!(read("firm.changed", json!({"invites_enabled": false})).is_ok());
    assert!(read("firm.closed", json!({})).is_ok());
    assert!(read("member.joined", member).is_ok());
    assert!(read("member.left", json!({"member_id": ID})).is_ok());
    assert!(read("form.published", json!({"form_id": ID})).is_ok());
    assert!(read("address.bounced", json!({"email": "ann@example.com"})).is_ok());
    let saved = json!({"response_id": ID, "form_id": ID, "saved_at": "2026-11-01T00:00:00Z"});
    assert!(read("response.saved", saved).is_ok());
}

#[test]
fn an_address_that_no_invite_could_go_to_stops_no_batch() {
    for email in ["jos\u{e9}@example.com", "\"a b\"@example.com", "ann", ""] {
        let read = read("address.bounced", json!({"email": email}));
        assert!(matches!(read, Ok(Activity::Address { email: None, .. })), "{email}");
    }
}

#[test]
fn the_reply_address_is_kept_apart_from_the_brand() {
    let data = json!({"name": "A", "plan": {"leads_in_full": false},
                      "brand": {"color": "#123456", "reply_to": "hello@example.com"}});
    let Ok(Activity::Firm { change: FirmChange::Opened { brand, .. }, reply_to }) =
        read("firm.opened", data)
    else {
        panic!("a firm")
    };
    assert_eq!(brand.color.as_deref(), Some("#123456"));
    assert_eq!(reply_to, Some(Some("hello@example.com".into())));
}

#[test]
fn what_is_wrong_is_named_and_not_quoted() {
    let wrong = |kind, data| read(kind, data).unwrap_err();
    assert_eq!(wrong("firm.sold", json!({})), "type: `firm.sold` is not a type of activity");
    assert_eq!(wrong("member.left", json!({})), "data.member_id: missing");
    assert_eq!(wrong("member.left", json!({"member_id": ID, "age": 3})), "data.age: unknown field");
    assert_eq!(wrong("firm.closed", json!({"why": "x"})), "data.why: unknown field");
    let secret = wrong("member.left", json!({"member_id": "ann@example.com"}));
    assert!(secret.starts_with("data.member_id: ") && !secret.contains("ann@"), "{secret}");
    let address = wrong("address.bounced", json!({"email": ["ann@example.com"]}));
    assert_eq!(address, "data.email: expected a string");
    let saved = json!({"response_id": ID, "form_id": ID, "saved_at": "yesterday"});
    assert!(wrong("response.saved", saved).starts_with("data.saved_at: "));
}
