//! `ETag` and `If-None-Match`, and the one answer that pages of other origins may read.

use axum::body::Body;
use serde_json::{Value, json};
use tests::{Answer, Firm, World, activity, later, make_request};

async fn get(world: &World, path: &str, firm: &Firm, headers: &[(&str, &str)]) -> Answer {
    let headers = [&[("x-api-key", &*firm.key)][..], headers].concat();
    world.public(make_request("GET", path, &headers, Body::empty())).await
}

/// A caller that polls once read the whole list each time.
#[tokio::test]
async fn a_known_etag_gets_304_until_changed() {
    let world = World::new().await;
    let firm = world.firm().await;
    for path in
        ["/api/v1/forms", "/api/v1/openapi.json", "/docs", "/docs/verify", "/docs/signature.js"]
    {
        let whole = get(&world, path, &firm, &[]).await;
        let tag = whole.headers["etag"].to_str().unwrap();
        for asked in [tag, "*", &format!("\"x\", {tag}")] {
            for encoding in ["gzip", "identity"] {
                let headers = [("if-none-match", asked), ("accept-encoding", encoding)];
                let same = get(&world, path, &firm, &headers).await;
                assert_eq!((same.status.as_u16(), same.bytes.len()), (304, 0), "{path} {asked}");
                for name in ["etag", "cache-control"] {
                    assert_eq!(same.headers[name], whole.headers[name], "{path}: {name}");
                }
                let vary = same.headers["vary"].to_str().unwrap();
                assert!(vary.contains("accept-encoding"), "{path}: {vary}");
            }
        }
        let other = get(&world, path, &firm, &[("if-none-match", "W/\"x\"")]).await;
        assert_eq!((other.status.as_u16(), other.bytes), (200, whole.bytes), "{path}");
    }
    let before = get(&world, "/api/v1/forms", &firm, &[]).await;
    let tag = before.headers["etag"].to_str().unwrap();
    let renamed = json!({"form_id": firm.form, "title": "Renamed"});
    world.report_one(later(activity(firm.id, "form.changed", renamed), 1)).await;
    let after = get(&world, "/api/v1/forms", &firm, &[("if-none-match", tag)]).await;
    assert_eq!((after.status.as_u16(), &after.body[0]["title"]), (200, &json!("Renamed")));
    assert_eq!(after.headers["cache-control"], "private, no-cache");
    let other = world.firm().await;
    let others = get(&world, "/api/v1/forms", &other, &[("if-none-match", tag)]).await;
    assert_eq!(others.status, 200, "the list of another firm");
}

/// A26: Tools in a browser, such as Swagger UI, could once not read the description.
#[tokio::test]
async fn a26_only_the_description_is_cross_origin() {
    let world = World::new().await;
    let firm = world.firm().await;
    let origin = [("origin", "https://editor.example")];
    let open = get(&world, "/api/v1/openapi.json", &firm, &origin).await;
    assert_eq!(open.headers["access-control-allow-origin"], "*");
    for path in [
        "/docs",
        "/docs/signature.js",
        "/api/v1/me",
        "/api/v1/forms",
        "/api/v1/hooks",
        "/api/v1/nothing",
    ] {
        let answer = get(&world, path, &firm, &origin).await;
        let allowed = answer.headers.keys().any(|name| name.as_str().starts_with("access-control"));
        assert!(!allowed, "{path}");
    }
    let asked = world.call(&firm.key, "OPTIONS", "/openapi.json", Value::Null).await;
    assert_eq!(asked.status, 405);
}
