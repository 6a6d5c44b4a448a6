//! `/internal/v1/firms/{firm}/webhook-secret`: the integrations screen.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use domain::time::Timestamp;
use serde::Serialize;

use super::caller::Product;
use super::path::Firm;
use crate::commands::secrets;
use crate::error::Error;
use crate::service::Service;

/// A webhook secret, in this door's shape.
#[derive(Serialize)]
pub(super) struct Secret {
    secret: String,
    rotated_at: Timestamp,
}

/// Shows the secret; nobody on the way may keep it.
pub(super) async fn reveal(
    caller: Product,
    Firm(firm_id): Firm,
    State(service): State<Service>,
) -> Result<([(HeaderName, &'static str); 1], Json<Secret>), Error> {
    let revealed = secrets::reveal(&service, firm_id, caller.actor()).await?;
    let secret = revealed.secret.as_str().to_owned();
    let secret = Secret { secret, rotated_at: revealed.rotated_at };
    Ok(([(CACHE_CONTROL, "no-store")], Json(secret)))
}
