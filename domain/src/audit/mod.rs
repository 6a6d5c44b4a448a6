//! The audit log: what somebody may have to answer for, one entry per such event, in a chain per firm
//! (cases G1–G7).
//!
//! An entry is a function of the stored event, its place and its digest, and of nothing else: whoever
//! has the log can make it again. Its bytes are canonical JSON (RFC 8785) of a shape with a version;
//! its hash covers them and the hash before it. What an entry says is a [`Deed`]; no entry holds
//! personal data.

mod checkpoint;
mod deed;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::context::{Actor, EventContext};
use crate::event::Event;
use crate::merkle::{self, Hash, MerkleFrontier};
use crate::occurrence::event_id;
use crate::time::Timestamp;

pub use checkpoint::{AuditCheckpoint, ChainHead, OpenBlock, Seal};
pub use deed::{
    Action, Deed, SubscriptionOrigin, UNAUDITED_EVENTS, UnknownAction, subscription_in,
};

/// The version of the entry's shape. A new shape is a new version; old entries keep theirs.
pub const FORMAT_VERSION: u32 = 1;

/// What the first entry of a chain, the first seal and the first checkpoint follow.
pub const GENESIS_HASH: Hash = [0; 32];

/// A stored event, as an entry is made from it.
#[derive(Debug, Clone, Copy)]
pub struct EntrySource<'a> {
    /// Its place in the log.
    pub position: i64,
    /// Its digest.
    pub digest: Hash,
    /// Its stream.
    pub aggregate_id: &'a str,
    /// Its place there.
    pub sequence: i64,
    /// What happened.
    pub event: &'a Event,
    /// Who did it, for which firm, when.
    pub context: &'a EventContext,
}

impl EntrySource<'_> {
    fn id(&self) -> Uuid {
        event_id(self.event.aggregate_type(), self.aggregate_id, self.sequence)
    }
}

/// Somebody or something, by what it is and its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntryParty {
    /// What it is.
    pub kind: &'static str,
    /// Which; none for the service itself.
    pub id: Option<String>,
}

/// An entry, still without its place in its chain.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// The firm in whose chain it is.
    pub firm_id: Uuid,
    /// The event's place in the log.
    pub position: i64,
    /// The event's id.
    pub event_id: Uuid,
    /// The event's digest.
    pub digest: Hash,
    /// When it was recorded.
    pub at: Timestamp,
    /// Who did it.
    pub actor: EntryParty,
    /// The event that led to it, when one did.
    pub caused_by: Option<Uuid>,
    /// What was done, to what, and why.
    pub deed: Deed,
}

impl AuditEntry {
    /// The entry of an event, if it has one. `subscribed` is how the subscription it is about was
    /// made, for an event that [`subscription_in`] finds one in.
    #[must_use]
    pub fn of(stored: EntrySource<'_>, subscribed: Option<&SubscriptionOrigin>) -> Option<Self> {
        let deed = Deed::of(stored.aggregate_id, stored.event, subscribed)?;
        Some(Self {
            firm_id: stored.context.firm_id,
            position: stored.position,
            event_id: stored.id(),
            digest: stored.digest,
            at: stored.context.recorded_at,
            actor: party(stored.context.actor),
            caused_by: stored.context.causation_id,
            deed,
        })
    }

    /// Its canonical bytes at this place of its chain, from 1.
    #[must_use]
    pub fn canonical(&self, sequence: u64) -> Vec<u8> {
        canonical(&HashedEntry {
            v: FORMAT_VERSION,
            firm_id: self.firm_id,
            sequence,
            position: self.position,
            event_id: self.event_id,
            digest: hex::encode(self.digest),
            at: self.at,
            actor: &self.actor,
            caused_by: self.caused_by,
            action: self.deed.action.name(),
            subject: &self.deed.subject,
            reason: self.deed.reason.as_deref(),
            evidence: &self.deed.evidence,
        })
    }
}

/// Version 1 of what is hashed.
#[derive(Serialize)]
struct HashedEntry<'a> {
    v: u32,
    firm_id: Uuid,
    sequence: u64,
    position: i64,
    event_id: Uuid,
    digest: String,
    at: Timestamp,
    actor: &'a EntryParty,
    caused_by: Option<Uuid>,
    action: &'static str,
    subject: &'a EntryParty,
    reason: Option<&'a str>,
    evidence: &'a Value,
}

/// The hash of an entry that follows another.
#[must_use]
pub fn link(previous: &Hash, canonical: &[u8]) -> Hash {
    Sha256::new().chain_update(previous).chain_update(canonical).finalize().into()
}

/// The end of a firm's chain: its last link, and the tree over the hashes of all its entries.
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

/// An entry at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedEntry {
    /// Its place in the firm's chain, from 1.
    pub sequence: u64,
    /// Its canonical bytes.
    pub canonical: Vec<u8>,
    /// The hash before it.
    pub previous: Hash,
    /// Its hash.
    pub hash: Hash,
}

impl AuditChain {
    /// A chain that was kept, if it can be one.
    #[must_use]
    pub fn restored(sequence: u64, last: Hash, frontier: &[u8]) -> Option<Self> {
        Some(Self { last, tree: MerkleFrontier::from_bytes(sequence, frontier)? })
    }

    /// Adds an entry.
    pub fn add(&mut self, entry: &AuditEntry) -> LinkedEntry {
        let sequence = self.sequence() + 1;
        let canonical = entry.canonical(sequence);
        let previous = self.last;
        self.last = link(&previous, &canonical);
        self.tree.push(merkle::leaf(&self.last));
        LinkedEntry { sequence, canonical, previous, hash: self.last }
    }

    /// How many entries it has.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.tree.size()
    }

    /// The hash of its last entry.
    #[must_use]
    pub const fn last(&self) -> &Hash {
        &self.last
    }

    /// The edge of its tree, as it is kept.
    #[must_use]
    pub fn frontier(&self) -> Vec<u8> {
        self.tree.to_bytes()
    }

    /// What a checkpoint says of it.
    #[must_use]
    pub fn head(&self, firm_id: Uuid) -> ChainHead {
        ChainHead { firm_id, sequence: self.sequence(), hash: self.last, root: self.tree.root() }
    }
}

/// Canonical JSON (RFC 8785) of a shape of ours: names are strings, numbers are whole and small.
fn canonical(shape: &impl Serialize) -> Vec<u8> {
    #[expect(clippy::expect_used, reason = "no shape of ours has a key that is not a string")]
    serde_json_canonicalizer::to_vec(shape).expect("a shape of ours is JSON")
}

fn party(actor: Actor) -> EntryParty {
    let of = |kind, id: Uuid| EntryParty { kind, id: Some(id.to_string()) };
    match actor {
        Actor::Key(id) => of("key", id),
        Actor::Member(id) => of("member", id),
        Actor::Operator(id) => of("operator", id),
        Actor::Auditor(id) => of("auditor", id),
        Actor::Product(id) => of("product", id),
        Actor::Receiver(id) => of("receiver", id),
        Actor::Person(id) => of("person", id),
        Actor::System => EntryParty { kind: "system", id: None },
    }
}

#[cfg(test)]
mod tests;
