//! Receivers over all firms, by host: how they answer, what waits for them, and who holds it.

use chrono::TimeDelta;
use domain::delivery::PauseScope;
use domain::delivery::receiver::{hour_of, is_failing};
use domain::values::Timestamp;
use projector::pauses::{self, PauseRow};
use projector::receivers::{self, HostBacklog, ReceiverFilter, ReceiverRow};
use serde::Serialize;
use uuid::Uuid;

use super::listing::checked_limit;
use crate::error::Error;
use crate::service::Service;

/// Receivers in a page, if the caller asks for no number.
pub const RECEIVERS_LIMIT_DEFAULT: i64 = 50;

/// The window of the counts, in whole hours.
const WINDOW: TimeDelta = TimeDelta::hours(24);

/// A receiver of deliveries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Receiver {
    /// The host.
    pub host: String,
    /// Its live subscriptions.
    pub subscriptions: i64,
    /// Attempts of the last 24 hours.
    pub attempts: i64,
    /// Attempts among them that were answered 2xx.
    pub delivered: i64,
    /// The end of the last attempt.
    pub last_attempt_at: Timestamp,
    /// The status of the last attempt, if any.
    pub last_status: Option<i32>,
    /// The fault of the last attempt, if it got no status.
    pub last_error: Option<String>,
    /// The end of the last success.
    pub last_success_at: Option<Timestamp>,
    /// The end of the first failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// The failures since the last success.
    pub failures: i64,
    /// No success for a day, and at least ten failures.
    pub failing: bool,
    /// Deliveries that wait for an attempt, counted to 200,000.
    pub waiting: i64,
    /// The earliest due time of these deliveries.
    pub oldest_due_at: Option<Timestamp>,
    /// The pause that holds the host, if one does.
    pub paused: Option<ReceiverPause>,
}

/// A pause that holds a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReceiverPause {
    /// The pause.
    pub id: Uuid,
    /// The operator, in the notation of the log.
    pub by: String,
    /// The time at which the pause began.
    pub at: Timestamp,
    /// The operator's reason.
    pub reason: String,
}

/// A list of receivers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiverListQuery {
    /// Only this host, in any spelling.
    pub host: Option<String>,
    /// Only hosts after this one of the list.
    pub after: Option<String>,
    /// Hosts in the page; 50 by default.
    pub limit: Option<i64>,
}

/// A page of receivers: those whose last attempt failed first, the longest first, then the others
/// by name.
///
/// # Errors
/// `invalid_request`.
pub async fn list(service: &Service, asked: &ReceiverListQuery) -> Result<Vec<Receiver>, Error> {
    let limit = checked_limit(asked.limit.unwrap_or(RECEIVERS_LIMIT_DEFAULT))?;
    let host = asked.host.as_deref().map(host_named).transpose()?;
    let now = service.clock.now().get();
    let wanted = ReceiverFilter {
        host: host.as_deref(),
        after: asked.after.as_deref(),
        since: hour_of(now) - WINDOW,
        limit,
    };
    let pool = service.store.pool();
    let rows = receivers::list(pool, wanted).await?;
    let hosts: Vec<String> = rows.iter().map(|row| row.host.clone()).collect();
    let waiting = service.deliveries.queue.host_backlogs(&hosts).await?;
    let pauses = pauses::list(pool).await?;
    let shown = |row: ReceiverRow| {
        let waits = waiting.iter().find(|one| one.host == row.host);
        let failing = is_failing(row.failing_since, row.failures, now);
        Receiver { failing, paused: host_pause(&pauses, &row.host), ..Receiver::new(row, waits) }
    };
    Ok(rows.into_iter().map(shown).collect())
}

/// The host in the spelling of the list.
pub(super) fn host_named(name: &str) -> Result<String, Error> {
    match PauseScope::of_host(name) {
        Some(PauseScope::Host { host }) => Ok(host),
        _ => Err(Error::invalid("`host` must be the name of a host")),
    }
}

/// The pause that holds a whole host. A pause of a firm or a subscription does not.
fn host_pause(pauses: &[PauseRow], host: &str) -> Option<ReceiverPause> {
    let holds = |pause: &&PauseRow| match pause.scope() {
        PauseScope::All => true,
        PauseScope::Host { host: paused } => paused == host,
        PauseScope::Firm { .. } | PauseScope::Hook { .. } => false,
    };
    pauses.iter().find(holds).map(|pause| ReceiverPause {
        id: pause.pause_id,
        by: pause.actor.clone(),
        at: pause.paused_at.into(),
        reason: pause.reason.clone(),
    })
}

impl Receiver {
    fn new(row: ReceiverRow, waits: Option<&HostBacklog>) -> Self {
        Self {
            host: row.host,
            subscriptions: row.subscriptions,
            attempts: row.attempts,
            delivered: row.delivered,
            last_attempt_at: row.attempted_at.into(),
            last_status: row.last_status,
            last_error: row.last_error,
            last_success_at: row.succeeded_at.map(Timestamp::from),
            failing_since: row.failing_since.map(Timestamp::from),
            failures: row.failures,
            failing: false,
            waiting: waits.map_or(0, |waits| waits.waiting),
            oldest_due_at: waits.and_then(|waits| waits.oldest_due_at).map(Timestamp::from),
            paused: None,
        }
    }
}
