//! Several requests on one connection, and the facts that each request is told.

use axum::Router;
use axum::routing::get;
use door::DoorSettings;
use tokio::io::AsyncWriteExt;

use crate::helper::{HELLO, serve, serve_also};

const WITH_BODY: &str = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";

#[tokio::test]
async fn a_connection_is_used_again() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    for _ in 0..3 {
        caller.send(HELLO).await;
        let answer = caller.answer().await;
        answer.assert_is(200, "hello");
        assert_eq!(answer.header("connection"), None);
        caller.send(WITH_BODY).await;
        caller.answer().await.assert_is(200, "abc");
    }
}

#[tokio::test]
async fn requests_at_once_are_answered_in_turn() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send([HELLO, WITH_BODY].concat().repeat(100)).await;
    for _ in 0..100 {
        caller.answer().await.assert_is(200, "hello");
        caller.answer().await.assert_is(200, "abc");
    }
}

#[tokio::test]
async fn a_refusal_waits_for_earlier_answers() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\nnonsense\r\n\r\n").await;
    served.begun.acquire().await.unwrap().forget();
    served.go_on.add_permits(1);
    caller.answer().await.assert_is(200, "waited");
    caller.answer().await.assert_refusal(400);
    caller.assert_closed().await;
}

#[tokio::test]
async fn a_caller_can_ask_for_the_close() {
    let served = serve(DoorSettings::default()).await;
    for head in [
        "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /hello HTTP/1.0\r\n\r\n",
    ] {
        let mut caller = served.caller().await;
        caller.send(head).await;
        caller.answer().await.assert_is(200, "hello");
        caller.assert_closed().await;
    }
}

#[tokio::test]
async fn a_caller_that_stops_writing_is_answered() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    caller.0.shutdown().await.unwrap();
    served.begun.acquire().await.unwrap().forget();
    served.go_on.add_permits(1);
    caller.answer().await.assert_is(200, "waited");
    caller.assert_closed().await;
}

#[tokio::test]
async fn every_request_knows_its_peer() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send("GET /peer HTTP/1.1\r\nHost: a\r\n\r\n").await;
    caller.answer().await.assert_is(200, "127.0.0.1");
}

#[tokio::test]
async fn a24_a_panic_ends_only_its_connection() {
    async fn panics() {
        panic!("on purpose");
    }
    let served =
        serve_also(Router::new().route("/panic", get(panics)), DoorSettings::default()).await;
    let mut other = served.caller().await;
    other.send(HELLO).await;
    other.answer().await.assert_is(200, "hello");
    let mut caller = served.caller().await;
    caller.send("GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").await;
    caller.assert_closed().await;
    other.send(HELLO).await;
    other.answer().await.assert_is(200, "hello");
    served.assert_answers().await;
}
