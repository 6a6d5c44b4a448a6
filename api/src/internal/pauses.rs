//! `/internal/v1/pauses`: pauses of deliveries.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use domain::time::Timestamp;
use projector::pauses::PauseRow;
use serde::Serialize;
use uuid::Uuid;

use super::ListBody;
use super::caller::{Operator, Reader};
use super::path::PathParamId;
use crate::body::{self, BodyFields, BodyLimit, json};
use crate::commands::pauses::{self, RequestedScope};
use crate::error::Error;
use crate::service::Service;

/// A pause in an answer of the internal API.
#[derive(Debug, Serialize)]
pub(super) struct PauseBody {
    id: Uuid,
    kind: String,
    firm_id: Option<Uuid>,
    hook_id: Option<Uuid>,
    host: Option<String>,
    reason: String,
    paused_by: String,
    paused_at: Timestamp,
}

/// Begins a pause.
pub(super) async fn pause(
    caller: Operator,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<(StatusCode, Json<PauseBody>), Error> {
    let (parts, body) = request.into_parts();
    let fields = json::object(&body::read(&parts.headers, body, BodyLimit::PUBLIC).await?)?;
    let (which, reason) = read(fields)?;
    let row = pauses::pause(&service, &which, &reason, caller.actor()).await?;
    Ok((StatusCode::CREATED, Json(row.into())))
}

/// Lists the pauses in force.
pub(super) async fn list(
    _: Reader,
    State(service): State<Arc<Service>>,
) -> Result<Json<ListBody<PauseBody>>, Error> {
    Ok(Json(ListBody::of(pauses::list(&service).await?)))
}

/// Ends a pause.
pub(super) async fn resume(
    caller: Operator,
    pause_id: PathParamId,
    State(service): State<Arc<Service>>,
) -> Result<Json<PauseBody>, Error> {
    let pause_id = pause_id.or(Error::PauseNotFound)?;
    Ok(Json(pauses::resume(&service, pause_id, None, caller.actor()).await?.into()))
}

/// Reads the scope. It must be named, so that a caller who forgets an id does not pause everything.
fn read(mut fields: BodyFields) -> Result<(RequestedScope, String), Error> {
    let firm = fields.optional_id("firm_id")?.map(RequestedScope::Firm);
    let hook = fields.optional_id("hook_id")?.map(RequestedScope::Hook);
    let host = fields.nullable_string("host")?.map(RequestedScope::Host);
    let all = fields.optional_bool("all")?.filter(|all| *all).map(|_| RequestedScope::All);
    let reason = fields.string("reason")?;
    fields.end()?;
    let mut named = [firm, hook, host, all].into_iter().flatten();
    match (named.next(), named.next()) {
        (Some(which), None) => Ok((which, reason)),
        _ => Err(Error::invalid("name one: `firm_id`, `hook_id`, `host`, or `all` with true")),
    }
}

impl From<PauseRow> for PauseBody {
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
