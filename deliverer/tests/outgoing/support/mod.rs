//! Hand-made receivers, name servers and certificates, and the client that meets them.

pub(crate) mod certificates;
pub(crate) mod name_server;
pub(crate) mod receiver;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use deliverer::outgoing::header::{HeaderMap, HeaderName, HeaderValue};
use deliverer::outgoing::{
    AttemptBudget, DnsServers, Method, OutgoingClient, OutgoingConfig, OutgoingExchange,
    OutgoingRequest,
};
use domain::subscription::AllowedTargets;

/// The body of every test delivery.
pub(crate) const BODY: &str = r#"{"event":"form_submitted"}"#;

/// The answer of a receiver that takes everything.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Long enough for anything that is to succeed, short enough for anything that is to hang.
pub(crate) fn budget() -> AttemptBudget {
    let whole = Duration::from_secs(5);
    AttemptBudget { headers: whole, dns: whole, connect: whole, body: Duration::from_millis(200) }
}

/// The budget of the tests with this limit to the headers.
pub(crate) fn headers_within(millis: u64) -> AttemptBudget {
    AttemptBudget { headers: Duration::from_millis(millis), ..budget() }
}

/// Opens 127.0.0.1 alone, so that 127.0.0.2 plays the private network.
pub(crate) fn config() -> OutgoingConfig {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let loopback = "127.0.0.1/32".parse().unwrap();
    OutgoingConfig {
        budget: budget(),
        ..OutgoingConfig::new(AllowedTargets::new(vec![loopback]).with_http())
    }
}

/// A client for receivers that are reached by address.
pub(crate) fn client() -> OutgoingClient {
    OutgoingClient::new(config()).unwrap()
}

/// A client for receivers that are reached by name.
pub(crate) fn client_asking(name_server: SocketAddr) -> OutgoingClient {
    OutgoingClient::new(OutgoingConfig { names: DnsServers::Nameserver(name_server), ..config() })
        .unwrap()
}

/// A client in a hurry.
pub(crate) fn client_within(budget: AttemptBudget) -> OutgoingClient {
    OutgoingClient::new(OutgoingConfig { budget, ..config() }).unwrap()
}

/// A delivery with the headers of the contract.
pub(crate) fn delivery(target: impl Into<String>) -> OutgoingRequest {
    OutgoingRequest {
        target: target.into(),
        method: Method::POST,
        headers: headers(&[
            ("content-type", "application/json"),
            ("x-service-event", "form_submitted"),
            ("x-service-delivery", "0b6e7c3e-0000-4000-8000-000000000001"),
            ("idempotency-key", "0b6e7c3e-0000-4000-8000-000000000001"),
            ("x-service-hook", "0b6e7c3e-0000-4000-8000-000000000002"),
            ("x-service-signature", "t=1,v1=00"),
        ]),
        body: Bytes::from_static(BODY.as_bytes()),
        connect_by: None,
    }
}

fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
    let header = |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
    all.iter().map(header).collect()
}

/// Sends a delivery by a client made for the purpose.
pub(crate) async fn send(target: impl Into<String>) -> OutgoingExchange {
    client().send(delivery(target)).await
}

/// A redirect.
pub(crate) fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
}
