//! A bundle: a range of one firm's audit log with its whole proof, in one file of lines.
//!
//! 1. The header: the firm, the first and last sequence of the range, and the hash before the
//!    range. The header of a bundle of a period also names the period.
//! 2. The entries, each with its canonical bytes and its hash. Under a period they are the entries
//!    in it, the entry before and the entry after, so that a verifier sees that none is left out.
//! 3. The proof: the entry path, from the last entry to the root over the firm's entries. Then the
//!    firm's head, the path from the head to the root over all heads, and the signed checkpoint.
//!
//! A file without its last line is incomplete.

mod heads;
mod read;
mod write;

use domain::audit::merkle::Hash;
use domain::audit::{AuditPeriod, ChainHead};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::checkpoints::SignedCheckpoint;

pub use read::{BundleReport, verify};
pub use write::{
    BundlePages, BundleSummary, CheckpointSigning, ExportSelection, export, pages_under,
};

/// The first value of every bundle, so that a reader recognises the format.
const BUNDLE_KIND: &str = "firmforms-audit";

/// The version of a bundle: 1 for a whole chain, 2 for a period. An older build refuses version 2
/// instead of leaving the period unchecked.
fn bundle_version(period: AuditPeriod) -> u32 {
    if period.is_all() { 1 } else { 2 }
}

/// The heads under a signed checkpoint, and the place of the firm's head among them.
struct SignedHeads {
    head: ChainHead,
    index: u64,
    /// The leaves of the tree over all heads.
    leaves: Vec<Hash>,
}

/// The first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BundleHeader {
    bundle: String,
    v: u32,
    firm_id: Uuid,
    first: u64,
    last: u64,
    /// The hash of the entry before the first.
    previous_hash: String,
    /// First instant of the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// First instant after the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

/// The lines between.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BundleEntry {
    /// The canonical bytes, as text.
    entry: String,
    hash: String,
}

/// The last line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BundleProof {
    /// The path of the last entry in the tree over the firm's entries.
    entry_path: Vec<String>,
    head: ChainHead,
    /// The head's index in the tree over all heads, from 0.
    head_index: u64,
    /// The path of the head in the tree over all heads.
    head_path: Vec<String>,
    signed: SignedCheckpoint,
}
