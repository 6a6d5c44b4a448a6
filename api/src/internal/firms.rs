//! `/internal/v1/firms`: firms, with their members and forms.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use domain::values::Timestamp;
use projector::firms::FirmRow;
use projector::forms::FormRow;
use projector::members::MemberRow;
use serde::Serialize;
use uuid::Uuid;

use super::ListBody;
use super::caller::Viewer;
use super::path::PathFirm;
use super::query::QueryFields;
use crate::error::Error;
use crate::queries::inventory::{self, PageRequest};
use crate::service::Service;

/// A firm in an answer of the internal API.
#[derive(Debug, Serialize)]
pub(super) struct FirmBody {
    id: Uuid,
    name: String,
    status: String,
}

/// A member in an answer of the internal API.
#[derive(Debug, Serialize)]
pub(super) struct MemberBody {
    id: Uuid,
    role: Option<String>,
    active: bool,
    active_keys: i64,
}

/// A form in an answer of the internal API.
#[derive(Debug, Serialize)]
pub(super) struct FirmForm {
    id: Uuid,
    title: String,
    slug: String,
    url: String,
    status: String,
    created_at: Timestamp,
}

/// Lists firms by name.
pub(super) async fn list(
    viewer: Viewer,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Json<ListBody<FirmBody>>, Error> {
    let page = PageRequest { after: query.id("after")?, limit: query.limit()? };
    query.refuse_unknown()?;
    Ok(Json(inventory::firms(&service, viewer.holder().reached_firms(), page).await?.into()))
}

/// Lists a firm's members, former ones too.
pub(super) async fn members(
    _: Viewer,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
) -> Result<Json<ListBody<MemberBody>>, Error> {
    Ok(Json(ListBody::new(inventory::members(&service, firm_id).await?)))
}

/// Lists a firm's forms.
pub(super) async fn forms(
    _: Viewer,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
) -> Result<Json<ListBody<FirmForm>>, Error> {
    Ok(Json(ListBody::new(inventory::forms(&service, firm_id).await?)))
}

impl From<FirmRow> for FirmBody {
    fn from(row: FirmRow) -> Self {
        Self { id: row.firm_id, name: row.name, status: row.status }
    }
}

impl From<MemberRow> for MemberBody {
    fn from(row: MemberRow) -> Self {
        Self { id: row.member_id, role: row.role, active: row.active, active_keys: row.active_keys }
    }
}

impl From<FormRow> for FirmForm {
    fn from(row: FormRow) -> Self {
        Self {
            id: row.form_id,
            title: row.title,
            slug: row.slug,
            url: row.url,
            status: row.status,
            created_at: row.created_at.into(),
        }
    }
}
