//! Request ids of the door (ruling 38): requests, and the door's own refusals.

use door::{DoorSettings, DoorTimeouts};
use telemetry::request_id::RequestIds;
use uuid::Uuid;

use crate::helper::{HELLO, SHORT, serve};

const NEW: &str = "01936d1c-0000-7000-8000-000000000001";

fn with_ids(timeouts: DoorTimeouts) -> DoorSettings {
    let ids = RequestIds::new(|| Uuid::parse_str(NEW).unwrap());
    DoorSettings { timeouts, request_ids: Some(ids), ..DoorSettings::default() }
}

/// The router never sees these requests, so nobody named their answers.
#[tokio::test]
async fn a_doors_refusal_has_a_request_id() {
    let served = serve(with_ids(DoorTimeouts { head: SHORT, ..DoorTimeouts::default() })).await;
    let many = format!("GET /hello HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(100));
    for (head, status) in [
        ("GET /hello HTTP/1.1\r\nX-Request-Id: mine\r\n\r\n", 400),
        ("GET /hello HTTP/1.1\r\n", 408),
        (&*many, 431),
    ] {
        let mut caller = served.caller().await;
        caller.send(head).await;
        let answer = caller.answer().await;
        answer.assert_refusal(status);
        assert_eq!(answer.header("x-request-id"), Some(NEW), "{status}");
    }
}

#[tokio::test]
async fn a_too_slow_answer_names_its_request() {
    let served = serve(with_ids(DoorTimeouts { request: SHORT, ..DoorTimeouts::default() })).await;
    let mut caller = served.caller().await;
    caller.send("GET /wait HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n\r\n").await;
    let answer = caller.answer().await;
    answer.assert_error(503, "unavailable");
    assert_eq!(answer.header("x-request-id"), Some("mine"));
    assert!(answer.body().contains("(request mine)"), "{answer:?}");
    caller.send(HELLO).await;
    let answer = caller.answer().await;
    answer.assert_is(200, "hello");
    assert_eq!(answer.header("x-request-id"), Some(NEW));
}
