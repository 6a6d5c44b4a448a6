//! The configuration of the outgoing client.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use domain::subscription::AllowedTargets;
use reqwest::header::HeaderValue;
use rustls::pki_types::CertificateDer;

/// The configuration. There is no switch that skips a check.
#[derive(Clone, Debug)]
pub struct OutgoingConfig {
    /// Targets that development and tests allow beside public https targets (ruling 20, loopback
    /// and private targets).
    pub allowed: AllowedTargets,
    /// Root certificates beside the platform's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// The name servers.
    pub names: DnsServers,
    /// The time limits of an attempt.
    pub budget: AttemptBudget,
    /// The addresses that connections leave from; any if there are none.
    pub bind: Vec<IpAddr>,
    /// The client's `User-Agent` (ruling 14c, small print).
    pub user_agent: HeaderValue,
}

impl OutgoingConfig {
    /// The configuration of `serve`, with these additional targets.
    #[must_use]
    pub fn new(allowed: AllowedTargets) -> Self {
        Self {
            allowed,
            extra_roots: Vec::new(),
            names: DnsServers::System,
            budget: AttemptBudget::default(),
            bind: Vec::new(),
            user_agent: HeaderValue::from_static(concat!("firmforms/", env!("CARGO_PKG_VERSION"))),
        }
    }
}

/// The name servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsServers {
    /// The name servers this machine is configured with.
    System,
    /// One name server.
    Nameserver(SocketAddr),
}

/// The time limits of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptBudget {
    /// From the start of DNS to the headers of the last answer, with redirects (contract, section
    /// Limits; ruling 25, delivered).
    pub headers: Duration,
    /// For one name (case C13).
    pub dns: Duration,
    /// For one connection, with TLS. An attempt has 5 s to connect (ruling 29, in flight at
    /// removal), so that there is time for a second address.
    pub connect: Duration,
    /// For the body after the headers (ruling 25, delivered).
    pub body: Duration,
}

impl Default for AttemptBudget {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(10),
            dns: Duration::from_secs(3),
            connect: Duration::from_millis(2_400),
            body: Duration::from_secs(1),
        }
    }
}
