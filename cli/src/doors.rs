//! The two doors on their addresses.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use api::public::Peer;
use api::{Opening, Service};
use axum::extract::Request;
use axum::middleware::map_request;
use door::{Door, Settings, Times, Tls};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Two doors, bound and not yet served.
pub(crate) struct Doors {
    public: Door,
    internal: Door,
    /// Where the public one is.
    pub(crate) public_addr: SocketAddr,
    /// Where the internal one is.
    pub(crate) internal_addr: SocketAddr,
}

/// Binds both doors.
pub(crate) async fn open(public: SocketAddr, internal: SocketAddr) -> anyhow::Result<Doors> {
    let bind = async |addr: SocketAddr| {
        Door::bind(addr).await.with_context(|| format!("listen on {addr}"))
    };
    let (public, internal) = (bind(public).await?, bind(internal).await?);
    let (public_addr, internal_addr) = (public.local_addr()?, internal.local_addr()?);
    Ok(Doors { public, internal, public_addr, internal_addr })
}

/// Two doors that are served, and answer 503 until they are opened.
pub(crate) struct Served {
    public: Opening,
    internal: Opening,
}

impl Served {
    /// Lets callers through to the service.
    pub(crate) fn open(&self, service: &Service) {
        self.public.open(api::public::router(service.clone()).layer(map_request(with_peer)));
        self.internal.open(api::internal::router(service.clone()));
    }
}

impl Doors {
    /// Serves both until `stop`, then finishes the calls under way.
    pub(crate) fn serve(
        self,
        tls: Option<Tls>,
        (stop, tasks): (&CancellationToken, &mut JoinSet<()>),
    ) -> Served {
        let served = Served { public: Opening::public(), internal: Opening::internal() };
        let public = Settings { tls, ..Settings::default() };
        tasks.spawn(self.public.serve(served.public.router(), public, stop.clone()));
        tasks.spawn(self.internal.serve(served.internal.router(), internal(), stop.clone()));
        served
    }
}

/// A batch of 8 MiB may take a minute to arrive: its request takes longer than that.
fn internal() -> Settings {
    let times = Times { request: Duration::from_secs(90), ..Times::default() };
    Settings { times, ..Settings::default() }
}

/// The socket's address, as the public door asks for it.
async fn with_peer(mut request: Request) -> Request {
    if let Some(door::Peer(address)) = request.extensions().get().copied() {
        request.extensions_mut().insert(Peer(address));
    }
    request
}
