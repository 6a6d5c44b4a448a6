//! Receivers as they are: most answer, some are busy, some are silent, some never get well, and
//! some are gone from the middle of the run on. Each keeps all it was sent.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use tests::invariants::Request;
use tokio::net::TcpListener;
use uuid::Uuid;

/// Longer than a delivery waits for an answer.
const SILENCE: Duration = Duration::from_secs(12);

/// The kinds of a firm's subscriptions, one for each.
pub(crate) const KINDS: [&str; 10] =
    ["well", "well", "well", "well", "well", "busy", "busy", "silent", "ill", "gone"];

/// All receivers.
pub(crate) struct Receivers {
    at: SocketAddr,
    seen: Arc<Seen>,
}

struct Seen {
    gone_from: Instant,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    requests: Vec<Request>,
    tries: HashMap<Uuid, u32>,
    answered_well: HashMap<Uuid, usize>,
}

impl Receivers {
    pub(crate) async fn start(gone_from: Instant) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let seen = Arc::new(Seen { gone_from, kept: Mutex::default() });
        let router =
            Router::new().route("/{kind}", axum::routing::post(receive)).with_state(seen.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { at, seen })
    }

    pub(super) fn url(&self, kind: &str) -> String {
        format!("http://{}/{kind}", self.at)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.lock().requests.clone()
    }

    /// Deliveries that were answered 2xx, and how often.
    pub(super) fn answered_well(&self) -> HashMap<Uuid, usize> {
        self.seen.lock().answered_well.clone()
    }

    /// When the newest request arrived.
    pub(crate) fn last_arrival(&self) -> Option<Instant> {
        self.seen.lock().requests.last().map(|request| request.arrived)
    }

    /// Deliveries that arrived.
    pub(crate) fn arrived(&self) -> HashSet<Uuid> {
        self.seen.lock().tries.keys().copied().collect()
    }
}

impl Seen {
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a request down; its place, and which one of its delivery it is.
    fn note(&self, delivery_id: Uuid, body: &[u8]) -> (usize, u32) {
        let sha256 = Sha256::digest(body).into();
        let mut kept = self.lock();
        kept.requests.push(Request { delivery_id, sha256, arrived: Instant::now(), ended: None });
        let number = kept.tries.entry(delivery_id).or_default();
        *number += 1;
        let number = *number;
        (kept.requests.len() - 1, number)
    }

    /// The answer of a kind to the attempt with this number of a delivery. `None` is silence.
    fn answer(&self, kind: &str, delivery_id: Uuid, number: u32) -> Option<StatusCode> {
        // The id is a hash: its bits are dice.
        let dice = delivery_id.as_u128() % 100;
        match kind {
            "busy" if dice < 30 && number == 1 => Some(StatusCode::SERVICE_UNAVAILABLE),
            "busy" if dice < 10 && number == 2 => Some(StatusCode::TOO_MANY_REQUESTS),
            "silent" if dice < 3 && number == 1 => None,
            "ill" if dice < 10 => Some(StatusCode::INTERNAL_SERVER_ERROR),
            "ill" if dice < 15 => Some(StatusCode::NOT_FOUND),
            "gone" if Instant::now() >= self.gone_from => Some(StatusCode::GONE),
            _ => Some(StatusCode::OK),
        }
    }
}

async fn receive(
    State(seen): State<Arc<Seen>>,
    Path(kind): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let told = headers.get("x-service-delivery").and_then(|id| id.to_str().ok()?.parse().ok());
    let Some(delivery_id) = told else { return StatusCode::BAD_REQUEST };
    let (place, number) = seen.note(delivery_id, &body);
    let under_way = UnderWay { seen: Arc::clone(&seen), place };
    let Some(status) = seen.answer(&kind, delivery_id, number) else {
        tokio::time::sleep(SILENCE).await;
        return StatusCode::OK;
    };
    if status.is_success() {
        *seen.lock().answered_well.entry(delivery_id).or_default() += 1;
    }
    drop(under_way);
    status
}

/// A request until it is answered, or dropped because its sender is gone.
struct UnderWay {
    seen: Arc<Seen>,
    place: usize,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.seen.lock().requests[self.place].ended = Some(Instant::now());
    }
}
