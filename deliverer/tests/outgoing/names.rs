//! The addresses that are dialled for a name: cases C12 to C15 and C21.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use deliverer::outgoing::{AttemptBudget, DnsServers, OutgoingClient, OutgoingConfig};
use domain::delivery::{AnswerVerdict, AttemptAnswer, NetworkError};
use domain::subscription::{AllowedTargets, Target};

use crate::support::name_server::{NameServer, Reply, parsed};
use crate::support::receiver::Receiver;
use crate::support::{OK, budget, client_asking, config, delivery};

const NO_ADDRESS: AttemptAnswer = AttemptAnswer::NetworkError(NetworkError::Dns);
const REFUSED_BY_DNS: AttemptAnswer = AttemptAnswer::NetworkError(NetworkError::TargetRefusedByDns);

fn named(receiver: &Receiver) -> String {
    format!("http://hooks.example:{}/in", receiver.at.port())
}

#[tokio::test]
async fn a_name_leads_to_its_address() {
    let receiver = Receiver::saying(OK).await;
    let dns = NameServer::knowing(&["127.0.0.1"]).await;
    let exchange = client_asking(dns.at).send(delivery(named(&receiver))).await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(200));
    assert_eq!(exchange.hops[0].address.as_deref(), Some("127.0.0.1"));
    let host = format!("hooks.example:{}", receiver.at.port());
    assert_eq!(receiver.only().header("host"), Some(host.as_str()));
}

/// Asserts that this reply is refused without a connection to the listener at 127.0.0.2.
async fn is_refused(reply: Reply) {
    let private = Receiver::listening("127.0.0.2:0", |_| OK.to_owned()).await;
    let dns = NameServer::always(reply).await;
    let exchange = client_asking(dns.at).send(delivery(named(&private))).await;
    assert_eq!(exchange.answer, REFUSED_BY_DNS);
    assert_eq!(exchange.answer.verdict(), AnswerVerdict::Retry);
    assert!(!exchange.connected);
    assert_eq!(private.connections().await, 0);
}

#[tokio::test]
async fn c13_only_private_answers_are_refused() {
    is_refused(Reply::Addresses(parsed(&["127.0.0.2", "10.0.0.1", "fd00::1"]))).await;
}

#[tokio::test]
async fn c13_an_alias_to_private_is_refused() {
    is_refused(Reply::Alias("metadata.example", parsed(&["127.0.0.2"]))).await;
}

#[tokio::test]
async fn c13_only_public_addresses_are_dialled() {
    let receiver = Receiver::saying(OK).await;
    let dns = NameServer::knowing(&["127.0.0.2", "127.0.0.1", "fd00::1"]).await;
    let exchange = client_asking(dns.at).send(delivery(named(&receiver))).await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(200));
    assert_eq!(exchange.hops[0].address.as_deref(), Some("127.0.0.1"));
}

#[tokio::test]
async fn c13_without_an_answer_nothing_is_dialled() {
    for reply in [Reply::Addresses(Vec::new()), Reply::ServFail, Reply::NxDomain] {
        let dns = NameServer::always(reply.clone()).await;
        let exchange = client_asking(dns.at).send(delivery("http://hooks.example/in")).await;
        assert_eq!(exchange.answer, NO_ADDRESS, "{reply:?}");
        assert_eq!(exchange.answer.verdict(), AnswerVerdict::Retry);
        assert!(!exchange.connected);
    }
}

#[tokio::test]
async fn c13_a_silent_name_server_times_out() {
    let dns = NameServer::always(Reply::Silence).await;
    let budget = AttemptBudget { dns: Duration::from_millis(300), ..budget() };
    let names = DnsServers::Nameserver(dns.at);
    let client = OutgoingClient::new(OutgoingConfig { budget, names, ..config() }).unwrap();
    let start = Instant::now();
    let exchange = client.send(delivery("http://hooks.example/in")).await;
    assert_eq!(exchange.answer, NO_ADDRESS);
    assert!((300..4_000).contains(&start.elapsed().as_millis()));
    assert!(dns.asked("hooks.example") > 1, "a lost question is asked again");
}

/// DNS answers 127.0.0.1 to 127.0.3.232, and only one address has a listener.
async fn of_a_thousand(listening: &str) -> AttemptAnswer {
    let receiver = Receiver::listening(&format!("{listening}:0"), |_| OK.to_owned()).await;
    let first = u32::from(Ipv4Addr::LOCALHOST);
    let all = (first..first + 1_000).map(|ip| IpAddr::V4(ip.into())).collect();
    let dns = NameServer::always(Reply::Addresses(all)).await;
    let allowed = AllowedTargets::new(vec!["127.0.0.0/8".parse().unwrap()]).with_http();
    let names = DnsServers::Nameserver(dns.at);
    let client = OutgoingClient::new(OutgoingConfig { allowed, names, ..config() }).unwrap();
    client.send(delivery(named(&receiver))).await.answer
}

#[tokio::test]
async fn c13_only_eight_addresses_are_tried() {
    assert_eq!(of_a_thousand("127.0.0.8").await, AttemptAnswer::Status(200));
    assert_eq!(
        of_a_thousand("127.0.0.9").await,
        AttemptAnswer::NetworkError(NetworkError::Connect)
    );
}

#[tokio::test]
async fn c14_no_rebinding_reaches_a_private_listener() {
    let public = Receiver::saying(OK).await;
    let at = format!("127.0.0.2:{}", public.at.port());
    let private = Receiver::listening(&at, |_| OK.to_owned()).await;
    let turn = |_: &str, nth: usize| {
        let address = if nth.is_multiple_of(2) { "127.0.0.1" } else { "127.0.0.2" };
        Reply::Addresses(parsed(&[address]))
    };
    let dns = NameServer::start(turn).await;
    let client = client_asking(dns.at);
    for nth in 0..1_000 {
        let exchange = client.send(delivery(named(&public))).await;
        let public = if nth % 2 == 0 { AttemptAnswer::Status(200) } else { REFUSED_BY_DNS };
        assert_eq!(exchange.answer, public, "send {nth}");
    }
    assert_eq!(dns.asked("hooks.example"), 1_000, "one look-up for each send");
    assert_eq!(public.seen().len(), 500);
    assert_eq!(private.connections().await, 0);
}

#[tokio::test]
async fn c15_c21_moved_names_end_kept_connections() {
    let receiver = Receiver::saying(OK).await;
    let turned = |_: &str, nth: usize| {
        Reply::Addresses(parsed(&[if nth == 0 { "127.0.0.1" } else { "10.0.0.1" }]))
    };
    let dns = NameServer::start(turned).await;
    let client = client_asking(dns.at);
    assert_eq!(client.send(delivery(named(&receiver))).await.answer, AttemptAnswer::Status(200));
    assert_eq!(client.send(delivery(named(&receiver))).await.answer, REFUSED_BY_DNS);
    assert_eq!(receiver.seen().len(), 1);
}

/// The address is checked all the same.
#[tokio::test]
async fn c21_a_literal_address_is_not_resolved() {
    let dns = NameServer::knowing(&["127.0.0.1"]).await;
    let client = client_asking(dns.at);
    for target in ["http://127.0.0.2/", "http://2130706434/", "http://[::ffff:7f00:2]/"] {
        let exchange = client.send(delivery(target)).await;
        assert!(matches!(exchange.answer, AttemptAnswer::Refused(_)), "{target}");
        assert_eq!(exchange.answer.verdict(), AnswerVerdict::Failed);
        assert!(exchange.hops.is_empty());
    }
    let receiver = Receiver::saying(OK).await;
    assert_eq!(client.send(delivery(receiver.url("/"))).await.answer, AttemptAnswer::Status(200));
    assert_eq!(dns.asked("127.0.0.1"), 0);
}

#[tokio::test]
async fn c12_only_all_private_answers_are_proof() {
    let proven = |reply: Reply| async {
        let dns = NameServer::always(reply).await;
        let target = Target::parse("https://hooks.example/", &config().allowed).unwrap();
        client_asking(dns.at).is_proven_private(&target).await
    };
    assert!(proven(Reply::Addresses(parsed(&["10.0.0.1", "fd00::1"]))).await);
    assert!(!proven(Reply::Addresses(parsed(&["10.0.0.1", "9.9.9.9"]))).await);
    for nothing in [Reply::Addresses(Vec::new()), Reply::ServFail, Reply::NxDomain, Reply::Silence]
    {
        assert!(!proven(nothing).await);
    }
}
