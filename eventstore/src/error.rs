//! The errors of an append, and of a read. [`crate::Failure`] classifies the database errors among
//! them.

use domain::event::Quota;

/// The reason why an append did not happen. The log then has none of its events.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another append to one of the streams came first. The caller must load and decide again.
    #[error("another append to the same stream came first")]
    Conflict,
    /// The actor may not act any more: the key is revoked, the member manages no firm, or the firm
    /// is not active.
    #[error("the actor may not act any more")]
    ActorInactive,
    /// The firm has used its whole quota.
    #[error("the firm has used its whole quota: {0:?}")]
    QuotaFull(Quota),
    /// The database could not carry out the append.
    #[error("the database: {0}")]
    Database(#[source] sqlx::Error),
    /// An event could not be written as JSON, or read back.
    #[error("an event that cannot be read: {0}")]
    Unreadable(String),
}

/// The SQL state of an append in one statement that `confirm_append` refused.
const NOT_CONFIRMED: &str = "FF001";

/// The reason why reading stopped. No event is ever skipped.
#[derive(Debug, thiserror::Error)]
pub enum TailError {
    /// The database did not answer.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// This build cannot read an event. A newer build may be able to.
    #[error("position {position}: {why}")]
    Unreadable {
        /// The position of the event.
        position: i64,
        /// The reason.
        why: String,
    },
}

impl From<sqlx::Error> for AppendError {
    /// A conflict is a taken place in a stream, a serialization failure, a deadlock, or an append
    /// in one statement whose conditions do not hold. Any other violated constraint is a defect and
    /// no conflict.
    fn from(error: sqlx::Error) -> Self {
        let conflict =
            error.as_database_error().is_some_and(|error| match error.code().as_deref() {
                Some("23505") => error.constraint().is_some_and(is_key_of_log),
                Some("40001" | "40P01" | NOT_CONFIRMED) => true,
                Some(_) | None => false,
            });
        if conflict { Self::Conflict } else { Self::Database(error) }
    }
}

/// Whether this is the key of the log, or of one of its ranges.
fn is_key_of_log(constraint: &str) -> bool {
    let range = constraint.strip_prefix("log_").and_then(|rest| rest.strip_suffix("_pkey"));
    range.is_some() || constraint == "events_pkey"
}

impl From<TailError> for AppendError {
    fn from(error: TailError) -> Self {
        match error {
            TailError::Database(error) => error.into(),
            TailError::Unreadable { .. } => Self::Unreadable(error.to_string()),
        }
    }
}
