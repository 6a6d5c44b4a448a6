//! Every wait for a caller has an end (case A22).

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use door::DoorTimeouts;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::helper::{HELLO, SHORT, patiently, serve, serve_also, with_times};

#[tokio::test]
async fn a22_a_silent_caller_is_closed_silently() {
    let served =
        serve(with_times(DoorTimeouts { first_byte: SHORT, ..DoorTimeouts::default() })).await;
    served.caller().await.assert_closed().await;
}

#[tokio::test]
async fn a22_half_a_head_gets_408() {
    let served = serve(with_times(DoorTimeouts { head: SHORT, ..DoorTimeouts::default() })).await;
    let mut caller = served.caller().await;
    caller.send(HELLO).await;
    caller.answer().await.assert_is(200, "hello");
    caller.send(&HELLO[..20]).await;
    caller.answer().await.assert_refusal(408);
    caller.assert_closed().await;
}

/// Each byte comes in time; the head does not.
#[tokio::test]
async fn a22_a_dripping_head_gets_408() {
    let served =
        serve(with_times(DoorTimeouts { head: SHORT * 3, ..DoorTimeouts::default() })).await;
    let mut caller = served.caller().await;
    let mut drip = tokio::time::interval(SHORT / 10);
    caller.send("GET / HTTP/1.1\r\nX: ").await;
    loop {
        tokio::select! {
            readable = caller.0.readable() => break readable.unwrap(),
            _ = drip.tick() => caller.0.try_write(b"x").map(drop).unwrap(),
        }
    }
    caller.answer().await.assert_refusal(408);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let served = serve(with_times(DoorTimeouts { idle: SHORT, ..DoorTimeouts::default() })).await;
    let mut caller = served.caller().await;
    caller.send(HELLO).await;
    caller.answer().await.assert_is(200, "hello");
    caller.assert_closed().await;
}

#[tokio::test]
async fn a_too_slow_answer_is_a_503() {
    let served =
        serve(with_times(DoorTimeouts { request: SHORT, ..DoorTimeouts::default() })).await;
    let mut caller = served.caller().await;
    caller.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    caller.answer().await.assert_error(503, "unavailable");
    caller.send(HELLO).await;
    caller.answer().await.assert_is(200, "hello");
}

/// An answer larger than the system's buffers, which says when it is let go.
struct Large(Vec<u8>, UnboundedSender<()>);

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        self.1.send(()).unwrap();
    }
}

pub(crate) const LARGE_BYTES: usize = 32 << 20;

pub(crate) fn large(gone: UnboundedSender<()>) -> Router {
    let answer = async move || Body::from(Bytes::from_owner(Large(vec![0; LARGE_BYTES], gone)));
    Router::new().route("/large", get(answer))
}

#[tokio::test]
async fn an_untaken_answer_holds_no_connection() {
    let (gone, mut is_gone) = unbounded_channel();
    let times = DoorTimeouts { write: SHORT, ..DoorTimeouts::default() };
    let served = serve_also(large(gone), with_times(times)).await;
    let mut caller = served.caller().await;
    caller.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await;
    patiently(is_gone.recv()).await.unwrap();
    let mut taken = Vec::new();
    // The end may be a reset: the missing part cannot come any more.
    let _ = patiently(caller.0.read_to_end(&mut taken)).await;
    assert!(taken.len() < LARGE_BYTES);
}

/// The last answer of a connection, much of it still to be written when hyper is done.
#[tokio::test]
async fn a_large_answer_arrives_whole() {
    let (gone, _is_gone) = unbounded_channel();
    let served = serve_also(large(gone), with_times(DoorTimeouts::default())).await;
    for body in ["Connection: close\r\n\r\n", "Content-Length: 9\r\n\r\na"] {
        let mut caller = served.caller().await;
        caller.send(format!("GET /large HTTP/1.1\r\nHost: a\r\n{body}")).await;
        assert_eq!(caller.answer().await.body().len(), LARGE_BYTES);
        caller.assert_closed().await;
    }
}
