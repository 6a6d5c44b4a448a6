//! Reads the vectors, and asks the packed crate for its verdicts.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use firmforms_webhooks::{SignatureError, verify};
use serde_json::Value;

fn main() {
    let path = std::env::args().nth(1).expect("the file of vectors is named");
    let text = std::fs::read_to_string(path).expect("the file can be read");
    let page: Value = serde_json::from_str(&text).expect("the file is JSON");
    let vectors = page["vectors"].as_array().expect("it lists vectors");
    for vector in vectors {
        let text = |name: &str| vector[name].as_str().expect("a text");
        let secrets = vector["secrets"].as_array().expect("a list").iter();
        let secrets: Vec<&str> = secrets.map(|it| it.as_str().expect("a text")).collect();
        let body = BASE64_STANDARD.decode(text("body_base64")).expect("base64");
        let now = vector["now"].as_u64().expect("a time");
        let verdict = match verify(text("header"), &body, &secrets, now) {
            Ok(()) => "valid",
            Err(SignatureError::Malformed) => "malformed",
            Err(SignatureError::Stale) => "stale",
            Err(SignatureError::Mismatch) => "mismatch",
        };
        assert_eq!(verdict, text("verdict"), "{}", text("name"));
    }
    println!("{} vectors pass with the packed crate", vectors.len());
}
