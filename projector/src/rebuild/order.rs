//! The order of a rebuild, and its reports.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::compare::{ModelDigest, RowDifference};
use super::error::RebuildError;
use super::model::ReadModel;

/// A callback that gets the read position and the last position.
pub type RebuildProgress<'a> = dyn Fn(i64, i64) + Send + Sync + 'a;

/// The order of a rebuild.
#[derive(Debug, Clone)]
pub struct RebuildOrder {
    /// The read models.
    pub models: Vec<ReadModel>,
    /// The act for each of them.
    pub act: RebuildAct,
    /// The time now.
    pub now: DateTime<Utc>,
    /// The number of attempts to settle the log and to lock the live tables, while a long
    /// transaction is in the way.
    pub tries: u32,
}

/// The number of attempts that an operator may wait for. The rebuild waits 400 ms between two of
/// them, so all take about half a minute.
pub const TRIES_MAX: u32 = 60;

/// The act after a read model was filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebuildAct {
    /// The shadow is compared with the live tables.
    Verify,
    /// The shadow is compared, and then replaces the live tables.
    Replace,
}

/// The report on one read model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildReport {
    /// The read model.
    pub model: ReadModel,
    /// The digest of the shadow when it was compared.
    pub digest: ModelDigest,
    /// The position up to which the log was read then.
    pub position: i64,
    /// The number of events.
    pub events: u64,
    /// The first row that differs from the log.
    pub difference: Option<RowDifference>,
    /// The outcome.
    pub outcome: RebuildOutcome,
    /// The time for writes, comparison and swap.
    pub took: Duration,
    /// The time for which the live tables were locked.
    pub held: Duration,
}

/// The outcome for a read model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebuildOutcome {
    /// The live tables stay, because no swap was ordered.
    Compared,
    /// The shadow has replaced the live tables.
    Replaced,
    /// The live tables stay, because the swap would change a row that must never change.
    Refused,
}

impl RebuildReport {
    /// Returns whether the live tables still differ from the log.
    #[must_use]
    pub const fn differs(&self) -> bool {
        self.difference.is_some() && !matches!(self.outcome, RebuildOutcome::Replaced)
    }
}

/// A rebuild that stopped early. Only the finished models are replaced.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct UnfinishedRebuild {
    /// The reports of the finished models.
    pub done: Vec<RebuildReport>,
    /// The error of the next model.
    pub why: RebuildError,
}

impl<E: Into<RebuildError>> From<E> for UnfinishedRebuild {
    fn from(why: E) -> Self {
        Self { done: Vec::new(), why: why.into() }
    }
}
