//! What inviting works with, what can be set of it, and what can go wrong.

use std::sync::Arc;
use std::time::Duration;

use domain::invite::InviteRejection;
use eventstore::{AppendError, AsConflict, Clock, Store};
use mailer::{Mailer, SenderAddress};
use uuid::Uuid;
use vault::responses::VaultError;
use vault::{Entropy, IdentityKey, Keyring};

/// What inviting works with. Clones share everything.
#[derive(Clone)]
pub struct Inviter {
    /// The log, and the pool of the main database.
    pub store: Store,
    /// The data keys.
    pub keyring: Keyring,
    /// Who is who.
    pub identity: IdentityKey,
    /// What time it is.
    pub clock: Clock,
    /// Where random bytes come from.
    pub entropy: Arc<dyn Entropy>,
    /// The way mail leaves by.
    pub mailer: Mailer,
    /// The address mail is sent from.
    pub sender: SenderAddress,
    /// Where the unsubscribe page is reached: the public door's host, without a path.
    pub public_url: Arc<str>,
    /// How long a call waits for another.
    pub wait: InviteWait,
}

/// How long a call waits for another that is sending the same invite.
#[derive(Debug, Clone, Copy)]
pub struct InviteWait {
    /// In all (ruling 11: 10 s).
    pub max: Duration,
    /// Between two looks.
    pub look_every: Duration,
}

impl Default for InviteWait {
    fn default() -> Self {
        Self { max: Duration::from_secs(10), look_every: Duration::from_millis(200) }
    }
}

/// Why an invite was neither sent nor skipped.
#[derive(Debug, thiserror::Error)]
pub enum InviteError {
    /// The firm's invites of the day are used up (contract, section Limits).
    #[error("the firm's invites of the day are used up; it ends in {seconds} s")]
    LimitReached {
        /// Until the midnight that ends the day, at least 1.
        seconds: u64,
    },
    /// Another call is sending this invite.
    #[error("the invite is being sent")]
    BeingSent(Uuid),
    /// The mail server did not take it, or another call is still sending it.
    #[error("the mail was not sent")]
    NotSent,
    /// The form is not there any more.
    #[error("the form was deleted")]
    NoForm,
    /// The form is not open to the public any more.
    #[error("the form is not published")]
    NotPublished,
    /// Nothing was ever reported of the firm.
    #[error("the firm is not known")]
    NoFirm,
    /// The invite's own rule.
    #[error(transparent)]
    Rejected(InviteRejection),
    /// What the log met.
    #[error(transparent)]
    Append(AppendError),
    /// The vault could not write or read.
    #[error("the vault: {0}")]
    Vault(String),
}

impl AsConflict for InviteError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Append(AppendError::Conflict))
    }
}

impl From<AppendError> for InviteError {
    fn from(error: AppendError) -> Self {
        Self::Append(error)
    }
}

impl From<sqlx::Error> for InviteError {
    fn from(error: sqlx::Error) -> Self {
        Self::Append(error.into())
    }
}

impl From<VaultError> for InviteError {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Database(error) => error.into(),
            VaultError::Broken(_) | VaultError::Unreadable(_) => Self::Vault(error.to_string()),
        }
    }
}
