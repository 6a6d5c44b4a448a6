//! One trace leads from a call to the attempts it causes, over processes. A collector may be away.

use std::fs;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use domain::event::Traceparent;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tests::raw::exchange;
use tests::{Receiver, Reply, TestDatabase, World, submitted};

use super::collected::{AT_ONCE, collected};
use tests::process::{Served, serve, serve_with, work};
use tests::scrape::Scrape;

/// The `traceparent` of the product's own step.
const OURS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// The `traceparent` of an outsider, which asks to keep no trace.
const THEIRS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn place(text: &str) -> Traceparent {
    text.parse().unwrap()
}

/// Reports a batch of activity as a part of the trace.
async fn report(served: &Served, world: &World, batch: &str, traceparent: &str) {
    let request = format!(
        "POST /internal/v1/activity HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/cloudevents-batch+json\r\nContent-Length: {}\r\n\
         traceparent: {traceparent}\r\nConnection: close\r\n\r\n{batch}",
        world.token(),
        batch.len()
    );
    let answer = exchange(served.internal, &request).await.unwrap();
    assert_eq!(answer.0, StatusCode::ACCEPTED, "{}", answer.1);
}

/// A subscription, made at the public door.
async fn subscribe(served: &Served, key: &str, url: &str) {
    let body = json!({"trigger": "form_submitted", "target_url": url}).to_string();
    let request = format!(
        "POST /api/v1/hooks HTTP/1.1\r\nHost: test\r\nX-API-Key: {key}\r\nContent-Length: {}\r\n\
         traceparent: {THEIRS}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(served.public, &request).await.unwrap();
    assert_eq!(answer.0, StatusCode::CREATED, "{}", answer.1);
}

/// The places that events of these types carry, in their order.
async fn places(world: &World, event_type: &str) -> Vec<Option<Traceparent>> {
    let events = world.events_of_type(event_type).await;
    events.iter().map(|event| event.metadata["traceparent"].as_str().map(place)).collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// One process takes the call, and another sends the deliveries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_one_trace_spans_call_and_attempts() {
    let world = World::real_time(TestDatabase::new().await).await;
    let (firm, receiver, collector) =
        (world.firm().await, Receiver::start().await, Receiver::start().await);
    receiver.reply([Reply::status(500)]);
    let endpoint = collector.url("/");
    let folder = tempfile::tempdir().unwrap();
    let headers = folder.path().join("headers");
    fs::write(&headers, "x-collector-key=secret\n").unwrap();
    let environment = [
        AT_ONCE,
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS_FILE", headers.to_str().unwrap()),
    ];
    let served = serve_with(&world.database, &["--role", "api"], &environment).await;
    let fast = ["--role", "deliverer", "--time-scale", "100"];
    let _deliverer = work(&world.database, &fast, &environment).await;
    subscribe(&served, &firm.key, &receiver.url("/hook")).await;
    let batch = json!([submitted(&firm, world.id())]).to_string();
    report(&served, &world, &batch, OURS).await;

    let received = receiver.wait_for(2).await;
    for request in &received {
        assert_eq!(request.header("traceparent"), "", "the contract lists the headers");
    }
    let spans = collected(&collector, |spans| named(spans, "attempt").len() == 2).await;
    for request in collector.received() {
        assert_eq!(request.header("x-collector-key"), "secret");
    }
    let call = named(&spans, "POST /internal/v1/activity")[0];
    let attempts = named(&spans, "attempt");
    assert_eq!(call.parent_span_id, place(OURS).parent_id);
    for span in [call, attempts[0], attempts[1]] {
        assert_eq!(span.trace_id, place(OURS).trace_id, "{span:?}");
    }
    for attempt in &attempts {
        assert_eq!(attempt.parent_span_id, call.span_id);
    }

    let at = |span: &Span| {
        let (trace_id, parent_id) = (&span.trace_id[..], &span.span_id[..]);
        let (trace_id, parent_id) = (trace_id.try_into().unwrap(), parent_id.try_into().unwrap());
        Some(Traceparent { trace_id, parent_id, sampled: true })
    };
    assert_eq!(places(&world, "OccurrenceRecorded").await, [at(call)]);
    let tries = attempts.iter().map(|attempt| at(attempt)).collect::<Vec<_>>();
    Scrape::until(served.internal, |told| {
        told.value(r#"firmforms_backlog_deliveries{state="waiting"}"#) == 0.0
    })
    .await;
    assert_eq!(places(&world, "DeliveryAttempted").await, tries);

    let hook = named(&spans, "POST /api/v1/hooks")[0];
    assert_ne!(hook.trace_id, place(THEIRS).trace_id, "an outsider begins no trace of ours");
    assert_eq!(hook.parent_span_id, Vec::<u8>::new());
    assert_eq!(hook.links[0].trace_id, place(THEIRS).trace_id);
    assert_eq!(places(&world, "SubscriptionCreated").await, [at(hook)]);
    let (events, broken) = world.verify_log().await;
    assert_eq!((events > 5, broken), (true, vec![]), "digests cover where a trace is");
}

/// Without a collector the product's own trace goes on, and no other trace begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_product_traces_need_no_collector() {
    let world = World::real_time(TestDatabase::new().await).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let served = serve(&world.database, &[]).await;
    subscribe(&served, &firm.key, &receiver.url("/hook")).await;
    for traceparent in [OURS, "canary"] {
        let batch = json!([submitted(&firm, world.id())]).to_string();
        report(&served, &world, &batch, traceparent).await;
    }
    let sent = r#"firmforms_delivery_attempts_total{outcome="delivered",class="2xx"}"#;
    Scrape::until(served.internal, |told| told.value(sent) == 2.0).await;
    assert_eq!(places(&world, "SubscriptionCreated").await, [None]);
    for event_type in ["OccurrenceRecorded", "DeliveryAttempted"] {
        let mut kept = places(&world, event_type).await;
        kept.sort_by_key(Option::is_none);
        assert_eq!(kept, [Some(place(OURS)), None], "{event_type}");
    }
    assert_eq!(world.verify_log().await.1, Vec::<i64>::new());
}

/// One collector takes requests and never answers. The other one does not run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_a_dead_collector_delays_nothing() {
    let collector = Receiver::start().await;
    collector.hold();
    for endpoint in [collector.url(""), "http://127.0.0.1:1".to_owned()] {
        let world = World::real_time(TestDatabase::new().await).await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        world.subscribe(&firm, &receiver.url("/hook")).await;
        let flags = ["--otlp-endpoint", endpoint.as_str()];
        let mut served = serve_with(&world.database, &flags, &[AT_ONCE]).await;
        for sent in 1..=5 {
            let batch = json!([submitted(&firm, world.id())]).to_string();
            report(&served, &world, &batch, OURS).await;
            receiver.wait_for(sent).await;
        }
        let asked = Instant::now();
        kill(Pid::from_raw(served.child.id().unwrap().cast_signed()), Signal::SIGTERM).unwrap();
        assert!(served.child.wait().await.unwrap().success());
        assert!(asked.elapsed() < Duration::from_secs(8), "{endpoint}: {:?}", asked.elapsed());
    }
}
