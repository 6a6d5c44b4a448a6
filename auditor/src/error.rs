//! Errors of the proof.

use std::io;
use std::path::{Path, PathBuf};

use domain::audit::{BackwardPeriod, SigningRefusal};
use eventstore::tail::TailError;
use uuid::Uuid;

use crate::flaw::{Flaw, MissingEntry};

/// Why a part of the proof could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The database did not answer.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A file has the wrong content.
    #[error("{path}: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The flaw in the content.
        why: String,
    },
    /// The stored head of a chain is malformed.
    #[error("the stored head of firm {0}'s chain is malformed: run `firmforms audit verify`")]
    BrokenHead(Uuid),
    /// The proof contradicts itself, so it is not signed.
    #[error("{0}. Nothing is signed: run `firmforms audit verify`")]
    Flawed(Flaw),
    /// The audit log lacks an entry of an event that it has followed.
    #[error(
        "event at position {}: the audit log lacks its entry, {} of firm {}. Nothing is signed: \
         `firmforms audit mend` adds the entry; see docs/explanation/proof.md",
        .0.position, .0.action, .0.firm_id
    )]
    Gap(MissingEntry),
    /// An event cannot be read, so its entry cannot be compared.
    #[error("{0}: it may be of a newer build. Nothing is signed")]
    UnreadableEvent(TailError),
    /// The log differs from the last signed checkpoint.
    #[error(
        "the log up to position {position} is not what checkpoint {number} has signed: its end is \
         lost, or it is another log. Nothing is signed; see docs/how-to/restore.md"
    )]
    Lost {
        /// The number of the last signed checkpoint.
        number: u64,
        /// The position of the last signed checkpoint.
        position: i64,
    },
    /// Another process signs a checkpoint at this moment.
    #[error("another process signs a checkpoint now, {holder}: try again")]
    SignedElsewhere {
        /// The other process.
        holder: String,
    },
    /// The signer may not continue the series.
    #[error(
        "{0}. Nothing is signed. Name the signer's folders (--audit-keys-dir, --checkpoints-dir), \
         or put lost files back from their copy. `firmforms audit checkpoint --new-series` begins \
         a new series"
    )]
    Refused(#[from] SigningRefusal),
    /// A segment of the archive is not what its manifest says.
    #[error("{0}")]
    BrokenArchive(Flaw),
    /// No key signs here, so no segment is archived.
    #[error(
        "no key signs here, so nothing is archived: name the signer's folder (--audit-keys-dir); \
         `firmforms audit checkpoint` makes the first key"
    )]
    NoKey,
    /// A segment is due, and the archive has none. An unmounted directory looks like that.
    #[error(
        "the archive has no segment yet: is its directory mounted, or its bucket the right one? \
         `firmforms archive write` writes the first one"
    )]
    NotBegun,
    /// The process is to end, so the copy of a segment was given up.
    #[error("the process ends, so the copy is given up")]
    Stopped,
    /// The database was never used, so it has no log to archive.
    #[error("the database has no installation id yet: start `firmforms serve` once")]
    NoInstallation,
    /// The firm has no chain.
    #[error("the audit log has no entry of this firm yet")]
    Nothing,
    /// The firm's chain began after the signed checkpoint.
    #[error("no signed checkpoint covers an entry of this firm yet")]
    NotSignedYet,
    /// The selected period ends before it begins.
    #[error(transparent)]
    Backward(#[from] BackwardPeriod),
    /// The output of an export could not be written.
    #[error("writing: {0}")]
    Output(#[from] io::Error),
}

impl From<TailError> for AuditError {
    fn from(error: TailError) -> Self {
        match error {
            TailError::Database(error) => Self::Database(error),
            unreadable @ TailError::Unreadable { .. } => Self::UnreadableEvent(unreadable),
        }
    }
}

impl AuditError {
    /// What the error says against the audit log, in words of a verdict. `None` for an error that
    /// says nothing against it.
    pub(crate) fn flaw(&self) -> Option<String> {
        match self {
            Self::Flawed(flaw) => Some(flaw.to_string()),
            Self::Gap(gap) => {
                let MissingEntry { position, action, firm_id, .. } = gap;
                Some(format!(
                    "event at position {position}: the audit log lacks its entry, {action} of firm \
                     {firm_id}: see `firmforms audit mend`"
                ))
            }
            _ => None,
        }
    }

    /// A flaw of a segment of the archive, or of one of its blocks.
    pub(crate) fn in_segment(number: u64, block: Option<i64>, why: impl Into<String>) -> Self {
        Self::BrokenArchive(Flaw::in_segment(number, block, why))
    }

    pub(crate) fn at_path(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::File { path, error }
    }

    pub(crate) fn unreadable_file(path: &Path, why: &(impl ToString + ?Sized)) -> Self {
        Self::Unreadable { path: path.to_owned(), why: why.to_string() }
    }
}
