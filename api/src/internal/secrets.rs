//! `/internal/v1/firms/{firm}/webhook-secret`: the secret on the integrations screen.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use domain::values::Timestamp;
use serde::Serialize;

use super::caller::Product;
use super::path::PathFirm;
use crate::body::{BodyFields, OptionalJsonBody};
use crate::commands::secrets::{self, RevealedSecret};
use crate::error::Error;
use crate::service::Service;

/// A webhook secret in an answer of the internal API.
#[derive(Serialize)]
pub(super) struct SecretBody {
    secret: String,
    rotated_at: Timestamp,
}

/// A secret that no cache may keep.
type SecretAnswer = ([(HeaderName, &'static str); 1], Json<SecretBody>);

/// Shows the secret.
pub(super) async fn reveal(
    caller: Product,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
) -> Result<SecretAnswer, Error> {
    Ok(secret_answer(&secrets::reveal(&service, firm_id, caller.actor()).await?))
}

/// Makes a new secret, and shows it.
pub(super) async fn rotate(
    caller: Product,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Result<SecretAnswer, Error> {
    let reason = take_reason(body)?;
    let rotated = secrets::rotate(&service, firm_id, caller.actor(), reason.as_deref()).await?;
    Ok(secret_answer(&rotated))
}

fn take_reason(mut body: BodyFields) -> Result<Option<String>, Error> {
    let reason = body.nullable_string("reason")?;
    body.refuse_unknown()?;
    Ok(reason)
}

fn secret_answer(revealed: &RevealedSecret) -> SecretAnswer {
    let secret = revealed.secret.as_str().to_owned();
    let secret = SecretBody { secret, rotated_at: revealed.rotated_at };
    ([(CACHE_CONTROL, "no-store")], Json(secret))
}
