//! The chain of a firm's entries.

use uuid::Uuid;

use super::checkpoint::ChainHead;
use super::entry::AuditEntry;
use super::hashing::{GENESIS_HASH, linked_hash};
use super::merkle::{self, Hash, MerkleFrontier};

/// The end of a firm's chain: the last hash, and the tree over the hashes of all entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditChain {
    last: Hash,
    tree: MerkleFrontier,
}

impl Default for AuditChain {
    fn default() -> Self {
        Self { last: GENESIS_HASH, tree: MerkleFrontier::default() }
    }
}

/// An entry with its sequence in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedEntry {
    /// Sequence in the firm's chain, from 1.
    pub sequence: u64,
    /// The entry as canonical JSON.
    pub canonical: Vec<u8>,
    /// Hash of the entry before.
    pub previous: Hash,
    /// Hash of the entry.
    pub hash: Hash,
}

impl AuditChain {
    /// Restores a chain from its stored parts. `None` if the parts do not fit together.
    #[must_use]
    pub fn restored(sequence: u64, last: Hash, frontier: &[u8]) -> Option<Self> {
        Some(Self { last, tree: MerkleFrontier::from_bytes(sequence, frontier)? })
    }

    /// Adds an entry to the chain.
    pub fn add_entry(&mut self, entry: &AuditEntry) -> LinkedEntry {
        let sequence = self.sequence() + 1;
        self.add_canonical(entry.canonical_json(sequence))
    }

    /// Adds an entry by its bytes. A verifier does so with an entry whose event it cannot read.
    pub fn add_canonical(&mut self, canonical: Vec<u8>) -> LinkedEntry {
        let sequence = self.sequence() + 1;
        let previous = self.last;
        self.last = linked_hash(&previous, &canonical);
        self.tree.push_leaf(merkle::leaf_hash(&self.last));
        LinkedEntry { sequence, canonical, previous, hash: self.last }
    }

    /// Adds an entry whose hash was verified before.
    pub fn add_verified(&mut self, hash: Hash) {
        self.last = hash;
        self.tree.push_leaf(merkle::leaf_hash(&hash));
    }

    /// Number of entries in the chain.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.tree.size()
    }

    /// Hash of the last entry.
    #[must_use]
    pub const fn last_hash(&self) -> &Hash {
        &self.last
    }

    /// The tree's frontier, in its stored form.
    #[must_use]
    pub fn frontier_bytes(&self) -> Vec<u8> {
        self.tree.to_bytes()
    }

    /// The chain's head, for a signed checkpoint.
    #[must_use]
    pub fn head(&self, firm_id: Uuid) -> ChainHead {
        ChainHead { firm_id, sequence: self.sequence(), hash: self.last, root: self.tree.root() }
    }
}
