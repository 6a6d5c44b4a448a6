//! What the process says while it works: lines on standard error, as text or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts it at this level; `RUST_LOG` says otherwise.
pub(crate) fn start(json: bool, level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json {
        lines.json().init();
    } else {
        lines.with_target(false).with_ansi(std::io::stderr().is_terminal()).init();
    }
}
