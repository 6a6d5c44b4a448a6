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

/// An unchanged failure is logged again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// The databases of this process that are away, and why.
static AWAY: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());

/// One outage of one database, from its first log line until this is dropped.
#[derive(Debug)]
pub(crate) struct Outage {
    database: &'static str,
    since: Instant,
    why: String,
}

impl Outage {
    pub(crate) fn of(database: &'static str) -> Self {
        Self { database, since: Instant::now(), why: String::new() }
    }

    /// Logs why the database is away, unless the log tells it already.
    pub(crate) fn tell(&mut self, why: String) {
        if self.why != why {
            let database = self.database;
            tracing::error!("{database} {why}: looking for it");
            away().insert(database, format!("{database} {why}"));
            self.why = why;
        }
    }

    /// Logs that the database is back, if the log tells that it is away.
    pub(crate) fn end(self) {
        if !self.why.is_empty() {
            let seconds = self.since.elapsed().as_secs_f64().ceil();
            tracing::info!(seconds, "{} is back", self.database);
        }
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        away().remove(self.database);
    }
}

fn away() -> MutexGuard<'static, BTreeMap<&'static str, String>> {
    AWAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns why each database that is away cannot be used, as sentences.
#[must_use]
pub fn known() -> Vec<String> {
    away().values().cloned().collect()
}

/// Returns whether the log tells that a database of this process is away.
#[must_use]
pub fn is_known() -> bool {
    !away().is_empty()
}

/// Returns whether an outage is the cause of an error. The log tells of it, or will within a
/// second.
#[must_use]
pub fn explains(error: &(dyn Error + 'static)) -> bool {
    let causes = successors(Some(error), |&error| error.source());
    let mut causes = causes.filter_map(|cause| cause.downcast_ref::<sqlx::Error>());
    causes.any(|cause| {
        let is_unreachable = Failure::of(cause) == Failure::Unreachable;
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
    pub fn ends(&mut self) -> bool {
        self.logged.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("a step: {0}")]
    struct StepFailed(#[from] sqlx::Error);

    #[test]
    fn a_lost_connection_is_explained_and_a_full_pool_is_not() {
        let explained = |error: sqlx::Error| explains(&StepFailed::from(error));
        assert!(explained(sqlx::Error::WorkerCrashed));
        assert!(explained(std::io::Error::other("reset").into()));
        assert!(!explained(sqlx::Error::PoolTimedOut));
        assert!(!explained(sqlx::Error::RowNotFound));
    }

    #[test]
    fn a_failure_is_logged_once_a_minute_or_if_it_changes_and_so_is_its_end() {
        let (mut log, start) = (FailureLog::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let (missing, full) = (sqlx::Error::RowNotFound, sqlx::Error::PoolTimedOut);
        assert!(!log.ends());
        assert!(log.is_news(&missing, at(0)));
        assert!(!log.is_news(&missing, at(59)));
        assert!(log.is_news(&missing, at(60)));
        assert!(log.is_news(&full, at(61)));
        assert!(log.ends());
        assert!(!log.ends());
    }
}
