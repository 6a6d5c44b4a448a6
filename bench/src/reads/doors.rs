//! The two doors: the service's as `serve` opens it, and beside it the least that is behind a door,
//! one handler that answers every call with the same bytes from memory.

use std::net::{Ipv4Addr, SocketAddr};

use api::Service;
use api::public::PeerAddress;
use axum::Router;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::map_request;
use bytes::Bytes;
use door::{Door, DoorSettings};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The routes behind the service's public door.
pub(super) fn public(service: &Service) -> Router {
    api::public::router(service.clone()).layer(map_request(with_peer))
}

/// The routes behind the bare door.
pub(super) fn bare(body: Bytes) -> Router {
    let answer = move || async move { ([(CONTENT_TYPE, "application/json")], body) };
    Router::new().fallback(answer)
}

/// Opens a door on the loopback, and serves it until `stop`.
pub(crate) async fn open(
    router: Router,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> anyhow::Result<SocketAddr> {
    let door = Door::bind((Ipv4Addr::LOCALHOST, 0).into()).await?;
    let address = door.local_addr()?;
    tasks.spawn(door.serve(router, DoorSettings::default(), stop.clone()));
    Ok(address)
}

/// As `serve` does it.
async fn with_peer(mut request: Request) -> Request {
    if let Some(door::SocketPeer(address)) = request.extensions().get().copied() {
        request.extensions_mut().insert(PeerAddress(address));
    }
    request
}
