//! A world's public door behind a real HAProxy, with the configuration that `firmforms cells haproxy`
//! prints. `scripts/test-through-haproxy` runs the contract's tests so.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs};

use api::public::PeerAddress;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, DATE, HOST};
use axum::middleware::map_request;
use axum::response::Response;
use axum::routing::get;
use chrono::DateTime;
use door::{Door, DoorSettings, SocketPeer};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use telemetry::request_id::RequestIds;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_util::sync::{CancellationToken, DropGuard};
use vault::{Entropy, SystemEntropy};

/// The number of the world's cell. The other cell of the file does not answer, so a call that is
/// routed wrongly fails.
pub(crate) const CELL: &str = "3";
const OTHER_CELL: &str = "40";

/// Whether public calls go through a router.
pub(crate) fn is_routed() -> bool {
    env::var_os("FIRMFORMS_TEST_ROUTER").is_some_and(|router| router == "haproxy")
}

/// The public door of a world, behind a router.
pub(crate) struct RoutedDoor {
    address: SocketAddr,
    _router: Child,
    _folder: TempDir,
    _stop: DropGuard,
}

impl RoutedDoor {
    pub(crate) async fn start(public: Router) -> Self {
        let stop = CancellationToken::new();
        let public = serve(public.layer(map_request(with_peer)), &stop).await;
        let health = serve(Router::new().route("/readyz", get(async || "ready")), &stop).await;
        let [address, internal, nobody, no_health] = free_addresses();
        let cell = |number: &str, public: SocketAddr, internal: SocketAddr| {
            let server = format!("{{ public = \"{public}\", internal = \"{internal}\" }}");
            format!("[[cells]]\ncell = {number}\nservers = [{server}]\n")
        };
        let plan = format!(
            "public = \"{address}\"\ninternal = \"{internal}\"\n{}{}",
            cell(CELL, public, health),
            cell(OTHER_CELL, nobody, no_health)
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, firmforms::cells::configuration(&plan).unwrap()).unwrap();
        let router = Command::new("haproxy")
            .env("PATH", "/usr/sbin:/usr/bin")
            .args(["-db", "-f"])
            .arg(&file)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let listens = async { while TcpStream::connect(address).await.is_err() {} };
        tokio::time::timeout(Duration::from_secs(60), listens).await.unwrap();
        Self { address, _router: router, _folder: folder, _stop: stop.drop_guard() }
    }

    /// Sends a request on a connection of its own.
    #[expect(clippy::disallowed_methods, reason = "the integrator's side, not the service's")]
    pub(crate) async fn ask(&self, mut request: Request) -> Response {
        let host = HeaderValue::from_static("forms.test");
        request.headers_mut().entry(HOST).or_insert(host);
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut answer = sender.send_request(request).await.unwrap().map(Body::new);
        // A server adds them to what a router answers.
        answer.headers_mut().remove(DATE);
        answer.headers_mut().remove(CONNECTION);
        answer
    }
}

async fn serve(router: Router, stop: &CancellationToken) -> SocketAddr {
    let door = Door::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let address = door.local_addr().unwrap();
    let request_ids = Some(RequestIds::new(|| SystemEntropy.id_at(DateTime::UNIX_EPOCH)));
    let settings = DoorSettings { request_ids, ..DoorSettings::default() };
    tokio::spawn(door.serve(router, settings, stop.clone()));
    address
}

/// Tells the extractors of the public door the peer of the connection, as the service does.
async fn with_peer(mut request: Request) -> Request {
    if let Some(SocketPeer(address)) = request.extensions().get().copied() {
        request.extensions_mut().insert(PeerAddress(address));
    }
    request
}

/// Addresses that nobody listens at.
fn free_addresses() -> [SocketAddr; 4] {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listeners = [bind(), bind(), bind(), bind()];
    listeners.map(|listener| listener.local_addr().unwrap())
}
