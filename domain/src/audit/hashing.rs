//! The bytes of an entry, and the hashes over them.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::merkle::Hash;

/// Version of an entry's shape. A new shape gets a new version, and old entries keep theirs.
pub const FORMAT_VERSION: u32 = 1;

/// Hash before the first entry of a chain, the first seal and the first signed checkpoint.
pub const GENESIS_HASH: Hash = [0; 32];

/// Hash of an entry, linked to the entry before.
#[must_use]
pub fn linked_hash(previous: &Hash, canonical: &[u8]) -> Hash {
    Sha256::new().chain_update(previous).chain_update(canonical).finalize().into()
}

/// Canonical JSON (RFC 8785) of a shape whose keys are strings and whose numbers are small
/// integers.
pub(super) fn canonical_json(shape: &impl Serialize) -> Vec<u8> {
    #[expect(clippy::expect_used, reason = "no shape of ours has a key that is not a string")]
    serde_json_canonicalizer::to_vec(shape).expect("a shape of ours is JSON")
}
