//! Bodies: bad chunks (A21), bodies that are not read (A7), bodies that stop.

use std::time::Duration;

use door::{DoorSettings, DoorTimeouts};
use tokio::io::AsyncWriteExt;

use crate::helper::{Caller, HELLO, SHORT, serve, with_times};

const CHUNKS: &str = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The connection closes.
#[tokio::test]
async fn a21_a_bad_chunk_gets_400() {
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

/// hyper alone knows the end of chunks: the bytes after them are never taken for a request.
#[tokio::test]
async fn a21_chunks_are_their_connections_last() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send(format!("{CHUNKS}3\r\nabc\r\n0\r\n\r\n{HELLO}")).await;
    let answer = caller.answer().await;
    answer.assert_is(200, "abc");
    assert_eq!(answer.header("connection"), Some("close"));
    caller.assert_closed().await;
}

/// The caller sends the whole body before reading anything.
#[tokio::test]
async fn a7_an_early_answer_is_not_lost() {
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
async fn a7_an_endless_bodys_reading_ends() {
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
async fn an_unread_small_body_keeps_the_connection() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    for _ in 0..2 {
        caller.send("POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").await;
        assert_eq!(caller.answer().await.status(), 404);
    }
}

#[tokio::test]
async fn a_broken_body_gets_400() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").await;
    caller.0.shutdown().await.unwrap();
    caller.answer().await.assert_is(400, "cut short");
    caller.assert_closed().await;
}

#[tokio::test]
async fn expect_continue_is_answered() {
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
async fn a22_an_absent_body_ends_in_time() {
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
