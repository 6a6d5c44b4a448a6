//! Answers of a door whose callers come by https (RFC 6797). A portal and a console that need TLS
//! once told no browser of https.

use door::{DoorSettings, UrlScheme};

use crate::helper::{HELLO, serve};

const HEADER: &str = "strict-transport-security";

#[tokio::test]
async fn each_https_answer_demands_https() {
    let served = serve(DoorSettings { scheme: UrlScheme::Https, ..DoorSettings::default() }).await;
    for (head, status) in [
        (HELLO, 200),
        ("GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        ("GET / HTTP/1.1\r\n\r\n", 400),
    ] {
        let mut caller = served.caller().await;
        caller.send(head).await;
        let answer = caller.answer().await;
        assert_eq!(answer.status(), status);
        assert_eq!(answer.header(HEADER), Some("max-age=31536000"), "{status}");
    }
}

#[tokio::test]
async fn a_clear_text_door_demands_no_https() {
    let served = serve(DoorSettings::default()).await;
    let mut caller = served.caller().await;
    caller.send(HELLO).await;
    assert_eq!(caller.answer().await.header(HEADER), None);
}
