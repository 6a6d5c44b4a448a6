//! `POST /internal/v1/activity`: the product reports its activity.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};

use domain::firm::FirmRejection;

use super::caller::Reporter;
use crate::batching::token_cache::Bearer;
use crate::batching::token_lookup;
use crate::body::{self, BodyLimit};
use crate::error::Error;
use crate::intake::{self, BadEvent, CloudEvent, EventFormat, IntakeCounts};
use crate::service::Service;

/// Takes in a batch of reports.
pub(super) async fn report(
    Reporter(caller): Reporter,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<(StatusCode, Json<IntakeCounts>), Error> {
    let read = read_report(request).await;
    let is_taken_in = read.as_ref().is_ok_and(|body| !body.events.is_empty());
    if !is_taken_in {
        // A caller with a revoked token does not learn the fault of its report.
        token_lookup::confirm(&service, &caller).await?;
    }
    let ReportBody { events, bytes } = read?;
    if let Some(error) = out_of_reach(&caller, &events) {
        token_lookup::confirm(&service, &caller).await?;
        return Err(error);
    }
    let accepted = intake::accept_with_others(&service, events, bytes, caller).await?;
    accepted.add_to_metric();
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

/// The refusal of the first event whose firm the token may not reach.
fn out_of_reach(caller: &Bearer, events: &[CloudEvent]) -> Option<Error> {
    let index = events.iter().position(|event| !caller.holder.reaches(event.firm_id))?;
    let why = FirmRejection::Unknown.to_string();
    Some(Error::BadEvent(BadEvent { index, line: events[index].line, why }))
}

/// The events of a request, with the size of its body.
struct ReportBody {
    events: Vec<CloudEvent>,
    bytes: usize,
}

async fn read_report(request: Request) -> Result<ReportBody, Error> {
    let (parts, body) = request.into_parts();
    let format = event_format(&parts.headers)?;
    let bytes = body::read_of_any_type(&parts.headers, body, BodyLimit::INTERNAL).await?;
    Ok(ReportBody { events: intake::parse_events(format, &bytes)?, bytes: bytes.len() })
}

/// Reads the content type, which names the format of the events. There is no default.
fn event_format(headers: &HeaderMap) -> Result<EventFormat, Error> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let content_type = types.next();
    if types.next().is_some() {
        return Err(unknown_format());
    }
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
