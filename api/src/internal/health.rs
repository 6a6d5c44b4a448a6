//! `GET /livez` and `GET /readyz`: health, for the process supervisor, without a token. A caller
//! with a token is told why a process is not ready.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use eventstore::log_tail::{self, LostTail};
use eventstore::outage;
use serde::Serialize;
use sqlx::PgPool;

use super::caller::bearer;
use crate::batching::token_cache;
use crate::error::Error;
use crate::service::{SendingMode, Service};

/// Longest wait for the database.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Answer of a healthy process.
#[derive(Debug, Serialize)]
pub(crate) struct HealthBody {
    ok: bool,
    /// Whether the process sends nothing. It serves all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
}

/// Both routes, which every role of a process has.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new().route("/livez", get(live)).route("/readyz", get(ready))
}

/// Answers as long as the process runs.
pub(crate) async fn live() -> Json<HealthBody> {
    Json(HealthBody { ok: true, paused: false })
}

/// Answers if the database answers, has lost nothing, and the clock can be trusted.
async fn ready(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
) -> Result<Json<HealthBody>, NotReady> {
    match check(&service).await {
        Ok(health) => Ok(Json(health)),
        Err(error) => {
            let is_told = match bearer(&headers) {
                Some(token) => token_cache::was_active(&service, token).await,
                None => false,
            };
            Err(NotReady { reason: reason(&error).filter(|_| is_told), error })
        }
    }
}

async fn check(service: &Service) -> Result<HealthBody, Error> {
    if let Some(lost) = lost_tails(&service.health).await?.first() {
        return Err(Error::LogShortened(lost.from_position));
    }
    let paused = service.sending == SendingMode::Held;
    service.clock.fault().map_or(Ok(HealthBody { ok: true, paused }), |fault| Err(fault.into()))
}

/// The answer of a process that is not ready.
struct NotReady {
    error: Error,
    reason: Option<String>,
}

impl IntoResponse for NotReady {
    fn into_response(self) -> Response {
        self.error.answer(self.reason)
    }
}

/// The reason that the sentence of an error does not tell.
fn reason(error: &Error) -> Option<String> {
    let Error::Unavailable(detail) = error else { return None };
    let outages = outage::known();
    Some(if outages.is_empty() { detail.clone() } else { outages.join("; ") })
}

async fn lost_tails(pool: &PgPool) -> Result<Vec<LostTail>, Error> {
    let asked = async { log_tail::unacknowledged(&mut *pool.acquire().await?).await };
    match tokio::time::timeout(ANSWER_WITHIN, asked).await {
        Ok(answered) => Ok(answered?),
        Err(late) => Err(Error::Unavailable(format!("the database: {late}"))),
    }
}
