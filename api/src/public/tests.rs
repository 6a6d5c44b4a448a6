//! The door without a database: the answers that need none. No server listens where the
//! pool points to, so a call that asks it can only be answered 503.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Response};
use rstest::rstest;
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::service::tests::nowhere;

const KEY: &str = "ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

async fn call(door: Router, request: Request<Body>) -> (u16, String, Response<()>) {
    let (parts, body) = door.oneshot(request).await.unwrap().into_parts();
    let body = to_bytes(body, 64 << 10).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let code = body["code"].as_str().unwrap().to_owned();
    assert!(body["error"].is_string());
    assert_eq!(parts.headers["content-type"], "application/json");
    assert_eq!(parts.headers["x-content-type-options"], "nosniff");
    (parts.status.as_u16(), code, Response::from_parts(parts, ()))
}

fn request(method: Method, path: &str, key: Option<&str>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(key) = key {
        request = request.header("x-api-key", key);
    }
    request.body(Body::empty()).unwrap()
}

const ROUTES: [(Method, &str); 13] = [
    (Method::GET, "/api/v1/me"),
    (Method::GET, "/api/v1/triggers"),
    (Method::GET, "/api/v1/forms"),
    (Method::GET, "/api/v1/forms/abc"),
    (Method::GET, "/api/v1/forms/%ff"),
    (Method::GET, "/api/v1/hooks"),
    (Method::POST, "/api/v1/hooks"),
    (Method::DELETE, "/api/v1/hooks/abc"),
    (Method::PUT, "/api/v1/hooks"),
    (Method::GET, "/api/v1/hooks/"),
    (Method::GET, "/api/v1"),
    (Method::GET, "/api/v1/nothing"),
    (Method::GET, "/docs/nothing"),
];

#[tokio::test]
async fn b1_every_route_needs_a_key() {
    let door = router(nowhere());
    for (method, path) in ROUTES {
        for path in [path.to_owned(), format!("{path}?api_key={KEY}&x-api-key={KEY}")] {
            let (status, code, _) = call(door.clone(), request(method.clone(), &path, None)).await;
            assert_eq!((status, code.as_str()), (401, "unauthorized"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn an_answer_without_a_key_hides_allow() {
    let door = router(nowhere());
    for method in [Method::PUT, Method::OPTIONS] {
        let request = request(method.clone(), "/api/v1/hooks", None);
        let (status, _, response) = call(door.clone(), request).await;
        assert_eq!(status, 401, "{method}");
        assert!(!response.headers().contains_key("allow"), "{method}");
    }
}

/// The answer is 401.
#[tokio::test]
async fn b2_malformed_keys_are_not_looked_up() {
    let door = router(nowhere());
    for (method, path) in ROUTES {
        let malformed = request(method.clone(), path, Some("ffk_AAA"));
        let (status, code, _) = call(door.clone(), malformed).await;
        assert_eq!((status, code.as_str()), (401, "unauthorized"), "{method} {path}");
    }
}

#[tokio::test]
async fn e11_without_a_database_keys_get_503() {
    let door = router(nowhere());
    for (method, path) in ROUTES {
        let (status, code, answer) =
            call(door.clone(), request(method.clone(), path, Some(KEY))).await;
        assert_eq!((status, code.as_str()), (503, "unavailable"), "{method} {path}");
        assert_eq!(answer.headers()["retry-after"], "1");
    }
}

/// Such a head reaches the router.
#[tokio::test]
async fn a_head_of_101_lines_is_431() {
    let mut request = request(Method::GET, "/api/v1/me", Some(KEY));
    for _ in 0..100 {
        request.headers_mut().append("x-test", "a".parse().unwrap());
    }
    let (status, code, _) = call(router(nowhere()), request).await;
    assert_eq!((status, code.as_str()), (431, "invalid_request"));
}

#[tokio::test]
async fn a24_a_panic_is_500() {
    async fn panics() {
        panic!("forced by a test");
    }
    let door =
        layers::around(Router::new().route("/", get(panics)), "public", nowhere().request_ids());
    let (status, code, _) = call(door, request(Method::GET, "/", None)).await;
    assert_eq!((status, code.as_str()), (500, "internal_error"));
}

#[rstest]
#[case("/one", "GET,HEAD")]
#[case("/two", "GET,HEAD,POST")]
#[tokio::test]
async fn a20_wrong_methods_get_405_with_allow(#[case] path: &str, #[case] allow: &str) {
    async fn done() {}
    async fn wrong() -> Error {
        Error::MethodNotAllowed
    }
    let routes = Router::new().route("/one", get(done)).route("/two", get(done).post(done));
    let routes = Router::new().nest("/api/v1", routes).method_not_allowed_fallback(wrong);
    let door = layers::around_public(routes, nowhere().request_ids());
    let path = format!("/api/v1{path}");
    let (status, code, answer) = call(door, request(Method::PUT, &path, None)).await;
    assert_eq!((status, code.as_str()), (405, "invalid_request"));
    assert_eq!(answer.headers()["allow"], allow);
}

/// The statuses that were counted, from a recorder of this thread.
#[derive(Clone, Default)]
struct CountedStatuses(Arc<std::sync::Mutex<Vec<String>>>);

impl CountedStatuses {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl metrics::Recorder for CountedStatuses {
    fn describe_counter(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn describe_gauge(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn describe_histogram(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata) -> metrics::Counter {
        let status = key.labels().find(|label| label.key() == "status");
        if let Some(status) = status.filter(|_| key.name().contains("http_requests")) {
            self.0.lock().unwrap().push(status.value().to_owned());
        }
        metrics::Counter::noop()
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata) -> metrics::Gauge {
        metrics::Gauge::noop()
    }

    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

/// Sends when the call is dropped.
struct Dropped(Option<tokio::sync::oneshot::Sender<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.take().map(|sender| sender.send(()));
    }
}

/// The call ends also when its caller is gone.
#[tokio::test(start_paused = true)]
async fn a_hanging_call_ends_and_is_counted() {
    let counted = CountedStatuses::default();
    let _recorder = metrics::set_default_local_recorder(&counted);
    for door_waits in [Duration::from_secs(60), Duration::from_millis(1)] {
        let (ended, end) = tokio::sync::oneshot::channel();
        let ended = Arc::new(std::sync::Mutex::new(Some(ended)));
        let hang = move || async move {
            let _dropped = Dropped(ended.lock().unwrap().take());
            std::future::pending::<()>().await;
        };
        let door =
            layers::around(Router::new().route("/", get(hang)), "public", nowhere().request_ids());
        let answer = door.oneshot(request(Method::GET, "/", None));
        let answered = tokio::time::timeout(door_waits, answer).await;
        assert_eq!(answered.is_ok(), door_waits.as_secs() == 60);
        if let Ok(Ok(response)) = answered {
            assert_eq!(response.status(), 503);
            assert_eq!(response.headers()["cache-control"], "no-store");
        }
        end.await.unwrap();
        while counted.0.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(counted.take(), ["503"]);
    }
}

#[tokio::test]
async fn a_panic_is_counted_as_500() {
    let counted = CountedStatuses::default();
    let _recorder = metrics::set_default_local_recorder(&counted);
    async fn panics() {
        panic!("forced by a test");
    }
    let door =
        layers::around(Router::new().route("/", get(panics)), "public", nowhere().request_ids());
    call(door, request(Method::GET, "/", None)).await;
    assert_eq!(counted.take(), ["500"]);
}

/// A caller that hangs up drops its request. The work that the request began goes on to its end.
#[tokio::test]
async fn a23_a_dropped_call_is_carried_on() {
    let (began, begun) = tokio::sync::oneshot::channel();
    let (finish, finishing) = tokio::sync::oneshot::channel::<()>();
    let (ended, end) = tokio::sync::oneshot::channel();
    let channels = Arc::new(std::sync::Mutex::new(Some((began, finishing, ended))));
    let work = move || async move {
        let (began, finishing, ended) = channels.lock().unwrap().take().unwrap();
        began.send(()).unwrap();
        finishing.await.unwrap();
        ended.send(()).unwrap();
    };
    let door =
        layers::around(Router::new().route("/", get(work)), "public", nowhere().request_ids());
    tokio::select! {
        _ = door.oneshot(request(Method::GET, "/", None)) => panic!("it cannot have ended"),
        begun = begun => begun.unwrap(),
    }
    finish.send(()).unwrap();
    end.await.unwrap();
}
