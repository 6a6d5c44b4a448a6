//! The two doors on their addresses.

use std::net::SocketAddr;

use anyhow::Context;
use api::Service;
use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Two doors, bound and not yet served.
pub(crate) struct Doors {
    public: TcpListener,
    internal: TcpListener,
    /// Where the public one is.
    pub(crate) public_addr: SocketAddr,
    /// Where the internal one is.
    pub(crate) internal_addr: SocketAddr,
}

/// Binds both doors.
pub(crate) async fn open(public: SocketAddr, internal: SocketAddr) -> anyhow::Result<Doors> {
    let bind = async |addr: SocketAddr| {
        let listener =
            TcpListener::bind(addr).await.with_context(|| format!("listen on {addr}"))?;
        let addr = listener.local_addr()?;
        anyhow::Ok((listener, addr))
    };
    let (public, public_addr) = bind(public).await?;
    let (internal, internal_addr) = bind(internal).await?;
    Ok(Doors { public, internal, public_addr, internal_addr })
}

impl Doors {
    /// Serves both until `stop`, then finishes the calls under way.
    pub(crate) fn serve(
        self,
        service: &Service,
        stop: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) {
        tasks.spawn(serve_one(self.public, api::public::router(service.clone()), stop.clone()));
        tasks.spawn(serve_one(self.internal, api::internal::router(service.clone()), stop.clone()));
    }
}

/// Serves one door until `stop`, then finishes the calls under way.
pub(crate) async fn serve_one(listener: TcpListener, router: Router, stop: CancellationToken) {
    let served = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "a door closed");
    }
}
