//! `/internal/v1/receivers`: receivers over all firms, by host.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::ListBody;
use super::caller::Reader;
use super::query::QueryFields;
use crate::error::Error;
use crate::queries::receivers::{self, RECEIVERS_LIMIT_DEFAULT, Receiver, ReceiverListQuery};
use crate::service::Service;

/// Lists receivers. The counts are over all firms, so a token for some firms is refused.
pub(super) async fn list(
    reader: Reader,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Json<ListBody<Receiver>>, Error> {
    let host = query.text("host");
    let after = query.text("after");
    let limit = query.limit()?;
    query.refuse_unknown()?;
    reader.check_reach()?;
    let found = receivers::list(&service, &ReceiverListQuery { host, after, limit }).await?;
    let full = i64::try_from(found.len()) == Ok(limit.unwrap_or(RECEIVERS_LIMIT_DEFAULT));
    let next = found.last().filter(|_| full).map(|last| last.host.clone());
    Ok(Json(ListBody::page(found, next)))
}
