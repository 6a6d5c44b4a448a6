//! The outages of databases, for the log of this process.
//!
//! The follower of each database ([`crate::PrimaryFollower`]) logs once that its database is away,
//! and once that it is back. What fails meanwhile is logged at the debug level.

use std::collections::BTreeMap;
use std::error::Error;
use std::iter::successors;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::failure::Failure;

/// A caller that waits longer than this for a free connection gets an error.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// An unchanged failure is logged again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// What began in an outage may still fail so long after it: a wait for a connection.
const AFTERMATH: Duration = ACQUIRE_TIMEOUT;

/// The outages that this process knows of.
static OUTAGES: Mutex<Outages> = Mutex::new(Outages { away: BTreeMap::new(), ended: None });

struct Outages {
    /// The databases that are away, and why.
    away: BTreeMap<&'static str, String>,
    /// The end of the last outage.
    ended: Option<Instant>,
}

impl Outages {
    fn explain_failures_at(&self, now: Instant) -> bool {
        !self.away.is_empty() || self.ended.is_some_and(|ended| now < ended + AFTERMATH)
    }
}

/// One outage of one database, from its first log line until this is dropped.
#[derive(Debug)]
pub(crate) struct Outage {
    database: &'static str,
    since: Instant,
    why: String,
    /// The time of the last log line.
    logged: Option<Instant>,
}

impl Outage {
    pub(crate) fn new(database: &'static str) -> Self {
        Self { database, since: Instant::now(), why: String::new(), logged: None }
    }

    /// Logs why the database is away: at once, and a changed reason after a minute. A reset
    /// connection alone has several texts, which take turns.
    pub(crate) fn log_reason(&mut self, why: String, now: Instant) {
        let database = self.database;
        if self.is_news(&why, now) {
            tracing::error!("{database} {why}: looking for it");
            self.logged = Some(now);
        }
        lock_outages().away.insert(database, format!("{database} {why}"));
        self.why = why;
    }

    fn is_news(&self, why: &str, now: Instant) -> bool {
        self.logged.is_none_or(|at| now >= at + REPEAT_INTERVAL && self.why != why)
    }

    /// Logs that the database is back, if the log tells that it is away.
    pub(crate) fn log_return(self) {
        if self.logged.is_some() {
            let seconds = self.since.elapsed().as_secs_f64().ceil();
            tracing::info!(seconds, "{} is back", self.database);
        }
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        let mut outages = lock_outages();
        if outages.away.remove(self.database).is_some() {
            outages.ended = Some(Instant::now());
        }
    }
}

fn lock_outages() -> MutexGuard<'static, Outages> {
    OUTAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns why each database that is away cannot be used, as sentences.
#[must_use]
pub fn known_reasons() -> Vec<String> {
    lock_outages().away.values().cloned().collect()
}

/// Returns whether the log tells that a database of this process is away, or was until a moment
/// ago.
#[must_use]
pub fn is_known() -> bool {
    lock_outages().explain_failures_at(Instant::now())
}

/// Returns whether an outage is the cause of an error. The log tells of it, or will within a
/// second.
#[must_use]
pub fn explains(error: &(dyn Error + 'static)) -> bool {
    let causes = successors(Some(error), |&error| error.source());
    let mut causes = causes.filter_map(|cause| cause.downcast_ref::<sqlx::Error>());
    causes.any(|cause| {
        let is_unreachable = Failure::new(cause) == Failure::Unreachable;
        is_unreachable && (is_known() || has_lost_its_connection(cause))
    })
}

/// Returns whether the server has ended the connection, or takes none. A pool without a free
/// connection and a cancelled statement say nothing of the server.
fn has_lost_its_connection(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => {
            error.code().is_some_and(|code| code.starts_with("57P") || code.starts_with("08"))
        }
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}

/// The last logged failure of something that is tried again and again.
#[derive(Debug, Default)]
pub struct FailureLog {
    logged: Option<(String, Instant)>,
}

impl FailureLog {
    /// Returns whether to log a failure: it is new, or a minute has passed. A known outage explains
    /// it otherwise.
    pub fn is_news(&mut self, error: &(dyn Error + 'static), now: Instant) -> bool {
        let text = error.to_string();
        let is_repeated = self
            .logged
            .as_ref()
            .is_some_and(|(logged, at)| *logged == text && now < *at + REPEAT_INTERVAL);
        if is_repeated || explains(error) {
            return false;
        }
        self.logged = Some((text, now));
        true
    }

    /// Returns whether to log a success: a failure before it was logged.
    pub fn is_recovery(&mut self) -> bool {
        self.logged.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("a step: {0}")]
    struct StepFailed(#[from] sqlx::Error);

    /// A full pool is no lost connection.
    #[test]
    fn only_a_lost_connection_is_explained() {
        let explained = |error: sqlx::Error| explains(&StepFailed::from(error));
        assert!(explained(sqlx::Error::WorkerCrashed));
        assert!(explained(std::io::Error::other("reset").into()));
        assert!(!explained(sqlx::Error::PoolTimedOut));
        assert!(!explained(sqlx::Error::RowNotFound));
    }

    /// An outage whose reason took turns was logged at each turn.
    #[test]
    fn an_outage_is_logged_once_a_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut outage = Outage::new("a database");
        assert!(outage.is_news("reset", at(0)));
        outage.logged = Some(at(0));
        outage.why = "reset".to_owned();
        assert!(!outage.is_news("end of file", at(59)));
        assert!(!outage.is_news("reset", at(60)));
        assert!(outage.is_news("end of file", at(60)));
    }

    /// A wait that began in an outage was logged when it ended after the outage.
    #[test]
    fn an_outage_explains_failures_shortly_after() {
        let end = Instant::now();
        let mut outages = Outages { away: BTreeMap::new(), ended: None };
        assert!(!outages.explain_failures_at(end));
        outages.ended = Some(end);
        assert!(outages.explain_failures_at(end + AFTERMATH / 2));
        assert!(!outages.explain_failures_at(end + AFTERMATH));
    }

    /// A changed failure is logged at once, and the end of a failure once.
    #[test]
    fn a_failure_is_logged_once_a_minute() {
        let (mut log, start) = (FailureLog::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let (missing, full) = (sqlx::Error::RowNotFound, sqlx::Error::PoolTimedOut);
        assert!(!log.is_recovery());
        assert!(log.is_news(&missing, at(0)));
        assert!(!log.is_news(&missing, at(59)));
        assert!(log.is_news(&missing, at(60)));
        assert!(log.is_news(&full, at(61)));
        assert!(log.is_recovery());
        assert!(!log.is_recovery());
    }
}
