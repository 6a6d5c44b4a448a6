//! Where a redirect may lead: cases C16 and C17.

use deliverer::outgoing::{DnsServers, OutgoingClient, OutgoingConfig, OutgoingExchange};
use domain::delivery::{AnswerVerdict, AttemptAnswer, NetworkError, RedirectFault};
use domain::subscription::{AllowedTargets, TargetRefusal};

use crate::support::certificates::Authority;
use crate::support::name_server::{NameServer, Reply, parsed};
use crate::support::receiver::{Receiver, Seen};
use crate::support::{OK, config, delivery, redirect, send};

const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// The exchange with a receiver that answers `/in` with these words, and takes everything else.
async fn after(words: impl Into<String>) -> (OutgoingExchange, Receiver) {
    let words = words.into();
    let rule = move |seen: &Seen| {
        if seen.path() == "/in" { words.clone() } else { OK.to_owned() }
    };
    let receiver = Receiver::answering(rule).await;
    (send(receiver.url("/in")).await, receiver)
}

/// Sent on by every kind of redirect, as `serve` sends: https only, one address opened.
async fn sent_on(to: &str, dns: &NameServer) -> Vec<AttemptAnswer> {
    let authority = Authority::new();
    let allowed = AllowedTargets::new(vec!["127.0.0.1/32".parse().unwrap()]);
    let names = DnsServers::Nameserver(dns.at);
    let config = OutgoingConfig { allowed, names, ..authority.trusted() };
    let client = OutgoingClient::new(config).unwrap();
    let mut answers = Vec::new();
    for status in REDIRECTS {
        let words = redirect(status, to);
        let server = authority.server(&["127.0.0.1"]);
        let receiver = Receiver::answering_tls(server, move |_| words.clone()).await;
        let exchange = client.send(delivery(format!("https://{}/in", receiver.at))).await;
        assert_eq!(exchange.hops[0].status, Some(status));
        answers.push(exchange.answer);
    }
    answers
}

#[tokio::test]
async fn c16_private_redirects_are_not_followed() {
    let private = Receiver::listening("127.0.0.2:0", |_| OK.to_owned()).await;
    let dns = NameServer::always(Reply::Silence).await;
    let port = private.at.port();
    for to in [
        format!("https://127.0.0.2:{port}/"),
        format!("//127.0.0.2:{port}/"),
        format!("https://2130706434:{port}/"),
        format!("https://[::ffff:127.0.0.2]:{port}/"),
        format!("https://[::1]:{port}/"),
        "https://169.254.169.254/latest/meta-data/".to_owned(),
    ] {
        for answer in sent_on(&to, &dns).await {
            let AttemptAnswer::RedirectInvalid(RedirectFault::Refused(why)) = &answer else {
                panic!("{to}: {answer:?}");
            };
            assert!(matches!(why, TargetRefusal::PrivateAddress(_)), "{to}: {why:?}");
            assert_eq!(answer.verdict(), AnswerVerdict::Failed);
        }
    }
    assert_eq!(private.connections().await, 0);
}

#[tokio::test]
async fn c16_redirects_to_http_are_not_followed() {
    let plain = Receiver::saying(OK).await;
    let dns = NameServer::always(Reply::Silence).await;
    for answer in sent_on(&plain.url("/"), &dns).await {
        assert_eq!(answer, RedirectFault::Refused(TargetRefusal::NotHttps).into());
    }
    assert_eq!(plain.connections().await, 0);
}

#[tokio::test]
async fn c16_names_that_lead_inside_are_refused() {
    let private = Receiver::listening("127.0.0.2:0", |_| OK.to_owned()).await;
    let dns = NameServer::start(|name, _| match name {
        "10.0.0.1.nip.example" => Reply::Addresses(parsed(&["10.0.0.1"])),
        _ => Reply::Addresses(parsed(&["127.0.0.2"])),
    })
    .await;
    for name in ["10.0.0.1.nip.example", "rebinding.example"] {
        let to = format!("https://{name}:{}/", private.at.port());
        for answer in sent_on(&to, &dns).await {
            assert_eq!(answer, NetworkError::TargetRefusedByDns.into());
            assert_eq!(answer.verdict(), AnswerVerdict::Retry);
        }
    }
    assert_eq!(private.connections().await, 0);
}

#[tokio::test]
async fn c17_a_location_joins_the_current_url() {
    let other = Receiver::saying(OK).await;
    let at = other.at;
    for (location, path) in [
        (format!("//{at}/new"), "/new"),
        (format!(r"\\{at}\new"), "/new"),
        (format!("http://{at}?a=%0d%0ab"), "/?a=%0d%0ab"),
        (format!("http://{at}/new#part"), "/new"),
    ] {
        assert_eq!(after(redirect(307, &location)).await.0.answer, AttemptAnswer::Status(200));
        assert_eq!(other.seen().last().unwrap().path(), path, "{location}");
    }
    let (exchange, receiver) = after(redirect(307, "../new?a=b")).await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(200));
    assert_eq!(receiver.seen()[1].path(), "/new?a=b");
    assert_eq!(exchange.hops[1].url, Some(receiver.url("")), "history has the origin alone");
}

#[tokio::test]
async fn c17_a_forbidden_location_fails_at_once() {
    let long = format!("/{}", "a".repeat(5_000));
    for location in [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "javascript:alert(1)",
        "http://user@127.0.0.1:8080/",
        "http://@127.0.0.1:8080/",
        "http://127.0.0.1:22/",
        "http://localhost.:99999/",
        "http://",
        "/with space",
        "/with\ttab",
        "/caf\u{e9}",
        &long,
    ] {
        let (exchange, receiver) = after(redirect(302, location)).await;
        let answer = &exchange.answer;
        let refused =
            AttemptAnswer::RedirectInvalid(RedirectFault::Refused(TargetRefusal::NotAUrl));
        assert_eq!(answer.code(), refused.code(), "{location}: {answer:?}");
        assert_eq!(answer.verdict(), AnswerVerdict::Failed);
        assert_eq!(receiver.seen().len(), 1);
    }
}

#[tokio::test]
async fn c17_exactly_one_location_is_needed() {
    let none = "HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(after(none).await.0.answer, RedirectFault::MissingLocation.into());
    let two = "HTTP/1.1 302 Found\r\nlocation: /a\r\nlocation: /a\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(after(two).await.0.answer, RedirectFault::SeveralLocations.into());
}

#[tokio::test]
async fn c17_a_broken_location_is_no_http() {
    for value in ["/a\r\n b", "/a\rb", "/a\0b"] {
        let answer = after(redirect(302, value)).await.0.answer;
        assert_eq!(answer, NetworkError::Protocol.into(), "{value:?}");
    }
}

#[tokio::test]
async fn c17_a_redirect_may_lead_to_names() {
    let receiver = Receiver::saying(OK).await;
    let to = redirect(307, &format!("http://hooks.example:{}/new", receiver.at.port()));
    let first = Receiver::saying(to).await;
    let dns = NameServer::knowing(&["127.0.0.1"]).await;
    let names = DnsServers::Nameserver(dns.at);
    let client = OutgoingClient::new(OutgoingConfig { names, ..config() }).unwrap();
    assert_eq!(client.send(delivery(first.url("/in"))).await.answer, AttemptAnswer::Status(200));
    assert_eq!(receiver.only().header("x-service-signature"), None);
}
