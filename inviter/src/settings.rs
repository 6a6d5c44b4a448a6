//! The parts that inviting uses, its settings and its errors.

use std::sync::Arc;
use std::time::Duration;

use domain::access::Cell;
use domain::invite::InviteRejection;
use eventstore::{AppendError, AsConflict, Clock, Store};
use mailer::{Mailer, NoTurn, SenderAddress};
use tokio_util::task::TaskTracker;
use uuid::Uuid;
use vault::VaultError;
use vault::{Entropy, IdentityKey, Keyring};

/// The parts that inviting uses. Clones share all parts.
#[derive(Clone)]
pub struct Inviter {
    /// The log, and the pool of the main database.
    pub store: Store,
    /// The data keys.
    pub keyring: Keyring,
    /// The identity key, which makes ids of people.
    pub identity: IdentityKey,
    /// The clock.
    pub clock: Clock,
    /// The source of random bytes.
    pub entropy: Arc<dyn Entropy>,
    /// The mailer.
    pub mailer: Mailer,
    /// The address that sends the mails.
    pub sender: SenderAddress,
    /// The public door's URL, without a path. The unsubscribe page lies there.
    pub public_url: Arc<str>,
    /// The cell that unsubscribe links name, if this installation is one of several (ruling 47).
    pub cell: Option<Cell>,
    /// The waits of a call.
    pub wait: InviteWait,
    /// The invites under way. Each has a task of its own.
    pub under_way: TaskTracker,
}

/// The waits of a call.
#[derive(Debug, Clone, Copy)]
pub struct InviteWait {
    /// The longest wait for another call that sends the same invite (ruling 11: 10 s).
    pub max: Duration,
    /// The time between two looks at that call.
    pub look_every: Duration,
    /// The longest wait for a turn at the mail server. With all other waits a call may outlast the
    /// public door's time. It is answered 503 then, and its mail is recorded all the same.
    pub turn_max: Duration,
}

impl Default for InviteWait {
    fn default() -> Self {
        Self {
            max: Duration::from_secs(10),
            look_every: Duration::from_millis(200),
            turn_max: Duration::from_secs(20),
        }
    }
}

/// Why an invite was neither sent nor skipped.
#[derive(Debug, thiserror::Error)]
pub enum InviteError {
    /// The firm's invites of the day are used up (contract, section Limits).
    #[error("the firm's invites of the day are used up; it ends in {seconds} s")]
    LimitReached {
        /// Seconds until midnight, the end of the day; at least 1.
        seconds: u64,
    },
    /// The firm has tried too many recipients today.
    #[error("the firm's tries of the day are used up")]
    TriesUsedUp,
    /// No turn at the mail server came free in time. Nothing was reserved.
    #[error("the mail server is busy with other mails")]
    Busy,
    /// Another call is sending this invite.
    #[error("the invite is being sent")]
    BeingSent(Uuid),
    /// The mail server did not accept the mail, there is none, or another call is still sending it.
    #[error("the mail was not sent")]
    NotSent,
    /// The form no longer exists.
    #[error("the form was deleted")]
    NoForm,
    /// The form is no longer open to the public.
    #[error("the form is not published")]
    NotPublished,
    /// The product has never reported the firm.
    #[error("the firm is not known")]
    NoFirm,
    /// A rule of the invite refused.
    #[error(transparent)]
    Rejected(InviteRejection),
    /// The log refused the append.
    #[error(transparent)]
    Append(AppendError),
    /// The vault could not read or write.
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

impl From<NoTurn> for InviteError {
    fn from(why: NoTurn) -> Self {
        match why {
            NoTurn::Off => Self::NotSent,
            NoTurn::Busy => Self::Busy,
        }
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
