//! Arguments that several commands of the archive have.

use std::path::PathBuf;

use anyhow::{Context, bail};
use auditor::PublicKey;
use clap::Args;
use service::StorageSettings;

use crate::audit::public_keys;
use crate::shared_args::{ArchivePlace, archive_place};

/// The command could not be finished.
pub(super) const EXIT_FAILED: u8 = 2;

/// The place of the archive.
#[derive(Debug, Args)]
pub(crate) struct ArchivePlaceArgs {
    /// The archive: a directory, `file://` and its path, or `s3://bucket/prefix`.
    #[arg(long, env = "FIRMFORMS_ARCHIVE_URL", value_parser = archive_place)]
    pub(super) archive_url: ArchivePlace,
}

#[derive(Debug, Args)]
pub(crate) struct TrustedKeysArgs {
    /// The trusted public keys, one per line, as `audit keys publish` prints them. By default the
    /// signer's keys, else the keys beside the checkpoints.
    #[arg(long)]
    public_keys: Option<PathBuf>,
}

impl TrustedKeysArgs {
    /// The trusted keys. A signature proves nothing without one.
    pub(super) fn read(&self, storage: &StorageSettings) -> anyhow::Result<Vec<PublicKey>> {
        let trusted = match &self.public_keys {
            Some(path) => public_keys(path)?,
            None => storage.notary().known_keys().context("the signer's keys")?.keys,
        };
        if trusted.is_empty() {
            bail!(
                "no public key is known, so no signature can be checked: name them by --public-keys"
            );
        }
        Ok(trusted)
    }
}
