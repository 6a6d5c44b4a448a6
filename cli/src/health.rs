//! `health`: asks a process of this machine for its health, for `HEALTHCHECK` of a container and
//! for probes. Exit code 0: ready; 1: not ready, or no answer. It opens no database.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, value_parser};
use door::{ProbedDoor, TlsPaths, probe_door};
use service::InternalAddr;

use crate::output::print_line;

/// The arguments of `health`. Settings of the internal door have the names that `serve` gives them,
/// so that one settings file serves both.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Ask whether the process lives (/livez), and not whether it is ready (/readyz).
    #[arg(long)]
    live: bool,
    /// Seconds to wait for the answer.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..=60))]
    timeout: u64,
    /// The address of the internal door.
    #[arg(long, env = "FIRMFORMS_INTERNAL_ADDR", default_value = "127.0.0.1:8081")]
    internal_addr: InternalAddr,
    /// The internal door's certificate chain. With it the door is asked over TLS.
    #[arg(long, env = "FIRMFORMS_INTERNAL_TLS_CERT", requires = "internal_tls_key")]
    internal_tls_cert: Option<PathBuf>,
    /// The private key of that certificate.
    #[arg(long, env = "FIRMFORMS_INTERNAL_TLS_KEY", requires = "internal_tls_cert")]
    internal_tls_key: Option<PathBuf>,
    /// The roots of callers' certificates. The door's own must be of these roots, too.
    #[arg(long, env = "FIRMFORMS_INTERNAL_TLS_CLIENT_CA", requires = "internal_tls_cert")]
    internal_tls_client_ca: Option<PathBuf>,
}

pub(crate) async fn run(asked: &HealthArgs) -> anyhow::Result<()> {
    let (path, good, bad) = match asked.live {
        true => ("/livez", "alive", "not alive"),
        false => ("/readyz", "ready", "not ready"),
    };
    let addr = &asked.internal_addr;
    let door = match addr {
        InternalAddr::Tcp(addr) => ProbedDoor::Tcp(*addr),
        InternalAddr::Unix(path) => ProbedDoor::Unix(path),
    };
    let tls = asked.tls_paths();
    let answered = probe_door(door, tls.as_ref(), path);
    let answered = tokio::time::timeout(Duration::from_secs(asked.timeout), answered).await;
    let status = answered
        .with_context(|| format!("{bad}: {addr} does not answer in {} s", asked.timeout))?
        .with_context(|| format!("{bad}: {addr}"))?;
    if status != 200 {
        bail!("{bad}: {addr} answers {status}");
    }
    print_line(good);
    Ok(())
}

impl HealthArgs {
    fn tls_paths(&self) -> Option<TlsPaths> {
        Some(TlsPaths {
            certificate: self.internal_tls_cert.clone()?,
            key: self.internal_tls_key.clone()?,
            client_roots: self.internal_tls_client_ca.clone(),
        })
    }
}
