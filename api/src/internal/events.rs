//! `/internal/v1/events`: events of the log, one by one and by stream.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use serde::Deserialize;
use uuid::Uuid;

use super::caller::Reader;
use crate::commands::readings;
use crate::error::Error;
use crate::queries::events::{self, EventRef, ShownEvent, StreamPage};
use crate::service::Service;

/// Query of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamParams {
    stream: Uuid,
    kind: Option<String>,
    after: Option<i64>,
    limit: Option<i64>,
}

/// Shows an event, by its position or its id.
pub(super) async fn show(
    reader: Reader,
    Path(event): Path<String>,
    State(service): State<Arc<Service>>,
) -> Result<Json<ShownEvent>, Error> {
    let event = EventRef::read(&event).ok_or(Error::NotFound)?;
    let shown = events::show(&service, event).await?;
    record(&service, &reader, shown.firm_id).await?;
    Ok(Json(shown))
}

/// Lists the events of a stream, in order.
pub(super) async fn list(
    reader: Reader,
    State(service): State<Arc<Service>>,
    asked: Result<Query<StreamParams>, QueryRejection>,
) -> Result<Json<StreamPage>, Error> {
    let Query(StreamParams { stream, kind, after, limit }) = asked.map_err(|_| invalid())?;
    let kind = match kind {
        Some(kind) => Some(events::stream_kind(&kind).ok_or_else(invalid)?),
        None => None,
    };
    let page = events::of_stream(&service, kind, &stream.to_string(), after, limit).await?;
    record(&service, &reader, page.firm_id).await?;
    Ok(Json(page))
}

/// Records the reading in the chain of the event's firm. An event of another firm looks like a
/// missing one.
async fn record(service: &Service, reader: &Reader, firm_id: Uuid) -> Result<(), Error> {
    if !reader.holder().reaches(firm_id) {
        return Err(Error::NotFound);
    }
    let look = ReadingDetails::at(ReadingSubject::Events, ReadAs::Page);
    readings::record(service, firm_id, reader.actor(), look).await
}

fn invalid() -> Error {
    Error::invalid("the query must hold stream, and may hold kind, after, limit (1 to 500)")
}
