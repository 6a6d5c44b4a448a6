//! `/internal/v1/pauses`: holding deliveries, and letting them go.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use domain::time::Timestamp;
use projector::pauses::PauseRow;
use serde::Serialize;
use uuid::Uuid;

use super::List;
use super::caller::{Operator, Reader};
use super::path::PathId;
use crate::body::{self, Fields, Limit, json};
use crate::commands::pauses::{self, Which};
use crate::error::Error;
use crate::service::Service;

/// A pause, in this door's shape.
#[derive(Debug, Serialize)]
pub(super) struct Pause {
    id: Uuid,
    kind: String,
    firm_id: Option<Uuid>,
    hook_id: Option<Uuid>,
    host: Option<String>,
    reason: String,
    paused_by: String,
    paused_at: Timestamp,
}

/// Holds deliveries.
pub(super) async fn pause(
    caller: Operator,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<(StatusCode, Json<Pause>), Error> {
    let (parts, body) = request.into_parts();
    let fields = json::object(&body::read(&parts.headers, body, Limit::PUBLIC).await?)?;
    let (which, reason) = read(fields)?;
    let row = pauses::pause(&service, &which, &reason, caller.actor()).await?;
    Ok((StatusCode::CREATED, Json(row.into())))
}

/// Lists what is held.
pub(super) async fn list(
    _: Reader,
    State(service): State<Arc<Service>>,
) -> Result<Json<List<Pause>>, Error> {
    Ok(Json(List::of(pauses::list(&service).await?)))
}

/// Lets go.
pub(super) async fn resume(
    caller: Operator,
    pause_id: PathId,
    State(service): State<Arc<Service>>,
) -> Result<Json<Pause>, Error> {
    let pause_id = pause_id.or(Error::PauseNotFound)?;
    Ok(Json(pauses::resume(&service, pause_id, None, caller.actor()).await?.into()))
}

/// One thing is named: a caller that left its id out must not hold everything.
fn read(mut fields: Fields) -> Result<(Which, String), Error> {
    let firm = fields.optional_id("firm_id")?.map(Which::Firm);
    let hook = fields.optional_id("hook_id")?.map(Which::Hook);
    let host = fields.nullable_string("host")?.map(Which::Host);
    let all = fields.optional_bool("all")?.filter(|all| *all).map(|_| Which::All);
    let reason = fields.string("reason")?;
    fields.end()?;
    let mut named = [firm, hook, host, all].into_iter().flatten();
    match (named.next(), named.next()) {
        (Some(which), None) => Ok((which, reason)),
        _ => Err(Error::invalid("name one: `firm_id`, `hook_id`, `host`, or `all` with true")),
    }
}

impl From<PauseRow> for Pause {
    fn from(row: PauseRow) -> Self {
        Self {
            id: row.pause_id,
            kind: row.kind,
            firm_id: row.firm_id,
            hook_id: row.hook_id,
            host: row.host,
            reason: row.reason,
            paused_by: row.actor,
            paused_at: row.paused_at.into(),
        }
    }
}
