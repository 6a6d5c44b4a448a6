//! Deliveries as lines of a file, one per attempt: CSV for spreadsheets, NDJSON for programs. A
//! delivery without an attempt has one line. Bodies and answers stay out. A time selects attempts
//! by their start, and deliveries without an attempt by their queuing.

use std::collections::{HashMap, VecDeque};
use std::str::FromStr;

use auditor::lines::csv_line;
use axum::body::Bytes;
use chrono::{DateTime, Utc};
use domain::delivery::Attempt;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::subscription::host_of;
use domain::values::{AsOf, Timestamp, printable_json};
use futures::{Stream, stream};
use projector::as_of::{had_happened, stream_attempts};
use projector::deliveries::{self, DeliveryFilter, DeliveryRow, ENDED_LATER_MIN, ListedKind};
use projector::{firms, hooks};
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use super::as_of::unread_error;
use super::receivers::host_named;
use crate::error::Error;
use crate::service::Service;

/// Deliveries read at a time.
const DELIVERIES_PER_PAGE: i64 = 200;

/// Format of the lines.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Comma-separated values.
    Csv,
    /// JSON, one object a line.
    #[default]
    Ndjson,
}

/// The word names no format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownFormat;

impl FromStr for ExportFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "csv" => Ok(Self::Csv),
            "ndjson" => Ok(Self::Ndjson),
            _ => Err(UnknownFormat),
        }
    }
}

impl ExportFormat {
    /// The content type of the lines.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Ndjson => "application/x-ndjson",
        }
    }
}

/// Selection of an export.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct DeliveryExport {
    /// Format of the lines.
    pub format: ExportFormat,
    /// Only deliveries of this subscription.
    pub hook_id: Option<Uuid>,
    /// Only deliveries to this host.
    pub host: Option<String>,
    /// Only attempts begun at this time or later.
    pub since: Option<Timestamp>,
    /// Only attempts begun before this time.
    pub until: Option<Timestamp>,
}

impl DeliveryExport {
    /// Details of the reading that this export is.
    #[must_use]
    pub fn reading_details(&self) -> ReadingDetails {
        let how = match self.format {
            ExportFormat::Csv => ReadAs::Csv,
            ExportFormat::Ndjson => ReadAs::Ndjson,
        };
        ReadingDetails {
            hook_id: self.hook_id,
            since: self.since,
            until: self.until,
            ..ReadingDetails::at(ReadingSubject::Deliveries, how)
        }
    }
}

/// The time before which deliveries have left, if the export would have attempts of theirs.
///
/// # Errors
/// If the database does not answer.
pub async fn archived_before(
    service: &Service,
    asked: &DeliveryExport,
) -> Result<Option<Timestamp>, Error> {
    let border = deliveries::history_border(service.store.pool()).await?;
    let since = asked.since.map(Timestamp::get);
    Ok(border.filter(|border| border.bounds_attempts(since)).map(|border| border.kept_since.into()))
}

/// Names of the columns.
const COLUMNS: [&str; 20] = [
    "delivery_id",
    "created_at",
    "trigger",
    "state",
    "cause",
    "hook_id",
    "run_id",
    "step_id",
    "form_id",
    "response_id",
    "host",
    "attempt",
    "started_at",
    "finished_at",
    "outcome",
    "status",
    "error",
    "late",
    "body_sha256",
    "answer_sha256",
];

/// A part of an export that is read page by page.
#[derive(Debug, Clone)]
struct ExportPart {
    scope: ExportScope,
    queued: QueuedWhen,
}

/// The queuing of the deliveries in a part, in relation to the asked time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueuedWhen {
    /// In the asked time, or at most [`ENDED_LATER_MIN`] before it.
    InTime,
    /// Earlier, and an attempt may have begun in the asked time.
    Earlier(DateTime<Utc>),
}

/// The deliveries in a part.
#[derive(Debug, Clone)]
enum ExportScope {
    /// All deliveries of the firm.
    Firm,
    /// The deliveries of a subscription.
    Hook(Uuid),
    /// The workflow steps to a host.
    Steps(String),
}

/// The lines of an export, newest delivery first. Those of a host are in the order of its
/// subscriptions, and for each first the deliveries that were queued in the asked time.
///
/// # Errors
/// `firm_not_found`; `invalid_request`.
pub async fn stream_lines(
    service: &Service,
    firm_id: Uuid,
    asked: &DeliveryExport,
) -> Result<impl Stream<Item = Result<Bytes, Error>> + use<>, Error> {
    let pool = service.store.pool().clone();
    firms::is_active(&pool, firm_id).await?.ok_or(Error::FirmNotFound)?;
    let parts = export_parts(&pool, firm_id, asked).await?;
    let begin = match asked.format {
        ExportFormat::Csv => csv_line(&COLUMNS),
        ExportFormat::Ndjson => String::new(),
    };
    let reader = ExportReader {
        pool,
        firm_id,
        format: asked.format,
        since: asked.since.map(Timestamp::get),
        until: asked.until.map(Timestamp::get),
        parts,
        after: None,
    };
    Ok(stream::try_unfold((reader, begin), |(mut reader, mut text)| async move {
        let Some(part) = reader.parts.front().cloned() else {
            return Ok((!text.is_empty()).then(|| (Bytes::from(text), (reader, String::new()))));
        };
        text.push_str(&reader.next_lines(&part).await?);
        Ok(Some((Bytes::from(text), (reader, String::new()))))
    }))
}

async fn export_parts(
    pool: &PgPool,
    firm_id: Uuid,
    asked: &DeliveryExport,
) -> Result<VecDeque<ExportPart>, Error> {
    let host = asked.host.as_deref().map(host_named).transpose()?;
    let scopes: Vec<ExportScope> = match (asked.hook_id, host) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("name a subscription or a host, not both"));
        }
        (Some(hook_id), None) => vec![ExportScope::Hook(hook_id)],
        (None, None) => vec![ExportScope::Firm],
        (None, Some(host)) => {
            let of_host = hooks::of_host(pool, firm_id, &host).await?;
            let hooks = of_host.into_iter().map(ExportScope::Hook);
            hooks.chain([ExportScope::Steps(host)]).collect()
        }
    };
    let earlier = asked.since.map(|since| QueuedWhen::Earlier(since.get()));
    let both = |scope: ExportScope| {
        let times = [QueuedWhen::InTime].into_iter().chain(earlier);
        times.map(move |queued| ExportPart { scope: scope.clone(), queued })
    };
    Ok(scopes.into_iter().flat_map(both).collect())
}

struct ExportReader {
    pool: PgPool,
    firm_id: Uuid,
    format: ExportFormat,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    parts: VecDeque<ExportPart>,
    after: Option<(DateTime<Utc>, Uuid)>,
}

impl ExportReader {
    /// The lines of the next page of a part. Goes on to the next part behind its last page.
    async fn next_lines(&mut self, part: &ExportPart) -> Result<String, Error> {
        let rows = self.read_rows(part).await?;
        self.after = rows.last().map(|last| (last.created_at, last.delivery_id));
        if i64::try_from(rows.len()) != Ok(DELIVERIES_PER_PAGE) {
            self.parts.pop_front();
            self.after = None;
        }
        self.format_rows(&part.scope, &rows).await
    }

    async fn read_rows(&self, part: &ExportPart) -> Result<Vec<DeliveryRow>, Error> {
        let begin = self.since.map(|since| since - ENDED_LATER_MIN);
        let (since, until) = match part.queued {
            QueuedWhen::InTime => (begin, self.until),
            QueuedWhen::Earlier(_) => (None, begin),
        };
        let (hook_id, kind) = match part.scope {
            ExportScope::Hook(hook_id) => (Some(hook_id), ListedKind::All),
            ExportScope::Firm => (None, ListedKind::All),
            ExportScope::Steps(_) => (None, ListedKind::Steps),
        };
        let wanted = DeliveryFilter {
            hook_id,
            since,
            until,
            after: self.after,
            limit: DELIVERIES_PER_PAGE,
            ..DeliveryFilter::default()
        };
        let pool = &self.pool;
        let firm_id = self.firm_id;
        Ok(match (part.queued, kind) {
            (QueuedWhen::Earlier(since), kind) => {
                deliveries::list_ended_later(pool, firm_id, &wanted, kind, since).await?
            }
            (QueuedWhen::InTime, ListedKind::Steps) => {
                deliveries::list_steps(pool, firm_id, &wanted).await?
            }
            (QueuedWhen::InTime, ListedKind::All) => {
                deliveries::list(pool, firm_id, &wanted).await?
            }
        })
    }

    /// Whether the asked time includes this one.
    fn includes(&self, at: DateTime<Utc>) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }

    async fn format_rows(
        &self,
        scope: &ExportScope,
        rows: &[DeliveryRow],
    ) -> Result<String, Error> {
        let hosts = self.find_hosts(rows).await?;
        let ids: Vec<Uuid> = rows.iter().map(|row| row.delivery_id).collect();
        let mut connection = self.pool.acquire().await?;
        let streams = had_happened(&mut connection, "Delivery", &ids, AsOf::NOW).await;
        drop(connection);
        let of: HashMap<String, Vec<Attempt>> = streams
            .map_err(unread_error)?
            .iter()
            .filter_map(|stream| {
                Some((stream.first()?.aggregate_id.clone(), stream_attempts(stream)))
            })
            .collect();
        let mut text = String::new();
        for row in rows {
            let host = hosts.get(&row.delivery_id).map_or("", String::as_str);
            if matches!(scope, ExportScope::Steps(wanted) if wanted != host) {
                continue;
            }
            let attempts = of.get(&row.delivery_id.to_string()).map_or(&[][..], Vec::as_slice);
            if attempts.is_empty() && self.includes(row.created_at) {
                text.push_str(&self.format_line(row, host, None));
            }
            let begun = |attempt: &&Attempt| self.includes(attempt.started_at.get());
            for attempt in attempts.iter().filter(begun) {
                text.push_str(&self.format_line(row, host, Some(attempt)));
            }
        }
        Ok(text)
    }

    async fn find_hosts(&self, rows: &[DeliveryRow]) -> Result<HashMap<Uuid, String>, Error> {
        let asked: Vec<_> = rows.iter().map(|row| (row.delivery_id, row.hook_id)).collect();
        let found = deliveries::destinations_of(&self.pool, &asked).await?;
        let host = |one: deliveries::Destination| {
            let host = one.host.or_else(|| one.target_url.as_deref().map(host_of))?;
            Some((one.delivery_id, host))
        };
        Ok(found.into_iter().filter_map(host).collect())
    }

    fn format_line(&self, row: &DeliveryRow, host: &str, attempt: Option<&Attempt>) -> String {
        let cells = line_cells(row, host, attempt);
        match self.format {
            ExportFormat::Csv => csv_line(&cells.map(Option::unwrap_or_default)),
            ExportFormat::Ndjson => {
                let object: serde_json::Map<_, _> = COLUMNS
                    .into_iter()
                    .zip(cells)
                    .map(|(name, cell)| (name.to_owned(), json!(cell)))
                    .collect();
                format!("{}\n", printable_json(&json!(object).to_string()))
            }
        }
    }
}

/// The cells of a line, in the order of [`COLUMNS`].
fn line_cells(row: &DeliveryRow, host: &str, attempt: Option<&Attempt>) -> [Option<String>; 20] {
    let id = |id: Option<Uuid>| id.map(|id| id.to_string());
    [
        id(Some(row.delivery_id)),
        Some(Timestamp::from(row.created_at).to_string()),
        Some(row.trigger.clone()),
        Some(row.state.clone()),
        row.cause.clone(),
        id(row.hook_id),
        id(row.run_id),
        id(row.step_id),
        id(Some(row.form_id)),
        id(Some(row.response_id)),
        (!host.is_empty()).then(|| host.to_owned()),
        attempt.map(|attempt| attempt.number.to_string()),
        attempt.map(|attempt| attempt.started_at.to_string()),
        attempt.map(|attempt| attempt.finished_at.to_string()),
        attempt.map(|attempt| attempt.outcome.name().to_owned()),
        attempt.and_then(|attempt| attempt.status).map(|status| status.to_string()),
        attempt.and_then(|attempt| attempt.error.clone()),
        attempt.map(|attempt| attempt.late.is_some().to_string()),
        attempt.and_then(|attempt| attempt.body_sha256.clone()),
        attempt.and_then(|attempt| attempt.answer_sha256.clone()),
    ]
}
