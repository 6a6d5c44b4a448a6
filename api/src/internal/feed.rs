//! `/internal/v1/audit/feed`: entries as they come, for a program that collects them. The feed of a
//! firm is in the order of its chain, the feed of all chains in the order of the log.
//!
//! One follower writes entries in the order of the log, so no entry appears before a place that was
//! shown. A caller who goes on after the last `cursor` gets every entry once.

use std::sync::Arc;
use std::time::Duration;

use auditor::lines;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use projector::audit::{self, EntryRow, HeadRow};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::caller::Reader;
use super::query::QueryFields;
use crate::audit_access::FeedReader;
use crate::commands::readings;
use crate::error::Error;
use crate::queries::listing::{self, LIST_LIMIT_MAX};
use crate::service::Service;

/// Longest wait of a call for the next entry.
const WAIT_SECONDS_MAX: u64 = 30;

/// Time between two looks of a waiting call.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The parameters of a call.
struct FeedCall {
    firm_id: Option<Uuid>,
    after: i64,
    limit: i64,
    wait: Duration,
}

/// Answers with the entries after a place. Without entries it waits for the next one.
pub(super) async fn follow(
    reader: Reader,
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    query: QueryFields,
) -> Result<([(HeaderName, &'static str); 2], String), Error> {
    let call = FeedCall::read(query)?;
    match call.firm_id {
        Some(firm_id) if !reader.holder().reaches(firm_id) => return Err(Error::FirmNotFound),
        None if !reader.holder().reaches_all() => return Err(Error::Forbidden),
        _ => {}
    }
    if call.after > call.last_place(&service).await? {
        return Err(Error::invalid("`after` is beyond the end of this feed"));
    }
    let token_id = reader.holder().token_id;
    let feed = FeedReader { token_id, firm_id: call.firm_id };
    readings::record_feed(&service, feed, reader.actor(), call.after).await?;
    let mut rows = call.read_rows(&service).await?;
    if rows.is_empty() && !call.wait.is_zero() {
        rows = call.await_rows(&service).await?;
        // The token may have ended during the wait.
        reader.confirm_token(&service, &headers).await?;
    }
    let body = rows.iter().map(|row| lines::feed(row, call.cursor(row))).collect();
    Ok(([(CONTENT_TYPE, "application/x-ndjson"), (CACHE_CONTROL, "no-store")], body))
}

impl FeedCall {
    fn read(mut query: QueryFields) -> Result<Self, Error> {
        let firm_id = query.id("firm")?;
        let after = query.number_within("after", 0..=i64::MAX)?.unwrap_or(0);
        let wait = query.number_within("wait", 0..=WAIT_SECONDS_MAX)?.unwrap_or(0);
        let limit = listing::checked_limit(query.limit()?.unwrap_or(LIST_LIMIT_MAX))?;
        query.refuse_unknown()?;
        Ok(Self { firm_id, after, limit, wait: Duration::from_secs(wait) })
    }

    /// The place of the last entry.
    async fn last_place(&self, service: &Service) -> Result<i64, Error> {
        let mut connection = service.store.pool().acquire().await?;
        let Some(firm_id) = self.firm_id else {
            return Ok(audit::last_position(&mut connection).await?);
        };
        let head = audit::chain_ends(&mut connection, &[firm_id]).await?.pop();
        Ok(head.map_or(0, |HeadRow { sequence, .. }| sequence))
    }

    async fn read_rows(&self, service: &Service) -> Result<Vec<EntryRow>, Error> {
        let mut connection = service.store.pool().acquire().await?;
        let Self { after, limit, .. } = *self;
        Ok(match self.firm_id {
            Some(firm_id) => audit::list_after(&mut connection, firm_id, after, limit).await?,
            None => audit::list_from(&mut connection, after.saturating_add(1), limit).await?,
        })
    }

    /// Looks until there is an entry, or the wait is over.
    async fn await_rows(&self, service: &Service) -> Result<Vec<EntryRow>, Error> {
        let _place = service.audit.acquire_wait()?;
        let end = Instant::now() + self.wait;
        loop {
            sleep_until(end.min(Instant::now() + LOOK_INTERVAL)).await;
            let rows = self.read_rows(service).await?;
            if !rows.is_empty() || Instant::now() >= end {
                return Ok(rows);
            }
        }
    }

    /// The place of an entry in this feed.
    const fn cursor(&self, row: &EntryRow) -> i64 {
        match self.firm_id {
            Some(_) => row.sequence,
            None => row.position,
        }
    }
}
