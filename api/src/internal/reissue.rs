//! `/internal/v1/firms/{firm}/deliveries/{id}/reissue`: reissues a delivery that has ended.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde::Serialize;
use uuid::Uuid;

use super::caller::Operator;
use super::path::{PathFirm, PathParamId};
use crate::body::{self, BodyLimit, json};
use crate::commands::reissue::{self, NewReissue};
use crate::error::Error;
use crate::service::Service;

/// Answer to a reissue.
#[derive(Debug, Serialize)]
pub(super) struct ReissueAnswer {
    /// The new delivery.
    id: Uuid,
    reissue_of: Uuid,
    request_id: Uuid,
}

/// Reissues a delivery. A repeated request gets the same answer.
pub(super) async fn reissue(
    caller: Operator,
    PathFirm(firm_id): PathFirm,
    delivery_id: PathParamId,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<(StatusCode, Json<ReissueAnswer>), Error> {
    let delivery_id = delivery_id.id_or(Error::DeliveryNotFound)?;
    let (parts, body) = request.into_parts();
    let mut fields =
        json::parse_object(&body::read_bytes(&parts.headers, body, BodyLimit::PUBLIC).await?)?;
    let reason = fields.string("reason")?;
    let request_id = fields.optional_id("request_id")?.unwrap_or_else(|| service.entropy.new_id());
    fields.refuse_unknown()?;
    let new = NewReissue { firm_id, delivery_id, request_id, reason };
    let id = reissue::reissue(&service, &new, caller.actor()).await?;
    Ok((StatusCode::ACCEPTED, Json(ReissueAnswer { id, reissue_of: delivery_id, request_id })))
}
