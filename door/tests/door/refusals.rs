//! Heads that are refused (cases A21 and A22): the answer, and the close after it.

use door::DoorSettings;
use rstest::rstest;

use crate::helper::{HELLO, serve};

/// The connection closes.
#[rstest]
#[case::length_and_chunks(
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
)]
#[case::two_lengths(
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"
)]
#[case::two_equal_lengths(
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab"
)]
#[case::list_of_lengths("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\nab")]
#[case::signed_length("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\nab")]
#[case::obs_fold("GET /hello HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n")]
#[case::bare_lf("GET /hello HTTP/1.1\nHost: a\n\n")]
#[case::one_bare_lf("GET /hello HTTP/1.1\r\nHost: a\nX: y\r\n\r\n")]
#[case::bare_cr("GET /hello HTTP/1.1\r\nHost: a\rX: y\r\n\r\n")]
#[case::no_host("GET /hello HTTP/1.1\r\n\r\n")]
#[case::two_hosts("GET /hello HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n")]
#[case::space_before_colon("GET /hello HTTP/1.1\r\nHost : a\r\n\r\n")]
#[case::nul("GET /hello HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n")]
#[case::gzip_chunks("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")]
#[case::old_chunks("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")]
#[case::http_09("GET /hello\r\n\r\n")]
#[case::http_2("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")]
#[case::two_spaces("GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n")]
#[case::connect("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n")]
#[case::head_of_a_head("HEAD /hello HTTP/1.1\r\n\r\n")]
#[tokio::test]
async fn a21_a_malformed_head_gets_400(#[case] head: &str) {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send(head).await;
    caller.answer().await.assert_refusal(400);
    caller.assert_closed().await;

    let mut caller = served.caller().await;
    caller.send(format!("{HELLO}{head}{HELLO}")).await;
    caller.answer().await.assert_is(200, "hello");
    caller.answer().await.assert_refusal(400);
    caller.assert_closed().await;
}

#[tokio::test]
async fn a22_101_header_lines_are_answered_431() {
    let served = serve(DoorSettings::default()).await;
    let lines = |count| format!("GET /hello HTTP/1.1\r\n{}\r\n", "Host: a\r\n".repeat(count));
    let mut caller = served.caller().await;
    caller.send(lines(1).replace("Host", &format!("{}Host", "X: y\r\n".repeat(99)))).await;
    caller.answer().await.assert_is(200, "hello");
    caller.send(lines(101)).await;
    caller.answer().await.assert_refusal(431);
    caller.assert_closed().await;
}

#[rstest]
#[case::target(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(16 << 10)))]
#[case::one_header(format!("GET /hello HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(16 << 10)))]
#[case::endless(format!("GET /hello HTTP/1.1\r\nHost: a\r\nX: {}", "a".repeat(4 << 20)))]
#[case::no_line("a".repeat(1 << 20))]
#[tokio::test]
async fn a22_heads_over_16_kib_get_431(#[case] head: String) {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send(head).await;
    caller.answer().await.assert_refusal(431);
    caller.assert_closed().await;
}

#[tokio::test]
async fn a22_heads_of_16_kib_are_answered() {
    let served = serve(DoorSettings::default()).await;
    let before = "GET /hello HTTP/1.1\r\nHost: a\r\nX: ";
    let padding = "a".repeat((16 << 10) - before.len() - 4);
    let mut caller = served.caller().await;
    caller.send(format!("{before}{padding}\r\n\r\n{HELLO}")).await;
    caller.answer().await.assert_is(200, "hello");
    caller.answer().await.assert_is(200, "hello");
}

#[rstest]
#[case::absolute("GET http://a.example/hello HTTP/1.1\r\nHost: a\r\n\r\n", 200)]
#[case::old("GET /hello HTTP/1.0\r\n\r\n", 200)]
#[case::empty_line_first("\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 200)]
#[case::upgrade(
    "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    200
)]
#[case::asterisk("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 404)]
#[case::odd_path("GET //%[%00 HTTP/1.1\r\nHost: a\r\n\r\n", 404)]
#[tokio::test]
async fn odd_but_allowed_heads_reach_the_router(#[case] head: &str, #[case] status: u16) {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send(head).await;
    assert_eq!(caller.answer().await.status(), status);
}
