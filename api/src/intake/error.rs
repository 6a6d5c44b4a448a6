//! Reasons why a batch was refused. A refused batch changes nothing.

use std::collections::BTreeSet;
use std::fmt;

use domain::activity::{BATCH_MAX_BYTES, BATCH_MAX_EVENTS};
use eventstore::disk::is_disk_full;
use eventstore::tail::TailError;
use eventstore::{AppendError, AsConflict, Failure};
use vault::VaultError;

use crate::batching::token_cache::TokenHash;

/// Why a batch was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// Too many events.
    #[error("a batch has at most {BATCH_MAX_EVENTS} events")]
    TooMany,
    /// Too many bytes.
    #[error("a batch has at most {BATCH_MAX_BYTES} bytes")]
    TooLarge,
    /// The request as a whole is not a batch.
    #[error("{0}")]
    NotABatch(String),
    /// One of the events is refused.
    #[error(transparent)]
    BadEvent(#[from] BadEvent),
    /// These tokens were revoked after their last look-up.
    #[error("the token is not active any more")]
    Revoked(BTreeSet<TokenHash>),
    /// The append failed.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The database refused the claim in the append. The batch may be taken in without the claim.
    #[error(transparent)]
    ClaimRefused(AppendError),
    /// The shared transaction of this call reached no database.
    #[error("{0}")]
    Away(String),
    /// The vault could not encrypt the content. An error of its database is [`Self::Append`].
    #[error("the vault: {0}")]
    Vault(String),
}

/// A refused event and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadEvent {
    /// Place in the batch, counted from 0.
    pub index: usize,
    /// Line in the body, counted from 1, if the batch has lines.
    pub line: Option<usize>,
    /// The fault. It names fields and never quotes their values.
    pub why: String,
}

impl std::error::Error for BadEvent {}

impl fmt::Display for BadEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            None => write!(f, "event {}: {}", self.index, self.why),
            Some(line) => write!(f, "event {} (line {line}): {}", self.index, self.why),
        }
    }
}

impl AsConflict for IntakeError {
    fn is_conflict(&self) -> bool {
        match self {
            Self::Append(error) => error.is_conflict(),
            Self::TooMany
            | Self::TooLarge
            | Self::NotABatch(_)
            | Self::BadEvent(_)
            | Self::Revoked(_)
            | Self::ClaimRefused(_)
            | Self::Away(_)
            | Self::Vault(_) => false,
        }
    }
}

impl IntakeError {
    /// Classifies the failure of a claim in an append. A conflict or a lost database would have
    /// failed the append as well.
    pub(super) fn of_claim(error: AppendError) -> Self {
        let is_of_append = match &error {
            AppendError::Conflict => true,
            AppendError::Database(error) => Failure::new(error).may_pass(),
            AppendError::ActorInactive | AppendError::QuotaFull(_) | AppendError::Unreadable(_) => {
                false
            }
        };
        if is_of_append { Self::Append(error) } else { Self::ClaimRefused(error) }
    }

    /// Whether a database refused the batch because its disk is full.
    pub(super) fn is_of_full_disk(&self) -> bool {
        let (Self::Append(AppendError::Database(error))
        | Self::ClaimRefused(AppendError::Database(error))) = self
        else {
            return false;
        };
        is_disk_full(error)
    }

    /// Whether the batch reached no database. Such a failure is no single call's fault; an error
    /// that the database reports may be.
    pub(super) fn is_everybodys(&self) -> bool {
        let Self::Append(AppendError::Database(error)) = self else {
            return false;
        };
        Failure::new(error).may_pass() && error.as_database_error().is_none()
    }
}

impl From<sqlx::Error> for IntakeError {
    fn from(error: sqlx::Error) -> Self {
        Self::Append(error.into())
    }
}

impl From<TailError> for IntakeError {
    fn from(error: TailError) -> Self {
        match error {
            TailError::Database(error) => error.into(),
            TailError::Unreadable { .. } => {
                Self::Append(AppendError::Unreadable(error.to_string()))
            }
        }
    }
}

impl From<VaultError> for IntakeError {
    fn from(error: VaultError) -> Self {
        match error {
            // The tables did not know the content. The retry runs alone and looks it up.
            error if error.is_taken() => Self::Append(AppendError::Conflict),
            VaultError::Database(error) => error.into(),
            VaultError::Broken(_) | VaultError::Unreadable(_) => Self::Vault(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::error::Error as StdError;

    use rstest::rstest;
    use sqlx::error::{DatabaseError, ErrorKind};

    use super::*;
    use crate::error::Error;

    /// An error of PostgreSQL with this SQLSTATE.
    #[derive(Debug, thiserror::Error)]
    #[error("SQLSTATE {0}")]
    struct Said(&'static str);

    impl DatabaseError for Said {
        fn message(&self) -> &str {
            self.0
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    /// Only a lost race is tried again.
    #[rstest]
    #[case::deadlock("40P01", true)]
    #[case::serialization("40001", true)]
    #[case::terminated("57P01", false)]
    fn a_vault_databases_error_is_503(#[case] sqlstate: &'static str, #[case] again: bool) {
        let said = || sqlx::Error::Database(Box::new(Said(sqlstate)));
        for error in [IntakeError::from(VaultError::Database(said())), said().into()] {
            assert_eq!(error.is_conflict(), again);
            assert!(matches!(error.into(), Error::Unavailable(_)));
        }
    }

    #[test]
    fn unencryptable_content_is_a_defect() {
        let error = IntakeError::from(VaultError::Broken(vault::BrokenSeal));
        assert!(!error.is_conflict());
        assert!(matches!(error.into(), Error::Internal(_)));
    }
}
