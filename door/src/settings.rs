//! The settings of a door, with defaults for most uses.

use std::time::Duration;

use telemetry::request_id::RequestIds;

use crate::TlsCertificate;

/// The settings of a served door.
#[derive(Debug, Clone)]
pub struct DoorSettings {
    /// The name of the door in metrics.
    pub name: &'static str,
    /// The certificate; plain HTTP without one.
    pub tls: Option<TlsCertificate>,
    /// How long each wait for a caller may take.
    pub timeouts: DoorTimeouts,
    /// The most connections at once. Each needs a file descriptor, so the process's limit (`ulimit
    /// -n`) should be higher. With a lower limit the door works with the descriptors that it gets,
    /// and the rest of the process may get none.
    pub connections: usize,
    /// The most connections at once from one address (IPv6: one /64, ruling 5). Half of all seats:
    /// one machine never takes every seat, and a proxy in front still has thousands.
    pub connections_per_peer: usize,
    /// The source of request ids, for every request and every refusal (ruling 38). Without one the
    /// router names its own answers, and refusals have no id.
    pub request_ids: Option<RequestIds>,
    /// The scheme of the door's URL for callers, which a proxy in front may serve.
    pub scheme: UrlScheme,
}

/// The scheme by which callers reach a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlScheme {
    /// Clear text, at least for some callers.
    Http,
    /// TLS for all callers. Every answer tells browsers never to ask in clear text again (RFC
    /// 6797).
    Https,
}

impl UrlScheme {
    /// The scheme of a URL.
    #[must_use]
    pub fn of_url(url: &str) -> Self {
        if url.starts_with("https://") { Self::Https } else { Self::Http }
    }
}

impl Default for DoorSettings {
    fn default() -> Self {
        Self {
            name: "door",
            tls: None,
            timeouts: DoorTimeouts::default(),
            connections: 8_192,
            connections_per_peer: 4_096,
            request_ids: None,
            scheme: UrlScheme::Http,
        }
    }
}

/// The longest waits for a caller. The handlers limit the time of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorTimeouts {
    /// The TLS handshake.
    pub handshake: Duration,
    /// From the connection to the first byte of the first request (case A22: 10 s).
    pub first_byte: Duration,
    /// From the first byte of a request head to its last (case A22: 10 s).
    pub head: Duration,
    /// From an answer to the first byte of the connection's next request. Longer than proxies
    /// commonly keep theirs (60 s), so that a close never crosses a request.
    pub idle: Duration,
    /// From a request head to the head of the router's answer. A longer wait is answered with 503.
    /// Longer than the handlers' limit for a body.
    pub request: Duration,
    /// The longest delay of a caller behind the least rate of reading, once an answer has filled
    /// the system's buffer.
    pub write: Duration,
    /// From the head of an answer to its last byte, at any rate.
    pub answer: Duration,
    /// The time for a caller to go on sending after the last answer, so that the answer is not lost
    /// (RFC 9112, section 9.6). With the handlers' 12 s for a body, the sum is below the 15 s of
    /// case A22.
    pub linger: Duration,
    /// The time for requests under way after the stop.
    pub drain: Duration,
}

impl Default for DoorTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            first_byte: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            request: Duration::from_secs(60),
            write: Duration::from_secs(30),
            answer: Duration::from_secs(120),
            linger: Duration::from_secs(2),
            drain: Duration::from_secs(20),
        }
    }
}
