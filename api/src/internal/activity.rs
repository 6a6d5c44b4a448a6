//! `POST /internal/v1/activity`: what the product reports.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};

use super::caller::Product;
use crate::body::{self, Limit};
use crate::error::Error;
use crate::intake::{self, Accepted, Format};
use crate::service::Service;

/// Takes in a batch.
pub(super) async fn report(
    caller: Product,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<(StatusCode, Json<Accepted>), Error> {
    let (parts, body) = request.into_parts();
    let format = format(&parts.headers)?;
    let bytes = body::read_of_any_type(&parts.headers, body, Limit::INTERNAL).await?;
    let batch = intake::parse(format, &bytes)?;
    let accepted =
        intake::accept_with_others(&service, (batch, bytes.len()), caller.actor()).await?;
    accepted.count();
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

/// There is no default: the type says how the events are written.
fn format(headers: &HeaderMap) -> Result<Format, Error> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (content_type, None) = (types.next(), types.next()) else {
        return Err(unknown_format());
    };
    content_type
        .and_then(|value| value.to_str().ok())
        .and_then(Format::of_content_type)
        .ok_or_else(unknown_format)
}

fn unknown_format() -> Error {
    Error::invalid(
        "the content type must be application/cloudevents+json, \
         application/cloudevents-batch+json or application/x-ndjson, in UTF-8",
    )
}
