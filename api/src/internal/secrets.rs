//! `/internal/v1/firms/{firm}/webhook-secret`: the integrations screen.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use domain::time::Timestamp;
use serde::Serialize;

use super::caller::Product;
use super::path::Firm;
use crate::body::{Fields, OptionalObject};
use crate::commands::secrets::{self, RevealedSecret};
use crate::error::Error;
use crate::service::Service;

/// A webhook secret, in this door's shape.
#[derive(Serialize)]
pub(super) struct Secret {
    secret: String,
    rotated_at: Timestamp,
}

/// A secret that nobody on the way may keep.
type Answer = ([(HeaderName, &'static str); 1], Json<Secret>);

/// Shows the secret.
pub(super) async fn reveal(
    caller: Product,
    Firm(firm_id): Firm,
    State(service): State<Arc<Service>>,
) -> Result<Answer, Error> {
    Ok(shown(&secrets::reveal(&service, firm_id, caller.actor()).await?))
}

/// Makes a new secret, and shows it.
pub(super) async fn rotate(
    caller: Product,
    Firm(firm_id): Firm,
    State(service): State<Arc<Service>>,
    OptionalObject(body): OptionalObject,
) -> Result<Answer, Error> {
    let reason = reason(body)?;
    let rotated = secrets::rotate(&service, firm_id, caller.actor(), reason.as_deref()).await?;
    Ok(shown(&rotated))
}

fn reason(mut body: Fields) -> Result<Option<String>, Error> {
    let reason = body.nullable_string("reason")?;
    body.end()?;
    Ok(reason)
}

fn shown(revealed: &RevealedSecret) -> Answer {
    let secret = revealed.secret.as_str().to_owned();
    let secret = Secret { secret, rotated_at: revealed.rotated_at };
    ([(CACHE_CONTROL, "no-store")], Json(secret))
}
