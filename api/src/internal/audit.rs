//! `/internal/v1/firms/{firm}/audit`: the audit log of a firm. Each reading is an entry of the log.

use std::sync::Arc;

use auditor::bundle::ExportSelection;
use auditor::lines;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use domain::audit::{Action, AuditPeriod};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::values::{Timestamp, parse_id};
use futures::{Stream, StreamExt as _, stream};
use projector::audit::{self, AuditFilter, ChainSpan};
use projector::firms;
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::bundle::BegunBundle;
use super::caller::Reader;
use super::path::PathFirm;
use super::query::{Choice, QueryFields};
use super::{ListBody, bundle};
use crate::commands::readings;
use crate::error::Error;
use crate::queries::entries::{self, ShownEntry};
use crate::queries::listing::{self, LIST_LIMIT_DEFAULT};
use crate::service::Service;

/// Entries read at a time for an export.
const EXPORT_PAGE_ENTRIES: i64 = 1_000;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum AuditExportFormat {
    Csv,
    #[default]
    Ndjson,
    Bundle,
    /// The cover of the bundle.
    Cover,
}

const EXPORT_FORMATS: &[Choice<AuditExportFormat>] = &[
    ("ndjson", AuditExportFormat::Ndjson),
    ("csv", AuditExportFormat::Csv),
    ("bundle", AuditExportFormat::Bundle),
    ("cover", AuditExportFormat::Cover),
];

/// Lists the newest entries, or the entries before `after`.
pub(super) async fn list(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    query: QueryFields,
) -> Result<Json<ListBody<Value>>, Error> {
    let AuditPage { filter, limit } = parse_page(query)?;
    let look = ReadingDetails {
        since: filter.since.map(Timestamp::from),
        until: filter.until.map(Timestamp::from),
        ..ReadingDetails::at(ReadingSubject::Audit, ReadAs::Page)
    };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    let rows = audit::list_entries(service.store.pool(), firm_id, &filter, limit).await?;
    let more = i64::try_from(rows.len()) == Ok(limit);
    let last = rows.last().filter(|_| more).map(|row| row.sequence.to_string());
    Ok(Json(ListBody::page(rows.iter().map(lines::entry_json).collect(), last)))
}

/// Shows an entry with the bytes that are hashed.
pub(super) async fn entry(
    reader: Reader,
    State(service): State<Arc<Service>>,
    Path(EntryPath { firm, id }): Path<EntryPath>,
) -> Result<Json<ShownEntry>, Error> {
    let firm_id = parse_id(&firm).ok_or(Error::FirmNotFound)?;
    let sequence = id.parse().map_err(|_| Error::NotFound)?;
    let look = ReadingDetails::at(ReadingSubject::Audit, ReadAs::Page);
    readings::record(&service, firm_id, reader.actor(), look).await?;
    Ok(Json(entries::show(&service, firm_id, sequence).await?))
}

/// The path of an entry: its firm and its sequence.
#[derive(Debug, Deserialize)]
pub(super) struct EntryPath {
    firm: String,
    id: String,
}

/// Streams all entries, or the entries of a time, oldest first.
pub(super) async fn export(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Response, Error> {
    let format = query.choice("format", EXPORT_FORMATS)?.unwrap_or_default();
    let AuditPeriod { since, until } = query.period()?;
    let number = query.number_within("checkpoint", 1..=u64::MAX)?;
    if number.is_some() && !format.is_signed() {
        return Err(Error::invalid("`checkpoint` is for the formats bundle and cover"));
    }
    query.refuse_unknown()?;
    let look = ReadingDetails {
        since,
        until,
        ..ReadingDetails::at(ReadingSubject::Audit, format.read_as())
    };
    firms::is_active(service.store.pool(), firm_id).await?.ok_or(Error::FirmNotFound)?;
    let selection = ExportSelection { firm_id, since, until };
    // A refused export is no export, so a bundle begins before the record.
    let bundle = if format.is_signed() {
        Some(BegunBundle::new(&service, selection, number).await?)
    } else {
        None
    };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    match (bundle, format) {
        (Some(begun), AuditExportFormat::Cover) => return bundle::cover(service, begun).await,
        (Some(begun), _) => return Ok(bundle::file(service, begun)),
        (None, _) => {}
    }
    let pool = service.store.pool().clone();
    let since = since.map(Timestamp::get);
    let until = until.map(Timestamp::get);
    let whole_chain = i64::MAX;
    let span =
        audit::find_span(&mut *pool.acquire().await?, firm_id, whole_chain, since, until).await?;
    let body = Body::from_stream(lines_of(pool, firm_id, span, format));
    Ok(([(CONTENT_TYPE, format.content_type())], body).into_response())
}

/// The filter and the length of a page.
struct AuditPage {
    filter: AuditFilter,
    limit: i64,
}

fn parse_page(mut query: QueryFields) -> Result<AuditPage, Error> {
    let actions: Vec<Action> =
        query.parsed_list("action", "actions of the audit log", Action::all_names)?;
    let without_reads = query.bool("no_reads")? == Some(true);
    let AuditPeriod { since, until } = query.period()?;
    let filter = AuditFilter {
        actions: Action::action_words(&actions, without_reads),
        actor: query.text("actor"),
        subject: query.text("subject"),
        since: since.map(Timestamp::get),
        until: until.map(Timestamp::get),
        before: query.parsed("after", "the `next` of a page")?,
    };
    let limit = query.limit()?.unwrap_or(LIST_LIMIT_DEFAULT);
    query.refuse_unknown()?;
    Ok(AuditPage { filter, limit: listing::checked_limit(limit)? })
}

impl AuditExportFormat {
    const fn read_as(self) -> ReadAs {
        match self {
            Self::Csv => ReadAs::Csv,
            Self::Ndjson => ReadAs::Ndjson,
            Self::Bundle | Self::Cover => ReadAs::Bundle,
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Ndjson | Self::Bundle => "application/x-ndjson",
            Self::Cover => "text/html; charset=utf-8",
        }
    }

    /// Whether the export stands under a signed checkpoint.
    const fn is_signed(self) -> bool {
        matches!(self, Self::Bundle | Self::Cover)
    }
}

/// The entries of a span as lines, read page by page.
fn lines_of(
    pool: PgPool,
    firm_id: Uuid,
    span: Option<ChainSpan>,
    format: AuditExportFormat,
) -> impl Stream<Item = Result<Bytes, sqlx::Error>> {
    let is_csv = format == AuditExportFormat::Csv;
    let header = if is_csv { lines::CSV_HEADER } else { "" };
    let line = if is_csv { lines::csv } else { lines::ndjson };
    let header = (!header.is_empty()).then(|| Ok(Bytes::from(header)));
    let pages = stream::try_unfold(span, move |unread| {
        let pool = pool.clone();
        async move {
            let Some(ChainSpan { first, last }) = unread else { return Ok(None) };
            let page = ChainSpan { first, last: last.min(first + EXPORT_PAGE_ENTRIES - 1) };
            let mut connection = pool.acquire().await?;
            let rows = audit::list_span(&mut connection, firm_id, page).await?;
            let text: String = rows.iter().map(line).collect();
            let rest = (page.last < last).then_some(ChainSpan { first: page.last + 1, last });
            Ok(Some((text.into(), rest)))
        }
    });
    stream::iter(header).chain(pages)
}
