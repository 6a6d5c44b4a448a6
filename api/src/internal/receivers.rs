//! `/internal/v1/receivers`: receivers over all firms, by host.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::ListBody;
use super::caller::Reader;
use crate::error::Error;
use crate::queries::receivers::{self, RECEIVERS_LIMIT_DEFAULT, Receiver, ReceiverListQuery};
use crate::service::Service;

/// Query of the list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReceiverListParams {
    host: Option<String>,
    after: Option<String>,
    limit: Option<i64>,
}

/// Lists receivers. The counts are over all firms, so a token for some firms is refused.
pub(super) async fn list(
    reader: Reader,
    State(service): State<Arc<Service>>,
    asked: Result<Query<ReceiverListParams>, QueryRejection>,
) -> Result<Json<ListBody<Receiver>>, Error> {
    let Query(ReceiverListParams { host, after, limit }) =
        asked.map_err(|_| Error::invalid("the query may hold host, after, limit (1 to 500)"))?;
    reader.check_reach()?;
    let found = receivers::list(&service, &ReceiverListQuery { host, after, limit }).await?;
    let full = i64::try_from(found.len()) == Ok(limit.unwrap_or(RECEIVERS_LIMIT_DEFAULT));
    let next = found.last().filter(|_| full).map(|last| last.host.clone());
    Ok(Json(ListBody { items: found, next }))
}
