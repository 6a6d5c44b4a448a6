//! `POST /internal/v1/activity`: what the product reports.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};

use super::caller::Reporter;
use crate::batching::token_cache;
use crate::body::{self, BodyLimit};
use crate::error::Error;
use crate::intake::{self, CloudEvent, EventFormat, IntakeCounts};
use crate::service::Service;

/// Takes in a batch.
pub(super) async fn report(
    Reporter(caller): Reporter,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<(StatusCode, Json<IntakeCounts>), Error> {
    let read = read(request).await;
    let is_taken_in = read.as_ref().is_ok_and(|(events, _)| !events.is_empty());
    if !is_taken_in {
        // What is wrong with a report is told to nobody whose token was revoked.
        token_cache::confirm(&service, caller).await?;
    }
    let accepted = intake::accept_with_others(&service, read?, caller).await?;
    accepted.count();
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

/// The events, and of how many bytes they were read.
async fn read(request: Request) -> Result<(Vec<CloudEvent>, usize), Error> {
    let (parts, body) = request.into_parts();
    let format = format(&parts.headers)?;
    let bytes = body::read_of_any_type(&parts.headers, body, BodyLimit::INTERNAL).await?;
    Ok((intake::parse(format, &bytes)?, bytes.len()))
}

/// There is no default: the type says how the events are written.
fn format(headers: &HeaderMap) -> Result<EventFormat, Error> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (content_type, None) = (types.next(), types.next()) else {
        return Err(unknown_format());
    };
    content_type
        .and_then(|value| value.to_str().ok())
        .and_then(EventFormat::of_content_type)
        .ok_or_else(unknown_format)
}

fn unknown_format() -> Error {
    Error::invalid(
        "the content type must be application/cloudevents+json, \
         application/cloudevents-batch+json or application/x-ndjson, in UTF-8",
    )
}
