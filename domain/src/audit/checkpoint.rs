//! The signed checkpoint, a statement that is kept outside the database. It has the heads of all
//! firms' chains at one moment and the last seal of the log (cases G2 and G7).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::hashing::{canonical_json, linked_hash};
use super::merkle::{self, Hash};
use crate::values::Timestamp;

/// Prefix of the signed bytes. It keeps a signature from being used for other data.
const SIGNED_PREFIX: &[u8] = b"firmforms audit checkpoint v1\n";

/// Writes hashes as lower-case hex in JSON.
pub(super) mod hex32 {
    use super::Hash;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in crate::audit) fn serialize<S: Serializer>(
        hash: &Hash,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex::encode(hash))
    }

    pub(in crate::audit) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Hash, D::Error> {
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
    pub fn leaf_hash(&self) -> Hash {
        merkle::leaf_hash(&canonical_json(self))
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
    pub fn event_leaf(position: i64, digest: &Hash) -> Hash {
        let mut bytes = position.to_be_bytes().to_vec();
        bytes.extend_from_slice(digest);
        merkle::leaf_hash(&bytes)
    }

    /// Hash of the seal, linked to the seal before.
    #[must_use]
    pub fn linked_hash(&self, previous: &Hash) -> Hash {
        linked_hash(previous, &canonical_json(self))
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

/// A checkpoint of another installation lies in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the folder belongs to another installation: checkpoint {number} in it is of {theirs}, and this \
     database is of {ours}"
)]
pub struct OtherInstallation {
    /// Number of the checkpoint.
    pub number: u64,
    /// The installation that the checkpoint names.
    pub theirs: Uuid,
    /// The installation of the database.
    pub ours: Uuid,
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
    /// The installation whose log was signed. `None` in checkpoints of builds before 0.3.0, whose
    /// bytes lack the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installation_id: Option<Uuid>,
}

impl AuditCheckpoint {
    /// The other installation that the checkpoint names. `None` for one of this installation, and
    /// where one of the two ids is not known.
    #[must_use]
    pub fn other_installation(&self, ours: Option<Uuid>) -> Option<OtherInstallation> {
        let theirs = self.installation_id?;
        let ours = ours.filter(|ours| *ours != theirs)?;
        Some(OtherInstallation { number: self.number, theirs, ours })
    }

    /// The checkpoint as canonical JSON.
    #[must_use]
    pub fn canonical_json(&self) -> Vec<u8> {
        canonical_json(self)
    }

    /// Hash that the next checkpoint refers to.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Sha256::digest(self.canonical_json()).into()
    }

    /// The bytes that the signature covers.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        [SIGNED_PREFIX, &self.canonical_json()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::hashing::{FORMAT_VERSION, GENESIS_HASH};

    fn signed_by(installation_id: Option<Uuid>) -> AuditCheckpoint {
        AuditCheckpoint {
            v: FORMAT_VERSION,
            number: 7,
            at: "2026-11-01T12:00:00.000Z".parse().unwrap(),
            position: 7,
            firms: 1,
            heads: GENESIS_HASH,
            seals: 0,
            sealed: GENESIS_HASH,
            open: OpenBlock { events: 7, root: GENESIS_HASH },
            previous: GENESIS_HASH,
            key_id: "4d0d0118ac23cb68".to_owned(),
            installation_id,
        }
    }

    #[test]
    fn a_checkpoint_without_installation_keeps_its_bytes() {
        let bytes = signed_by(None).canonical_json();
        assert!(!String::from_utf8_lossy(&bytes).contains("installation"));
        let read: AuditCheckpoint = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(read.canonical_json(), bytes);
        let named = signed_by(Some(Uuid::from_u128(1)));
        let read: AuditCheckpoint = serde_json::from_slice(&named.canonical_json()).unwrap();
        assert_eq!(read, named);
    }

    #[test]
    fn only_two_known_ids_name_another_installation() {
        let [ours, theirs] = [1, 2].map(|id| Some(Uuid::from_u128(id)));
        for (signed, database, is_other) in [
            (theirs, ours, true),
            (ours, ours, false),
            (None, ours, false),
            (theirs, None, false),
            (None, None, false),
        ] {
            let other = signed_by(signed).other_installation(database);
            assert_eq!(other.is_some(), is_other, "{signed:?} {database:?}");
        }
    }
}
