//! An entry of the audit log, as a function of its event.

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::deed::{Deed, EntryParty, SubscriptionOrigin};
use super::hashing::{FORMAT_VERSION, canonical_json};
use super::merkle::Hash;
use crate::aggregate::event_id;
use crate::event::{Actor, Event, EventContext};
use crate::values::Timestamp;

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
    /// that [`super::subscription_in`] finds in the event.
    #[must_use]
    pub fn new(stored: EntrySource<'_>, subscribed: Option<&SubscriptionOrigin>) -> Option<Self> {
        let mut deed = Deed::from_id(stored.aggregate_id, stored.event, subscribed)?;
        if let Some(terminal) = &stored.context.terminal {
            deed.evidence["terminal"] = json!(**terminal);
        }
        Some(Self {
            firm_id: stored.context.firm_id,
            position: stored.position,
            event_id: stored.id(),
            digest: stored.digest,
            at: stored.context.recorded_at,
            actor: entry_party(stored.context.actor),
            caused_by: stored.context.causation_id,
            deed,
        })
    }

    /// The entry as canonical JSON at this sequence of its chain, from 1.
    #[must_use]
    pub fn canonical_json(&self, sequence: u64) -> Vec<u8> {
        canonical_json(&HashedEntry {
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

fn entry_party(actor: Actor) -> EntryParty {
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
