//! `/internal/v1/firms/{firm}/deliveries`: deliveries and their attempts.

use std::slice;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use domain::delivery::{self, ContentState, Hop, Outcome};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::values::{AsOf, Timestamp};
use projector::as_of::DeliveryThen;
use projector::deliveries::DeliveryRow;
use serde::Serialize;
use uuid::Uuid;

use super::ListBody;
use super::caller::Reader;
use super::path::{PathFirm, PathParamId};
use super::query::QueryFields;
use crate::commands::contents::{self, DeliveryContents, ShownContent};
use crate::commands::targets::{self, TargetReveal};
use crate::commands::{pauses, readings};
use crate::error::Error;
use crate::queries::as_of;
use crate::queries::export::{self, DeliveryExport};
use crate::queries::history::{self, DeliveryHistory};
use crate::queries::listing::{self, DeliveriesThen, DeliveryListQuery};
use crate::service::Service;

/// A delivery in an answer of the internal API.
#[derive(Debug, Serialize)]
pub(super) struct DeliveryBody {
    id: Uuid,
    hook_id: Option<Uuid>,
    /// Only of a workflow step's delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_id: Option<Uuid>,
    trigger: String,
    form_id: Uuid,
    response_id: Uuid,
    state: String,
    cause: Option<String>,
    created_at: Timestamp,
    next_try_at: Option<Timestamp>,
    body_sha256: Option<String>,
    /// Only of a reissued delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    reissue_of: Option<Uuid>,
    /// The pause that holds the delivery, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<Uuid>,
    /// The whole target, only for a reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Only where one delivery is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<ShownContent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptBody>>,
    /// Whether the response is erased by now. Only where an earlier state is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    erased: Option<bool>,
}

#[derive(Debug, Serialize)]
struct AttemptBody {
    number: u32,
    started_at: Timestamp,
    finished_at: Timestamp,
    outcome: Outcome,
    status: Option<u16>,
    error: Option<String>,
    retry_after_seconds: Option<u64>,
    hops: Vec<Hop>,
    answer: Option<String>,
    answer_state: ContentState,
    /// Only where the answer came too late to count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    late: bool,
}

/// A file has no place for the border of history.
const ARCHIVED_BEFORE: HeaderName = HeaderName::from_static("archived-before");

/// Lists the newest deliveries, without their attempts.
pub(super) async fn list(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    query: QueryFields,
) -> Result<Json<ListBody<DeliveryBody>>, Error> {
    let asked = list_query(query)?;
    readings::record(&service, firm_id, reader.actor(), asked.reading_details()).await?;
    if asked.as_of.is_some() {
        return list_then(&service, firm_id, &asked).await;
    }
    let page = listing::deliveries(&service, firm_id, &asked).await?;
    let holding = pauses::holding_pauses(&service, firm_id, &page.rows).await?;
    let held = |row: DeliveryRow| {
        let paused = holding.get(&row.delivery_id).copied();
        DeliveryBody { paused, ..row.into() }
    };
    let next = page.next.map(|id| id.to_string());
    let archived_before = page.archived_before;
    Ok(Json(ListBody { items: page.rows.into_iter().map(held).collect(), next, archived_before }))
}

fn list_query(mut query: QueryFields) -> Result<DeliveryListQuery, Error> {
    let states = "pending, delivered, failed or cancelled";
    let asked = DeliveryListQuery {
        hook_id: query.id("hook_id")?,
        trigger: query.text("trigger"),
        state: query.parsed("state", states)?,
        since: query.time("since")?,
        until: query.time("until")?,
        after: query.id("after")?,
        limit: query.limit()?,
        as_of: query.text("as_of"),
    };
    query.refuse_unknown()?;
    Ok(asked)
}

async fn list_then(
    service: &Service,
    firm_id: Uuid,
    asked: &DeliveryListQuery,
) -> Result<Json<ListBody<DeliveryBody>>, Error> {
    let DeliveriesThen { rows, erased, archived_before } =
        listing::deliveries_then(service, firm_id, asked).await?;
    let shown = |row: DeliveryRow| {
        let erased = Some(erased.contains(&row.response_id));
        DeliveryBody { erased, ..row.into() }
    };
    let items = rows.into_iter().map(shown).collect();
    Ok(Json(ListBody { items, next: None, archived_before }))
}

/// Shows a delivery with its attempts, as it is or as it was. Body and answers need a reason.
pub(super) async fn show(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    delivery_id: PathParamId,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Json<DeliveryBody>, Error> {
    let then = query.text("as_of");
    // The reasons why the reader asks for more.
    let show_target = query.text("show_target");
    let show_body = query.text("show_body");
    let show_answer = query.text("show_answer");
    query.refuse_unknown()?;
    reader.check_reveal(show_target.as_deref())?;
    let delivery_id = delivery_id.id_or(Error::DeliveryNotFound)?;
    let as_of = match &then {
        Some(text) => as_of::read(&service, text).await?,
        None => AsOf::NOW,
    };
    let (mut found, erased) = as_of::delivery(&service, firm_id, delivery_id, as_of).await?;
    let look = ReadingDetails {
        delivery_id: Some(delivery_id),
        ..ReadingDetails::at(ReadingSubject::Delivery, ReadAs::Page)
    };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    let mut target = None;
    if let Some(reason) = &show_target {
        let reveal = TargetReveal { firm_id, actor: reader.actor(), reason };
        let whole = targets::of_delivery(&service, reveal, &found.row).await?;
        found.show_target(&whole);
        target = Some(whole);
    }
    let DeliveryThen { row, attempts } = found;
    let contents = DeliveryContents {
        firm_id,
        delivery_id,
        response_id: row.response_id,
        attempts: &attempts,
        actor: reader.actor(),
    };
    let body = Some(contents::show_body(&service, contents, show_body.as_deref()).await?);
    let answers = contents::show_answers(&service, contents, show_answer.as_deref()).await?;
    let attempts = Some(with_answers(attempts, answers));
    let shown = if then.is_some() {
        DeliveryBody { erased: Some(erased), ..row.into() }
    } else {
        let holding = pauses::holding_pauses(&service, firm_id, slice::from_ref(&row)).await?;
        DeliveryBody { paused: holding.get(&row.delivery_id).copied(), ..row.into() }
    };
    Ok(Json(DeliveryBody { target, body, attempts, ..shown }))
}

/// Streams the firm's deliveries with their attempts, as a file.
pub(super) async fn export(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<(HeaderMap, Body), Error> {
    let asked = DeliveryExport {
        format: query.parsed("format", "csv or ndjson")?.unwrap_or_default(),
        hook_id: query.id("hook_id")?,
        host: query.text("host"),
        since: query.time("since")?,
        until: query.time("until")?,
    };
    query.refuse_unknown()?;
    // A refused export is no export. No line is read before the answer.
    let lines = export::stream_lines(&service, firm_id, &asked).await?;
    readings::record(&service, firm_id, reader.actor(), asked.reading_details()).await?;
    let content_type = HeaderValue::from_static(asked.format.content_type());
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
    let time = export::archived_before(&service, &asked).await?;
    if let Some(Ok(time)) = time.map(|time| HeaderValue::from_str(&time.to_string())) {
        headers.insert(ARCHIVED_BEFORE, time);
    }
    Ok((headers, Body::from_stream(lines)))
}

/// Explains the state of a delivery.
pub(super) async fn history(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    delivery_id: PathParamId,
    State(service): State<Arc<Service>>,
) -> Result<Json<DeliveryHistory>, Error> {
    let delivery_id = delivery_id.id_or(Error::DeliveryNotFound)?;
    let found = history::of_delivery(&service, firm_id, delivery_id).await?;
    let look = ReadingDetails {
        delivery_id: Some(delivery_id),
        ..ReadingDetails::at(ReadingSubject::Delivery, ReadAs::Page)
    };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    Ok(Json(found))
}

fn with_answers(attempts: Vec<delivery::Attempt>, answers: Vec<ShownContent>) -> Vec<AttemptBody> {
    let body = |(one, answer): (delivery::Attempt, ShownContent)| AttemptBody {
        number: one.number,
        started_at: one.started_at,
        finished_at: one.finished_at,
        outcome: one.outcome,
        status: one.status,
        error: one.error,
        retry_after_seconds: one.retry_after_seconds,
        hops: one.hops,
        answer: answer.text,
        answer_state: answer.state,
        late: one.late.is_some(),
    };
    attempts.into_iter().zip(answers).map(body).collect()
}

impl From<DeliveryRow> for DeliveryBody {
    fn from(row: DeliveryRow) -> Self {
        Self {
            id: row.delivery_id,
            hook_id: row.hook_id,
            run_id: row.run_id,
            step_id: row.step_id,
            trigger: row.trigger,
            form_id: row.form_id,
            response_id: row.response_id,
            state: row.state,
            cause: row.cause,
            created_at: row.created_at.into(),
            next_try_at: row.next_try_at.map(Timestamp::from),
            body_sha256: row.body_sha256,
            reissue_of: row.reissue_of,
            paused: None,
            target: None,
            body: None,
            attempts: None,
            erased: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> Timestamp {
        format!("2026-11-01T10:00:{second:02}Z").parse().unwrap()
    }

    #[test]
    fn a_listed_delivery_has_this_shape() {
        let row = DeliveryRow {
            delivery_id: Uuid::from_u128(1),
            hook_id: Some(Uuid::from_u128(2)),
            run_id: None,
            step_id: None,
            trigger: "form_submitted".into(),
            form_id: Uuid::from_u128(3),
            response_id: Uuid::from_u128(4),
            state: "pending".into(),
            cause: None,
            created_at: at(0).get(),
            next_try_at: Some(at(9).get()),
            body_sha256: None,
            reissue_of: None,
        };
        assert_eq!(
            serde_json::to_string(&DeliveryBody::from(row)).unwrap(),
            concat!(
                r#"{"id":"00000000-0000-0000-0000-000000000001","#,
                r#""hook_id":"00000000-0000-0000-0000-000000000002","trigger":"form_submitted","#,
                r#""form_id":"00000000-0000-0000-0000-000000000003","#,
                r#""response_id":"00000000-0000-0000-0000-000000000004","state":"pending","#,
                r#""cause":null,"created_at":"2026-11-01T10:00:00.000Z","#,
                r#""next_try_at":"2026-11-01T10:00:09.000Z","body_sha256":null}"#,
            )
        );
    }
}
