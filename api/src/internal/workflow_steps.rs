//! `/internal/v1/workflow-steps`: webhooks that the workflow engine sends, and reads of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use domain::delivery::workflow::StepName;
use domain::delivery::{Attempt, Hop};
use domain::values::{Timestamp, parse_id};
use projector::as_of::DeliveryThen;
use serde::Serialize;
use uuid::Uuid;

use super::caller::Product;
use crate::body::{self, BodyFields, BodyLimit, JsonValue as Value, json};
use crate::commands::steps::{self, NewStep};
use crate::error::Error;
use crate::service::Service;

/// Answer to a queued webhook.
#[derive(Debug, Serialize)]
pub(super) struct StepAcceptedAnswer {
    delivery_id: Uuid,
    state: String,
}

/// A step's webhook in an answer of the internal API.
#[derive(Debug, Serialize)]
pub(super) struct StepBody {
    delivery_id: Uuid,
    run_id: Uuid,
    step_id: Uuid,
    state: String,
    cause: Option<String>,
    next_try_at: Option<Timestamp>,
    attempts: Vec<StepAttemptBody>,
}

#[derive(Debug, Serialize)]
struct StepAttemptBody {
    number: u32,
    started_at: Timestamp,
    finished_at: Timestamp,
    outcome: &'static str,
    status: Option<u16>,
    error: Option<String>,
    retry_after_seconds: Option<u64>,
    hops: Vec<Hop>,
}

/// The `{run_id}/{step_id}` of the path. A malformed id is answered like an unknown one.
pub(super) struct PathStepName(StepName);

impl FromRequestParts<Arc<Service>> for PathStepName {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Error> {
        let path = Path::<(String, String)>::from_request_parts(parts, service).await;
        let Path((run, step)) = path.map_err(|_| Error::DeliveryNotFound)?;
        let id = |text: &str| parse_id(text).ok_or(Error::DeliveryNotFound);
        Ok(Self(StepName { run_id: id(&run)?, step_id: id(&step)? }))
    }
}

/// Queues a step's webhook.
pub(super) async fn queue(
    caller: Product,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<(StatusCode, Json<StepAcceptedAnswer>), Error> {
    let (parts, body) = request.into_parts();
    let new = read_step(json::parse_object(
        &body::read_bytes(&parts.headers, body, BodyLimit::PUBLIC).await?,
    )?)?;
    let step = steps::queue(&service, new, caller.holder()).await?;
    Ok((StatusCode::ACCEPTED, Json(step.into())))
}

/// Shows a step's webhook.
pub(super) async fn show(
    caller: Product,
    PathStepName(name): PathStepName,
    State(service): State<Arc<Service>>,
) -> Result<Json<StepBody>, Error> {
    Ok(Json(StepBody::new(name, steps::show(&service, name, &caller.holder().into()).await?)))
}

/// Queues a failed step's webhook for another attempt.
pub(super) async fn retry(
    caller: Product,
    PathStepName(name): PathStepName,
    State(service): State<Arc<Service>>,
) -> Result<(StatusCode, Json<StepAcceptedAnswer>), Error> {
    let step = steps::retry(&service, name, &caller.holder().into()).await?;
    Ok((StatusCode::ACCEPTED, Json(step.into())))
}

fn read_step(mut fields: BodyFields) -> Result<NewStep, Error> {
    let headers = fields.optional_object("headers")?.into_iter();
    let headers = headers.map(|(name, value)| match value {
        Value::String(value) => Ok((name, value)),
        _ => Err(Error::invalid("the values of `headers` must be strings")),
    });
    let new = NewStep {
        firm_id: fields.id("firm_id")?,
        name: StepName { run_id: fields.id("run_id")?, step_id: fields.id("step_id")? },
        method: fields
            .string("method")?
            .parse()
            .map_err(|()| Error::invalid("`method` must be POST, PUT or PATCH"))?,
        url: fields.string("url")?,
        headers: headers.collect::<Result<_, _>>()?,
        trigger: fields.string("trigger")?,
        response_id: fields.id("response_id")?,
        test: fields.optional_bool("test")?.unwrap_or_default(),
    };
    fields.refuse_unknown()?;
    Ok(new)
}

impl From<DeliveryThen> for StepAcceptedAnswer {
    fn from(step: DeliveryThen) -> Self {
        Self { delivery_id: step.row.delivery_id, state: step.row.state }
    }
}

impl StepBody {
    fn new(StepName { run_id, step_id }: StepName, step: DeliveryThen) -> Self {
        let DeliveryThen { row, attempts } = step;
        Self {
            delivery_id: row.delivery_id,
            run_id,
            step_id,
            state: row.state,
            cause: row.cause,
            next_try_at: row.next_try_at.map(Timestamp::from),
            attempts: attempts.into_iter().map(StepAttemptBody::from).collect(),
        }
    }
}

impl From<Attempt> for StepAttemptBody {
    fn from(attempt: Attempt) -> Self {
        Self {
            number: attempt.number,
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            outcome: attempt.outcome.name(),
            status: attempt.status,
            error: attempt.error,
            retry_after_seconds: attempt.retry_after_seconds,
            hops: attempt.hops,
        }
    }
}
