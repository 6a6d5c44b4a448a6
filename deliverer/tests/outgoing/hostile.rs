//! Receivers that would hold, flood or confuse the client: cases D3 and D12.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use deliverer::outgoing::{
    AttemptBudget, DnsServers, OutgoingClient, OutgoingConfig, OutgoingExchange,
};
use domain::delivery::{AttemptAnswer, NetworkError};
use domain::subscription::AllowedTargets;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::support::name_server::{NameServer, Reply};
use crate::support::receiver::{Receiver, Talk};
use crate::support::{OK, budget, client, client_within, config, delivery, headers_within, send};

/// The exchange with a receiver that hears the request and says these words, over and over.
async fn told(words: String, times: usize, last: &'static str) -> OutgoingExchange {
    let receiver = Receiver::scripted(move |mut talk: Talk| {
        let words = words.clone();
        async move {
            talk.hear().await;
            for _ in 0..times {
                if talk.say(&words).await.is_err() {
                    return;
                }
            }
            let _ = talk.say(last).await;
            talk.linger().await;
        }
    })
    .await;
    send(receiver.url("/in")).await
}

#[tokio::test]
async fn d3_a_hundred_thousand_continues_are_harmless() {
    let hundred = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
    let exchange = told(hundred, 1_000, "HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(204));
}

#[tokio::test]
async fn d3_oversized_headers_are_no_http() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(5_000));
    assert_eq!(told(many, 1, "").await.answer, NetworkError::Protocol.into());
    let long = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(2 * 1024 * 1024));
    assert_eq!(told(long, 1, "").await.answer, NetworkError::Protocol.into());
}

#[tokio::test]
async fn d3_dripping_headers_end_with_the_budget() {
    let receiver = Receiver::scripted(|mut talk: Talk| async move {
        talk.hear().await;
        let _ = talk.say("HTTP/1.1 200 OK\r\na: ").await;
        while talk.say("b").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    ends_late(client_within(headers_within(300)).send(delivery(receiver.url("/in")))).await;
}

#[tokio::test]
async fn d3_silence_ends_with_the_budget() {
    let receiver = Receiver::scripted(|mut talk: Talk| async move { talk.linger().await }).await;
    ends_late(client_within(headers_within(300)).send(delivery(receiver.url("/in")))).await;
}

/// Asserts that the exchange ends with a budget of 300 ms.
async fn ends_late(sending: impl Future<Output = OutgoingExchange>) {
    let start = Instant::now();
    let exchange = sending.await;
    assert_eq!(exchange.answer, NetworkError::Timeout.into());
    assert!(exchange.connected);
    assert!((300..4_000).contains(&start.elapsed().as_millis()));
}

#[tokio::test]
async fn d3_a_reset_is_a_network_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}/in", listener.local_addr().unwrap());
    let reset = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.set_zero_linger().unwrap();
    };
    let (exchange, ()) = tokio::join!(send(target), reset);
    assert_eq!(exchange.answer, NetworkError::Reset.into());
    assert!(exchange.connected);
}

#[tokio::test]
async fn d3_closed_ports_are_network_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    let exchange = send(format!("http://{at}/in")).await;
    assert_eq!(exchange.answer, NetworkError::Connect.into());
    assert!(!exchange.connected);
}

/// A listener whose queue is full: a further SYN is not answered.
async fn black_hole(at: &str) -> io::Result<(TcpListener, Vec<TcpStream>)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(at.parse().unwrap())?;
    let listener = socket.listen(1)?;
    let at = listener.local_addr()?;
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(at)).await
    {
        queued.push(stream);
    }
    Ok((listener, queued))
}

/// The SYN stays without an answer.
#[tokio::test]
async fn d3_connecting_has_a_limited_time() {
    let (listener, _queued) = black_hole("127.0.0.1:0").await.unwrap();
    let client = client_within(AttemptBudget { connect: Duration::from_millis(300), ..budget() });
    let target = format!("http://{}/in", listener.local_addr().unwrap());
    let start = Instant::now();
    let exchange = client.send(delivery(target)).await;
    assert_eq!(exchange.answer, NetworkError::Timeout.into());
    assert!(!exchange.connected);
    assert!((300..4_000).contains(&start.elapsed().as_millis()));
}

/// A claim is dropped unsent after 5 s (ruling 29). By default two addresses have time in 5 s.
#[tokio::test]
async fn a_silent_address_leaves_time_for_another() {
    // At the other address its port may be somebody else's.
    let (receiver, _hole) = loop {
        let receiver = Receiver::listening("127.0.0.2:0", |_| OK.to_owned()).await;
        if let Ok(hole) = black_hole(&format!("127.0.0.1:{}", receiver.at.port())).await {
            break (receiver, hole);
        }
    };
    let dns = NameServer::always(Reply::Addresses(
        ["127.0.0.1", "127.0.0.2"].map(|ip| ip.parse().unwrap()).to_vec(),
    ))
    .await;
    let allowed = AllowedTargets::new(vec!["127.0.0.0/8".parse().unwrap()]).with_http();
    let names = DnsServers::Nameserver(dns.at);
    let budget = AttemptBudget { connect: AttemptBudget::default().connect, ..budget() };
    let client =
        OutgoingClient::new(OutgoingConfig { allowed, names, budget, ..config() }).unwrap();
    let mut request = delivery(format!("http://hooks.example:{}/in", receiver.at.port()));
    request.connect_by = Some(tokio::time::Instant::now() + Duration::from_secs(5));
    assert_eq!(client.send(request).await.answer, AttemptAnswer::Status(200));
}

/// The answer of a receiver that answers before it has heard the request, and leaves.
async fn answered_early(body: Bytes) -> AttemptAnswer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut request = delivery(format!("http://{}/in", listener.local_addr().unwrap()));
    request.body = body;
    let answer = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_all(OK.as_bytes()).await.unwrap();
    };
    let client = client();
    let (exchange, ()) = tokio::join!(client.send(request), answer);
    exchange.answer
}

#[tokio::test]
async fn d12_an_answer_before_the_body_delivers() {
    for size in [2, 10_000, 60_000] {
        let answer = answered_early(vec![b' '; size].into()).await;
        assert_eq!(answer, AttemptAnswer::Status(200), "{size}");
    }
}

#[tokio::test]
async fn d12_an_unfinished_answer_is_a_reset() {
    for words in ["", "HTTP/1.1 200 OK\r\ncontent-le"] {
        let receiver = Receiver::scripted(move |mut talk: Talk| async move {
            talk.hear().await;
            let _ = talk.say(words).await;
            talk.stop_talking().await;
            talk.linger().await;
        })
        .await;
        assert_eq!(send(receiver.url("/in")).await.answer, NetworkError::Reset.into());
    }
}
