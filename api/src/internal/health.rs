//! `GET /livez` and `GET /readyz`: health, for the process supervisor, without a token.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use eventstore::log_tail::{self, LostTail};
use serde::Serialize;
use sqlx::PgPool;

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
async fn ready(State(service): State<Arc<Service>>) -> Result<Json<HealthBody>, Error> {
    if let Some(lost) = lost_tails(&service.health).await?.first() {
        return Err(Error::LogShortened(lost.from_position));
    }
    let paused = service.sending == SendingMode::Held;
    service
        .clock
        .fault()
        .map_or(Ok(Json(HealthBody { ok: true, paused })), |fault| Err(fault.into()))
}

async fn lost_tails(pool: &PgPool) -> Result<Vec<LostTail>, Error> {
    let asked = async { log_tail::unacknowledged(&mut *pool.acquire().await?).await };
    match tokio::time::timeout(ANSWER_WITHIN, asked).await {
        Ok(answered) => Ok(answered?),
        Err(late) => Err(Error::Unavailable(format!("the database: {late}"))),
    }
}
