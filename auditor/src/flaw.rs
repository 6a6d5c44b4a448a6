//! A flaw: a difference between the database or a bundle and its proof. A missing entry is one.

use std::fmt;

use domain::values::Timestamp;
use uuid::Uuid;

/// The first difference that a verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The place.
    pub location: FlawLocation,
    /// The difference, as a person reads it.
    pub why: String,
}

/// The place of a flaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlawLocation {
    /// An event of the log.
    Event {
        /// The event's position.
        position: i64,
    },
    /// A block of the log.
    Seal {
        /// The seal's number.
        number: i64,
    },
    /// An entry of a firm's chain.
    Entry {
        /// The firm.
        firm_id: Uuid,
        /// The entry's sequence.
        sequence: i64,
        /// The position of the entry's event; `None` for a bundle, which does not say.
        position: Option<i64>,
    },
    /// The head of a firm's chain.
    Head {
        /// The firm.
        firm_id: Uuid,
    },
    /// The number of heads.
    Heads,
    /// A table as a whole.
    Table {
        /// The table's name.
        name: &'static str,
    },
    /// A row of a table that decides and is in no chain.
    Row {
        /// The table's name.
        table: &'static str,
        /// The row's key.
        key: Uuid,
    },
    /// The position of a follower.
    Follower {
        /// The follower's name.
        name: &'static str,
    },
    /// A signed checkpoint.
    Checkpoint {
        /// The checkpoint's number.
        number: u64,
    },
    /// A segment of the archive.
    Segment {
        /// The segment's number.
        number: u64,
        /// The number of the block; `None` for the segment as a whole.
        block: Option<i64>,
    },
    /// A line of a file.
    Line {
        /// The line's number, from 1.
        number: u64,
    },
}

/// An entry that the audit log lacks, although it has followed the log beyond the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingEntry {
    /// The position of the event.
    pub position: i64,
    /// The firm of the chain.
    pub firm_id: Uuid,
    /// The id of the event.
    pub event_id: Uuid,
    /// The time at which the event was recorded.
    pub at: Timestamp,
    /// The word of the action.
    pub action: &'static str,
}

impl Flaw {
    /// A flaw of a segment of the archive, or of one of its blocks.
    pub(crate) fn in_segment(number: u64, block: Option<i64>, why: impl Into<String>) -> Self {
        Self { location: FlawLocation::Segment { number, block }, why: why.into() }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.why)
    }
}

impl fmt::Display for FlawLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event { position } => write!(f, "event at position {position}"),
            Self::Seal { number } => write!(f, "seal {number}"),
            Self::Entry { firm_id, sequence, position: Some(position) } => {
                write!(f, "entry {sequence} of firm {firm_id} (position {position})")
            }
            Self::Entry { firm_id, sequence, position: None } => {
                write!(f, "entry {sequence} of firm {firm_id}")
            }
            Self::Head { firm_id } => write!(f, "head of firm {firm_id}"),
            Self::Heads => f.write_str("heads"),
            Self::Table { name } => write!(f, "table {name}"),
            Self::Row { table, key } => write!(f, "{table} {key}"),
            Self::Follower { name } => write!(f, "follower {name}"),
            Self::Checkpoint { number } => write!(f, "checkpoint {number}"),
            Self::Segment { number, block: Some(block) } => {
                write!(f, "segment {number}, block {block}")
            }
            Self::Segment { number, block: None } => write!(f, "segment {number}"),
            Self::Line { number } => write!(f, "line {number}"),
        }
    }
}
