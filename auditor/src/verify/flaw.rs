//! What is wrong, and where.

use std::fmt;

use uuid::Uuid;

use crate::error::AuditError;

/// The first thing that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// Where.
    pub location: FlawLocation,
    /// What.
    pub why: String,
}

/// Where something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlawLocation {
    /// In the log.
    Event {
        /// Its place there.
        position: i64,
    },
    /// In a block of the log.
    Seal {
        /// Which.
        number: i64,
    },
    /// In a firm's chain.
    Entry {
        /// The firm.
        firm_id: Uuid,
        /// Its place there.
        sequence: i64,
        /// The place of its event in the log; none in a file that does not say.
        position: Option<i64>,
    },
    /// At the end of a firm's chain.
    Head {
        /// The firm.
        firm_id: Uuid,
    },
    /// At the ends of the chains.
    Heads,
    /// At a checkpoint.
    Checkpoint {
        /// Which.
        number: u64,
    },
    /// On a line of a file.
    Line {
        /// From 1.
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
            Self::Checkpoint { number } => write!(f, "checkpoint {number}"),
            Self::Line { number } => write!(f, "line {number}"),
        }
    }
}

/// Why a verification goes no further.
#[derive(Debug)]
pub(crate) enum VerifyStop {
    /// Something is not as it was.
    Broken(Flaw),
    /// It cannot be told.
    Unknown(String),
    /// It could not be looked at.
    Failed(AuditError),
}

impl<E: Into<AuditError>> From<E> for VerifyStop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

pub(crate) fn broken<T>(place: FlawLocation, why: impl Into<String>) -> Result<T, VerifyStop> {
    Err(VerifyStop::Broken(Flaw { location: place, why: why.into() }))
}
