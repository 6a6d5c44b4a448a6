//! The archive: whole segments of the log in files that prove themselves.
//!
//! A segment has the events of 2^20 positions. Its files never change:
//!
//! - `00000001-<hash>.events.jsonl.gz` has an event on each line, and a gzip member for each block
//!   of the log.
//! - `00000001-<hash>.index` has 24 bytes for each stream and block: the stream's id, and the
//!   number of the block. The records are sorted.
//! - `00000001.json` is the signed manifest ([`SegmentManifest`]).
//!
//! `write` copies a segment, reads it back and signs it. `read` finds events. `verify` computes
//! every hash of the manifest again. The `store` of the files is a `folder`, or a `bucket` of S3.
//! Bodies and answers are never archived: an erasure destroys keys, and touches no segment.

mod access;
mod bucket;
mod files;
mod folder;
mod lines;
mod range;
mod read;
mod store;
mod verify;
mod write;

use domain::audit::SegmentManifest;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::error::AuditError;
use crate::keys::PublicKey;

pub use access::{BucketAccess, BucketPlace, NoBucketPlace};
pub use files::LogArchive;
pub use lines::ArchivedEvent;
pub use range::{ArchivedRange, attach_range, compare_range};
pub use read::{ArchiveFilter, ArchiveReader};
pub use verify::{ArchiveReport, VerifiedPart, verify};
pub use write::{ArchiveStanding, ArchiveStep, SEGMENT_AGE_MIN, SegmentWriter};

/// Reads files on a thread of its own, beside those that serve other calls.
pub(crate) async fn read_beside<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, AuditError> + Send + 'static,
) -> Result<T, AuditError> {
    match spawn_blocking(read).await {
        Ok(read) => read,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// A signed manifest, as its file holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedManifest {
    /// The signed content.
    pub manifest: SegmentManifest,
    /// The public key: 64 hexadecimal digits.
    pub public_key: String,
    /// The signature (Ed25519): 128 hexadecimal digits.
    pub signature: String,
}

impl SignedManifest {
    /// The key, if the signature is valid.
    #[must_use]
    pub fn verified_key(&self) -> Option<PublicKey> {
        let key = PublicKey::from_hex(&self.public_key)?;
        let signature = hex::decode(&self.signature).ok()?;
        key.verifies(&self.manifest.signed_bytes(), &signature).then_some(key)
    }
}
