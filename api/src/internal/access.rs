//! `/internal/v1/firms/{firm}/access`: members, keys, tokens and operators at a moment.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use domain::access::AccessMoment;
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use serde::Deserialize;

use super::caller::Reader;
use super::path::PathFirm;
use crate::commands::readings;
use crate::error::Error;
use crate::queries::access::{self, Access};
use crate::service::Service;

/// Query of the answer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessParams {
    as_of: Option<String>,
}

/// Shows the access to a firm at a moment.
pub(super) async fn show(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    asked: Result<Query<AccessParams>, QueryRejection>,
) -> Result<Json<Access>, Error> {
    let Query(AccessParams { as_of }) = asked.map_err(|_| invalid())?;
    let moment: Option<AccessMoment> =
        as_of.map(|text| text.parse()).transpose().map_err(|_| invalid())?;
    let found = access::of_firm(&service, reader.holder().firms(), firm_id, moment).await?;
    let look = ReadingDetails::at(ReadingSubject::Access, ReadAs::Page);
    readings::record(&service, firm_id, reader.actor(), look).await?;
    Ok(Json(found))
}

fn invalid() -> Error {
    Error::invalid("the query may hold as_of: a day (2026-03-14) or an instant in RFC 3339")
}
