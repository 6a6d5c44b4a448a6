//! A bundle: a stretch of one firm's audit log with everything that proves it, in one file of lines.
//!
//! 1. what it is: the firm, the first and last place in its chain, the hash before the first;
//! 2. the entries, each with its canonical bytes and its hash;
//! 3. the proof: the path from the last entry to the root over the firm's entries, the firm's head,
//!    the path from there to the root over all firms, and the signed checkpoint that holds it.
//!
//! A file without its last line is not whole.

mod read;
mod write;

use domain::audit::ChainHead;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::files::SignedCheckpoint;

pub use read::{BundleReport, verify};
pub use write::{ExportSelection, export};

/// What the first line begins with.
const BUNDLE_KIND: &str = "firmforms-audit";

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
    /// Which of all heads, from 0.
    head_index: u64,
    /// The path of the head in the tree over all heads.
    head_path: Vec<String>,
    signed: SignedCheckpoint,
}
