//! What the process tells while it works: lines on standard error, figures, traces. The rooms count and
//! trace; here alone is known who reads it.

pub(crate) mod args;
mod figures;
mod gather;
mod logs;
mod traces;

use std::sync::Arc;

use args::OtlpEndpoint;
pub(crate) use figures::ProcessMetrics;
pub(crate) use logs::last_line;
use tokio_util::sync::CancellationToken;
pub(crate) use traces::TraceExporter;

use crate::args::{CliArgs, CliCommand};

/// Starts the log and the figures as `serve` has them when it is told nothing about them, and keeps the
/// figures until `stop`: for what measures a service in its own process.
///
/// # Errors
/// If the process has figures already.
pub fn as_served(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    logs::start(false, "info", None);
    Ok(Arc::new(ProcessMetrics::begin()?).keep(stop))
}

/// Starts the log, and the traces of a service that is told where they go.
pub(crate) fn start(arguments: &CliArgs) -> anyhow::Result<Option<TraceExporter>> {
    let endpoint = match &arguments.command {
        CliCommand::Serve(serve) => {
            serve.telemetry.otlp_endpoint.as_ref().and_then(OtlpEndpoint::traces)
        }
        _ => None,
    };
    let traces = endpoint.map(TraceExporter::to).transpose()?;
    logs::start(arguments.log_json, arguments.command.log_level(), traces.as_ref());
    Ok(traces)
}
