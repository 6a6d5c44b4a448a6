//! What is asked for when read models are made anew, and what comes of it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use eventstore::AppendError;
use eventstore::tail::TailError;

use super::{ModelDigest, ReadModel, RowDifference};

/// Told how far the log is read, and how far it will be.
pub type RebuildProgress<'a> = dyn Fn(i64, i64) + Send + Sync + 'a;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct RebuildOrder {
    /// Which read models.
    pub models: Vec<ReadModel>,
    /// What to do with them.
    pub act: RebuildAct,
    /// Now.
    pub now: DateTime<Utc>,
    /// How often the end of the log is looked for, and the live tables are asked for, when somebody's
    /// long transaction is in the way.
    pub tries: u32,
}

/// As often as an operator may wait for: half a minute or so.
pub const TRIES_MAX: u32 = 60;

/// What to do when a read model was made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebuildAct {
    /// Compare it with the one that is there.
    Verify,
    /// Put it in that one's place, too.
    Replace,
}

/// What came of a read model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildReport {
    /// Which.
    pub model: ReadModel,
    /// What its rows came to when they were compared.
    pub digest: ModelDigest,
    /// Up to where the log was read by then.
    pub position: i64,
    /// How many events that were.
    pub events: u64,
    /// The first row that was not what the log says.
    pub difference: Option<RowDifference>,
    /// What was done.
    pub outcome: RebuildOutcome,
    /// How long writing, comparing and swapping took.
    pub took: Duration,
    /// How long the live tables were held.
    pub held: Duration,
}

/// What was done about a read model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebuildOutcome {
    /// Nothing: that was not asked for.
    Compared,
    /// It has another's place now.
    Replaced,
    /// Nothing: a row that must never change would have.
    Refused,
}

impl RebuildReport {
    /// Whether it is not what the log says, even now.
    #[must_use]
    pub const fn differs(&self) -> bool {
        self.difference.is_some() && !matches!(self.outcome, RebuildOutcome::Replaced)
    }
}

/// It could not be done for all. The live tables are as they were, but for those that were done before.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct UnfinishedRebuild {
    /// What was done before.
    pub done: Vec<RebuildReport>,
    /// Why the next one could not.
    pub why: RebuildError,
}

impl<E: Into<RebuildError>> From<E> for UnfinishedRebuild {
    fn from(why: E) -> Self {
        Self { done: Vec::new(), why: why.into() }
    }
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// Somebody else does.
    #[error("another rebuild or verification is running")]
    Another,
    /// The log has an event that cannot be read, or did not answer.
    #[error("the log: {0}")]
    Log(#[from] TailError),
    /// The database could not do it.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// The writer of a read model could not take an event in.
    #[error("{model}: {error}")]
    Writer {
        /// Which.
        model: ReadModel,
        /// What it said.
        error: AppendError,
    },
    /// A transaction has been appending all the time.
    #[error("the end of the log did not settle: a long transaction is appending to it")]
    Unsettled,
    /// Somebody has been using the live tables all the time.
    #[error("{0} is in use by a long transaction; nothing was changed")]
    InUse(ReadModel),
    /// So much was appended all the time that the live tables would have been held for too long.
    #[error("too much was appended meanwhile to take {0}'s place; nothing was changed")]
    TooMuch(ReadModel),
    /// A migration, or new grants: what was made does not have them.
    #[error("the definition of {0} changed meanwhile; nothing was changed: run it again")]
    Redefined(ReadModel),
}
