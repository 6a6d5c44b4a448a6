//! The door without a database: the answers that need none.

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::service::tests::nowhere;

const TOKEN: &str = "fft_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

const ROUTES: [(Method, &str); 21] = [
    (Method::POST, "/internal/v1/activity"),
    (Method::GET, "/internal/v1/firms/abc/keys"),
    (Method::POST, "/internal/v1/firms/abc/keys"),
    (Method::DELETE, "/internal/v1/firms/abc/keys/abc"),
    (Method::GET, "/internal/v1/firms/abc/webhook-secret"),
    (Method::POST, "/internal/v1/firms/abc/webhook-secret/rotate"),
    (Method::GET, "/internal/v1/firms/abc/audit"),
    (Method::GET, "/internal/v1/firms/abc/audit/export"),
    (Method::GET, "/internal/v1/firms/abc/hooks"),
    (Method::GET, "/internal/v1/firms/abc/hooks/abc/history"),
    (Method::GET, "/internal/v1/firms/abc/deliveries"),
    (Method::GET, "/internal/v1/firms/abc/deliveries/abc"),
    (Method::POST, "/internal/v1/firms/abc/deliveries/abc/reissue"),
    (Method::GET, "/internal/v1/audit/keys"),
    (Method::GET, "/internal/v1/audit/checkpoints"),
    (Method::GET, "/internal/v1/audit/verification"),
    (Method::GET, "/internal/v1/audit/archive"),
    (Method::GET, "/internal/v1/audit/feed"),
    (Method::GET, "/internal/v1/pauses"),
    (Method::POST, "/internal/v1/pauses"),
    (Method::DELETE, "/internal/v1/pauses/abc"),
];

fn door() -> Router {
    router(nowhere())
}

async fn call(method: &Method, path: &str, token: Option<&str>) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = door().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 64 << 10).await.unwrap();
    (parts.status.as_u16(), serde_json::from_slice(&body).unwrap())
}

/// Without a token, or with a malformed one, the answer is 401.
#[tokio::test]
async fn every_route_needs_a_sound_token() {
    for (method, path) in ROUTES {
        for token in
            [None, Some("fft_AAA"), Some("ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
        {
            let (status, body) = call(&method, path, token).await;
            assert_eq!((status, &body["code"]), (401, &"unauthorized".into()), "{method} {path}");
        }
    }
}

/// The service lives and is not ready.
#[tokio::test]
async fn e11_without_a_database_tokens_get_503() {
    for (method, path) in ROUTES {
        let (status, body) = call(&method, path, Some(TOKEN)).await;
        assert_eq!((status, &body["code"]), (503, &"unavailable".into()), "{method} {path}");
    }
    assert_eq!(call(&Method::GET, "/livez", None).await.0, 200);
    assert_eq!(call(&Method::GET, "/readyz", None).await.0, 503);
}

#[tokio::test]
async fn unknown_routes_and_wrong_methods_are_told() {
    assert_eq!(call(&Method::GET, "/internal/v1/nothing", None).await.0, 404);
    assert_eq!(call(&Method::GET, "/internal/v1/activity", None).await.0, 405);
    assert_eq!(call(&Method::GET, "/api/v1/me", None).await.0, 404);
}
