//! The parts that a redirect keeps, drops and changes: cases C18 to C20.

use std::time::{Duration, Instant};

use deliverer::outgoing::header::{HeaderName, HeaderValue};
use domain::delivery::{AnswerVerdict, AttemptAnswer, NetworkError, RedirectFault};

use crate::support::receiver::{Receiver, Seen, Talk};
use crate::support::{BODY, OK, client, client_within, delivery, headers_within, redirect, send};

/// The headers for another host, with the headers that HTTP itself needs.
const FOR_ANOTHER_HOST: [&str; 5] =
    ["accept", "content-length", "content-type", "host", "user-agent"];

/// Sends `/n` on to `/n-1`, and takes a request to `/0`.
fn countdown(seen: &Seen) -> String {
    match seen.path().trim_start_matches('/').parse::<u32>().unwrap() {
        0 => OK.to_owned(),
        n => redirect(307, &format!("/{}", n - 1)),
    }
}

#[tokio::test]
async fn c18_five_redirects_are_followed() {
    let receiver = Receiver::answering(countdown).await;
    let exchange = send(receiver.url("/5")).await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(200));
    let statuses: Vec<_> = exchange.hops.iter().filter_map(|hop| hop.status).collect();
    assert_eq!(statuses, [307, 307, 307, 307, 307, 200]);
    assert_eq!(exchange.hops[0].url, None, "the target is known");
    assert_eq!(exchange.hops[5].url, Some(receiver.url("")), "the path is the receiver's");
    assert_eq!(receiver.connections().await, 1, "one origin, one connection");
}

#[tokio::test]
async fn c18_the_sixth_redirect_fails_at_once() {
    let receiver = Receiver::answering(countdown).await;
    let exchange = send(receiver.url("/6")).await;
    assert_eq!(exchange.answer, RedirectFault::TooMany.into());
    assert_eq!(exchange.answer.verdict(), AnswerVerdict::Failed);
    assert_eq!(exchange.hops.len(), 6);
    assert!(exchange.connected);
}

#[tokio::test]
async fn c18_a_circle_fails_at_once() {
    let to_and_fro = |seen: &Seen| redirect(302, if seen.path() == "/a" { "/b" } else { "/a" });
    let receiver = Receiver::answering(to_and_fro).await;
    let exchange = send(receiver.url("/a")).await;
    assert_eq!(exchange.answer, RedirectFault::Loop.into());
    assert_eq!(receiver.seen().len(), 2);

    let itself = Receiver::answering(|_| redirect(302, "#again")).await;
    assert_eq!(send(itself.url("/a")).await.answer, RedirectFault::Loop.into());
    assert_eq!(itself.seen().len(), 1);
}

#[tokio::test]
async fn c18_a_chain_has_one_budget() {
    let slow = Receiver::scripted(|mut talk: Talk| async move {
        while let Some(seen) = talk.hear().await {
            tokio::time::sleep(Duration::from_millis(150)).await;
            if talk.say(countdown(&seen)).await.is_err() {
                return;
            }
        }
    })
    .await;
    let start = Instant::now();
    let exchange = client_within(headers_within(500)).send(delivery(slow.url("/5"))).await;
    assert_eq!(exchange.answer, NetworkError::Timeout.into());
    assert!((500..4_000).contains(&start.elapsed().as_millis()));
    assert_eq!(exchange.hops.last().unwrap().status, None, "the hop it ended in is told");
}

#[tokio::test]
async fn c19_the_same_host_is_told_everything() {
    let onward = |seen: &Seen| {
        if seen.path() == "/in" { redirect(308, "/new") } else { OK.to_owned() }
    };
    let receiver = Receiver::answering(onward).await;
    assert_eq!(send(receiver.url("/in")).await.answer, AttemptAnswer::Status(200));
    let [first, second] = <[Seen; 2]>::try_from(receiver.seen()).unwrap();
    assert_eq!(second.headers, first.headers);
    assert_eq!(second.header("x-service-signature"), Some("t=1,v1=00"));
}

/// A hop back to the first host gets no more.
#[tokio::test]
async fn c19_another_host_is_told_three_headers() {
    let home = Receiver::answering(|seen| {
        // The first path names the other host.
        let other = seen.path().strip_prefix("/to/").map(|at| format!("http://{at}/in"));
        other.map_or_else(|| OK.to_owned(), |other| redirect(307, &other))
    })
    .await;
    let back = redirect(307, &home.url("/back"));
    let other = Receiver::saying(back).await;
    let mut request = delivery(home.url(&format!("/to/{}", other.at)));
    let secrets = [("authorization", "Bearer x"), ("x-extra", "y"), ("cookie", "a=b")];
    for (name, value) in secrets {
        let value = HeaderValue::from_static(value);
        request.headers.insert(HeaderName::from_static(name), value);
    }
    assert_eq!(client().send(request).await.answer, AttemptAnswer::Status(200));
    assert_eq!(other.only().names(), FOR_ANOTHER_HOST);
    assert_eq!(other.only().header("host"), Some(other.at.to_string().as_str()));
    let [first, again] = <[Seen; 2]>::try_from(home.seen()).unwrap();
    assert!(first.names().len() > FOR_ANOTHER_HOST.len());
    assert_eq!(again.names(), FOR_ANOTHER_HOST);
    assert_eq!(again.body, BODY.as_bytes());
}

/// The request that follows a redirect of this status.
async fn after(status: u16) -> Seen {
    let turn = move |seen: &Seen| {
        if seen.path() == "/in" { redirect(status, "/new") } else { OK.to_owned() }
    };
    let receiver = Receiver::answering(turn).await;
    assert_eq!(send(receiver.url("/in")).await.answer, AttemptAnswer::Status(200));
    let [first, second] = <[Seen; 2]>::try_from(receiver.seen()).unwrap();
    assert_eq!(first.body, BODY.as_bytes());
    second
}

#[tokio::test]
async fn c20_four_redirects_keep_method_and_body() {
    for status in [301, 302, 307, 308] {
        let seen = after(status).await;
        assert_eq!(seen.line, "POST /new HTTP/1.1", "{status}");
        assert_eq!(seen.body, BODY.as_bytes(), "{status}");
    }
}

#[tokio::test]
async fn c20_a_303_becomes_a_bare_get() {
    let seen = after(303).await;
    assert_eq!(seen.line, "GET /new HTTP/1.1");
    assert_eq!(seen.header("content-type"), None);
    assert_eq!(seen.header("content-length"), None);
    assert_eq!(seen.header("x-service-signature"), Some("t=1,v1=00"));
}

#[tokio::test]
async fn c20_a_303_may_lead_to_itself() {
    let receiver = Receiver::answering(|seen| {
        if seen.line.starts_with("POST") { redirect(303, "/in") } else { OK.to_owned() }
    })
    .await;
    assert_eq!(send(receiver.url("/in")).await.answer, AttemptAnswer::Status(200));
}

#[tokio::test]
async fn c20_the_other_3xx_are_answers() {
    for status in [300, 304, 305, 399] {
        let receiver = Receiver::answering(move |_| redirect(status, "/new")).await;
        let exchange = send(receiver.url("/in")).await;
        assert_eq!(exchange.answer, AttemptAnswer::Status(status));
        assert_eq!(exchange.answer.verdict(), AnswerVerdict::Failed);
        assert_eq!(receiver.seen().len(), 1);
    }
}
