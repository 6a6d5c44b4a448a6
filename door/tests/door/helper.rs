//! Parts that the tests share: a door with a small router behind it, and callers that write bytes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use door::{Door, DoorSettings, DoorTimeouts, SocketPeer};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Length of a wait whose end a test wants to see.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

pub(crate) const HELLO: &str = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";

/// A door that is served.
pub(crate) struct Served {
    pub(crate) addr: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
    /// Has a permit for every call of `/wait` that has begun.
    pub(crate) begun: Arc<Semaphore>,
    /// Each permit lets a call of `/wait` end.
    pub(crate) go_on: Arc<Semaphore>,
}

pub(crate) fn with_times(times: DoorTimeouts) -> DoorSettings {
    DoorSettings { timeouts: times, ..DoorSettings::default() }
}

pub(crate) async fn serve(settings: DoorSettings) -> Served {
    serve_also(Router::new(), settings).await
}

pub(crate) async fn serve_also(more: Router, settings: DoorSettings) -> Served {
    let door = Door::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let addr = door.local_addr().unwrap();
    let stop = CancellationToken::new();
    let (begun, go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let router = router(Arc::clone(&begun), Arc::clone(&go_on)).merge(more);
    let task = tokio::spawn(door.serve(router, settings, stop.clone()));
    Served { addr, stop, task, begun, go_on }
}

fn router(begun: Arc<Semaphore>, go_on: Arc<Semaphore>) -> Router {
    let wait = async move || {
        begun.add_permits(1);
        go_on.acquire().await.unwrap().forget();
        "waited"
    };
    Router::new()
        .route("/hello", get(async || "hello"))
        .route(
            "/peer",
            get(async |Extension(SocketPeer(peer)): Extension<SocketPeer>| peer.to_string()),
        )
        .route("/wait", get(wait))
        .route("/echo", post(echo))
        .route("/early", post(early))
}

/// Answers like the handlers of the service: a body that breaks off is the caller's mistake.
async fn echo(request: Request) -> Response {
    match to_bytes(request.into_body(), 64 << 20).await {
        Ok(bytes) => Body::from(bytes).into_response(),
        Err(_) => (StatusCode::BAD_REQUEST, "cut short").into_response(),
    }
}

/// Answers before the body is read.
async fn early() -> Response {
    (StatusCode::PAYLOAD_TOO_LARGE, [(CONNECTION, "close")], "too large").into_response()
}

impl Served {
    pub(crate) async fn caller(&self) -> Caller<TcpStream> {
        Caller(TcpStream::connect(self.addr).await.unwrap())
    }

    /// Asserts that a new caller is answered.
    pub(crate) async fn assert_answers(&self) {
        let mut caller = self.caller().await;
        caller.send(HELLO).await;
        caller.answer().await.assert_is(200, "hello");
    }

    pub(crate) async fn ended(self) {
        patiently(self.task).await.unwrap();
    }
}

/// Something that must happen.
pub(crate) async fn patiently<T>(happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, happens).await.expect("it did not happen")
}

/// The caller, at the other end.
pub(crate) struct Caller<S>(pub(crate) S);

impl<S: AsyncRead + AsyncWrite + Unpin> Caller<S> {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        patiently(self.0.write_all(bytes.as_ref())).await.unwrap();
        patiently(self.0.flush()).await.unwrap();
    }

    /// The next answer. It must have a length.
    pub(crate) async fn answer(&mut self) -> Answer {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            bytes.push(patiently(self.0.read_u8()).await.unwrap());
        }
        let head = String::from_utf8(bytes).unwrap();
        let mut answer = Answer { head, body: Vec::new() };
        let length = answer.header("content-length").unwrap().parse().unwrap();
        answer.body.resize(length, 0);
        patiently(self.0.read_exact(&mut answer.body)).await.unwrap();
        answer
    }

    /// The door closes, properly, and says nothing more.
    pub(crate) async fn assert_closed(&mut self) {
        let mut rest = Vec::new();
        patiently(self.0.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    head: String,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.split("\r\n").filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub(crate) fn body(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn assert_is(&self, status: u16, body: &str) {
        assert_eq!((self.status(), self.body()), (status, body), "{self:?}");
    }

    /// An error of the door's own, after which it closes.
    pub(crate) fn assert_refusal(&self, status: u16) {
        self.assert_error(status, "invalid_request");
        assert_eq!(self.header("connection"), Some("close"), "{self:?}");
    }

    pub(crate) fn assert_error(&self, status: u16, code: &str) {
        assert_eq!(self.status(), status, "{self:?}");
        assert_eq!(self.header(CONTENT_TYPE.as_str()), Some("application/json"), "{self:?}");
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"), "{self:?}");
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(body["code"], code, "{self:?}");
        assert!(body["error"].as_str().is_some_and(|sentence| sentence.contains(' ')), "{self:?}");
        assert_eq!(body.as_object().map(serde_json::Map::len), Some(2), "{self:?}");
    }
}
