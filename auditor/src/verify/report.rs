//! The result of a verification.

use domain::values::Timestamp;

use super::chains::{AddedLate, AwaitedEntry};
use super::deciding::ComparedRows;
use crate::flaw::Flaw;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditVerdict<R> {
    /// The verification found no flaw and lacks nothing.
    Intact(R),
    /// The verification found this flaw first.
    Broken(Flaw),
    /// The verification found no flaw, but could not check everything, for this reason.
    Incomplete(String),
}

/// The counts of an intact database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseReport {
    /// Events whose digests are right.
    pub events: u64,
    /// Events of them that only the archive has.
    pub archived: u64,
    /// The last verified position.
    pub through: i64,
    /// Blocks whose seals are right.
    pub seals: i64,
    /// Entries that follow from their events and are linked to the entry before.
    pub entries: u64,
    /// Firms with a chain.
    pub firms: u64,
    /// Signed checkpoints that agree with the database.
    pub checkpoints: u64,
    /// Position and time of the last agreeing checkpoint.
    pub witnessed: Option<(i64, Timestamp)>,
    /// Events after that position. No signature covers them yet.
    pub events_unsigned: u64,
    /// Events that the audit log has not followed yet.
    pub events_awaited: u64,
    /// Entries that these events lead to.
    pub entries_awaited: u64,
    /// The first of these entries.
    pub first_awaited: Vec<AwaitedEntry>,
    /// Entries that were missing, and were added at the end of their chains.
    pub late_entries: u64,
    /// The first of these entries.
    pub first_late: Vec<AddedLate>,
    /// Whole blocks that are not sealed yet.
    pub blocks_awaited: i64,
    /// Rows of tables that are in no chain.
    pub compared: ComparedRows,
}
