//! Exports traces to a collector, whose address is the operator's setting. A thread of its own
//! sends in batches, and drops spans that do not fit its queue. Only the end of the process waits
//! for it, for three seconds at most.

use std::collections::HashMap;
use std::env;
use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, SpanData, SpanExporter as Exporter};
use telemetry::metrics::TRACE_SPANS;

/// The longest wait at the end of the process for unsent spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The collector of traces.
#[derive(Clone)]
pub struct TraceCollector {
    /// The URL that takes spans by OTLP over HTTP.
    pub endpoint: String,
    /// Headers of each call, such as credentials.
    pub headers: HashMap<String, String>,
}

/// The exporter of spans. Call [`Self::send_remaining`] outside the runtime: the client blocks.
pub struct TraceExporter(SdkTracerProvider);

impl TraceExporter {
    /// Sends to this collector. OpenTelemetry reads further settings from environment variables of
    /// its own.
    pub(super) fn to_collector(
        TraceCollector { endpoint, headers }: TraceCollector,
    ) -> anyhow::Result<Self> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(endpoint)
            .with_headers(headers)
            .build()
            .context("the exporter of traces")?;
        let told = env::var_os("OTEL_SERVICE_NAME").is_some();
        let resource = Resource::builder();
        let resource = if told { resource } else { resource.with_service_name("firmforms") };
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(CountedExporter { exporter, failing: AtomicBool::new(false) })
            .build();
        Ok(Self(provider))
    }

    pub(super) fn tracer(&self) -> SdkTracer {
        self.0.tracer("firmforms")
    }

    /// Sends the remaining spans, within the timeout.
    pub fn send_remaining(self) {
        if let Err(error) = self.0.shutdown_with_timeout(FLUSH_TIMEOUT) {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

/// An exporter that counts spans. It logs its first failure, and its first success after failures.
struct CountedExporter<E> {
    exporter: E,
    failing: AtomicBool,
}

impl<E> Debug for CountedExporter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("failing", &self.failing).finish_non_exhaustive()
    }
}

impl<E: Exporter> Exporter for CountedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let exported = self.exporter.export(batch).await;
        let failing = self.failing.swap(exported.is_err(), Ordering::Relaxed);
        let result = if exported.is_ok() { "sent" } else { "lost" };
        TRACE_SPANS.add(&[("result", result)], spans);
        let error = exported.as_ref().err();
        if let Some(error) = error.filter(|_| !failing) {
            tracing::warn!(%error, "traces cannot be sent: they are lost");
        } else if error.is_none() && failing {
            tracing::info!("traces are sent again");
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
