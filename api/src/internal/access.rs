//! `/internal/v1/firms/{firm}/access`: members, keys, tokens and operators at a moment.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::values::AccessMoment;

use super::caller::Reader;
use super::path::PathFirm;
use super::query::QueryFields;
use crate::commands::readings;
use crate::error::Error;
use crate::queries::access::{self, Access};
use crate::service::Service;

/// Shows the access to a firm at a moment.
pub(super) async fn show(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Json<Access>, Error> {
    let moment: Option<AccessMoment> =
        query.parsed("as_of", "a day (2026-03-14) or an instant (2026-03-14T12:00:00Z)")?;
    query.refuse_unknown()?;
    let found = access::of_firm(&service, reader.holder().reached_firms(), firm_id, moment).await?;
    let look = ReadingDetails::at(ReadingSubject::Access, ReadAs::Page);
    readings::record(&service, firm_id, reader.actor(), look).await?;
    Ok(Json(found))
}
