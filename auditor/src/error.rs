//! What the proof met.

use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// Why something of the proof could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The database did not answer.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}: {why}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The kept end of a chain is not one.
    #[error("the kept end of the chain of firm {0} is not one: run `firmforms audit verify`")]
    BrokenHead(Uuid),
    /// The log does not say any more what was signed last.
    #[error(
        "the log up to position {position} is not what checkpoint {number} has signed: its end is \
         lost, or it is another log. Nothing is signed; see docs/how-to/restore.md"
    )]
    Lost {
        /// The last checkpoint.
        number: u64,
        /// How far the log had been followed then.
        position: i64,
    },
    /// There is nothing to export.
    #[error("the audit log has no entries of this firm in this time")]
    Nothing,
    /// What is written to went away.
    #[error("writing: {0}")]
    Output(#[from] io::Error),
}

impl AuditError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::File { path, error }
    }

    pub(crate) fn unreadable(path: &Path, why: &(impl ToString + ?Sized)) -> Self {
        Self::Unreadable { path: path.to_owned(), why: why.to_string() }
    }
}
