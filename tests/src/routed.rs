//! The public door of a world as one of two cells behind a real HAProxy (ruling 47). With
//! `FIRMFORMS_TEST_ROUTER=haproxy` every world makes its public calls so;
//! `scripts/test-through-haproxy` runs the tests of the contract.
//!
//! The server of the other cell answers calls without a key as the world does, since such calls go
//! to any cell. It fails a call that names the world's cell.

use std::net::{Ipv4Addr, SocketAddr};

use api::Service;
use api::public::PeerAddress;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, DATE, HOST};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state, map_request};
use axum::response::{IntoResponse, Response};
use domain::access::Cell;
use door::{Door, DoorSettings, SocketPeer};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use telemetry::request_id::RequestIds;
use tokio::net::TcpSocket;
use tokio_util::sync::{CancellationToken, DropGuard};
use vault::{Entropy, SystemEntropy, UNROUTED_LINK_CHARS};

use crate::haproxy::HaProxy;

/// The setting that puts worlds behind HAProxy.
const ROUTER: &str = "FIRMFORMS_TEST_ROUTER";

/// HAProxy calls the service from here.
const PROXY: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Callers without an address of their own call from here, where no trusted proxy is. No test
/// listens here.
const CALLER: Ipv4Addr = Ipv4Addr::new(127, 63, 0, 1);

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The numbers of the two cells. Two letters of base64url that no other test makes keys of.
const OWN_CELL: i64 = 41;
const OTHER_CELL: i64 = 42;

/// The cell of the worlds, if this run puts them behind HAProxy.
#[must_use]
pub(crate) fn routed_cell() -> Option<Cell> {
    let router = std::env::var(ROUTER).ok()?;
    assert_eq!(router, "haproxy", "{ROUTER} knows one router");
    Some(OWN_CELL.try_into().unwrap())
}

/// The network that HAProxy calls from.
pub(crate) fn proxy_network() -> String {
    format!("{PROXY}/32")
}

/// Two cells and the HAProxy in front of them.
pub(crate) struct RoutedDoor {
    haproxy: HaProxy,
    _stop: DropGuard,
}

impl RoutedDoor {
    /// Serves the doors of a world, and starts HAProxy in front.
    pub(crate) async fn new(service: &Service, public: Router, internal: Router) -> Self {
        let stop = CancellationToken::new();
        let public = public.layer(map_request(with_peer));
        let cell = service.settings.cell.unwrap();
        let other = public.clone().layer(from_fn_with_state(cell, refuse));
        let health = served(internal.clone(), service, &stop).await;
        let own = entry(OWN_CELL, served(public, service, &stop).await, health);
        let health = served(internal, service, &stop).await;
        let other = entry(OTHER_CELL, served(other, service, &stop).await, health);
        let haproxy = HaProxy::before(&(own + &other)).await;
        Self { haproxy: haproxy.expect("HAProxy is not installed"), _stop: stop.drop_guard() }
    }

    /// Sends a request by a connection of its own.
    pub(crate) async fn answer(
        &self,
        mut request: Request<Body>,
    ) -> (StatusCode, HeaderMap, Bytes) {
        // A request from a certain address comes by another proxy, which notes the address. HAProxy
        // notes the address of that proxy.
        let peer = request.extensions().get().map(|PeerAddress(peer)| peer.to_string());
        let from = if let Some(peer) = peer {
            request.headers_mut().append(FORWARDED_FOR, peer.parse().unwrap());
            PROXY
        } else {
            CALLER
        };
        request.headers_mut().entry(HOST).or_insert(HeaderValue::from_static("forms.test"));
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        let stream = TokioIo::new(socket.connect(self.haproxy.public).await.unwrap());
        #[expect(clippy::disallowed_methods, reason = "a caller of the service, in tests")]
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await.unwrap();
        let (mut parts, body) = response.into_parts();
        // Of the connection, and not of the answer.
        for name in [CONNECTION, DATE] {
            parts.headers.remove(name);
        }
        let bytes = to_bytes(Body::new(body), usize::MAX).await.unwrap();
        connection.abort();
        (parts.status, parts.headers, bytes)
    }
}

/// Serves a router as the service does, on any free port.
async fn served(router: Router, service: &Service, stop: &CancellationToken) -> SocketAddr {
    let door = Door::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let address = door.local_addr().unwrap();
    let clock = service.clock.clone();
    let ids = RequestIds::new(move || SystemEntropy.id_at(clock.now().get()));
    let settings = DoorSettings { request_ids: Some(ids), ..DoorSettings::default() };
    tokio::spawn(door.serve(router, settings, stop.clone()));
    address
}

fn entry(cell: i64, public: SocketAddr, internal: SocketAddr) -> String {
    let server = format!("{{ public = \"{public}\", internal = \"{internal}\" }}");
    format!("[[cells]]\ncell = {cell}\nservers = [{server}]\n")
}

/// As the service tells its public door the address of a socket.
async fn with_peer(mut request: Request) -> Request {
    if let Some(SocketPeer(address)) = request.extensions().get().copied() {
        request.extensions_mut().insert(PeerAddress(address));
    }
    request
}

/// Fails a call that names this cell, at the server of the other one.
async fn refuse(State(cell): State<Cell>, request: Request, next: Next) -> Response {
    if names(&request, cell) {
        let told = "HAProxy sent a call to the wrong cell";
        return (StatusCode::MISDIRECTED_REQUEST, told).into_response();
    }
    next.run(request).await
}

/// Whether a key, a code or cookie of the portal, or an unsubscribe link names this cell. A key at
/// another place of the call names none, nor does a link of another length.
fn names(request: &Request, cell: Cell) -> bool {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let at_start = |text: &str, before: &str| {
        let (start, secret) = text.split_at_checked(before.len())?;
        start.eq_ignore_ascii_case(before).then(|| secret.to_owned())
    };
    let inside = |text: &str, before: &str| Some(text.split_once(before)?.1.to_owned());
    let marked = [
        header("x-api-key").and_then(|key| key.strip_prefix("ffk_")).map(str::to_owned),
        header("authorization").and_then(|key| at_start(key, "bearer ffk_")),
        header("cookie").and_then(|cookie| inside(cookie, "firmforms_portal=")),
        request.uri().query().and_then(|query| inside(query, "code=")),
    ];
    let link = request.uri().path().strip_prefix("/unsubscribe/");
    let link = link.filter(|link| link.len() == UNROUTED_LINK_CHARS + 1).map(str::to_owned);
    let marked = marked.into_iter().chain([link]);
    marked.flatten().any(|secret| secret.starts_with(cell.digit()))
}
