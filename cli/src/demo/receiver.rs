//! The demo's receiver, which keeps to the contract's rules for receivers. It reads the raw body,
//! verifies the signature in constant time, rejects an old `t`, answers, and keeps the delivery.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use domain::delivery::signature::{SignedRequest, verify_request};
use eventstore::Clock;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::watch;
use uuid::Uuid;

use super::trouble::TROUBLES;

/// A delivery as it arrived.
#[derive(Debug, Clone)]
pub(super) struct ArrivedDelivery {
    pub(super) firm_id: Uuid,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) genuine: bool,
    pub(super) at: Instant,
}

impl ArrivedDelivery {
    pub(super) fn header_text(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A receiver with one path per firm, `/hooks/{firm}`, and paths for troubles.
#[derive(Clone)]
pub(super) struct DemoReceiver {
    secrets: Arc<BTreeMap<Uuid, String>>,
    clock: Clock,
    arrived: Arc<Mutex<Vec<ArrivedDelivery>>>,
    count: watch::Sender<usize>,
}

impl DemoReceiver {
    pub(super) fn new(secrets: BTreeMap<Uuid, String>, clock: Clock) -> Self {
        let count = watch::Sender::new(0);
        Self { secrets: Arc::new(secrets), clock, arrived: Arc::default(), count }
    }

    pub(super) fn router(&self) -> Router {
        let troubles = TROUBLES.into_iter().fold(Router::new(), |router, (path, status)| {
            let status = StatusCode::from_u16(status).unwrap_or_default();
            router.route(&format!("/{path}/{{firm}}"), post(move || async move { status }))
        });
        troubles.route("/hooks/{firm}", post(receive_delivery)).with_state(self.clone())
    }

    pub(super) fn arrived_deliveries(&self) -> Vec<ArrivedDelivery> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn wait_for(&self, count: usize) {
        let mut seen = self.count.subscribe();
        drop(seen.wait_for(|seen| *seen >= count).await);
    }
}

async fn receive_delivery(
    State(receiver): State<DemoReceiver>,
    Path(firm_id): Path<Uuid>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let header = headers.get("x-service-signature").and_then(|value| value.to_str().ok());
    let now = receiver.clock.now().get().timestamp();
    let genuine = match (header, receiver.secrets.get(&firm_id)) {
        (Some(header), Some(secret)) => {
            verify_request(SignedRequest { header, body: &body }, secret, now).is_ok()
        }
        _ => false,
    };
    let arrived = ArrivedDelivery { firm_id, headers, body, genuine, at: Instant::now() };
    receiver.arrived.lock().unwrap_or_else(PoisonError::into_inner).push(arrived);
    receiver.count.send_modify(|count| *count += 1);
    if genuine { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED }
}

/// The signature as `openssl dgst` computes it. `None` without openssl.
pub(super) async fn openssl_signature(arrived: &ArrivedDelivery, secret: &str) -> Option<String> {
    let t = arrived.header_text("x-service-signature").strip_prefix("t=")?.split(',').next()?;
    let mut openssl = Command::new("openssl")
        .args(["dgst", "-sha256", "-hmac", secret])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = openssl.stdin.take()?;
    stdin.write_all(&[t.as_bytes(), b".", &arrived.body].concat()).await.ok()?;
    drop(stdin);
    let output = openssl.wait_with_output().await.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(format!("t={t},v1={}", text.split_whitespace().last()?))
}
