//! The store of an archive: named files, each of which is written once.
//!
//! A folder and a bucket of S3 are stores. Both give a file its name when all of its bytes are
//! stored, and neither gives a name twice. Calls block; in a task they need a runtime with several
//! threads.

use std::fmt::Debug;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::error::AuditError;

/// A place for the files of an archive. The error of a missing file is [`AuditError::File`] of the
/// kind [`ErrorKind::NotFound`].
pub(super) trait ArchiveStore: Debug + Send + Sync {
    /// The path or URL of a file, for messages.
    fn locate(&self, name: &str) -> PathBuf;

    /// The names of all files.
    fn list_names(&self) -> Result<Vec<String>, AuditError>;

    /// The number of a file's bytes.
    fn size(&self, name: &str) -> Result<u64, AuditError>;

    /// All bytes of a file.
    fn read(&self, name: &str) -> Result<Vec<u8>, AuditError>;

    /// The bytes of a file in this range.
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, AuditError>;

    /// Begins a file of a segment.
    fn begin_file(&self, number: u64) -> Result<Box<dyn UnnamedFile>, AuditError>;

    /// Removes what killed writers left.
    fn remove_drafts(&self) -> Result<(), AuditError>;

    /// Returns this store for a process that may stop. No call outlasts the process.
    fn that_stops(&self, stop: &CancellationToken) -> Arc<dyn ArchiveStore>;
}

/// A file that readers cannot see yet.
pub(super) trait UnnamedFile: Send {
    /// Adds bytes to the file.
    fn write(&mut self, bytes: &[u8]) -> Result<(), AuditError>;

    /// Stores the whole file under its name. A taken name is left as it is.
    fn keep_as(self: Box<Self>, name: &str) -> Result<KeptFile, AuditError>;
}

/// The outcome of storing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptFile {
    /// The name is new.
    New,
    /// Another file has the name.
    NameTaken,
}

/// Whether this is the error of a missing file.
pub(super) fn is_missing(error: &AuditError) -> bool {
    matches!(error, AuditError::File { error, .. } if error.kind() == ErrorKind::NotFound)
}
