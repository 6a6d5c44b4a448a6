//! `/internal/v1/events`: events of the log, one by one and by stream.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use uuid::Uuid;

use super::caller::Reader;
use super::query::QueryFields;
use crate::commands::readings;
use crate::error::Error;
use crate::queries::events::{self, EventRef, ShownEvent, StreamPage};
use crate::service::Service;

/// Shows an event, by its position or its id.
pub(super) async fn show(
    reader: Reader,
    Path(event): Path<String>,
    State(service): State<Arc<Service>>,
) -> Result<Json<ShownEvent>, Error> {
    let event = EventRef::read(&event).ok_or(Error::NotFound)?;
    let shown = events::show(&service, event).await?;
    record_reading(&service, &reader, shown.firm_id).await?;
    Ok(Json(shown))
}

/// Lists the events of a stream, in order.
pub(super) async fn list(
    reader: Reader,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Json<StreamPage>, Error> {
    let stream = query.id("stream")?;
    let kind = query.text("kind");
    let after = query.parsed("after", "a position")?;
    let limit = query.limit()?;
    query.refuse_unknown()?;
    let stream = stream.ok_or_else(|| Error::invalid("`stream` is missing"))?;
    let kind = match kind {
        Some(kind) => Some(events::stream_kind(&kind).ok_or_else(no_kind)?),
        None => None,
    };
    let page = events::of_stream(&service, kind, &stream.to_string(), after, limit).await?;
    record_reading(&service, &reader, page.firm_id).await?;
    Ok(Json(page))
}

/// Records the reading in the chain of the event's firm. An event of another firm looks like a
/// missing one.
async fn record_reading(service: &Service, reader: &Reader, firm_id: Uuid) -> Result<(), Error> {
    if !reader.holder().reaches(firm_id) {
        return Err(Error::NotFound);
    }
    let look = ReadingDetails::at(ReadingSubject::Events, ReadAs::Page);
    readings::record(service, firm_id, reader.actor(), look).await
}

fn no_kind() -> Error {
    Error::invalid("`kind` is no kind of stream")
}
