//! The manifest of a segment. A segment is a part of the log that was copied into an archive.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::checkpoint::{Seal, hex32};
use super::hashing::{GENESIS_HASH, canonical_json};
use super::merkle::{self, Hash, MerkleFrontier};
use crate::values::Timestamp;

/// Prefix of the signed bytes. It keeps a signature from being used for other data.
const SIGNED_PREFIX: &[u8] = b"firmforms archive segment v1\n";

/// A file of a segment. Its name has the beginning of its SHA-256, so no file is ever replaced by
/// another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedFile {
    /// The file's name in the archive.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
    /// SHA-256 of the bytes.
    #[serde(with = "hex32")]
    pub sha256: Hash,
}

/// A block of the log, as the file of events holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedBlock {
    /// Number of the block, which is the number of its seal.
    pub number: i64,
    /// The first byte of the block in the file.
    pub offset: u64,
    /// The compressed size in bytes.
    pub bytes: u64,
    /// SHA-256 of the compressed bytes.
    #[serde(with = "hex32")]
    pub sha256: Hash,
    /// Number of events in the block.
    pub events: u64,
    /// Root of the seal: the tree over the block's events.
    #[serde(with = "hex32")]
    pub root: Hash,
}

impl ArchivedBlock {
    /// The seal over the block.
    #[must_use]
    pub const fn seal(&self) -> Seal {
        let last_position = self.number * Seal::POSITIONS_PER_BLOCK;
        Seal { number: self.number, last_position, events: self.events, root: self.root }
    }
}

/// The content of a segment, and its place in the log and in the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentManifest {
    /// Version of this shape.
    pub v: u32,
    /// The installation whose log it is.
    pub installation_id: Uuid,
    /// Number of the segment, from 1.
    pub number: u64,
    /// Number of events.
    pub events: u64,
    /// The earliest time at which an event was recorded.
    pub first_at: Option<Timestamp>,
    /// The latest time at which an event was recorded.
    pub last_at: Option<Timestamp>,
    /// The events, one on a line.
    pub events_file: ArchivedFile,
    /// The blocks of each stream.
    pub index_file: ArchivedFile,
    /// The blocks, in order.
    pub blocks: Vec<ArchivedBlock>,
    /// Root of the tree over the roots of the blocks.
    #[serde(with = "hex32")]
    pub root: Hash,
    /// Hash of the seal before the first block.
    #[serde(with = "hex32")]
    pub seal_before: Hash,
    /// Hash of the last block's seal.
    #[serde(with = "hex32")]
    pub last_seal: Hash,
    /// Hash of the manifest before, or 32 zero bytes.
    #[serde(with = "hex32")]
    pub manifest_before: Hash,
}

impl SegmentManifest {
    /// Version of the shape that this build writes.
    pub const VERSION: u32 = 1;

    /// Number of blocks in a segment.
    pub const BLOCKS: i64 = 1_024;

    /// Number of positions in a segment. Segments and blocks share borders.
    pub const POSITIONS: i64 = Self::BLOCKS * Seal::POSITIONS_PER_BLOCK;

    /// The position before the first one of a segment.
    #[must_use]
    pub const fn begins_after(number: u64) -> i64 {
        number.cast_signed().saturating_sub(1).saturating_mul(Self::POSITIONS)
    }

    /// The last position of a segment.
    #[must_use]
    pub const fn ends_at(number: u64) -> i64 {
        number.cast_signed().saturating_mul(Self::POSITIONS)
    }

    /// The number of the segment that has this position.
    #[must_use]
    pub const fn holding(position: i64) -> u64 {
        ((position - 1) / Self::POSITIONS + 1).cast_unsigned()
    }

    /// The bytes that a signature covers.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        [SIGNED_PREFIX, &canonical_json(self)].concat()
    }

    /// Hash of the manifest, for the next one.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Sha256::digest(canonical_json(self)).into()
    }

    /// Returns the root over the blocks, and the hash of the last seal. Both follow from the roots
    /// of the blocks and the seal before.
    #[must_use]
    pub fn sealed(blocks: &[ArchivedBlock], seal_before: Hash) -> (Hash, Hash) {
        let mut tree = MerkleFrontier::default();
        let mut seal = seal_before;
        for block in blocks {
            tree.push_leaf(merkle::leaf_hash(&block.root));
            seal = block.seal().linked_hash(&seal);
        }
        (tree.root(), seal)
    }

    /// Refuses a manifest that contradicts itself or does not follow the one before. A reader that
    /// begins in the middle of an archive has none before.
    ///
    /// # Errors
    /// The difference.
    pub fn check(&self, before: Option<&Self>) -> Result<(), SegmentFault> {
        let first = Self::begins_after(self.number) / Seal::POSITIONS_PER_BLOCK + 1;
        let numbers = self.blocks.iter().map(|block| block.number);
        let counted: u64 = self.blocks.iter().map(|block| block.events).sum();
        let mut offset = 0;
        let is_dense = self.blocks.iter().all(|block| {
            let is_next = block.offset == offset;
            offset += block.bytes;
            is_next
        });
        let is_sealed = Self::sealed(&self.blocks, self.seal_before) == (self.root, self.last_seal);
        if self.v != Self::VERSION {
            return Err(SegmentFault::Version(self.v));
        }
        if !numbers.eq(first..first + Self::BLOCKS)
            || counted != self.events
            || !is_dense
            || offset != self.events_file.bytes
            || !is_sealed
        {
            return Err(SegmentFault::Inconsistent);
        }
        match before {
            Some(before) if before.installation_id != self.installation_id => {
                Err(SegmentFault::OtherInstallation(self.installation_id))
            }
            Some(before) if !self.follows(before) => Err(SegmentFault::Unlinked),
            None if self.number == 1 && !self.is_first() => Err(SegmentFault::Unlinked),
            _ => Ok(()),
        }
    }

    fn follows(&self, before: &Self) -> bool {
        self.number == before.number + 1
            && self.seal_before == before.last_seal
            && self.manifest_before == before.hash()
    }

    fn is_first(&self) -> bool {
        self.seal_before == GENESIS_HASH && self.manifest_before == GENESIS_HASH
    }
}

/// Why a manifest is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentFault {
    /// Another build wrote the manifest.
    #[error("version {0} of the manifest is unknown: a newer build can read it")]
    Version(u32),
    /// Numbers or hashes of the manifest contradict each other.
    #[error("the manifest contradicts itself")]
    Inconsistent,
    /// The manifest is of another installation.
    #[error("the manifest is of another installation, {0}")]
    OtherInstallation(Uuid),
    /// The manifest does not name the one before.
    #[error("the manifest does not follow the one before")]
    Unlinked,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(7);

    fn file(bytes: u64) -> ArchivedFile {
        ArchivedFile { name: "file".to_owned(), bytes, sha256: [1; 32] }
    }

    fn following(before: Option<&SegmentManifest>) -> SegmentManifest {
        let number = before.map_or(1, |before| before.number + 1);
        let block = |place: i64| ArchivedBlock {
            number: (number.cast_signed() - 1) * SegmentManifest::BLOCKS + 1 + place,
            offset: place.cast_unsigned() * 10,
            bytes: 10,
            sha256: [2; 32],
            events: 3,
            root: [3; 32],
        };
        let blocks: Vec<ArchivedBlock> = (0..SegmentManifest::BLOCKS).map(block).collect();
        let seal_before = before.map_or(GENESIS_HASH, |before| before.last_seal);
        let (root, last_seal) = SegmentManifest::sealed(&blocks, seal_before);
        SegmentManifest {
            v: SegmentManifest::VERSION,
            installation_id: ID,
            number,
            events: 3 * 1_024,
            first_at: None,
            last_at: None,
            events_file: file(10 * 1_024),
            index_file: file(0),
            blocks,
            root,
            seal_before,
            last_seal,
            manifest_before: before.map_or(GENESIS_HASH, SegmentManifest::hash),
        }
    }

    #[test]
    fn manifests_that_follow_each_other_are_accepted() {
        let first = following(None);
        assert_eq!(first.check(None), Ok(()));
        let second = following(Some(&first));
        assert_eq!(second.check(Some(&first)), Ok(()));
        assert_eq!(second.check(None), Ok(()), "a reader may begin here");
    }

    #[test]
    fn a_changed_manifest_is_refused() {
        let first = following(None);
        let second = following(Some(&first));
        let fault = |change: &dyn Fn(&mut SegmentManifest)| {
            let mut changed = second.clone();
            change(&mut changed);
            changed.check(Some(&first)).unwrap_err()
        };
        assert_eq!(fault(&|one| one.v = 2), SegmentFault::Version(2));
        assert_eq!(fault(&|one| one.events += 1), SegmentFault::Inconsistent);
        assert_eq!(fault(&|one| one.blocks[7].root = [9; 32]), SegmentFault::Inconsistent);
        assert_eq!(fault(&|one| one.blocks[7].offset += 1), SegmentFault::Inconsistent);
        assert_eq!(fault(&|one| one.blocks.truncate(9)), SegmentFault::Inconsistent);
        assert_eq!(fault(&|one| one.manifest_before = [9; 32]), SegmentFault::Unlinked);
        let other = Uuid::from_u128(8);
        let theirs = fault(&|one| one.installation_id = other);
        assert_eq!(theirs, SegmentFault::OtherInstallation(other));
        let headless = SegmentManifest { manifest_before: [9; 32], ..first };
        assert_eq!(headless.check(None), Err(SegmentFault::Unlinked));
    }
}
