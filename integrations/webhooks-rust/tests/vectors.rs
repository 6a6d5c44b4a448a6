//! The vectors of the service's signer, and the sample of the description as a typed event.

#![expect(clippy::unwrap_used, reason = "a file that cannot be read fails the test")]

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use firmforms_webhooks::events::{EVENTS, EventPayload};
use firmforms_webhooks::{SignatureError, verify};
use serde_json::Value;

fn read(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_vector_has_its_verdict() {
    let page = read("docs/reference/signature-vectors.json");
    let vectors = page["vectors"].as_array().unwrap();
    assert!(vectors.len() > 50);
    for vector in vectors {
        let text = |name: &str| vector[name].as_str().unwrap();
        let secrets: Vec<&str> =
            vector["secrets"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        let body = BASE64_STANDARD.decode(text("body_base64")).unwrap();
        let checked = verify(text("header"), &body, &secrets, vector["now"].as_u64().unwrap());
        let verdict = match checked {
            Ok(()) => "valid",
            Err(SignatureError::Malformed) => "malformed",
            Err(SignatureError::Stale) => "stale",
            Err(SignatureError::Mismatch) => "mismatch",
        };
        assert_eq!(verdict, text("verdict"), "{}", text("name"));
    }
}

/// The typed event comes back whole.
#[test]
fn every_example_is_a_typed_event() {
    let webhooks = &read("tests/snapshots/openapi.json")["webhooks"];
    for event in EVENTS {
        let json = &webhooks[event]["post"]["requestBody"]["content"]["application/json"];
        let example = &json["examples"]["example"]["value"];
        let typed: EventPayload = serde_json::from_value(example.clone()).unwrap();
        assert_eq!(typed.event, event);
        assert_eq!(serde_json::to_value(&typed).unwrap(), *example);
    }
}

#[test]
fn fields_that_are_new_are_ignored() {
    let webhooks = &read("tests/snapshots/openapi.json")["webhooks"];
    let json = &webhooks["lead_hot"]["post"]["requestBody"]["content"]["application/json"];
    let mut payload = json["examples"]["example"]["value"].clone();
    payload["score"] = 9.into();
    payload["form"]["owner"] = "Ann".into();
    assert!(serde_json::from_value::<EventPayload>(payload).is_ok());
}
