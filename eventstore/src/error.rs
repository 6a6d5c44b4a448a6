//! What an append met.

use domain::quota::Quota;

use crate::tail::TailError;

/// Why an append did not happen. Nothing of it is in the log then.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Somebody else appended to one of the streams first: load again, decide again.
    #[error("another append to the same stream came first")]
    Conflict,
    /// The one who acts may not any more: key revoked, member not a manager, firm not active.
    #[error("the one who acts may not act any more")]
    ActorInactive,
    /// The firm has no place left.
    #[error("the firm has no place left: {0:?}")]
    QuotaFull(Quota),
    /// The database could not do it.
    #[error("the database: {0}")]
    Database(sqlx::Error),
    /// An event could not be written as JSON, or read back.
    #[error("an event that cannot be read: {0}")]
    Unreadable(String),
}

impl From<sqlx::Error> for AppendError {
    /// A conflict is a taken place in a stream, a serialization failure or a deadlock; any other
    /// violated constraint is a defect, not a conflict.
    fn from(error: sqlx::Error) -> Self {
        let conflict =
            error.as_database_error().is_some_and(|error| match error.code().as_deref() {
                Some("23505") => error.constraint() == Some("events_pkey"),
                Some("40001" | "40P01") => true,
                Some(_) | None => false,
            });
        if conflict { Self::Conflict } else { Self::Database(error) }
    }
}

impl From<TailError> for AppendError {
    fn from(error: TailError) -> Self {
        match error {
            TailError::Database(error) => error.into(),
            TailError::Unreadable { .. } => Self::Unreadable(error.to_string()),
        }
    }
}

/// Whether it may pass by itself: the database is away, or says "not now".
#[must_use]
pub fn may_pass(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| passes(&code)),
        _ => false,
    }
}

/// Whether PostgreSQL's answer says "not now" (its manual, appendix A): no connection, no room,
/// stopped or starting, an I/O error, a lost race, a lock or statement that took too long, an idle
/// transaction ended, a server that is a read-only replica now.
fn passes(sqlstate: &str) -> bool {
    matches!(sqlstate.get(..2), Some("08" | "40" | "53" | "57" | "58"))
        || matches!(sqlstate, "55P03" | "25006" | "25P03")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_from_a_defect() {
        let not_now = ["57P01", "57P03", "53100", "53300", "55P03", "25006", "40001"];
        for sqlstate in not_now {
            assert!(passes(sqlstate), "{sqlstate}");
        }
        for sqlstate in ["23505", "42601", "28P01", "3D000", ""] {
            assert!(!passes(sqlstate), "{sqlstate}");
        }
    }
}
