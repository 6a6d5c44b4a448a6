//! The doors of a process: bound first, served closed, opened when the service is ready.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::public::PeerAddress;
use api::{OpeningDoor, Service};
use axum::Router;
use axum::extract::Request;
use axum::middleware::map_request;
use door::{Door, DoorSettings, DoorTimeouts, TlsCertificate};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{ProcessRole, ServeArgs};
use crate::telemetry::ProcessMetrics;

/// The default address of the internal door, in a process with both doors.
const DEFAULT_INTERNAL_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// The doors of a process, bound and not yet served. A process without callers has no door, or only
/// the internal one for health and metrics.
pub(crate) struct BoundDoors {
    public: Option<Door>,
    internal: Option<Door>,
    /// URL of the public API, which its description names.
    base_url: String,
}

impl BoundDoors {
    /// Binds the doors of the role.
    pub(crate) async fn of(serve: &ServeArgs) -> anyhow::Result<Self> {
        match serve.role {
            ProcessRole::All | ProcessRole::Api => {
                let internal = serve.internal_addr.unwrap_or(DEFAULT_INTERNAL_ADDR);
                Self::bind(Some(serve.addr), Some(internal)).await
            }
            ProcessRole::Projector | ProcessRole::Deliverer => {
                Self::bind(None, serve.internal_addr).await
            }
        }
    }

    /// Binds these addresses.
    pub(crate) async fn bind(
        public: Option<SocketAddr>,
        internal: Option<SocketAddr>,
    ) -> anyhow::Result<Self> {
        let base_url = String::new();
        Ok(Self { public: bind(public).await?, internal: bind(internal).await?, base_url })
    }

    /// The doors with the URL of the public API.
    pub(crate) fn at(self, base_url: &str) -> Self {
        Self { base_url: base_url.to_owned(), ..self }
    }

    /// The address of the public door.
    pub(crate) fn public_addr(&self) -> Option<SocketAddr> {
        self.public.as_ref()?.local_addr().ok()
    }

    fn internal_addr(&self) -> Option<SocketAddr> {
        self.internal.as_ref()?.local_addr().ok()
    }

    /// Logs the addresses.
    pub(crate) fn log_addresses(&self) {
        match (self.public_addr(), self.internal_addr()) {
            (Some(public), Some(internal)) => tracing::info!(%public, %internal, "listening"),
            (None, Some(internal)) => tracing::info!(%internal, "listening"),
            (_, None) => {}
        }
    }

    /// Serves the doors until `stop`, then finishes the calls under way.
    pub(crate) fn serve(
        self,
        tls: Option<TlsCertificate>,
        metrics: Arc<ProcessMetrics>,
        stop: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) -> ServedDoors {
        let metrics = api::internal::metrics(metrics);
        let served = ServedDoors {
            public: OpeningDoor::public(&self.base_url),
            internal: OpeningDoor::internal(metrics.clone()),
            metrics,
            serves_callers: self.public.is_some(),
        };
        if let Some(door) = self.public {
            let settings = DoorSettings { tls, ..DoorSettings::default() };
            tasks.spawn(door.serve(served.public.router(), settings, stop.clone()));
        }
        if let Some(door) = self.internal {
            tasks.spawn(door.serve(served.internal.router(), internal(), stop.clone()));
        }
        served
    }
}

async fn bind(addr: Option<SocketAddr>) -> anyhow::Result<Option<Door>> {
    match addr {
        Some(addr) => {
            let door = Door::bind(addr).await.with_context(|| format!("listen on {addr}"))?;
            Ok(Some(door))
        }
        None => Ok(None),
    }
}

/// Doors that answer 503 until they are opened.
pub(crate) struct ServedDoors {
    public: OpeningDoor,
    internal: OpeningDoor,
    metrics: Router,
    serves_callers: bool,
}

impl ServedDoors {
    /// Opens the doors: calls reach the service from here on.
    pub(crate) fn open(self, service: &Service) {
        let internal = if self.serves_callers {
            self.public.open(api::public::router(service.clone()).layer(map_request(with_peer)));
            api::internal::router(service.clone())
        } else {
            api::internal::watched(service.clone())
        };
        self.internal.open(internal.merge(self.metrics));
    }
}

/// A batch of 8 MiB may take a minute to arrive, so its request may take longer than that.
fn internal() -> DoorSettings {
    let times = DoorTimeouts { request: Duration::from_secs(90), ..DoorTimeouts::default() };
    DoorSettings { timeouts: times, ..DoorSettings::default() }
}

/// Adds the socket's address to a request, as the public door's extractors need it.
async fn with_peer(mut request: Request) -> Request {
    if let Some(door::SocketPeer(address)) = request.extensions().get().copied() {
        request.extensions_mut().insert(PeerAddress(address));
    }
    request
}
