//! The addresses that connections leave from.

use std::net::{IpAddr, Ipv4Addr};

use deliverer::outgoing::{OutgoingClient, OutgoingConfig};
use domain::delivery::{AttemptAnswer, NetworkError};
use domain::subscription::AllowedTargets;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{OK, config, delivery};

fn leaving_from(bind: Vec<IpAddr>) -> OutgoingClient {
    let loopback = ["127.0.0.0/8", "::1/128"].map(|network| network.parse().unwrap());
    let allowed = AllowedTargets::new(loopback.to_vec()).with_http();
    OutgoingClient::new(OutgoingConfig { allowed, bind, ..config() }).unwrap()
}

/// Takes one request, and returns the address that it came from.
async fn take(listener: &TcpListener) -> IpAddr {
    let (mut socket, peer) = listener.accept().await.unwrap();
    let mut read = [0; 4_096];
    assert!(socket.read(&mut read).await.unwrap() > 0);
    socket.write_all(OK.as_bytes()).await.unwrap();
    peer.ip()
}

#[tokio::test]
async fn deliveries_take_turns_at_bound_addresses() {
    let bound = [3, 4].map(|last| IpAddr::from(Ipv4Addr::new(127, 0, 0, last)));
    let client = leaving_from(bound.to_vec());
    for from in bound {
        // Another receiver has a client of its own, which takes the next address.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("http://{}/in", listener.local_addr().unwrap());
        let (exchange, seen) = tokio::join!(client.send(delivery(target)), take(&listener));
        assert_eq!((exchange.answer, seen), (AttemptAnswer::Status(200), from));
    }
}

#[tokio::test]
async fn another_familys_receiver_is_not_reached() {
    let client = leaving_from(vec![Ipv4Addr::new(127, 0, 0, 3).into()]);
    let answer = client.send(delivery("http://[::1]:8443/in")).await.answer;
    assert_eq!(answer, AttemptAnswer::NetworkError(NetworkError::Connect));
}
