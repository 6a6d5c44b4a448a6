//! `GET /livez` and `GET /readyz`: asked by whoever keeps the process running; no token.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use sqlx::Connection;

use crate::error::Error;
use crate::service::Service;

/// The answer when all is well.
#[derive(Debug, Serialize)]
pub(super) struct Health {
    ok: bool,
}

/// The process answers.
pub(super) async fn live() -> Json<Health> {
    Json(Health { ok: true })
}

/// The database answers too.
pub(super) async fn ready(State(service): State<Service>) -> Result<Json<Health>, Error> {
    service.store.pool().acquire().await?.ping().await?;
    Ok(Json(Health { ok: true }))
}
