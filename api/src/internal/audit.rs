//! `/internal/v1/firms/{firm}/audit`: what has to be answered for. Whoever reads it is in it.

use std::sync::Arc;

use auditor::lines;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use domain::audit::Action;
use domain::reading::{Look, Read, ReadAs};
use domain::time::Timestamp;
use futures::{Stream, stream};
use projector::audit::{self, Filter, Span};
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::List;
use super::caller::Reader;
use super::path::Firm;
use crate::commands::readings;
use crate::error::Error;
use crate::service::Service;

/// How many are listed when nothing is said, and at most.
const LIMIT: i64 = 50;
const LIMIT_MAX: i64 = 500;

/// Entries read at a time for an export.
const PAGE: i64 = 1_000;

/// What of the list is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    action: Option<String>,
    actor: Option<String>,
    subject: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    after: Option<i64>,
    limit: Option<i64>,
}

/// What of the export is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    format: Option<Format>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    Csv,
    #[default]
    Ndjson,
}

/// Lists the newest, or those before the one of `after`.
pub(super) async fn list(
    reader: Reader,
    Firm(firm_id): Firm,
    State(service): State<Arc<Service>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<List<Value>>, Error> {
    let Query(asked) = asked.map_err(|_| invalid())?;
    let limit = asked.limit.unwrap_or(LIMIT);
    let (since, until) = (asked.since, asked.until);
    let filter = asked.filter(limit).ok_or_else(invalid)?;
    let look = Look { since, until, ..Look::at(Read::Audit, ReadAs::Page) };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    let rows = audit::list(service.store.pool(), firm_id, &filter, limit).await?;
    let more = i64::try_from(rows.len()) == Ok(limit);
    let last = rows.last().filter(|_| more).map(|row| row.sequence.to_string());
    Ok(Json(List { items: rows.iter().map(lines::shown).collect(), next: last }))
}

/// Streams all of it, or of a time, first to last.
pub(super) async fn export(
    reader: Reader,
    Firm(firm_id): Firm,
    State(service): State<Arc<Service>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<([(HeaderName, &'static str); 1], Body), Error> {
    let Query(Wanted { format, since, until }) = wanted.map_err(|_| invalid())?;
    let format = format.unwrap_or_default();
    let look = Look { since, until, ..Look::at(Read::Audit, format.read_as()) };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    let pool = service.store.pool().clone();
    let time = (since.map(Timestamp::get), until.map(Timestamp::get));
    let mut connection = pool.acquire().await?;
    let span = audit::span(&mut connection, (firm_id, i64::MAX), time).await?;
    drop(connection);
    let body = Body::from_stream(lines_of(pool, firm_id, (span, format)));
    Ok(([(CONTENT_TYPE, format.content_type())], body))
}

impl Asked {
    /// What is looked for; none if it can be nothing.
    fn filter(self, limit: i64) -> Option<Filter> {
        let action: Option<Action> = self.action.map(|word| word.parse()).transpose().ok()?;
        (1..=LIMIT_MAX).contains(&limit).then_some(Filter {
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

impl Format {
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

/// The entries of a stretch as lines, a page at a time.
fn lines_of(
    pool: PgPool,
    firm_id: Uuid,
    (span, format): (Option<Span>, Format),
) -> impl Stream<Item = Result<Bytes, sqlx::Error>> {
    let begin = match format {
        Format::Csv => lines::CSV_HEADER,
        Format::Ndjson => "",
    };
    let line = match format {
        Format::Csv => lines::csv,
        Format::Ndjson => lines::ndjson,
    };
    stream::try_unfold((span, begin.to_owned()), move |(span, mut text)| {
        let pool = pool.clone();
        async move {
            let Some(Span { first, last }) = span else {
                return Ok((!text.is_empty()).then(|| (text.into(), (None, String::new()))));
            };
            let page = Span { first, last: last.min(first + PAGE - 1) };
            let mut connection = pool.acquire().await?;
            for row in audit::stretch(&mut connection, firm_id, page).await? {
                text.push_str(&line(&row));
            }
            let rest = (page.last < last).then_some(Span { first: page.last + 1, last });
            Ok(Some((text.into(), (rest, String::new()))))
        }
    })
}
