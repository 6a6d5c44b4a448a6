//! `/internal/v1/find`: anything that an operator has a piece of.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::ListBody;
use super::caller::Reader;
use crate::error::Error;
use crate::queries::find::{self, Found};
use crate::service::Service;

/// Query of the search.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FindParams {
    q: String,
}

/// Finds a text among ids, key starts, hashes, positions, hosts and firms' names.
pub(super) async fn find(
    reader: Reader,
    State(service): State<Arc<Service>>,
    asked: Result<Query<FindParams>, QueryRejection>,
) -> Result<Json<ListBody<Found>>, Error> {
    let Query(FindParams { q }) = asked.map_err(|_| Error::invalid("the query must hold q"))?;
    let items = find::find(&service, reader.holder().firms(), &q).await?;
    Ok(Json(ListBody { items, next: None }))
}
