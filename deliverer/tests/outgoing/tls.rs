//! The proof that a receiver owes: cases C22 and D15.

use std::time::{Duration, Instant};

use deliverer::outgoing::{
    AttemptBudget, DnsServers, OutgoingClient, OutgoingConfig, OutgoingExchange,
};
use domain::delivery::{AnswerVerdict, AttemptAnswer, NetworkError};
use tokio_rustls::rustls::ServerConfig;

use crate::support::certificates::{Authority, self_signed};
use crate::support::name_server::NameServer;
use crate::support::receiver::{Receiver, Talk};
use crate::support::{OK, budget, client, client_within, delivery};

const NOT_PROVEN: AttemptAnswer = AttemptAnswer::NetworkError(NetworkError::Tls);

/// The hello of a server that speaks no later version than TLS 1.1.
const TLS_1_1_SERVER_HELLO: &[u8] = &[
    0x16, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0xc0, 0x14, 0,
];

async fn send_to(authority: &Authority, server: ServerConfig) -> (OutgoingExchange, Receiver) {
    let receiver = Receiver::answering_tls(server, |_| OK.to_owned()).await;
    let target = format!("https://{}/in", receiver.at);
    (authority.client().send(delivery(target)).await, receiver)
}

async fn is_not_proven(authority: &Authority, server: ServerConfig) {
    let (exchange, receiver) = send_to(authority, server).await;
    assert_eq!(exchange.answer, NOT_PROVEN);
    assert_eq!(exchange.answer.verdict(), AnswerVerdict::Retry);
    assert!(!exchange.connected);
    assert!(receiver.seen().is_empty());
}

#[tokio::test]
async fn c22_a_proven_address_is_delivered_to() {
    let authority = Authority::new();
    let (exchange, receiver) = send_to(&authority, authority.server(&["127.0.0.1"])).await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(200));
    assert_eq!(receiver.only().path(), "/in");
}

#[tokio::test]
async fn c22_a_proven_name_is_delivered_to() {
    let authority = Authority::new();
    let server = authority.server(&["hooks.example"]);
    let receiver = Receiver::answering_tls(server, |_| OK.to_owned()).await;
    let dns = NameServer::knowing(&["127.0.0.1"]).await;
    let names = DnsServers::Nameserver(dns.at);
    let client = OutgoingClient::new(OutgoingConfig { names, ..authority.trusted() }).unwrap();
    let to = |name: &str| delivery(format!("https://{name}:{}/in", receiver.at.port()));
    assert_eq!(client.send(to("hooks.example")).await.answer, AttemptAnswer::Status(200));
    assert_eq!(client.send(to("hooks.example.")).await.answer, AttemptAnswer::Status(200));
    assert_eq!(client.send(to("other.example")).await.answer, NOT_PROVEN);
}

#[tokio::test]
async fn c22_an_untrusted_certificate_is_refused() {
    let authority = Authority::new();
    is_not_proven(&authority, self_signed(&["127.0.0.1"])).await;
    is_not_proven(&authority, Authority::new().server(&["127.0.0.1"])).await;
}

#[tokio::test]
async fn c22_an_expired_certificate_is_refused() {
    let authority = Authority::new();
    is_not_proven(&authority, authority.expired(&["127.0.0.1"])).await;
}

#[tokio::test]
async fn c22_another_names_certificate_is_refused() {
    let authority = Authority::new();
    is_not_proven(&authority, authority.server(&["127.0.0.2", "hooks.example"])).await;
}

#[tokio::test]
async fn c22_an_old_version_is_refused() {
    let receiver = Receiver::scripted(|mut talk: Talk| async move {
        let _ = talk.say(TLS_1_1_SERVER_HELLO).await;
        talk.linger().await;
    })
    .await;
    let exchange = client().send(delivery(format!("https://{}/", receiver.at))).await;
    assert_eq!(exchange.answer, NOT_PROVEN);
}

#[tokio::test]
async fn c22_a_stalled_handshake_times_out() {
    let receiver = Receiver::scripted(|mut talk: Talk| async move { talk.linger().await }).await;
    let client = client_within(AttemptBudget { connect: Duration::from_millis(200), ..budget() });
    let start = Instant::now();
    let exchange = client.send(delivery(format!("https://{}/", receiver.at))).await;
    assert_eq!(exchange.answer, AttemptAnswer::NetworkError(NetworkError::Timeout));
    assert!(!exchange.connected);
    assert!((200..4_000).contains(&start.elapsed().as_millis()));
}

#[tokio::test]
async fn d15_http_2_servers_are_network_errors() {
    let authority = Authority::new();
    let mut server = authority.server(&["127.0.0.1"]);
    server.alpn_protocols = vec![b"h2".to_vec()];
    is_not_proven(&authority, server).await;

    let settings = Receiver::scripted(|mut talk: Talk| async move {
        talk.hear().await;
        let _ = talk.say([0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
        talk.linger().await;
    })
    .await;
    let exchange = client().send(delivery(settings.url("/"))).await;
    assert_eq!(exchange.answer, AttemptAnswer::NetworkError(NetworkError::Protocol));
}
