//! The stop: requests under way are finished, idle connections are closed, nobody new is taken.

use std::io::ErrorKind;

use door::{DoorSettings, DoorTimeouts};
use tokio::net::TcpStream;

use crate::helper::{HELLO, SHORT, serve, with_times};

/// The stop closes an idle connection and refuses a new one.
#[tokio::test]
async fn a_request_under_way_is_answered() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    served.begun.acquire().await.unwrap().forget();
    let mut idle = served.caller().await;
    idle.send(HELLO).await;
    idle.answer().await.assert_is(200, "hello");
    let mut silent = served.caller().await;

    served.stop.cancel();
    idle.assert_closed().await;
    // The door may not have accepted the silent connection yet. Then the system resets it.
    let _ = tokio::io::AsyncReadExt::read(&mut silent.0, &mut [0]).await;
    let refused = TcpStream::connect(served.addr).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

    served.go_on.add_permits(1);
    let answer = caller.answer().await;
    answer.assert_is(200, "waited");
    assert_eq!(answer.header("connection"), Some("close"));
    caller.assert_closed().await;
    drop(caller);
    served.ended().await;
}

#[tokio::test]
async fn a_body_under_way_is_answered() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    let expects = "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    caller.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{expects}")).await;
    let mut told = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    tokio::io::AsyncReadExt::read_exact(&mut caller.0, &mut told).await.unwrap();
    served.stop.cancel();
    caller.send("abc").await;
    caller.answer().await.assert_is(200, "abc");
    caller.assert_closed().await;
    drop(caller);
    served.ended().await;
}

#[tokio::test]
async fn half_a_head_delays_no_stop() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send(HELLO).await;
    caller.answer().await.assert_is(200, "hello");
    caller.send(&HELLO[..20]).await;
    served.stop.cancel();
    served.ended().await;
}

#[tokio::test]
async fn the_stop_has_an_end() {
    let served = serve(with_times(DoorTimeouts { drain: SHORT, ..DoorTimeouts::default() })).await;
    let mut caller = served.caller().await;
    caller.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    served.begun.acquire().await.unwrap().forget();
    served.stop.cancel();
    caller.assert_closed().await;
    served.ended().await;
}
