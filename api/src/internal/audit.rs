//! `/internal/v1/firms/{firm}/audit`: the audit log of a firm. Each reading is an entry of the log.

use std::sync::Arc;

use auditor::lines;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use domain::audit::Action;
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use domain::time::Timestamp;
use futures::{Stream, stream};
use projector::audit::{self, AuditFilter, ChainSpan};
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::ListBody;
use super::caller::Reader;
use super::path::PathFirm;
use crate::commands::readings;
use crate::error::Error;
use crate::service::Service;

/// Entries in a page: by default, and at most.
const LIST_LIMIT_DEFAULT: i64 = 50;
const LIST_LIMIT_MAX: i64 = 500;

/// Entries read at a time for an export.
const EXPORT_PAGE_ENTRIES: i64 = 1_000;

/// Query of the list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditListParams {
    action: Option<String>,
    actor: Option<String>,
    subject: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    after: Option<i64>,
    limit: Option<i64>,
}

/// Query of the export.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditExportParams {
    format: Option<AuditExportFormat>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AuditExportFormat {
    Csv,
    #[default]
    Ndjson,
}

/// Lists the newest entries, or the entries before `after`.
pub(super) async fn list(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    asked: Result<Query<AuditListParams>, QueryRejection>,
) -> Result<Json<ListBody<Value>>, Error> {
    let Query(asked) = asked.map_err(|_| invalid())?;
    let limit = asked.limit.unwrap_or(LIST_LIMIT_DEFAULT);
    let since = asked.since;
    let until = asked.until;
    let filter = asked.filter(limit).ok_or_else(invalid)?;
    let look =
        ReadingDetails { since, until, ..ReadingDetails::at(ReadingSubject::Audit, ReadAs::Page) };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    let rows = audit::list(service.store.pool(), firm_id, &filter, limit).await?;
    let more = i64::try_from(rows.len()) == Ok(limit);
    let last = rows.last().filter(|_| more).map(|row| row.sequence.to_string());
    Ok(Json(ListBody { items: rows.iter().map(lines::entry_json).collect(), next: last }))
}

/// Streams all entries, or the entries of a time, oldest first.
pub(super) async fn export(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    wanted: Result<Query<AuditExportParams>, QueryRejection>,
) -> Result<([(HeaderName, &'static str); 1], Body), Error> {
    let Query(AuditExportParams { format, since, until }) = wanted.map_err(|_| invalid())?;
    let format = format.unwrap_or_default();
    let look = ReadingDetails {
        since,
        until,
        ..ReadingDetails::at(ReadingSubject::Audit, format.read_as())
    };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    let pool = service.store.pool().clone();
    let mut connection = pool.acquire().await?;
    let span = audit::span(
        &mut connection,
        firm_id,
        i64::MAX,
        since.map(Timestamp::get),
        until.map(Timestamp::get),
    )
    .await?;
    drop(connection);
    let body = Body::from_stream(lines_of(pool, firm_id, span, format));
    Ok(([(CONTENT_TYPE, format.content_type())], body))
}

impl AuditListParams {
    /// The filter, or `None` for an unknown action or a limit out of range.
    fn filter(self, limit: i64) -> Option<AuditFilter> {
        let action: Option<Action> = self.action.map(|word| word.parse()).transpose().ok()?;
        (1..=LIST_LIMIT_MAX).contains(&limit).then_some(AuditFilter {
            action: action.map(Action::name),
            actor: self.actor,
            subject: self.subject,
            since: self.since.map(Timestamp::get),
            until: self.until.map(Timestamp::get),
            before: self.after,
        })
    }
}

fn invalid() -> Error {
    Error::invalid(
        "the query may hold action, actor, subject, since, until, after, limit (1 to 500), format",
    )
}

impl AuditExportFormat {
    const fn read_as(self) -> ReadAs {
        match self {
            Self::Csv => ReadAs::Csv,
            Self::Ndjson => ReadAs::Ndjson,
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Ndjson => "application/x-ndjson",
        }
    }
}

/// The entries of a span as lines, read page by page.
fn lines_of(
    pool: PgPool,
    firm_id: Uuid,
    span: Option<ChainSpan>,
    format: AuditExportFormat,
) -> impl Stream<Item = Result<Bytes, sqlx::Error>> {
    let begin = match format {
        AuditExportFormat::Csv => lines::CSV_HEADER,
        AuditExportFormat::Ndjson => "",
    };
    let line = match format {
        AuditExportFormat::Csv => lines::csv,
        AuditExportFormat::Ndjson => lines::ndjson,
    };
    stream::try_unfold((span, begin.to_owned()), move |(span, mut text)| {
        let pool = pool.clone();
        async move {
            let Some(ChainSpan { first, last }) = span else {
                return Ok((!text.is_empty()).then(|| (text.into(), (None, String::new()))));
            };
            let page = ChainSpan { first, last: last.min(first + EXPORT_PAGE_ENTRIES - 1) };
            let mut connection = pool.acquire().await?;
            for row in audit::stretch(&mut connection, firm_id, page).await? {
                text.push_str(&line(&row));
            }
            let rest = (page.last < last).then_some(ChainSpan { first: page.last + 1, last });
            Ok(Some((text.into(), (rest, String::new()))))
        }
    })
}
