//! A folder as the store of an archive.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::store::{ArchiveStore, KeptFile, UnnamedFile};
use crate::error::AuditError;
use crate::files::{Draft, PUBLIC_MODE, all_paths};

/// No writer is at work on an older draft.
const DRAFT_AGE_MAX: Duration = Duration::from_secs(3_600);

/// A folder. It need not exist.
#[derive(Debug, Clone)]
pub(super) struct FolderStore(pub(super) PathBuf);

/// A draft in this folder.
struct FolderFile {
    folder: PathBuf,
    draft: Draft,
}

impl ArchiveStore for FolderStore {
    fn locate(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn list_names(&self) -> Result<Vec<String>, AuditError> {
        let paths = all_paths(&self.0)?;
        let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        Ok(paths.iter().filter_map(name).collect())
    }

    fn size(&self, name: &str) -> Result<u64, AuditError> {
        let path = self.locate(name);
        let metadata = fs::metadata(&path).map_err(AuditError::at_path(&path))?;
        Ok(metadata.len())
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, AuditError> {
        let path = self.locate(name);
        fs::read(&path).map_err(AuditError::at_path(&path))
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, AuditError> {
        let path = self.locate(name);
        let read = || {
            let mut bytes = Vec::new();
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(range.start))?;
            file.take(range.end - range.start).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(AuditError::at_path(&path))
    }

    fn begin_file(&self, number: u64) -> Result<Box<dyn UnnamedFile>, AuditError> {
        let draft = Draft::beside(&self.0.join(format!("{number:08}")), PUBLIC_MODE)?;
        Ok(Box::new(FolderFile { folder: self.0.clone(), draft }))
    }

    /// A living writer adds to its draft all the time.
    fn remove_drafts(&self) -> Result<(), AuditError> {
        for path in all_paths(&self.0)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let age = || fs::metadata(&path)?.modified()?.elapsed().map_err(io::Error::other);
            if name.contains(".draft-") && age().is_ok_and(|age| age > DRAFT_AGE_MAX) {
                fs::remove_file(&path).map_err(AuditError::at_path(&path))?;
            }
        }
        Ok(())
    }

    fn that_stops(&self, _: &CancellationToken) -> Arc<dyn ArchiveStore> {
        Arc::new(self.clone())
    }
}

impl UnnamedFile for FolderFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), AuditError> {
        self.draft.write(bytes)
    }

    fn keep_as(self: Box<Self>, name: &str) -> Result<KeptFile, AuditError> {
        let is_new = self.draft.keep_as(&self.folder.join(name))?;
        Ok(if is_new { KeptFile::New } else { KeptFile::NameTaken })
    }
}
