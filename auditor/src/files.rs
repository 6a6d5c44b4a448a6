//! Files that are written once: a number each, whole or not there, never replaced.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use domain::audit::AuditCheckpoint;
use eventstore::crash;
use serde::{Deserialize, Serialize};

use crate::error::AuditError;
use crate::keys::PublicKey;

/// Who may read a file: everybody.
pub(crate) const PUBLIC_MODE: u32 = 0o644;

/// Its owner alone.
pub(crate) const SECRET_MODE: u32 = 0o600;

/// A checkpoint, signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedCheckpoint {
    /// What is signed.
    pub checkpoint: AuditCheckpoint,
    /// The key it is signed with: 64 hexadecimal digits.
    pub public_key: String,
    /// The signature (Ed25519): 128 hexadecimal digits.
    pub signature: String,
}

impl SignedCheckpoint {
    /// The key, if its signature is good and its id is the one that was signed.
    #[must_use]
    pub fn verified(&self) -> Option<PublicKey> {
        let key = PublicKey::from_hex(&self.public_key)?;
        let signature = hex::decode(&self.signature).ok()?;
        let good = key.verifies(&self.checkpoint.signed_bytes(), &signature);
        (good && key.id() == self.checkpoint.key_id).then_some(key)
    }
}

/// A folder of checkpoints.
#[derive(Debug, Clone)]
pub struct CheckpointFolder {
    folder: PathBuf,
}

impl CheckpointFolder {
    /// The checkpoints in this folder; it need not be there.
    #[must_use]
    pub const fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where they are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a checkpoint could be kept here; a folder that is not there would be made.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        if !self.folder.exists() {
            return true;
        }
        let probe = self.folder.join(format!(".probe-{}", std::process::id()));
        let made = OpenOptions::new().write(true).create_new(true).open(&probe).is_ok();
        made && fs::remove_file(probe).is_ok()
    }

    /// Their numbers, in order, each with its file.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn files(&self) -> Result<Vec<(u64, PathBuf)>, AuditError> {
        numbered(&self.folder, "json")
    }

    /// The last one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn last(&self) -> Result<Option<SignedCheckpoint>, AuditError> {
        self.files()?.last().map(|(_, path)| read(path)).transpose()
    }

    /// Keeps one; whether its place was free.
    pub(crate) fn keep(&self, signed: &SignedCheckpoint) -> Result<bool, AuditError> {
        let path = self.folder.join(format!("{:08}.json", signed.checkpoint.number));
        let text = serde_json::to_string_pretty(signed)
            .map_err(|error| AuditError::unreadable(&path, &error))?;
        write_new(&path, PUBLIC_MODE, format!("{text}\n").as_bytes())
    }
}

/// A checkpoint in its file.
pub(crate) fn read(path: &Path) -> Result<SignedCheckpoint, AuditError> {
    let text = fs::read_to_string(path).map_err(AuditError::file(path))?;
    serde_json::from_str(&text).map_err(|error| AuditError::unreadable(path, &error))
}

/// The files of this kind that are named by a number, in order.
pub(crate) fn numbered(folder: &Path, kind: &str) -> Result<Vec<(u64, PathBuf)>, AuditError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(AuditError::file(folder)(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(AuditError::file(folder))?.path();
        let of_kind = path.extension().is_some_and(|extension| extension == kind);
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if let (true, Some(number)) = (of_kind, number) {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}

/// Writes a file that is not there; whether it was not. Written beside
/// and linked into place: a process that dies leaves no half file under the name.
pub(crate) fn write_new(path: &Path, mode: u32, bytes: &[u8]) -> Result<bool, AuditError> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let draft = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(folder)
        .map_err(AuditError::file(folder))?;
    let draft = path.with_extension(format!("draft-{}-{draft}", std::process::id()));
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(mode);
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
    write().map_err(AuditError::file(path))
}
