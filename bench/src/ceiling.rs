//! The ceiling: the same signed POSTs, sent by the service's own client, from memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use deliverer::outgoing::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use deliverer::outgoing::{Method, OutgoingClient, OutgoingConfig, OutgoingRequest};
use domain::delivery::AttemptAnswer;
use domain::delivery::signature::{WebhookSecret, sign_body};
use domain::subscription::Trigger;
use eventstore::Clock;
use tokio::task::JoinSet;
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

use crate::peer::Peer;
use crate::receiver::Tally;
use crate::service::loopback;
use crate::usage::{Cpu, Processes};

/// Fewer POSTs than these pass too fast to be measured.
const POSTS_MIN: usize = 10_000;

/// The cost of the POSTs alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ceiling {
    pub(crate) in_flight: usize,
    pub(crate) took: Duration,
    pub(crate) cpu: Cpu,
    pub(crate) arrived: Tally,
    pub(crate) posts: usize,
}

/// The POSTs to send.
pub(crate) struct Posts {
    outgoing: OutgoingClient,
    bodies: Vec<Bytes>,
    targets: Vec<(String, Uuid)>,
    secret: WebhookSecret,
    clock: Clock,
    count: usize,
}

impl Posts {
    /// As many as the deliveries of these bodies to that many subscriptions.
    pub(crate) fn new(
        bodies: Vec<Bytes>,
        subscriptions: usize,
        peer: &Peer,
    ) -> anyhow::Result<Self> {
        let count = bodies.len() * subscriptions;
        Ok(Self {
            outgoing: OutgoingClient::new(OutgoingConfig::new(loopback()?))?,
            targets: (0..subscriptions)
                .map(|number| (peer.target(number), SystemEntropy.new_id()))
                .collect(),
            secret: WebhookSecret::from_bytes(SystemEntropy.new_secret()),
            clock: Clock::standing_at("2026-10-12T09:30:00.000Z".parse()?),
            count: count.max(POSTS_MIN),
            bodies,
        })
    }

    /// Sends them, so many at a time.
    pub(crate) async fn send(
        self: &Arc<Self>,
        in_flight: usize,
        peer: &mut Peer,
    ) -> anyhow::Result<Ceiling> {
        let processes = Processes { postmaster: None, peer: peer.pid };
        self.send_all(in_flight, in_flight).await?;
        peer.reset().await?;
        let (before, started) = (processes.look()?, Instant::now());
        self.send_all(self.count, in_flight).await?;
        Ok(Ceiling {
            in_flight,
            took: started.elapsed(),
            cpu: processes.look()?.since(before),
            arrived: peer.tally().await?,
            posts: self.count,
        })
    }

    async fn send_all(self: &Arc<Self>, count: usize, in_flight: usize) -> anyhow::Result<()> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut senders = JoinSet::new();
        for _ in 0..in_flight {
            let (posts, next) = (Arc::clone(self), Arc::clone(&next));
            senders.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return anyhow::Ok(());
                    }
                    let body = posts.bodies[number % posts.bodies.len()].clone();
                    posts.post(number % posts.targets(), SystemEntropy.new_id(), body).await?;
                }
            });
        }
        while let Some(ended) = senders.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// Different bodies.
    pub(crate) fn bodies(&self) -> &[Bytes] {
        &self.bodies
    }

    /// Different targets.
    pub(crate) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Each body to each target.
    pub(crate) fn all(&self) -> usize {
        self.bodies.len() * self.targets.len()
    }

    /// Sends one body with the headers of `deliverer::send`.
    pub(crate) async fn post(
        &self,
        target: usize,
        delivery_id: Uuid,
        body: Bytes,
    ) -> anyhow::Result<()> {
        let (target, hook_id) = &self.targets[target];
        let delivery_id = HeaderValue::try_from(delivery_id.to_string())?;
        let at = self.clock.now().get().timestamp();
        let signature = sign_body(self.secret.as_str(), at, &body);
        let named = HeaderName::from_static;
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (named("x-service-event"), HeaderValue::from_static(Trigger::FormSubmitted.key())),
            (named("x-service-delivery"), delivery_id.clone()),
            (named("idempotency-key"), delivery_id),
            (named("x-service-hook"), HeaderValue::try_from(hook_id.to_string())?),
            (named("x-service-signature"), HeaderValue::try_from(signature)?),
        ]);
        let request = OutgoingRequest {
            target: target.clone(),
            method: Method::POST,
            headers,
            body,
            connect_by: Some(tokio::time::Instant::now() + Duration::from_secs(5)),
        };
        let exchange = self.outgoing.send(request).await;
        (exchange.answer == AttemptAnswer::Status(200))
            .then_some(())
            .with_context(|| format!("a POST of the ceiling: {}", exchange.answer))
    }
}
