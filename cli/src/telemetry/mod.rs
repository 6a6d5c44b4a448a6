//! Telemetry of the process: log lines on standard error, metrics, traces. The other crates count
//! and trace; only this module knows the readers.

pub(crate) mod args;
mod gather;
mod logs;
mod process_metrics;
mod traces;

use std::sync::Arc;

use args::{OtlpEndpoint, TelemetryArgs};
pub(crate) use logs::{LogFormat, last_line};
pub(crate) use process_metrics::ProcessMetrics;
use tokio_util::sync::CancellationToken;
pub(crate) use traces::TraceExporter;

use crate::args::{CliArgs, CliCommand};

/// Starts the log and the metrics with the defaults of `serve`, and keeps the metrics until `stop`.
/// Benchmarks call it to measure a service in their own process.
///
/// # Errors
///
/// If the process has a metrics recorder already.
pub fn as_served(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    logs::start(LogFormat::Text, "info", None);
    Ok(Arc::new(ProcessMetrics::begin()?).keep(stop))
}

fn exporter(telemetry: &TelemetryArgs) -> anyhow::Result<Option<TraceExporter>> {
    let headers = telemetry.headers()?;
    let endpoint = telemetry.otlp_endpoint.as_ref().and_then(OtlpEndpoint::traces);
    endpoint.map(|endpoint| TraceExporter::to(endpoint, headers)).transpose()
}

/// Starts the log, and the traces of a service with a collector.
pub(crate) fn start(arguments: &CliArgs) -> anyhow::Result<Option<TraceExporter>> {
    let traces = match &arguments.command {
        CliCommand::Serve(serve) => exporter(&serve.settings.telemetry)?,
        _ => None,
    };
    logs::start(arguments.log_format(), arguments.command.log_level(), traces.as_ref());
    Ok(traces)
}
