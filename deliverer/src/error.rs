//! The error of the deliverer's workers.

use eventstore::AppendError;
use vault::responses::VaultError;

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
    /// Whether the database is away or answers no caller. A refusal of this statement does not
    /// count.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match self {
            Self::Append(AppendError::Database(error))
            | Self::Vault(VaultError::Database(error)) => match error.as_database_error() {
                Some(error) => {
                    let code = error.code().unwrap_or_default();
                    ["08", "53", "57"].iter().any(|class| code.starts_with(class))
                }
                None => eventstore::may_pass(error),
            },
            Self::Append(_) | Self::Vault(_) | Self::Tail(_) => false,
        }
    }

    /// Whether the error says nothing about the statement: another transaction came first, or the
    /// database is away or busy.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Append(AppendError::Conflict) => true,
            Self::Append(AppendError::Database(error))
            | Self::Vault(VaultError::Database(error)) => eventstore::may_pass(error),
            Self::Append(_) | Self::Vault(_) | Self::Tail(_) => false,
        }
    }

    /// Whether the error may pass by itself. A lost race and a database that is away pass, and a
    /// refusal comes again.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Append(AppendError::Conflict) => true,
            Self::Append(AppendError::Database(error))
            | Self::Vault(VaultError::Database(error)) => is_no_refusal(error),
            Self::Append(
                AppendError::ActorInactive | AppendError::QuotaFull(_) | AppendError::Unreadable(_),
            )
            | Self::Vault(VaultError::Broken(_) | VaultError::Unreadable(_))
            | Self::Tail(_) => false,
        }
    }
}

/// Whether the error is no refusal. SQLSTATE classes 22, 23 and 42 are about the statement itself.
fn is_no_refusal(error: &sqlx::Error) -> bool {
    error.as_database_error().is_none_or(|error| {
        let code = error.code().unwrap_or_default();
        !["22", "23", "42"].iter().any(|class| code.starts_with(class))
    })
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
