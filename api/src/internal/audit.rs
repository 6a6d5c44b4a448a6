//! `/internal/v1/firms/{firm}/audit`: the audit log of a firm. Each reading is an entry of the log.

use std::str::FromStr;
use std::sync::Arc;

use auditor::lines;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use domain::audit::Action;
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use domain::time::Timestamp;
use futures::{Stream, stream};
use projector::audit::{self, AuditFilter, ChainSpan};
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::ListBody;
use super::caller::Reader;
use super::path::PathFirm;
use super::query::QueryFields;
use crate::commands::readings;
use crate::error::Error;
use crate::queries::listing::{self, LIST_LIMIT_DEFAULT};
use crate::service::Service;

/// Entries read at a time for an export.
const EXPORT_PAGE_ENTRIES: i64 = 1_000;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
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
    query: QueryFields,
) -> Result<Json<ListBody<Value>>, Error> {
    let AuditPage { filter, limit } = page(query)?;
    let look = ReadingDetails {
        since: filter.since.map(Timestamp::from),
        until: filter.until.map(Timestamp::from),
        ..ReadingDetails::at(ReadingSubject::Audit, ReadAs::Page)
    };
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
    mut query: QueryFields,
) -> Result<([(HeaderName, &'static str); 1], Body), Error> {
    let format: AuditExportFormat = query.parsed("format", "ndjson or csv")?.unwrap_or_default();
    let since = query.time("since")?;
    let until = query.time("until")?;
    query.end()?;
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

/// Entries that a list shows.
struct AuditPage {
    filter: AuditFilter,
    limit: i64,
}

fn page(mut query: QueryFields) -> Result<AuditPage, Error> {
    let action: Option<Action> = query.parsed("action", "an action of the audit log")?;
    let filter = AuditFilter {
        action: action.map(Action::name),
        actor: query.text("actor"),
        subject: query.text("subject"),
        since: query.time("since")?.map(Timestamp::get),
        until: query.time("until")?.map(Timestamp::get),
        before: query.parsed("after", "the `next` of a page")?,
    };
    let limit = query.limit()?.unwrap_or(LIST_LIMIT_DEFAULT);
    query.end()?;
    Ok(AuditPage { filter, limit: listing::within(limit)? })
}

impl FromStr for AuditExportFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "csv" => Ok(Self::Csv),
            "ndjson" => Ok(Self::Ndjson),
            _ => Err(()),
        }
    }
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
