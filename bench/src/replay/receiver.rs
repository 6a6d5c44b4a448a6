//! A receiver that refuses for good until it is told to answer well. It keeps the delivery, the
//! hash of the bytes and the time of each request.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use uuid::Uuid;

/// The running receiver.
#[derive(Clone)]
pub(super) struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    well: AtomicBool,
    kept: Mutex<Kept>,
}

/// The facts about all requests.
#[derive(Default)]
pub(super) struct Kept {
    /// The hashes of the bodies of each delivery. More than one would be a defect.
    pub(super) hashes: HashMap<Uuid, HashSet<[u8; 32]>>,
    /// How often each was answered well.
    pub(super) well: HashMap<Uuid, u32>,
    /// When these were.
    pub(super) arrivals: Vec<Instant>,
}

impl Receiver {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::<Shared>::default();
        let router = Router::new().fallback(receive).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, shared })
    }

    pub(super) fn target(&self, hook: usize) -> String {
        format!("http://{}/hooks/{hook}", self.address)
    }

    /// From here on everything is answered 200.
    pub(super) fn recover(&self) {
        self.shared.well.store(true, Ordering::SeqCst);
    }

    /// How many requests were answered well.
    pub(super) fn arrived(&self) -> usize {
        self.look(|kept| kept.arrivals.len())
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Kept) -> T) -> T {
        look(&self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let id = headers.get("x-service-delivery").and_then(|value| value.to_str().ok()?.parse().ok());
    let Some(id) = id else {
        return StatusCode::BAD_REQUEST;
    };
    let well = shared.well.load(Ordering::SeqCst);
    let mut kept = shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.hashes.entry(id).or_default().insert(Sha256::digest(&body).into());
    if !well {
        return StatusCode::NOT_FOUND;
    }
    *kept.well.entry(id).or_default() += 1;
    kept.arrivals.push(Instant::now());
    StatusCode::OK
}
