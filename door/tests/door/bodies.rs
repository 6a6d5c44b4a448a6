//! Bodies: bad chunks (A21), bodies that are not read (A7), bodies that stop.

use std::time::Duration;

use door::{DoorSettings, DoorTimeouts};
use tokio::io::AsyncWriteExt;

use crate::helper::{Caller, HELLO, SHORT, serve, with_times};

const CHUNKS: &str = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

#[tokio::test]
async fn a21_a_bad_chunk_is_answered_400_and_the_connection_closes() {
    let served = serve(DoorSettings::default()).await;
    for chunk in ["zz\r\n", "-1\r\n", "3\r\nabcd\r\n", "fffffffffffffffff\r\n", "1\nab\n"] {
        let mut caller = served.caller().await;
        caller.send(format!("{CHUNKS}{chunk}0\r\n\r\n{HELLO}")).await;
        let answer = caller.answer().await;
        answer.assert_is(400, "cut short");
        assert_eq!(answer.header("connection"), Some("close"), "{chunk:?}");
        caller.assert_closed().await;
    }
}

/// Where chunks end is known to hyper alone: what follows them is never taken for a request.
#[tokio::test]
async fn a21_chunks_are_the_last_of_their_connection() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send(format!("{CHUNKS}3\r\nabc\r\n0\r\n\r\n{HELLO}")).await;
    let answer = caller.answer().await;
    answer.assert_is(200, "abc");
    assert_eq!(answer.header("connection"), Some("close"));
    caller.assert_closed().await;
}

/// A caller who sends all of it before reading anything.
#[tokio::test]
async fn a7_an_answer_that_comes_before_the_body_is_not_lost() {
    let served = serve(DoorSettings::default()).await;
    let body = vec![b'x'; 10 << 20];
    for head in ["Content-Length: 10485760\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\na00000\r\n"]
    {
        let mut caller = served.caller().await;
        caller.send(format!("POST /early HTTP/1.1\r\nHost: a\r\n{head}")).await;
        caller.send(&body).await;
        let answer = caller.answer().await;
        answer.assert_is(413, "too large");
        assert_eq!(answer.header("connection"), Some("close"));
        caller.assert_closed().await;
    }
}

#[tokio::test]
async fn a7_an_endless_body_is_read_only_for_a_while() {
    let served = serve(with_times(DoorTimeouts { linger: SHORT, ..DoorTimeouts::default() })).await;
    let caller = served.caller().await;
    let (reads, mut writes) = caller.0.into_split();
    writes.write_all(CHUNKS.replace("echo", "early").as_bytes()).await.unwrap();
    let endless = tokio::spawn(async move {
        let piece = ["10000\r\n", &"x".repeat(1 << 16), "\r\n"].concat();
        while writes.write_all(piece.as_bytes()).await.is_ok() {}
    });
    let mut caller = Caller(tokio::io::join(reads, tokio::io::sink()));
    caller.answer().await.assert_is(413, "too large");
    crate::helper::patiently(endless).await.unwrap();
}

#[tokio::test]
async fn a_small_body_that_nobody_reads_does_not_end_the_connection() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    for _ in 0..2 {
        caller.send("POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").await;
        assert_eq!(caller.answer().await.status(), 404);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_answered_400() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").await;
    caller.0.shutdown().await.unwrap();
    caller.answer().await.assert_is(400, "cut short");
    caller.assert_closed().await;
}

#[tokio::test]
async fn who_asks_first_is_told_to_go_on() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    let expects = "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    caller.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{expects}")).await;
    let mut told = [0; 25];
    tokio::io::AsyncReadExt::read_exact(&mut caller.0, &mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    caller.send("abc").await;
    caller.answer().await.assert_is(200, "abc");

    caller.send(format!("POST /nowhere HTTP/1.1\r\nHost: a\r\n{expects}")).await;
    let answer = caller.answer().await;
    assert_eq!((answer.status(), answer.header("connection")), (404, Some("close")));
    caller.assert_closed().await;
}

/// The handlers end a slow body; the answer closes the connection, and a drip does not keep it.
#[tokio::test]
async fn a22_a_body_that_never_comes_ends_with_the_request() {
    let times = DoorTimeouts { request: SHORT, linger: SHORT, ..DoorTimeouts::default() };
    let served = serve(with_times(times)).await;
    let mut caller = served.caller().await;
    caller.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na").await;
    let answer = caller.answer().await;
    answer.assert_error(503, "unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("connection"), Some("close"));
    caller.assert_closed().await;
    assert!(DoorTimeouts::default().linger + Duration::from_secs(12) < Duration::from_secs(15));
}
