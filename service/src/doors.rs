//! The doors of a process: bound first, served closed, opened when the service is ready.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use api::public::PeerAddress;
use api::{OpeningDoor, Service};
use axum::Router;
use axum::extract::Request;
use axum::middleware::map_request;
use door::{Door, DoorSettings};
use telemetry::request_id::RequestIds;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use vault::{Entropy, SystemEntropy};

use crate::door_pair::DoorPair;
use crate::internal_addr::InternalAddr;
use crate::telemetry::ProcessMetrics;

/// The addresses of a process's doors. A process without callers has no door, or only the internal
/// one for health and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoorAddresses {
    /// The public door.
    pub public: Option<SocketAddr>,
    /// The internal door.
    pub internal: Option<InternalAddr>,
}

/// The doors of a process, bound and not yet served.
pub struct BoundDoors {
    public: Option<Door>,
    internal: Option<InternalDoor>,
}

struct InternalDoor {
    door: Door,
    /// The address, with the port that the system chose.
    addr: InternalAddr,
}

impl BoundDoors {
    /// Binds these addresses.
    ///
    /// # Errors
    ///
    /// Names the address that cannot be bound.
    pub async fn bind(addresses: &DoorAddresses) -> anyhow::Result<Self> {
        let public = match addresses.public {
            Some(addr) => Some(bind_address(addr).await?),
            None => None,
        };
        let internal = match &addresses.internal {
            Some(addr) => Some(InternalDoor::bind(addr).await?),
            None => None,
        };
        Ok(Self { public, internal })
    }

    /// The address of the public door.
    #[must_use]
    pub fn public_addr(&self) -> Option<SocketAddr> {
        self.public.as_ref()?.local_addr().ok()
    }

    /// The address of the console on the internal door.
    #[must_use]
    pub fn console_url(&self) -> String {
        let addr = self.internal.as_ref().map(|internal| internal.addr.to_string());
        format!("http://{}/console", addr.unwrap_or_default())
    }

    /// Logs the addresses.
    pub(crate) fn log_addresses(&self) {
        match (self.public_addr(), self.internal.as_ref().map(|internal| &internal.addr)) {
            (Some(public), Some(internal)) => tracing::info!(%public, %internal, "listening"),
            (None, Some(internal)) => tracing::info!(%internal, "listening"),
            (_, None) => {}
        }
    }

    /// Serves the doors until `stop`, then finishes the calls under way.
    pub fn serve(
        self,
        settings: DoorPair,
        metrics: Arc<ProcessMetrics>,
        stop: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) -> ServedDoors {
        let metrics = api::internal::metrics_router(metrics, request_ids());
        let served = ServedDoors {
            public: OpeningDoor::public(&settings.base_url, &settings.egress, request_ids()),
            internal: OpeningDoor::internal(metrics.clone(), request_ids()),
            metrics,
            serves_callers: self.public.is_some(),
        };
        if let Some(door) = self.public {
            let settings = DoorSettings { request_ids: Some(request_ids()), ..settings.public };
            tasks.spawn(door.serve(served.public.router(), settings, stop.clone()));
        }
        if let Some(InternalDoor { door, .. }) = self.internal {
            let settings = DoorSettings { request_ids: Some(request_ids()), ..settings.internal };
            tasks.spawn(door.serve(served.internal.router(), settings, stop.clone()));
        }
        served
    }
}

impl InternalDoor {
    async fn bind(addr: &InternalAddr) -> anyhow::Result<Self> {
        let (door, addr) = match addr {
            InternalAddr::Tcp(addr) => {
                let door = bind_address(*addr).await?;
                let bound = door.local_addr()?;
                (door, InternalAddr::Tcp(bound))
            }
            InternalAddr::Unix(path) => {
                let named = || format!("listen on {addr}");
                (Door::bind_unix(path).with_context(named)?, addr.clone())
            }
        };
        Ok(Self { door, addr })
    }
}

async fn bind_address(addr: SocketAddr) -> anyhow::Result<Door> {
    Door::bind(addr).await.with_context(|| format!("listen on {addr}"))
}

/// Doors that answer 503 until they are opened.
pub struct ServedDoors {
    public: OpeningDoor,
    internal: OpeningDoor,
    metrics: Router,
    serves_callers: bool,
}

impl ServedDoors {
    /// Opens the doors: calls reach the service from here on.
    pub fn route_to(self, service: &Service) {
        let internal = if self.serves_callers {
            let public =
                api::public::router(service.clone()).merge(console::portal(service.clone()));
            self.public.open(public.layer(map_request(with_peer)));
            let internal = api::internal::router(service.clone());
            internal.merge(console::router(service.clone())).layer(map_request(with_peer))
        } else {
            api::internal::health_router(service.clone())
        };
        self.internal.open(internal.merge(self.metrics));
    }
}

/// The source of request ids. A door names calls before the database's clock is there. The time in
/// an id only sorts log lines.
fn request_ids() -> RequestIds {
    #[expect(clippy::disallowed_methods, reason = "the time decides nothing: see above")]
    RequestIds::new(|| SystemEntropy.id_at(chrono::Utc::now()))
}

/// Adds the socket's address to a request, which limits on callers without a key count by.
async fn with_peer(mut request: Request) -> Request {
    if let Some(door::SocketPeer(address)) = request.extensions().get().copied() {
        request.extensions_mut().insert(PeerAddress(address));
    }
    request
}
