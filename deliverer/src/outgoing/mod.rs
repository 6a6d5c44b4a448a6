//! The only place in the workspace that opens outgoing HTTP
//! (docs/explanation/sending-and-limits.md).
//!
//! [`OutgoingClient::send`] is one try: the target is checked as text, its host looked up, the answers
//! vetted, one vetted address dialled, redirects followed by hand, the answer read, all against
//! one budget. What comes of it is an [`OutgoingExchange`], whatever the receiver does.
//!
//! The cast: `resolver` says which addresses may be dialled, `clients` keeps one client per origin
//! and vetted address, `leg` is one request of the chain and knows how a redirect changes it,
//! `wire` tells whether anything can have been sent, `cause` gives what broke its name,
//! `snippet` reads the little of an answer that is kept.
//!
//! A hop tells the origin of the place a receiver led to, and nothing of the target: hops go
//! into the log, and a path is text of the receiver's.
//!
//! It must not sign, retry, log a try, or know what a delivery is.

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

use domain::address::AllowedTargets;
use domain::answer::{AttemptAnswer, NetworkError};
use domain::delivery::Hop;
use domain::target::{Target, TargetHost};
pub use reqwest::Method;
use reqwest::Response;
pub use reqwest::header;
use tokio::time::Instant;

use cause::network_error;
use clients::ClientCache;
pub use config::{AttemptBudget, DnsServers, OutgoingConfig};
pub use exchange::{OutgoingExchange, OutgoingRequest};
use leg::{RedirectChain, RequestLeg, is_redirect};
use resolver::VettingResolver;
pub use snippet::SNIPPET_MAX_BYTES;
use wire::{AttemptDeadlines, SendLatch};

/// The outgoing client. Cheap to clone; clones share their connections.
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
        let clients = ClientCache::new(tls, config.budget.connect);
        Ok(Self(Arc::new(ClientParts { config, resolver, clients })))
    }

    /// Makes one try. Ends within the budget, however the receiver behaves.
    pub async fn send(&self, request: OutgoingRequest) -> OutgoingExchange {
        let parts = &*self.0;
        let clock = AttemptDeadlines {
            connect_by: request.connect_by,
            headers_by: Instant::now() + parts.config.budget.headers,
        };
        let wire = SendLatch::until(request.connect_by);
        let mut hops = Vec::new();
        let answer = {
            let work = pin!(parts.follow(request, &wire, &mut hops));
            clock.drive(&wire, work).await
        };
        match answer {
            Ok(response) => {
                OutgoingExchange::answered(response, hops, parts.config.budget.body).await
            }
            Err(answer) => OutgoingExchange::failed(answer, hops, wire.taken()),
        }
    }

    /// Whether DNS proves that the target cannot be delivered to: it answered, and every address
    /// is private. Silence and failure prove nothing (ruling 17).
    pub async fn is_proven_private(&self, target: &Target) -> bool {
        matches!(self.0.addresses(target).await, Err(NetworkError::TargetRefusedByDns))
    }
}

impl ClientParts {
    fn allowed(&self) -> &AllowedTargets {
        &self.config.allowed
    }

    async fn follow(
        &self,
        request: OutgoingRequest,
        wire: &SendLatch,
        hops: &mut Vec<Hop>,
    ) -> Result<Response, AttemptAnswer> {
        let first = RequestLeg::first(request, self.allowed(), &self.config.user_agent)?;
        let mut url = None;
        let mut chain = RedirectChain::from(first);
        loop {
            let hop = hops.push_mut(Hop { url, address: None, status: None });
            let response = self.ask(&chain.now, wire, hop).await?;
            if !is_redirect(response.status()) {
                return Ok(response);
            }
            chain.follow(response.status(), response.headers(), self.allowed())?;
            url = Some(chain.now.target.origin());
        }
    }

    /// One request: over the first connection that stands; before that nothing is sent.
    async fn ask(
        &self,
        leg: &RequestLeg,
        wire: &SendLatch,
        hop: &mut Hop,
    ) -> Result<Response, NetworkError> {
        let mut failed = NetworkError::Dns;
        for address in self.addresses(&leg.target).await? {
            hop.address = Some(address.to_string());
            match self.dial(address, leg, wire).await {
                Ok(response) => {
                    wire.take();
                    hop.status = Some(response.status().as_u16());
                    return Ok(response);
                }
                Err(error) if error.is_connect() => failed = network_error(&error),
                Err(error) => return Err(network_error(&error)),
            }
        }
        Err(failed)
    }

    async fn dial(
        &self,
        address: IpAddr,
        leg: &RequestLeg,
        wire: &SendLatch,
    ) -> reqwest::Result<Response> {
        let client = self.clients.dialling(&leg.target, address)?;
        client.execute(leg.to_send(wire)).await
    }

    /// What may be dialled for the target, in order. A resolver never sees an address written out.
    async fn addresses(&self, target: &Target) -> Result<Vec<IpAddr>, NetworkError> {
        match target.host() {
            TargetHost::Ip(ip) => Ok(vec![ip]),
            // In a box: a look-up is short, and what is sent would keep its room until the answer.
            TargetHost::Name(name) => Box::pin(self.resolver.vetted(&name, self.allowed())).await,
        }
    }
}
