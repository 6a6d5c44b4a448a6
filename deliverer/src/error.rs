//! The error of the deliverer's workers.

use eventstore::{AppendError, Failure};
use vault::VaultError;

/// The error of a failed step. The step has changed nothing, and the worker repeats it.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The append to the log failed.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The vault could not be read or written.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The log could not be read.
    #[error(transparent)]
    Tail(#[from] eventstore::tail::TailError),
}

impl DeliveryError {
    /// The failure of the database, if the error is one.
    fn database_failure(&self) -> Option<Failure> {
        match self {
            Self::Append(AppendError::Database(error))
            | Self::Vault(VaultError::Database(error)) => Some(Failure::new(error)),
            Self::Append(
                AppendError::Conflict
                | AppendError::ActorInactive
                | AppendError::QuotaFull(_)
                | AppendError::Unreadable(_),
            )
            | Self::Vault(VaultError::Broken(_) | VaultError::Unreadable(_))
            | Self::Tail(_) => None,
        }
    }

    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Append(AppendError::Conflict))
    }

    /// Whether the database is unreachable, so that it answers no statement.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.database_failure() == Some(Failure::Unreachable)
    }

    /// Whether the error says nothing about the work: another append came first, or the database is
    /// unreachable or busy.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.is_conflict() || self.database_failure().is_some_and(Failure::may_pass)
    }

    /// Whether the work may succeed later. The database refuses a refused statement again.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.is_conflict()
            || self.database_failure().is_some_and(|failure| failure != Failure::Refused)
    }
}

impl From<DeliveryError> for AppendError {
    fn from(error: DeliveryError) -> Self {
        match error {
            DeliveryError::Append(error) => error,
            DeliveryError::Vault(VaultError::Database(error)) => error.into(),
            DeliveryError::Vault(error) => Self::Unreadable(error.to_string()),
            DeliveryError::Tail(error) => error.into(),
        }
    }
}

impl From<sqlx::Error> for DeliveryError {
    fn from(error: sqlx::Error) -> Self {
        Self::Append(error.into())
    }
}
