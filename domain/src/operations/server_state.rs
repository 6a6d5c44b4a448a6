//! The settings of a database server on which the log depends.

use std::time::Duration;

/// The state of a server that decides whether commits are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerState {
    /// Whether the write-ahead log is forced to the disk.
    pub fsync: bool,
    /// Whether a page torn by a crash can be repaired.
    pub full_page_writes: bool,
    /// The value for new sessions of this login.
    pub synchronous_commit: String,
    /// The standbys that a commit waits for.
    pub synchronous_standby_names: String,
    /// The age of the oldest transaction id that is not frozen, in transactions.
    pub oldest_id_age: i64,
    /// The age at which autovacuum freezes by force.
    pub freeze_max_age: i64,
    /// The age of the oldest prepared transaction in this database.
    pub oldest_prepared: Option<Duration>,
}
