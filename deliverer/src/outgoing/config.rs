//! What the outgoing client is told at birth.

use std::net::SocketAddr;
use std::time::Duration;

use domain::address::AllowedTargets;
use reqwest::header::HeaderValue;
use rustls::pki_types::CertificateDer;

/// Everything the client can be told. There is no switch that skips a check.
#[derive(Clone, Debug)]
pub struct OutgoingConfig {
    /// What development and tests open beside public https targets (ruling 20).
    pub allowed: AllowedTargets,
    /// Roots beside the platform's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Who answers for names.
    pub names: DnsServers,
    /// How long each part of a try may take.
    pub budget: AttemptBudget,
    /// How the client introduces itself (ruling 14c).
    pub user_agent: HeaderValue,
}

impl OutgoingConfig {
    /// As `serve` runs it, opening what the setting opens.
    #[must_use]
    pub fn new(allowed: AllowedTargets) -> Self {
        Self {
            allowed,
            extra_roots: Vec::new(),
            names: DnsServers::System,
            budget: AttemptBudget::default(),
            user_agent: HeaderValue::from_static(concat!("firmforms/", env!("CARGO_PKG_VERSION"))),
        }
    }
}

/// Who answers for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsServers {
    /// The name servers this machine is configured with.
    System,
    /// One name server.
    Nameserver(SocketAddr),
}

/// How long each part of a try may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptBudget {
    /// From the start of DNS to the headers of the last answer, redirects included
    /// (contract, section Limits; ruling 25).
    pub headers: Duration,
    /// For one look-up (case C13).
    pub dns: Duration,
    /// For one connection, TLS included: a claim is connected within 5 s or dropped (ruling 29), so
    /// that there is time for a second address.
    pub connect: Duration,
    /// For the body after the headers (ruling 25).
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
