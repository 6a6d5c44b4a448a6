//! A receiver on a real socket, which answers as it is told and keeps its requests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::IntoResponse;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// Headers.
    pub headers: HeaderMap,
    /// The raw body.
    pub body: Bytes,
    /// When it had arrived.
    pub arrived: Instant,
    /// When it was answered, or its sender was gone.
    pub ended: Option<Instant>,
}

impl Received {
    /// A header's text; empty when it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// An answer to give.
#[derive(Debug, Clone)]
pub struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: &'static [u8],
}

impl Reply {
    /// A status and nothing else.
    #[must_use]
    pub fn status(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        Self { status, headers: HeaderMap::new(), body: b"" }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &'static str) -> Self {
        let name = HeaderName::from_static(name);
        self.headers.append(name, HeaderValue::from_static(value));
        self
    }

    /// Sets the body.
    #[must_use]
    pub const fn body(mut self, body: &'static [u8]) -> Self {
        self.body = body;
        self
    }
}

#[derive(Default)]
struct Script {
    replies: VecDeque<Reply>,
    received: Vec<Received>,
}

#[derive(Clone)]
struct Shared {
    script: Arc<Mutex<Script>>,
    count: watch::Sender<usize>,
    held: watch::Sender<bool>,
}

/// A receiver; answers 200 unless told otherwise.
pub struct Receiver {
    address: SocketAddr,
    shared: Shared,
}

impl Receiver {
    /// Listens on a free port of the loopback.
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1").await
    }

    /// Listens on a free port of this address, which is a host of its own.
    pub async fn start_at(host: &str) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (count, held) = (watch::Sender::new(0), watch::Sender::new(false));
        let shared = Shared { script: Arc::default(), count, held };
        let router = Router::new().fallback(receive).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, shared }
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address, with a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Answers the next requests so, one by one; 200 after that.
    pub fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.script.lock().unwrap().replies.extend(replies);
    }

    /// Answers nothing until it is released.
    pub fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    /// Answers the held requests, and the next ones.
    pub fn release(&self) {
        self.shared.held.send_replace(false);
    }

    /// Everything that arrived so far.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.shared.script.lock().unwrap().received.clone()
    }

    /// Waits until so many have arrived.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let mut seen = self.shared.count.subscribe();
        seen.wait_for(|seen| *seen >= count).await.unwrap();
        self.received()
    }
}

async fn receive(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let (reply, under_way) = {
        let mut script = shared.script.lock().unwrap();
        let place = script.received.len();
        let (arrived, ended) = (Instant::now(), None);
        script.received.push(Received { method, uri, headers, body, arrived, ended });
        let reply = script.replies.pop_front().unwrap_or_else(|| Reply::status(200));
        (reply, UnderWay { shared: shared.clone(), place })
    };
    shared.count.send_modify(|count| *count += 1);
    let mut held = shared.held.subscribe();
    held.wait_for(|held| !held).await.unwrap();
    drop(under_way);
    (reply.status, reply.headers, reply.body)
}

/// A request until it is answered, or dropped because its sender is gone.
struct UnderWay {
    shared: Shared,
    place: usize,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut script = self.shared.script.lock().unwrap();
        script.received[self.place].ended = Some(Instant::now());
    }
}
