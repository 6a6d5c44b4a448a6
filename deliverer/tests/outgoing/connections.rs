//! Which connections are made, kept and used: case C21 and ruling 29.

use std::time::Duration;

use deliverer::outgoing::{DnsServers, OutgoingClient, OutgoingConfig};
use domain::delivery::{AttemptAnswer, NetworkError};
use domain::subscription::AllowedTargets;
use tokio::time::Instant;

use crate::support::name_server::{NameServer, Reply, parsed};
use crate::support::receiver::{Receiver, Talk};
use crate::support::{OK, client, client_asking, config, delivery};

/// A client to which all of 127.0.0.0/8 is open.
fn client_of_all_loopback(dns: &NameServer) -> OutgoingClient {
    let allowed = AllowedTargets::new(vec!["127.0.0.0/8".parse().unwrap()]).with_http();
    let names = DnsServers::Nameserver(dns.at);
    OutgoingClient::new(OutgoingConfig { allowed, names, ..config() }).unwrap()
}

#[tokio::test]
async fn a_connection_is_kept_and_used_again() {
    let receiver = Receiver::saying(OK).await;
    let dns = NameServer::knowing(&["127.0.0.1"]).await;
    let client = client_asking(dns.at);
    let target = format!("http://hooks.example:{}/in", receiver.at.port());
    for _ in 0..10 {
        assert_eq!(client.send(delivery(&target)).await.answer, AttemptAnswer::Status(200));
    }
    assert_eq!(receiver.connections().await, 1);
    assert_eq!(dns.asked("hooks.example"), 10);
}

#[tokio::test]
async fn a_connection_serves_one_name_only() {
    let receiver = Receiver::saying(OK).await;
    let dns = NameServer::knowing(&["127.0.0.1"]).await;
    let client = client_asking(dns.at);
    for name in ["a.example", "b.example", "a.example"] {
        let target = format!("http://{name}:{}/in", receiver.at.port());
        assert_eq!(client.send(delivery(target)).await.answer, AttemptAnswer::Status(200));
    }
    assert_eq!(receiver.connections().await, 2);
}

#[tokio::test]
async fn c21_a_moved_name_is_followed() {
    let old = Receiver::saying(OK).await;
    let at = format!("127.0.0.3:{}", old.at.port());
    let new = Receiver::listening(&at, |_| OK.to_owned()).await;
    let dns = NameServer::start(|_, nth| {
        Reply::Addresses(parsed(&[if nth == 0 { "127.0.0.1" } else { "127.0.0.3" }]))
    })
    .await;
    let client = client_of_all_loopback(&dns);
    let target = format!("http://hooks.example:{}/in", old.at.port());
    for _ in 0..3 {
        assert_eq!(client.send(delivery(&target)).await.answer, AttemptAnswer::Status(200));
    }
    assert_eq!((old.seen().len(), new.seen().len()), (1, 2));
}

#[tokio::test]
async fn a_closed_address_gives_way_to_another() {
    let receiver = Receiver::listening("127.0.0.5:0", |_| OK.to_owned()).await;
    let dns = NameServer::knowing(&["127.0.0.3", "127.0.0.4", "127.0.0.5"]).await;
    let target = format!("http://hooks.example:{}/in", receiver.at.port());
    let exchange = client_of_all_loopback(&dns).send(delivery(target)).await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(200));
    assert_eq!(exchange.hops[0].address.as_deref(), Some("127.0.0.5"));
    assert_eq!(receiver.seen().len(), 1);
}

/// After it no further address is tried.
#[tokio::test]
async fn an_address_that_heard_is_the_last() {
    let broken = Receiver::scripted(|mut talk: Talk| async move {
        talk.hear().await;
    })
    .await;
    let at = format!("127.0.0.3:{}", broken.at.port());
    let spare = Receiver::listening(&at, |_| OK.to_owned()).await;
    let dns = NameServer::knowing(&["127.0.0.1", "127.0.0.3"]).await;
    let target = format!("http://hooks.example:{}/in", broken.at.port());
    let exchange = client_of_all_loopback(&dns).send(delivery(target)).await;
    assert_eq!(exchange.answer, NetworkError::Reset.into());
    assert_eq!(spare.connections().await, 0);
}

#[tokio::test]
async fn a_late_connection_leaves_a_delivery_unsent() {
    let stalls = Receiver::scripted(|mut talk: Talk| async move { talk.linger().await }).await;
    let mut request = delivery(format!("https://{}/in", stalls.at));
    request.connect_by = Some(Instant::now() + Duration::from_millis(100));
    let exchange = client().send(request).await;
    assert_eq!(exchange.answer, AttemptAnswer::NeverSent);
    assert!(!exchange.connected);
}

#[tokio::test]
async fn a_late_start_uses_no_kept_connection() {
    let receiver = Receiver::saying(OK).await;
    let client = client();
    let mut request = delivery(receiver.url("/in"));
    assert_eq!(client.send(request.clone()).await.answer, AttemptAnswer::Status(200));
    request.connect_by = Some(Instant::now());
    assert_eq!(client.send(request).await.answer, AttemptAnswer::NeverSent);
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn a_timely_connection_may_answer_late() {
    let slow = Receiver::scripted(|mut talk: Talk| async move {
        talk.hear().await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let _ = talk.say(OK).await;
    })
    .await;
    let mut request = delivery(slow.url("/in"));
    request.connect_by = Some(Instant::now() + Duration::from_secs(1));
    assert_eq!(client().send(request).await.answer, AttemptAnswer::Status(200));
}
