//! Files that are written once. Each has a number, is whole or absent, and is never replaced.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use domain::audit::AuditCheckpoint;
use eventstore::crash;
use serde::{Deserialize, Serialize};

use crate::error::AuditError;
use crate::keys::{self, PublicKey};

/// Every user may read the file.
pub(crate) const PUBLIC_MODE: u32 = 0o644;

/// Only the owner may read the file.
pub(crate) const SECRET_MODE: u32 = 0o600;

/// A signed checkpoint, as its file holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedCheckpoint {
    /// The signed content.
    pub checkpoint: AuditCheckpoint,
    /// The public key: 64 hexadecimal digits.
    pub public_key: String,
    /// The signature (Ed25519): 128 hexadecimal digits.
    pub signature: String,
}

impl SignedCheckpoint {
    /// The key, if the signature is valid and the content names this key.
    #[must_use]
    pub fn verified_key(&self) -> Option<PublicKey> {
        let key = PublicKey::from_hex(&self.public_key)?;
        let signature = hex::decode(&self.signature).ok()?;
        let good = key.verifies(&self.checkpoint.signed_bytes(), &signature);
        (good && key.id() == self.checkpoint.key_id).then_some(key)
    }
}

/// A folder of signed checkpoints.
#[derive(Debug, Clone)]
pub struct CheckpointFolder {
    folder: PathBuf,
}

impl CheckpointFolder {
    /// The signed checkpoints in this folder. The folder need not exist.
    #[must_use]
    pub const fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder's path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a signed checkpoint could be stored now. A missing folder counts as writable,
    /// because storing makes the folder.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        if !self.folder.exists() {
            return true;
        }
        let probe = self.folder.join(format!(".probe-{}", std::process::id()));
        let made = OpenOptions::new().write(true).create_new(true).open(&probe).is_ok();
        made && fs::remove_file(probe).is_ok()
    }

    /// Number and path of every signed checkpoint, in order.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn numbered_files(&self) -> Result<Vec<(u64, PathBuf)>, AuditError> {
        numbered_paths(&self.folder, "json")
    }

    /// Up to `limit` signed checkpoints after this number, in order.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn list_after(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SignedCheckpoint>, AuditError> {
        let files = self.numbered_files()?;
        let later = files.iter().filter(|(number, _)| *number > after);
        later.take(limit).map(|(_, path)| read_checkpoint(path)).collect()
    }

    /// The last signed checkpoint.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_last(&self) -> Result<Option<SignedCheckpoint>, AuditError> {
        self.numbered_files()?.last().map(|(_, path)| read_checkpoint(path)).transpose()
    }

    /// The signed checkpoint with this number, if its file is there.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_numbered(&self, number: u64) -> Result<Option<SignedCheckpoint>, AuditError> {
        let files = self.numbered_files()?;
        let file = files.iter().find(|(found, _)| *found == number);
        file.map(|(_, path)| read_checkpoint(path)).transpose()
    }

    /// The public keys that lie beside the checkpoints. Each file is named after its key's id.
    ///
    /// # Errors
    /// If the folder or a key cannot be read.
    pub fn public_keys(&self) -> Result<Vec<PublicKey>, AuditError> {
        let mut files = with_extension(&self.folder, "pub")?;
        files.sort();
        files.iter().map(|path| keys::read_half(path).map(PublicKey)).collect()
    }

    /// Puts a public key beside the checkpoints, unless it lies there.
    pub(crate) fn publish_key(&self, key: &PublicKey) -> Result<(), AuditError> {
        let path = self.folder.join(format!("{}.pub", key.id()));
        if !path.exists() {
            write_new(&path, PUBLIC_MODE, format!("{}\n", key.hex()).as_bytes())?;
        }
        Ok(())
    }

    /// Stores a signed checkpoint. Returns false if its number is taken.
    pub(crate) fn store_new(&self, signed: &SignedCheckpoint) -> Result<bool, AuditError> {
        let path = self.folder.join(format!("{:08}.json", signed.checkpoint.number));
        let text = serde_json::to_string_pretty(signed)
            .map_err(|error| AuditError::unreadable_file(&path, &error))?;
        write_new(&path, PUBLIC_MODE, format!("{text}\n").as_bytes())
    }
}

/// Reads a signed checkpoint from its file.
pub(crate) fn read_checkpoint(path: &Path) -> Result<SignedCheckpoint, AuditError> {
    let text = fs::read_to_string(path).map_err(AuditError::at_path(path))?;
    serde_json::from_str(&text).map_err(|error| AuditError::unreadable_file(path, &error))
}

/// Number and path of all files with this extension, in order of their numbers.
pub(crate) fn numbered_paths(folder: &Path, kind: &str) -> Result<Vec<(u64, PathBuf)>, AuditError> {
    let number = |path: &Path| path.file_stem()?.to_str()?.parse().ok();
    let paths = with_extension(folder, kind)?.into_iter();
    let mut files: Vec<_> = paths.filter_map(|path| Some((number(&path)?, path))).collect();
    files.sort();
    Ok(files)
}

/// Paths of all files with this extension. A missing folder has none.
fn with_extension(folder: &Path, kind: &str) -> Result<Vec<PathBuf>, AuditError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(AuditError::at_path(folder)(error)),
    };
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(AuditError::at_path(folder))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == kind));
    Ok(paths)
}

/// Writes a new file. Returns false if the name is taken. The bytes go to a draft, which is linked
/// to the name. So a crash leaves no half file under the name. A draft is always a new file: what
/// lies in its place is removed, and a link there leads nowhere.
pub(crate) fn write_new(path: &Path, mode: u32, bytes: &[u8]) -> Result<bool, AuditError> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let draft = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(folder)
        .map_err(AuditError::at_path(folder))?;
    let draft = path.with_extension(format!("draft-{}-{draft}", std::process::id()));
    let write = || {
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        let mut file = options.open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        crash::point("checkpointing");
        let linked = fs::hard_link(&draft, path);
        fs::remove_file(&draft)?;
        File::open(folder)?.sync_all()?;
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
            Ok(()) => Ok(true),
        }
    };
    write().map_err(AuditError::at_path(path))
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
