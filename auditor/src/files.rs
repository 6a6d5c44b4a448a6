//! Files that are written once. Each has a number, is whole or absent, and is never replaced.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use eventstore::crash;

use crate::error::AuditError;

/// Every user may read the file.
pub(crate) const PUBLIC_MODE: u32 = 0o644;

/// Only the owner may read the file.
pub(crate) const SECRET_MODE: u32 = 0o600;

/// Number and path of all files with this extension, in order of their numbers.
pub(crate) fn numbered_paths(folder: &Path, kind: &str) -> Result<Vec<(u64, PathBuf)>, AuditError> {
    let number = |path: &Path| path.file_stem()?.to_str()?.parse().ok();
    let paths = with_extension(folder, kind)?.into_iter();
    let mut files: Vec<_> = paths.filter_map(|path| Some((number(&path)?, path))).collect();
    files.sort();
    Ok(files)
}

/// Paths of all files with this extension. A missing folder has none.
pub(crate) fn with_extension(folder: &Path, kind: &str) -> Result<Vec<PathBuf>, AuditError> {
    let mut paths = all_paths(folder)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == kind));
    Ok(paths)
}

/// Paths of all files of a folder. A missing folder has none.
pub(crate) fn all_paths(folder: &Path) -> Result<Vec<PathBuf>, AuditError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(AuditError::at_path(folder)(error)),
    };
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    paths.map_err(AuditError::at_path(folder))
}

/// Writes a new file. Returns false if the name is taken.
pub(crate) fn write_new(path: &Path, mode: u32, bytes: &[u8]) -> Result<bool, AuditError> {
    let mut draft = Draft::beside(path, mode)?;
    draft.write(bytes)?;
    draft.keep_as(path)
}

/// A file under a temporary name, which is linked to its name once it is whole. So a crash leaves
/// no half file under the name. A draft is always a new file: no other file or link is written.
pub(crate) struct Draft {
    path: PathBuf,
    file: File,
}

impl Draft {
    /// Begins a file in the folder of this path, and makes the folder.
    pub(crate) fn beside(path: &Path, mode: u32) -> Result<Self, AuditError> {
        static DRAFTS: AtomicU64 = AtomicU64::new(0);
        let folder = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(folder)
            .map_err(AuditError::at_path(folder))?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        // Processes of two containers can have one number, so a name may be taken.
        loop {
            let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
            let path = path.with_extension(format!("draft-{}-{number}", std::process::id()));
            match options.open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                opened => {
                    let file = opened.map_err(AuditError::at_path(&path))?;
                    return Ok(Self { path, file });
                }
            }
        }
    }

    /// Adds bytes to the file.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), AuditError> {
        self.file.write_all(bytes).map_err(AuditError::at_path(&self.path))
    }

    /// Gives the whole file its name, in the same folder. Returns false if the name is taken.
    pub(crate) fn keep_as(self, path: &Path) -> Result<bool, AuditError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let link = || {
            self.file.sync_all()?;
            crash::point("checkpointing");
            let linked = fs::hard_link(&self.path, path);
            File::open(folder)?.sync_all()?;
            match linked {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error),
                Ok(()) => Ok(true),
            }
        };
        link().map_err(AuditError::at_path(path))
    }
}

impl Drop for Draft {
    /// Removes the temporary name.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link in the place of a draft could lead to any file.
    #[test]
    fn a_link_for_a_draft_is_unfollowed() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let path = folder.path().join("00000001.json");
        for number in 0..64 {
            let draft = path.with_extension(format!("draft-{}-{number}", std::process::id()));
            std::os::unix::fs::symlink(&precious, draft).unwrap();
        }
        assert!(write_new(&path, SECRET_MODE, b"new").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }
}
