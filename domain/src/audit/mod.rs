//! The audit log: one entry for each event that an actor may have to answer for, in one chain per
//! firm (cases G1–G7).
//!
//! - An entry is a function of the stored event, its position and its digest, and of nothing else.
//!   An auditor with the log can make every entry again.
//! - An entry's bytes are canonical JSON (RFC 8785) of a versioned shape. An entry's hash covers
//!   these bytes and the hash before.
//! - A [`Deed`] is an entry's content. No entry holds personal data.

mod checkpoint;
mod deed;
mod late;
mod period;
mod series;
mod stored;
mod verification;

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::context::{Actor, EventContext};
use crate::event::Event;
use crate::merkle::{self, Hash, MerkleFrontier};
use crate::occurrence::event_id;
use crate::time::Timestamp;

pub use checkpoint::{AuditCheckpoint, ChainHead, OpenBlock, OtherInstallation, Seal};
pub use deed::{
    Action, Deed, SubscriptionOrigin, UNAUDITED_EVENTS, UnknownAction, subscription_in,
};
pub use late::{EventPlace, LateStatement, LateStatements};
pub use period::{
    AuditPeriod, BackwardPeriod, EntryTime, PeriodStretch, ProvedPeriod, UnprovedPeriod,
};
pub use series::{LastSignature, SeriesState, SigningRefusal};
pub use stored::{StoredEntry, StoredParty};
pub use verification::{
    EndedVerification, NextVerification, RunningVerification, VerificationOutcome,
    VerificationState,
};

/// Version of an entry's shape. A new shape gets a new version, and old entries keep theirs.
pub const FORMAT_VERSION: u32 = 1;

/// Hash before the first entry of a chain, the first seal and the first signed checkpoint.
pub const GENESIS_HASH: Hash = [0; 32];

/// A stored event, as the source of an entry.
#[derive(Debug, Clone, Copy)]
pub struct EntrySource<'a> {
    /// The event's position in the log.
    pub position: i64,
    /// The event's digest.
    pub digest: Hash,
    /// The event's stream.
    pub aggregate_id: &'a str,
    /// The event's sequence in its stream.
    pub sequence: i64,
    /// The event.
    pub event: &'a Event,
    /// The event's metadata: actor, firm and time.
    pub context: &'a EventContext,
}

impl EntrySource<'_> {
    fn id(&self) -> Uuid {
        event_id(self.event.aggregate_type(), self.aggregate_id, self.sequence)
    }
}

/// An actor or an object, by kind and id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntryParty {
    /// The kind of actor or object.
    pub kind: &'static str,
    /// The id. `None` for the service itself.
    pub id: Option<String>,
}

/// An entry that has no sequence in its chain yet.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// The firm of the chain.
    pub firm_id: Uuid,
    /// The event's position in the log.
    pub position: i64,
    /// The event's id.
    pub event_id: Uuid,
    /// The event's digest.
    pub digest: Hash,
    /// Recording time of the event.
    pub at: Timestamp,
    /// The actor.
    pub actor: EntryParty,
    /// The event that caused this one, if any.
    pub caused_by: Option<Uuid>,
    /// The content.
    pub deed: Deed,
}

impl AuditEntry {
    /// The entry of an event, if the event has one. `subscribed` is the origin of the subscription
    /// that [`subscription_in`] finds in the event.
    #[must_use]
    pub fn of(stored: EntrySource<'_>, subscribed: Option<&SubscriptionOrigin>) -> Option<Self> {
        let mut deed = Deed::of(stored.aggregate_id, stored.event, subscribed)?;
        if let Some(terminal) = &stored.context.terminal {
            deed.evidence["terminal"] = json!(**terminal);
        }
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

    /// The entry as canonical JSON at this sequence of its chain, from 1.
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

/// Version 1 of the hashed shape.
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

/// Hash of an entry, linked to the entry before.
#[must_use]
pub fn link(previous: &Hash, canonical: &[u8]) -> Hash {
    Sha256::new().chain_update(previous).chain_update(canonical).finalize().into()
}

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
    pub fn add(&mut self, entry: &AuditEntry) -> LinkedEntry {
        let sequence = self.sequence() + 1;
        self.add_canonical(entry.canonical(sequence))
    }

    /// Adds an entry by its bytes. A verifier does so with an entry whose event it cannot read.
    pub fn add_canonical(&mut self, canonical: Vec<u8>) -> LinkedEntry {
        let sequence = self.sequence() + 1;
        let previous = self.last;
        self.last = link(&previous, &canonical);
        self.tree.push(merkle::leaf(&self.last));
        LinkedEntry { sequence, canonical, previous, hash: self.last }
    }

    /// Adds an entry whose hash was verified before.
    pub fn add_verified(&mut self, hash: Hash) {
        self.last = hash;
        self.tree.push(merkle::leaf(&hash));
    }

    /// Number of entries in the chain.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.tree.size()
    }

    /// Hash of the last entry.
    #[must_use]
    pub const fn last(&self) -> &Hash {
        &self.last
    }

    /// The tree's frontier, in its stored form.
    #[must_use]
    pub fn frontier(&self) -> Vec<u8> {
        self.tree.to_bytes()
    }

    /// The chain's head, for a signed checkpoint.
    #[must_use]
    pub fn head(&self, firm_id: Uuid) -> ChainHead {
        ChainHead { firm_id, sequence: self.sequence(), hash: self.last, root: self.tree.root() }
    }
}

/// Canonical JSON (RFC 8785) of a shape whose keys are strings and whose numbers are small
/// integers.
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
        Actor::NamedOperator(name) => EntryParty { kind: "operator", id: Some(name.to_string()) },
        Actor::Auditor(id) => of("auditor", id),
        Actor::Product(id) => of("product", id),
        Actor::Receiver(id) => of("receiver", id),
        Actor::Person(id) => of("person", id),
        Actor::System => EntryParty { kind: "system", id: None },
    }
}

#[cfg(test)]
mod tests;
