//! How a standby follows its primary.

use clap::ValueEnum;

/// How the standby follows the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplicationMode {
    /// A commit waits for the standby: nothing is lost.
    Synchronous,
    /// The standby is behind, and the end of the log is lost at each failover.
    Asynchronous,
}
