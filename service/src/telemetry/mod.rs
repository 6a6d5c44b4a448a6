//! Telemetry of the process: log lines on standard error, metrics, traces. The other crates count
//! and trace; only this module knows the readers.

mod gather;
mod logs;
mod process_metrics;
mod traces;

use std::io::{IsTerminal, stderr};
use std::sync::Arc;

pub use logs::{LogColour, LogFormat, LogSettings, last_line};
pub use process_metrics::ProcessMetrics;
use tokio_util::sync::CancellationToken;
pub use traces::{TraceCollector, TraceExporter};

/// Starts the log, and the traces of a service with a collector.
///
/// # Errors
///
/// If the exporter of traces cannot be made.
pub fn start(
    log: LogSettings,
    collector: Option<TraceCollector>,
) -> anyhow::Result<Option<TraceExporter>> {
    let traces = collector.map(TraceExporter::to_collector).transpose()?;
    logs::start(log, traces.as_ref());
    Ok(traces)
}

/// Starts the log and the metrics with the defaults of `serve`, and keeps the metrics until `stop`.
/// Benchmarks call it to measure a service in their own process.
///
/// # Errors
///
/// If the process has a metrics recorder already.
pub fn as_served(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    let colour = if stderr().is_terminal() { LogColour::Coloured } else { LogColour::Plain };
    logs::start(LogSettings { format: LogFormat::Text, level: "info", colour }, None);
    Ok(Arc::new(ProcessMetrics::install_recorder()?).run_upkeep(stop))
}
