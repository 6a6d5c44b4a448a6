//! The signed checkpoint, a statement that is kept outside the database. It has the heads of all
//! firms' chains at one moment and the last seal of the log (cases G2 and G7).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::canonical;
use crate::merkle::{self, Hash};
use crate::time::Timestamp;

/// Prefix of the signed bytes. It keeps a signature from being used for other data.
const SIGNED_PREFIX: &[u8] = b"firmforms audit checkpoint v1\n";

/// Writes hashes as lower-case hex in JSON.
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

/// The head of a firm's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainHead {
    /// The firm.
    pub firm_id: Uuid,
    /// Number of entries in the chain.
    pub sequence: u64,
    /// Hash of the last entry.
    #[serde(with = "hex32")]
    pub hash: Hash,
    /// Root of the tree over the hashes of all entries.
    #[serde(with = "hex32")]
    pub root: Hash,
}

impl ChainHead {
    /// The head's leaf in the tree over all firms.
    #[must_use]
    pub fn leaf(&self) -> Hash {
        merkle::leaf(&canonical(self))
    }
}

/// A seal over one block of the log. Its root covers the digests of the block's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// Number of the block, from 1.
    pub number: i64,
    /// Last position of the block.
    pub last_position: i64,
    /// Number of events in the block. A position may have no event.
    pub events: u64,
    /// Root of the tree over the block's events.
    #[serde(with = "hex32")]
    pub root: Hash,
}

impl Seal {
    /// Number of positions in a block.
    pub const POSITIONS_PER_BLOCK: i64 = 1_024;

    /// Leaf of an event in the tree of its block, made from its position and its digest.
    #[must_use]
    pub fn leaf(position: i64, digest: &Hash) -> Hash {
        let mut bytes = position.to_be_bytes().to_vec();
        bytes.extend_from_slice(digest);
        merkle::leaf(&bytes)
    }

    /// Hash of the seal, linked to the seal before.
    #[must_use]
    pub fn link(&self, previous: &Hash) -> Hash {
        super::link(previous, &canonical(self))
    }
}

/// The events after the last seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenBlock {
    /// Number of events.
    pub events: u64,
    /// Root of the tree over the events.
    #[serde(with = "hex32")]
    pub root: Hash,
}

/// A signed checkpoint: the heads of all chains, the last seal and the open block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditCheckpoint {
    /// Version of this shape.
    pub v: u32,
    /// Number of the checkpoint, from 1.
    pub number: u64,
    /// Time of the checkpoint.
    pub at: Timestamp,
    /// Last log position that the checkpoint covers.
    pub position: i64,
    /// Number of chains.
    pub firms: u64,
    /// Root of the tree over the chains' heads, ordered by firm.
    #[serde(with = "hex32")]
    pub heads: Hash,
    /// Number of sealed blocks.
    pub seals: i64,
    /// Hash of the last seal.
    #[serde(with = "hex32")]
    pub sealed: Hash,
    /// The events after the last seal, up to the position.
    pub open: OpenBlock,
    /// Hash of the checkpoint before.
    #[serde(with = "hex32")]
    pub previous: Hash,
    /// Id of the signing key.
    pub key_id: String,
}

impl AuditCheckpoint {
    /// The checkpoint as canonical JSON.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        canonical(self)
    }

    /// Hash that the next checkpoint refers to.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Sha256::digest(self.canonical()).into()
    }

    /// The bytes that the signature covers.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        [SIGNED_PREFIX, &self.canonical()].concat()
    }
}
