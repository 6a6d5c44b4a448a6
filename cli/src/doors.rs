//! The two doors on their addresses.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use api::Service;
use api::public::Peer;
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

impl Doors {
    /// Serves both until `stop`, then finishes the calls under way.
    pub(crate) fn serve(
        self,
        service: &Service,
        tls: Option<Tls>,
        (stop, tasks): (&CancellationToken, &mut JoinSet<()>),
    ) {
        let router = api::public::router(service.clone()).layer(map_request(with_peer));
        let public = Settings { tls, ..Settings::default() };
        tasks.spawn(self.public.serve(router, public, stop.clone()));
        let router = api::internal::router(service.clone());
        tasks.spawn(self.internal.serve(router, internal(), stop.clone()));
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
