//! `/internal/v1/find`: anything that an operator has a piece of.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::ListBody;
use super::caller::Reader;
use super::query::QueryFields;
use crate::error::Error;
use crate::queries::find::{self, Found, FoundText};
use crate::service::Service;

/// Finds a text among ids, key starts, hashes, positions, hosts and firms' names.
pub(super) async fn find(
    reader: Reader,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Json<ListBody<Found>>, Error> {
    let text = query.text("q");
    query.refuse_unknown()?;
    let text = text.ok_or_else(|| Error::invalid("`q` is missing"))?;
    let FoundText { items, archived_before } =
        find::find_text(&service, reader.holder().reached_firms(), &text).await?;
    Ok(Json(ListBody { items, next: None, archived_before }))
}
