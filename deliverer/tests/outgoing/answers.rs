//! The reading of an answer: cases D1, D2, D4, D5, D6 and D8.

use std::time::{Duration, Instant};

use deliverer::outgoing::{AttemptBudget, OutgoingExchange, SNIPPET_MAX_BYTES};
use domain::delivery::{AnswerVerdict, AttemptAnswer, NetworkError};
use tokio::sync::mpsc;

use crate::support::receiver::{Receiver, Talk};
use crate::support::{BODY, OK, client, client_within, delivery, headers_within, send};

async fn told(words: impl Into<String>) -> OutgoingExchange {
    let receiver = Receiver::saying(words).await;
    send(receiver.url("/in")).await
}

/// Answers every request with these bytes, however many, and lingers.
async fn told_bytes(bytes: impl Into<Vec<u8>>) -> OutgoingExchange {
    let bytes = bytes.into();
    let receiver = Receiver::scripted(move |mut talk: Talk| {
        let bytes = bytes.clone();
        async move {
            talk.hear().await;
            let _ = talk.say(bytes).await;
            talk.linger().await;
        }
    })
    .await;
    send(receiver.url("/in")).await
}

#[tokio::test]
async fn the_request_is_the_contracts() {
    let receiver = Receiver::saying(OK).await;
    send(receiver.url("/in?a=b#part")).await;
    let seen = receiver.only();
    assert_eq!(seen.line, "POST /in?a=b HTTP/1.1");
    assert_eq!(seen.body, BODY.as_bytes());
    assert_eq!(seen.header("accept"), Some("*/*"));
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    let agent = concat!("firmforms/", env!("CARGO_PKG_VERSION"));
    assert_eq!(seen.header("user-agent"), Some(agent));
    let length = BODY.len().to_string();
    assert_eq!(seen.header("content-length"), Some(length.as_str()));
}

#[tokio::test]
async fn d1_every_2xx_delivers() {
    for status in [200, 201, 204, 299] {
        let exchange = told(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n")).await;
        assert_eq!(exchange.answer, AttemptAnswer::Status(status));
        assert_eq!(exchange.answer.verdict(), AnswerVerdict::Delivered);
        assert!(exchange.connected && exchange.snippet.is_empty());
    }
}

#[tokio::test]
async fn d1_unknown_statuses_are_protocol_errors() {
    for status in ["101", "600", "699", "999"] {
        let exchange = told(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n")).await;
        assert_eq!(exchange.answer.code(), "protocol", "{status}");
        assert_eq!(exchange.answer.verdict(), AnswerVerdict::Retry, "{status}");
    }
    for status in ["1000", "99", "abc"] {
        let exchange = told(format!("HTTP/1.1 {status} X\r\n\r\n")).await;
        assert_eq!(exchange.answer, NetworkError::Protocol.into(), "{status}");
    }
}

/// A look-up has three of the ten seconds. The other tests shorten both.
#[test]
fn d1_c13_c18_tries_have_ten_seconds() {
    let seconds = Duration::from_secs;
    let AttemptBudget { headers, dns, connect, body } = AttemptBudget::default();
    assert_eq!([headers, dns, body], [10, 3, 1].map(seconds));
    assert_eq!(connect, Duration::from_millis(2_400), "two addresses in a claim's five seconds");
}

/// A receiver that thinks before it answers, and a client that waits a second.
async fn thinking_for(millis: u64) -> OutgoingExchange {
    let receiver = Receiver::scripted(move |mut talk: Talk| async move {
        talk.hear().await;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        let _ = talk.say(OK).await;
    })
    .await;
    client_within(headers_within(1_000)).send(delivery(receiver.url("/in"))).await
}

#[tokio::test]
async fn d1_a_late_answer_is_a_timeout() {
    assert_eq!(thinking_for(300).await.answer, AttemptAnswer::Status(200));
    let late = thinking_for(1_500).await;
    assert_eq!(late.answer, NetworkError::Timeout.into());
    assert!(late.connected, "the receiver has seen it");
}

/// The rest of the body is dropped.
#[tokio::test]
async fn d2_an_endless_body_delivers_at_headers() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let receiver = Receiver::scripted(move |mut talk: Talk| {
        let tell = tell.clone();
        async move {
            talk.hear().await;
            let mut written = 0;
            let mut chunk = "HTTP/1.1 200 OK\r\n\r\n".to_owned();
            while talk.say(&chunk).await.is_ok() {
                written += chunk.len();
                chunk = "x".repeat(64 * 1024);
            }
            let _ = tell.send(written);
        }
    })
    .await;
    let exchange = send(receiver.url("/in")).await;
    assert_eq!(exchange.answer.verdict(), AnswerVerdict::Delivered);
    assert_eq!(exchange.snippet, vec![b'x'; SNIPPET_MAX_BYTES]);
    let taken = told.recv().await.unwrap();
    assert!(taken < 16 * 1024 * 1024, "{taken} bytes left the receiver");
}

#[tokio::test]
async fn d2_a_dripping_body_delivers_in_time() {
    let receiver = Receiver::scripted(|mut talk: Talk| async move {
        talk.hear().await;
        let _ = talk.say("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n").await;
        while talk.say("x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let start = Instant::now();
    let exchange = send(receiver.url("/in")).await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(200));
    assert!((1..100).contains(&exchange.snippet.len()));
    assert!((200..4_000).contains(&start.elapsed().as_millis()));
}

#[tokio::test]
async fn d2_a_cut_body_is_an_answer() {
    let receiver = Receiver::scripted(|mut talk: Talk| async move {
        talk.hear().await;
        let _ = talk.say("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort").await;
    })
    .await;
    let exchange = send(receiver.url("/in")).await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(200));
    assert_eq!(exchange.snippet, b"short");
}

#[tokio::test]
async fn d4_nothing_is_unpacked() {
    let packed = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xed, 0xc1, 1];
    let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 13\r\n\r\n";
    let exchange = told_bytes([head.as_bytes(), &packed].concat()).await;
    assert_eq!(exchange.snippet, packed);
}

#[tokio::test]
async fn d5_foreign_bytes_are_kept_unchanged() {
    let foreign = b"\0\xff\xfe\x1b[31m<script>t=1,v1=00</script>";
    let head = format!(
        "HTTP/1.1 500 \u{1f4a5}\r\nx-odd: \u{e9}\r\ncontent-length: {}\r\n\r\n",
        foreign.len()
    );
    let exchange = told_bytes([head.as_bytes(), foreign].concat()).await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(500));
    assert_eq!(exchange.snippet, foreign);
}

#[tokio::test]
async fn d6_d8_only_retries_have_retry_after() {
    let asking = |status: u16, header: &str| {
        told(format!("HTTP/1.1 {status} X\r\n{header}content-length: 0\r\n\r\n"))
    };
    for status in [408, 425, 429, 500, 503, 599] {
        let exchange = asking(status, "retry-after: 7200\r\n").await;
        assert_eq!(exchange.answer.verdict(), AnswerVerdict::Retry, "{status}");
        assert_eq!(exchange.retry_after.as_deref(), Some("7200"), "{status}");
    }
    for status in [200, 400, 404, 410, 413, 451] {
        assert_eq!(asking(status, "retry-after: 7200\r\n").await.retry_after, None, "{status}");
    }
    let two = asking(503, "retry-after: 1\r\nretry-after: 1\r\n").await;
    assert_eq!((two.answer, two.retry_after), (AttemptAnswer::Status(503), None));
    assert_eq!(asking(503, "retry-after: caf\u{e9}\r\n").await.retry_after, None);
}

#[tokio::test]
async fn a_whole_answer_keeps_its_connection_open() {
    let receiver = Receiver::saying("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
    let client = client();
    for _ in 0..3 {
        assert_eq!(client.send(delivery(receiver.url("/in"))).await.snippet, b"hello");
    }
    assert_eq!(receiver.connections().await, 1);
}
