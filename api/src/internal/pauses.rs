//! `/internal/v1/pauses`: pauses of deliveries.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use domain::values::Timestamp;
use projector::hooks;
use projector::pauses::PauseRow;
use serde::Serialize;
use uuid::Uuid;

use super::ListBody;
use super::caller::{Operator, Reader};
use super::path::PathParamId;
use crate::body::{self, BodyFields, BodyLimit, OptionalJsonBody, json};
use crate::commands::pauses::{self, RequestedScope};
use crate::error::Error;
use crate::service::Service;
use crate::token_holder::TokenHolder;

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
    let fields =
        json::parse_object(&body::read_bytes(&parts.headers, body, BodyLimit::PUBLIC).await?)?;
    let (which, reason) = read_scope(fields)?;
    check_reach(&service, &caller, &which).await?;
    let row = pauses::pause(&service, &which, &reason, caller.actor()).await?;
    Ok((StatusCode::CREATED, Json(row.into())))
}

/// Lists the pauses in force.
pub(super) async fn list(
    caller: Reader,
    State(service): State<Arc<Service>>,
) -> Result<Json<ListBody<PauseBody>>, Error> {
    let rows = pauses::list(&service).await?.into_iter();
    Ok(Json(ListBody::new(rows.filter(|row| is_in_reach(caller.holder(), row)).collect())))
}

/// Ends a pause.
pub(super) async fn resume(
    caller: Operator,
    pause_id: PathParamId,
    State(service): State<Arc<Service>>,
    OptionalJsonBody(mut body): OptionalJsonBody,
) -> Result<Json<PauseBody>, Error> {
    let pause_id = pause_id.id_or(Error::PauseNotFound)?;
    let reason = body.nullable_string("reason")?;
    body.refuse_unknown()?;
    let holder = caller.holder();
    if !holder.reaches_all() {
        let mut rows = pauses::list(&service).await?.into_iter();
        let found = rows.any(|row| row.pause_id == pause_id && is_in_reach(holder, &row));
        found.then_some(()).ok_or(Error::PauseNotFound)?;
    }
    Ok(Json(pauses::resume(&service, pause_id, reason.as_deref(), caller.actor()).await?.into()))
}

/// Whether a token reaches a pause: of one of its firms, or any pause if it reaches all firms.
fn is_in_reach(holder: &TokenHolder, row: &PauseRow) -> bool {
    holder.reaches_all() || row.firm_id.is_some_and(|firm_id| holder.reaches(firm_id))
}

/// Refuses a scope that the token may not reach. A firm or a subscription looks like a missing one.
async fn check_reach(
    service: &Service,
    caller: &Operator,
    which: &RequestedScope,
) -> Result<(), Error> {
    let holder = caller.holder();
    if holder.reaches_all() {
        return Ok(());
    }
    match which {
        RequestedScope::All | RequestedScope::Host(_) => Err(Error::Forbidden),
        RequestedScope::Firm(firm_id) if holder.reaches(*firm_id) => Ok(()),
        RequestedScope::Firm(_) => Err(Error::FirmNotFound),
        RequestedScope::Hook(hook_id) => {
            let firm_id = hooks::firm_of_live(service.store.pool(), *hook_id).await?;
            let reached = firm_id.is_some_and(|firm_id| holder.reaches(firm_id));
            reached.then_some(()).ok_or(Error::NotFound)
        }
    }
}

/// Reads the scope. It must be named, so that a caller who forgets an id does not pause everything.
fn read_scope(mut fields: BodyFields) -> Result<(RequestedScope, String), Error> {
    let firm = fields.optional_id("firm_id")?.map(RequestedScope::Firm);
    let hook = fields.optional_id("hook_id")?.map(RequestedScope::Hook);
    let host = fields.nullable_string("host")?.map(RequestedScope::Host);
    let all = fields.optional_bool("all")?.filter(|all| *all).map(|_| RequestedScope::All);
    let reason = fields.string("reason")?;
    fields.refuse_unknown()?;
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
