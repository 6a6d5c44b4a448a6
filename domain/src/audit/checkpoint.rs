//! What is signed and kept outside the database: where every firm's chain ended at a moment, and how
//! far the whole log was sealed (cases G2 and G7).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::canonical;
use crate::merkle::{self, Hash};
use crate::time::Timestamp;

/// What a signature is made over begins so: it can be mistaken for nothing else's.
const SIGNED_PREFIX: &[u8] = b"firmforms audit checkpoint v1\n";

/// Hashes are lower-case hex where people read them.
mod hex32 {
    use super::Hash;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(hash: &Hash, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex::encode(hash))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Hash, D::Error> {
        let text = String::deserialize(from)?;
        let mut hash = Hash::default();
        hex::decode_to_slice(&text, &mut hash).map_err(D::Error::custom)?;
        Ok(hash)
    }
}

/// Where a firm's chain ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainHead {
    /// The firm.
    pub firm_id: Uuid,
    /// How many entries it has.
    pub sequence: u64,
    /// The hash of the last one.
    #[serde(with = "hex32")]
    pub hash: Hash,
    /// The root of the tree over the hashes of all of them.
    #[serde(with = "hex32")]
    pub root: Hash,
}

impl ChainHead {
    /// Its leaf in the tree over all firms.
    #[must_use]
    pub fn leaf(&self) -> Hash {
        merkle::leaf(&canonical(self))
    }
}

/// A block of the log, sealed: the root over the digests of its events, chained to the block before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// The block, from 1.
    pub number: i64,
    /// Its last position.
    pub last_position: i64,
    /// How many events it has; a position may have none.
    pub events: u64,
    /// The root of the tree over them.
    #[serde(with = "hex32")]
    pub root: Hash,
}

impl Seal {
    /// Positions in a block.
    pub const POSITIONS_PER_BLOCK: i64 = 1_024;

    /// The leaf of an event in the tree of its block: its place and its digest.
    #[must_use]
    pub fn leaf(position: i64, digest: &Hash) -> Hash {
        let mut bytes = position.to_be_bytes().to_vec();
        bytes.extend_from_slice(digest);
        merkle::leaf(&bytes)
    }

    /// Its hash after the one before.
    #[must_use]
    pub fn link(&self, previous: &Hash) -> Hash {
        super::link(previous, &canonical(self))
    }
}

/// The events after the last seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenBlock {
    /// How many there are.
    pub events: u64,
    /// The root of the tree over them.
    #[serde(with = "hex32")]
    pub root: Hash,
}

/// Where everything stood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditCheckpoint {
    /// The version of this shape.
    pub v: u32,
    /// Its place among the checkpoints, from 1.
    pub number: u64,
    /// When it was taken.
    pub at: Timestamp,
    /// The log up to here is in it.
    pub position: i64,
    /// How many chains there are.
    pub firms: u64,
    /// The root of the tree over their heads, ordered by firm.
    #[serde(with = "hex32")]
    pub heads: Hash,
    /// Blocks of the log that were sealed.
    pub seals: i64,
    /// The hash of the last seal.
    #[serde(with = "hex32")]
    pub sealed: Hash,
    /// The events after it, up to the position.
    pub open: OpenBlock,
    /// The hash of the checkpoint before.
    #[serde(with = "hex32")]
    pub previous: Hash,
    /// The key it is signed with.
    pub key_id: String,
}

impl AuditCheckpoint {
    /// Its canonical bytes.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        canonical(self)
    }

    /// What the next one follows.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Sha256::digest(self.canonical()).into()
    }

    /// What is signed.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        [SIGNED_PREFIX, &self.canonical()].concat()
    }
}
