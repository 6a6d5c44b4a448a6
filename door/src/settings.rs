//! What can be set on a door, and what is good for most.

use std::time::Duration;

use crate::TlsCertificate;

/// How a door is served.
#[derive(Debug, Clone)]
pub struct DoorSettings {
    /// TLS, or plain HTTP.
    pub tls: Option<TlsCertificate>,
    /// How long each wait for a caller may take.
    pub timeouts: DoorTimeouts,
    /// The most connections at once. Each needs a file descriptor: the process's limit
    /// (`ulimit -n`) should be above it. If it is not, the door works with what there is.
    pub connections: usize,
    /// The most connections at once from one address (IPv6: one /64, ruling 5). Half of all, so
    /// that one machine never takes every seat, and a proxy in front of us still has thousands.
    pub connections_per_peer: usize,
}

impl Default for DoorSettings {
    fn default() -> Self {
        let times = DoorTimeouts::default();
        Self { tls: None, timeouts: times, connections: 8_192, connections_per_peer: 4_096 }
    }
}

/// How long each wait for a caller may take. How long a body may take is the handlers' business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorTimeouts {
    /// The TLS handshake.
    pub handshake: Duration,
    /// From the connection to the first byte of its first request (case A22: 10 s).
    pub first_byte: Duration,
    /// From the first byte of a head to its last (case A22: 10 s).
    pub head: Duration,
    /// From an answer to the first byte of the connection's next request.
    pub idle: Duration,
    /// From a request's head to the head of the router's answer; then 503. Longer than what the
    /// handlers give a body.
    pub request: Duration,
    /// In which a caller takes nothing of an answer that has filled the system's buffer.
    pub write: Duration,
    /// In which a caller may go on sending after the last answer of its connection, so that the
    /// answer is not lost (RFC 9112, section 9.6). With the handlers' 12 s for a body it makes
    /// less than the 15 s of case A22.
    pub linger: Duration,
    /// For requests under way at the stop.
    pub drain: Duration,
}

impl Default for DoorTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            first_byte: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            request: Duration::from_secs(60),
            write: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            drain: Duration::from_secs(20),
        }
    }
}
