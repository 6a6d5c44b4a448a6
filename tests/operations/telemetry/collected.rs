//! A collector of traces, and the spans it received.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tests::Receiver;

/// Traces are sent at once, and not every five seconds.
pub(crate) const AT_ONCE: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "50");

/// All spans that the collector received so far.
pub(crate) fn spans(collector: &Receiver) -> Vec<Span> {
    let sent = collector.received();
    assert!(sent.iter().all(|sent| sent.uri == "/v1/traces"), "{sent:?}");
    let batches = sent.iter().map(|sent| ExportTraceServiceRequest::decode(sent.body.clone()));
    let resources = batches.flat_map(|batch| batch.unwrap().resource_spans);
    resources.flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
}

/// Waits until the collector has received the wanted spans.
pub(crate) async fn collected(collector: &Receiver, wanted: impl Fn(&[Span]) -> bool) -> Vec<Span> {
    let looked = async {
        for batches in 1.. {
            collector.wait_for(batches).await;
            let spans = spans(collector);
            if wanted(&spans) {
                return spans;
            }
        }
        unreachable!("one of them ends it")
    };
    tokio::time::timeout(Duration::from_secs(60), looked).await.expect("it is sent")
}
