//! gzip for large answers.

use std::io::Read;

use axum::body::Body;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tests::{Answer, Firm, World, activity, make_request};

async fn get(world: &World, path: &str, firm: &Firm, encoding: &str) -> Answer {
    request(world, "GET", path, firm, encoding).await
}

async fn request(world: &World, method: &str, path: &str, firm: &Firm, encoding: &str) -> Answer {
    let headers = [("x-api-key", &*firm.key), ("accept-encoding", encoding)];
    let request = make_request(method, path, &headers, Body::empty());
    if path.starts_with("/internal") {
        world.internal(request).await
    } else {
        world.public(request).await
    }
}

fn unpacked(answer: &Answer) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(&*answer.bytes).read_to_end(&mut plain).unwrap();
    plain
}

/// Reports enough forms and keys that each list is over 4 KiB, the least that is compressed.
async fn report_many(world: &World, firm: &Firm) {
    for n in 0..24 {
        let label = format!("key {n} {}", "x".repeat(80));
        world.new_key(firm, &label).await;
    }
    let form = |n: u32| {
        activity(
            firm.id,
            "form.created",
            json!({
                "form_id": world.id(), "title": format!("Form {n}"), "slug": format!("form-{n}"),
                "url": "https://forms.test/f/enquiry", "status": "published", "hidden_fields": [],
                "created_at": "2026-10-01T09:30:00.000Z",
            }),
        )
    };
    let forms: Vec<Value> = (0..40).map(form).collect();
    world.report(&forms).await.ok();
}

/// `GET /forms`, the description and its page once went uncompressed, 90 KB at a time.
#[tokio::test]
async fn large_answers_are_compressed_on_request() {
    let world = World::new().await;
    let firm = world.firm().await;
    report_many(&world, &firm).await;
    for path in [
        "/api/v1/forms".to_owned(),
        "/api/v1/openapi.json".to_owned(),
        "/docs".to_owned(),
        "/docs/verify".to_owned(),
        format!("/internal/v1/firms/{}/keys", firm.id),
    ]
    .iter()
    {
        let plain = get(&world, path, &firm, "identity").await;
        assert!(!plain.headers.contains_key("content-encoding"), "{path}");
        let packed = get(&world, path, &firm, "br, gzip").await;
        assert_eq!(packed.headers["content-encoding"], "gzip", "{path}");
        assert!(packed.bytes.len() * 2 < plain.bytes.len(), "{path}: {}", packed.bytes.len());
        assert_eq!(unpacked(&packed), plain.bytes, "{path}");
        for answer in [&plain, &packed] {
            let vary = answer.headers["vary"].to_str().unwrap();
            assert!(vary.contains("accept-encoding"), "{path}: {vary}");
            assert_eq!(answer.headers["content-type"], plain.headers["content-type"], "{path}");
        }
        let refused = get(&world, path, &firm, "gzip;q=0, *").await;
        assert!(!refused.headers.contains_key("content-encoding"), "{path}");
        let head = request(&world, "HEAD", path, &firm, "gzip").await;
        assert_eq!(
            (head.headers["content-encoding"].to_str().unwrap(), head.bytes.len()),
            ("gzip", 0)
        );
    }
}

/// A list of ten subscriptions is small.
#[tokio::test]
async fn small_answers_are_not_compressed() {
    let world = World::new().await;
    let firm = world.firm().await;
    for n in 0..10 {
        world.subscribe(&firm, &format!("https://hooks.example.com/{n}")).await;
    }
    for path in ["/api/v1/me", "/api/v1/hooks", "/api/v1/nothing"] {
        let answer = get(&world, path, &firm, "gzip").await;
        for name in ["content-encoding", "vary"] {
            assert!(!answer.headers.contains_key(name), "{path}: {name}");
        }
    }
}
