//! Request ids (ruling 38).

use axum::body::Body;
use serde_json::Value;
use tests::{Answer, World, make_request};
use uuid::Uuid;

/// A call to a path of either door, with these request ids.
async fn call(world: &World, path: &str, key: &str, ids: &[&str]) -> Answer {
    let mut headers = vec![("x-api-key", key)];
    headers.extend(ids.iter().map(|id| ("x-request-id", *id)));
    let request = make_request("GET", path, &headers, Body::empty());
    if path.starts_with("/api") || path == "/docs" {
        world.public(request).await
    } else {
        world.internal(request).await
    }
}

/// A failed call could once not be found: no answer had an id, and a caller's id was ignored.
#[tokio::test]
async fn every_answer_has_a_request_id() {
    let world = World::new().await;
    let firm = world.firm().await;
    let mut seen = Vec::new();
    for (path, status) in [
        ("/api/v1/me", 200),
        ("/api/v1/openapi.json", 200),
        ("/docs", 200),
        ("/api/v1/nothing", 404),
        ("/livez", 200),
        ("/nothing", 404),
        ("/internal/v1/activity", 405),
    ] {
        let answer = call(&world, path, &firm.key, &[]).await;
        assert_eq!(answer.status, status, "{path}");
        let id: Uuid = answer.headers["x-request-id"].to_str().unwrap().parse().unwrap();
        assert_eq!(id.get_version_num(), 7, "{path}");
        assert!(!seen.contains(&id), "{path}");
        seen.push(id);
        let own = call(&world, path, &firm.key, &["caller:1"]).await;
        assert_eq!(own.headers["x-request-id"], "caller:1", "{path}");
        for other in [&["a b"][..], &["a", "b"], &["<script>"]] {
            let answer = call(&world, path, &firm.key, other).await;
            let id = answer.headers["x-request-id"].to_str().unwrap();
            assert_eq!(id.parse::<Uuid>().map(|id| id.get_version_num()), Ok(7), "{path}: {id}");
        }
    }
    for (key, lines, status) in [("wrong", 1, 401), (&*firm.key, 101, 431)] {
        let mut headers = vec![("x-more", "a"); lines];
        headers.push(("x-api-key", key));
        let request = make_request("GET", "/api/v1/me", &headers, Body::empty());
        let refused = world.public(request).await;
        assert_eq!(refused.status, status);
        assert!(refused.headers.contains_key("x-request-id"), "{status}");
    }
}

/// A person reported "500 at 10:31", and the operator could not find the call.
#[tokio::test]
async fn a_500_sentence_names_its_request_id() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.change_database("alter table forms rename to forms_of_before").await;
    let answer = call(&world, "/api/v1/forms", &firm.key, &["caller:1"]).await;
    assert_eq!(answer.code(), (500, "internal_error"));
    assert_eq!(answer.body["error"], "something went wrong on our side (request caller:1)");
    let refused = call(&world, "/api/v1/nothing", &firm.key, &["caller:1"]).await;
    let Value::String(sentence) = &refused.body["error"] else { panic!("{}", refused.body) };
    assert!(!sentence.contains("caller:1"), "a caller can mend this one: {sentence}");
}
