//! The traits of `api` that the deliverer fulfils: `api` may not import it.

use std::sync::Arc;

use api::{
    AppendClaimer, ClaimedInAppend, QueueView, SampleAnswer, SampleSender, Service, TargetDns,
};
use deliverer::inspect::host_backlog;
use deliverer::outgoing::OutgoingClient;
use deliverer::send::{SampleExchange, send_sample};
use deliverer::{AppendLeaser, Dispatcher, LeasedInAppend};
use domain::delivery::signature::SignedSample;
use domain::subscription::Target;
use eventstore::{AppendError, Clock, OpenAppend, RecordedEvent};
use futures::future::BoxFuture;
use projector::receivers::HostBacklog;
use sqlx::PgPool;
use vault::responses::NewSubmission;

/// The claim in the append, for the sender of this process.
struct AppendClaims(AppendLeaser);

impl AppendClaimer for AppendClaims {
    fn queue_and_claim<'a>(
        &'a self,
        appending: OpenAppend<'a>,
        occurrences: &'a [RecordedEvent],
        submissions: &'a [NewSubmission<'a>],
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedInAppend>, AppendError>> {
        Box::pin(async move {
            let leased = self.0.queue_deliveries(appending, occurrences, submissions).await?;
            Ok(Box::new(AppendLease(leased)) as Box<dyn ClaimedInAppend>)
        })
    }
}

/// The deliveries leased in one append.
struct AppendLease(LeasedInAppend);

impl ClaimedInAppend for AppendLease {
    fn needs_worker(&self) -> bool {
        self.0.has_waiting()
    }

    fn send_claimed(self: Box<Self>) {
        self.0.send_leased();
    }

    fn note_refusal(self: Box<Self>) {
        self.0.forget_lanes();
    }
}

/// Makes the doors of this process claim for its sender in their appends.
pub fn claim_in_appends(service: &Service, dispatch: &Arc<Dispatcher>) {
    let claims = AppendClaims(AppendLeaser::new(dispatch));
    // A process has one sender, so a second call changes nothing.
    let _ = service.deliveries.append_claims.set(Box::new(claims));
}

/// Name lookups by the client that would deliver.
pub(crate) struct DnsNames(pub(crate) OutgoingClient);

impl TargetDns for DnsNames {
    fn prove_private<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, bool> {
        Box::pin(self.0.is_proven_private(target))
    }
}

/// Samples by the client that would deliver.
pub(crate) struct Samples(pub(crate) OutgoingClient, pub(crate) Clock);

impl SampleSender for Samples {
    fn send(&self, sample: SignedSample) -> BoxFuture<'_, SampleAnswer> {
        Box::pin(async move {
            let SampleExchange { exchange, text } =
                send_sample(&self.0, sample, self.1.now()).await;
            let status = exchange.answer.status();
            let error = status.is_none().then(|| exchange.answer.code());
            SampleAnswer { status, error, hops: exchange.hops, text }
        })
    }
}

/// The outbox, over the callers' connections.
pub(crate) struct OutboxView(pub(crate) PgPool);

impl QueueView for OutboxView {
    fn host_backlogs<'a>(
        &'a self,
        hosts: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<HostBacklog>, sqlx::Error>> {
        Box::pin(host_backlog::of_hosts(&self.0, hosts))
    }
}
