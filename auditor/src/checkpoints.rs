//! Signed checkpoints: the files of one folder.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use domain::audit::AuditCheckpoint;
use serde::{Deserialize, Serialize};

use crate::error::AuditError;
use crate::files::{PUBLIC_MODE, numbered_paths, with_extension, write_new};
use crate::keys::{self, PublicKey};

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
