//! `GET /livez` and `GET /readyz`: asked by whoever keeps the process running; no token.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use sqlx::{Connection, PgPool};

use crate::error::Error;
use crate::service::{SendingMode, Service};

/// Whoever asks waits no longer than this for the database.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The answer when all is well.
#[derive(Debug, Serialize)]
pub(crate) struct HealthBody {
    ok: bool,
    /// Only of a process that sends nothing: it serves all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
}

/// Both, the same for every role of a process.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new().route("/livez", get(live)).route("/readyz", get(ready))
}

/// The process answers.
pub(crate) async fn live() -> Json<HealthBody> {
    Json(HealthBody { ok: true, paused: false })
}

/// The database answers too, and its time can be trusted.
async fn ready(State(service): State<Arc<Service>>) -> Result<Json<HealthBody>, Error> {
    answers(&service.health).await?;
    let paused = service.sending == SendingMode::Held;
    service
        .clock
        .fault()
        .map_or(Ok(Json(HealthBody { ok: true, paused })), |fault| Err(fault.into()))
}

async fn answers(pool: &PgPool) -> Result<(), Error> {
    let asked = async { pool.acquire().await?.ping().await };
    match tokio::time::timeout(ANSWER_WITHIN, asked).await {
        Ok(answered) => Ok(answered?),
        Err(late) => Err(Error::Unavailable(format!("the database: {late}"))),
    }
}
