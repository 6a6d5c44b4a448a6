//! `/internal/v1/firms/{firm}/portal-links`: one-time links to the portal (ruling 48).

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, StatusCode};
use domain::access::FrameOrigin;
use domain::values::{Lang, Timestamp};
use serde::Serialize;

use super::caller::Product;
use super::path::PathFirm;
use crate::body::{self, BodyLimit, json};
use crate::error::Error;
use crate::portal::NewPortalLink;
use crate::portal::links::{self, PortalLink};
use crate::service::Service;

/// A link in the answer that made it.
#[derive(Debug, Serialize)]
pub(super) struct PortalLinkBody {
    url: String,
    expires_at: Timestamp,
}

/// Makes a link for a member. Only this answer has it, and no cache may keep it.
pub(super) async fn create(
    _: Product,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<(StatusCode, [(HeaderName, &'static str); 1], Json<PortalLinkBody>), Error> {
    let (parts, body) = request.into_parts();
    let mut fields =
        json::parse_object(&body::read_bytes(&parts.headers, body, BodyLimit::PUBLIC).await?)?;
    let member_id = fields.id("member_id")?;
    let lang = fields.nullable_string("lang")?;
    let frame_origin = fields.nullable_string("frame_origin")?;
    fields.refuse_unknown()?;
    let new = NewPortalLink {
        firm_id,
        member_id,
        lang: lang.map(|code| read_lang(&code)).transpose()?,
        frame_origin: frame_origin.map(|origin| read_origin(&origin)).transpose()?,
    };
    let PortalLink { url, expires_at } = links::make(&service, &new).await?;
    let body = PortalLinkBody { url, expires_at };
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(body)))
}

fn read_lang(code: &str) -> Result<Lang, Error> {
    Lang::read(code).ok_or_else(|| Error::invalid("`lang` must be en, fr or es"))
}

fn read_origin(origin: &str) -> Result<FrameOrigin, Error> {
    origin.parse().map_err(|why| Error::invalid(format!("`frame_origin`: {why}")))
}
