//! A flaw: a difference between the database or a bundle and its proof.

use std::fmt;

use uuid::Uuid;

use crate::error::AuditError;

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
    /// A line of a file.
    Line {
        /// The line's number, from 1.
        number: u64,
    },
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
            Self::Line { number } => write!(f, "line {number}"),
        }
    }
}

/// Why a verification stopped.
#[derive(Debug)]
pub(crate) enum VerifyStop {
    /// The verification found a flaw.
    Broken(Flaw),
    /// The verification lacks data, and cannot decide.
    Unknown(String),
    /// The verification failed.
    Failed(AuditError),
}

impl<E: Into<AuditError>> From<E> for VerifyStop {
    fn from(error: E) -> Self {
        match error.into() {
            AuditError::Flawed(flaw) => Self::Broken(flaw),
            error => Self::Failed(error),
        }
    }
}

pub(crate) fn broken_at<T>(place: FlawLocation, why: impl Into<String>) -> Result<T, VerifyStop> {
    Err(VerifyStop::Broken(Flaw { location: place, why: why.into() }))
}
