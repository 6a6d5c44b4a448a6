//! The location of an installation's data, and its wrapping key.

use std::path::PathBuf;

use anyhow::Context;
use auditor::{CheckpointFolder, KeyFolder, Notary};
use domain::event::OperatorName;
use vault::WrappingKey;

use crate::installation::Installation;
use crate::key_files::{key_from_file, key_of_file, parse_key};

/// The location of the data, and the operator who works with them.
#[derive(Clone, Default)]
pub struct StorageSettings {
    /// The main database, as a URL with one host or several; a private cluster without it.
    pub database_url: Option<String>,
    /// The keyring, in the same form.
    pub keyring_url: Option<String>,
    /// The directory of the private cluster and of the wrapping key.
    pub data_dir: Option<PathBuf>,
    /// The folder of PostgreSQL's programs, if they are not in a usual one.
    pub pg_bin: Option<PathBuf>,
    /// The wrapping key, as 64 hexadecimal digits.
    pub wrapping_key: Option<String>,
    /// A file with the wrapping key.
    pub wrapping_key_file: Option<PathBuf>,
    /// The directory of signed checkpoints; by default in the data directory.
    pub checkpoints_dir: Option<PathBuf>,
    /// The directory of the keys that sign checkpoints; by default in the data directory.
    pub audit_keys_dir: Option<PathBuf>,
    /// The operator who gives a command; by default the account of the operating system.
    pub operator: Option<OperatorName>,
}

impl StorageSettings {
    /// The data directory: the named one, or the account's own.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(cluster::default_data_dir)
    }

    /// The notary that signs checkpoints and keeps them in their folder.
    #[must_use]
    pub fn notary(&self) -> Notary {
        let folder = |set: &Option<PathBuf>, name: &str| {
            set.clone().unwrap_or_else(|| self.data_dir().join(name))
        };
        Notary {
            keys: KeyFolder::in_folder(folder(&self.audit_keys_dir, "audit-keys")),
            checkpoints: CheckpointFolder::in_folder(folder(&self.checkpoints_dir, "checkpoints")),
        }
    }

    /// The notary of a process that signs. It writes into no other user's data directory.
    ///
    /// # Errors
    ///
    /// If the data directory belongs to another user.
    pub fn signing_notary(&self) -> anyhow::Result<Notary> {
        cluster::check_owner(&self.data_dir())?;
        Ok(self.notary())
    }

    /// The wrapping key: the given one, or the one of the named file. Else it is in the data
    /// directory, where a new private installation makes it.
    ///
    /// # Errors
    ///
    /// If there is no key, or it cannot be read.
    pub fn wrapping_key(&self, installation: Installation) -> anyhow::Result<WrappingKey> {
        match (&self.wrapping_key, &self.wrapping_key_file) {
            (Some(text), _) => parse_key(text).context("FIRMFORMS_WRAPPING_KEY"),
            (None, Some(file)) => key_of_file(file),
            (None, None) => {
                cluster::check_owner(&self.data_dir())?;
                // Each process on named databases would make a key of its own, and none of them
                // would read the data of another.
                let installation = match self.database_url {
                    Some(_) => Installation::MustExist,
                    None => installation,
                };
                key_from_file(&self.wrapping_key_place(), installation)
            }
        }
    }

    /// The text of the wrapping key, for a backup.
    ///
    /// # Errors
    ///
    /// If the key's file cannot be read.
    pub fn wrapping_key_text(&self) -> anyhow::Result<String> {
        if let Some(text) = &self.wrapping_key {
            return Ok(text.clone());
        }
        cluster::check_owner(&self.data_dir())?;
        let file = self.wrapping_key_place();
        std::fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// The file of the wrapping key: the named one, or the one in the data directory.
    #[must_use]
    pub fn wrapping_key_place(&self) -> PathBuf {
        let named = self.wrapping_key_file.clone();
        named.unwrap_or_else(|| self.data_dir().join("wrapping.key"))
    }
}
