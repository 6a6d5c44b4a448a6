//! Outgoing HTTP. No other code of the workspace opens it, but the exporter of traces
//! (docs/explanation/sending-and-limits.md).
//!
//! [`OutgoingClient::send`] makes one attempt, against one time budget. It checks the target as
//! text, looks up its host, vets the addresses, dials a vetted one, follows redirects and reads the
//! answer. The result is an [`OutgoingExchange`], however the receiver behaves.
//!
//! - `resolver` finds the addresses that may be dialled.
//! - `clients` keeps one client per origin and vetted address.
//! - `leg` is one request of the chain, and makes the next one after a redirect.
//! - `wire` knows whether a receiver can have seen anything of the attempt.
//! - `cause` names the cause of a failure.
//! - `snippet` reads the start of an answer.
//!
//! A hop names the origin that a redirect led to, without path and query. Hops go into the log, and
//! a path is text of the receiver's.
//!
//! An attempt that found no file descriptor says so, since that is no fault of the receiver.
//!
//! This module does not sign, retry or log an attempt, and does not know deliveries.

mod cause;
mod clients;
mod config;
mod exchange;
mod leg;
mod resolver;
mod snippet;
mod tls;
mod wire;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use domain::delivery::{AttemptAnswer, Hop, NetworkError};
use domain::subscription::{AllowedTargets, Target, TargetHost};
pub use reqwest::Method;
use reqwest::Response;
pub use reqwest::header;
use tokio::time::Instant;

use cause::{is_short_of_descriptors, is_shortage, network_error};
use clients::{ClientCache, EgressAddresses};
pub use config::{AttemptBudget, DnsServers, OutgoingConfig};
pub use exchange::{OutgoingExchange, OutgoingRequest};
use leg::{RedirectChain, RequestLeg, is_redirect};
use resolver::VettingResolver;
pub use snippet::SNIPPET_MAX_BYTES;
use wire::{AttemptDeadlines, SendLatch};

/// The outgoing client. Clones share its connections.
#[derive(Clone)]
pub struct OutgoingClient(Arc<ClientParts>);

struct ClientParts {
    config: OutgoingConfig,
    resolver: VettingResolver,
    clients: ClientCache,
}

impl OutgoingClient {
    /// Reads the platform's roots, hosts file and resolver configuration.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults.
    pub fn new(config: OutgoingConfig) -> Result<Self, rustls::Error> {
        let tls = tls::config(&config.extra_roots)?;
        let resolver = VettingResolver::new(config.names, config.budget.dns);
        let egress = EgressAddresses::new(config.bind.clone());
        let clients = ClientCache::new(tls, config.budget.connect, egress);
        Ok(Self(Arc::new(ClientParts { config, resolver, clients })))
    }

    /// Makes one attempt. It ends within the budget, however the receiver behaves.
    pub async fn send(&self, request: OutgoingRequest) -> OutgoingExchange {
        let parts = &*self.0;
        let clock = AttemptDeadlines {
            connect_by: request.connect_by,
            headers_by: Instant::now() + parts.config.budget.headers,
        };
        let wire = SendLatch::open_until(request.connect_by);
        let mut hops = Vec::new();
        let answer = {
            let work = pin!(parts.follow_redirects(request, &wire, &mut hops));
            clock.drive_work(&wire, work).await
        };
        match answer {
            Ok(response) => {
                OutgoingExchange::from_response(response, hops, parts.config.budget.body).await
            }
            Err(answer) => OutgoingExchange::from_failure(answer, hops, &wire),
        }
    }

    /// Whether DNS proves that the target cannot be delivered to: it answered, and every address is
    /// private. Silence and failure prove nothing (ruling 17, at creation).
    pub async fn is_proven_private(&self, target: &Target) -> bool {
        matches!(self.0.target_addresses(target).await, Err(NetworkError::TargetRefusedByDns))
    }
}

impl ClientParts {
    fn allowed_targets(&self) -> &AllowedTargets {
        &self.config.allowed
    }

    async fn follow_redirects(
        &self,
        request: OutgoingRequest,
        wire: &SendLatch,
        hops: &mut Vec<Hop>,
    ) -> Result<Response, AttemptAnswer> {
        let first =
            RequestLeg::first_request(request, self.allowed_targets(), &self.config.user_agent)?;
        let mut url = None;
        let mut chain = RedirectChain::from(first);
        loop {
            let hop = hops.push_mut(Hop { url, address: None, status: None });
            let response = self.send_leg(&chain.now, wire, hop).await?;
            if !is_redirect(response.status()) {
                return Ok(response);
            }
            chain.follow_redirect(response.status(), response.headers(), self.allowed_targets())?;
            url = Some(chain.now.target.origin());
        }
    }

    /// Sends one request over the first connection that stands. Nothing is sent before.
    async fn send_leg(
        &self,
        leg: &RequestLeg,
        wire: &SendLatch,
        hop: &mut Hop,
    ) -> Result<Response, NetworkError> {
        let addresses = self.addresses_of(leg, wire).await?;
        // An address that no source address reaches hides no fault of one that was dialled.
        let mut failed =
            if addresses.is_empty() { NetworkError::Dns } else { NetworkError::Connect };
        for address in addresses {
            if !self.clients.can_reach(address) {
                continue;
            }
            hop.address = Some(address.to_string());
            match self.dial_address(address, leg, wire).await {
                Ok(response) => {
                    wire.take_request();
                    hop.status = Some(response.status().as_u16());
                    return Ok(response);
                }
                Err(error) if error.is_connect() => {
                    if is_shortage(&error) {
                        self.note_shortage(wire);
                    }
                    failed = network_error(&error);
                }
                Err(error) => return Err(network_error(&error)),
            }
        }
        Err(failed)
    }

    async fn addresses_of(
        &self,
        leg: &RequestLeg,
        wire: &SendLatch,
    ) -> Result<Vec<IpAddr>, NetworkError> {
        let found = self.target_addresses(&leg.target).await;
        if found == Err(NetworkError::Dns) && is_short_of_descriptors() {
            self.note_shortage(wire);
        }
        found
    }

    /// Idle connections give their descriptors back.
    fn note_shortage(&self, wire: &SendLatch) {
        wire.note_shortage();
        self.clients.forget_all();
    }

    async fn dial_address(
        &self,
        address: IpAddr,
        leg: &RequestLeg,
        wire: &SendLatch,
    ) -> reqwest::Result<Response> {
        let client = self.clients.client_dialling(&leg.target, address)?;
        client.execute(leg.to_send(wire)).await
    }

    /// The addresses that may be dialled for the target, in order. An address in the target needs
    /// no resolver.
    async fn target_addresses(&self, target: &Target) -> Result<Vec<IpAddr>, NetworkError> {
        match target.host() {
            TargetHost::Ip(ip) => Ok(vec![ip]),
            // Boxed, because a look-up is short, and the attempt's future would keep its space
            // until the answer.
            TargetHost::Name(name) => {
                Box::pin(self.resolver.vetted_addresses(&name, self.allowed_targets())).await
            }
        }
    }
}
