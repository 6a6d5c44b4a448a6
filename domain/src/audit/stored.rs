//! A stored entry, as its bytes say. A verifier that cannot read the entry's event compares these
//! with the event's columns.

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::hashing::FORMAT_VERSION;
use crate::values::Timestamp;

/// The content of an entry's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StoredEntry {
    v: u32,
    /// The firm of the chain.
    pub firm_id: Uuid,
    sequence: u64,
    /// The event's position in the log.
    pub position: i64,
    /// The event's id.
    pub event_id: Uuid,
    /// The event's digest, in hex.
    pub digest: String,
    /// Recording time of the event.
    pub at: Timestamp,
    /// The actor.
    pub actor: StoredParty,
    /// The action.
    pub action: String,
    /// The object of the action.
    pub subject: StoredParty,
    /// The reason.
    pub reason: Option<String>,
    /// The evidence.
    pub evidence: Value,
}

/// An actor or an object, by kind and id.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StoredParty {
    /// The kind.
    pub kind: String,
    /// The id.
    pub id: Option<String>,
}

impl StoredEntry {
    /// Reads the bytes of the entry at this sequence of its chain. `None` if they are no such
    /// entry.
    #[must_use]
    pub fn read(bytes: &[u8], sequence: u64) -> Option<Self> {
        let said: Self = serde_json::from_slice(bytes).ok()?;
        (said.v == FORMAT_VERSION && said.sequence == sequence).then_some(said)
    }
}
