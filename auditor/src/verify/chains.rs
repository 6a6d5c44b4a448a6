//! The chains of the firms: computes each entry from its event and compares it with the stored
//! entry.

use std::collections::BTreeMap;

use domain::audit::merkle::{Hash, MerkleFrontier};
use domain::audit::{Action, AuditChain, AuditEntry, EntryParty, LinkedEntry, StoredEntry};
use domain::values::Timestamp;
use projector::audit::{ChainHash, EntryRow, find_at_all};
use sqlx::PgConnection;
use uuid::Uuid;

use super::events::{ExpectedEntries, ExpectedEntry, WalkedEvent};
use super::rows::PagedRows;
use super::{FlawLocation, VerifyStop, broken_at};

/// Entries that a report lists of those that the audit log does not have yet.
const AWAITED_LISTED_MAX: usize = 10;

/// An entry that the audit log does not have yet, because its follower is behind the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedEntry {
    /// The position of the event.
    pub position: i64,
    /// The firm of the chain.
    pub firm_id: Uuid,
    /// The time at which the event was recorded.
    pub at: Timestamp,
    /// The word of the action.
    pub action: &'static str,
}

/// Late entries that a report lists.
const LATE_LISTED_MAX: usize = 100;

/// An entry that was missing, and was added at the end of its chain by a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedLate {
    /// The firm of the chain.
    pub firm_id: Uuid,
    /// The place in the chain.
    pub sequence: i64,
    /// The position of the event.
    pub position: i64,
    /// The time at which the event was recorded.
    pub at: Timestamp,
    /// The word of the action.
    pub action: &'static str,
    /// The position of the statement.
    pub stated_at: i64,
    /// The actor of the statement, by kind and id.
    pub stated_by: String,
    /// The reason in the statement.
    pub reason: Option<String>,
}

/// The chains up to the position of the walk.
pub(super) struct ChainWalk {
    pub(super) rows: PagedRows<EntryRow>,
    /// The position of the follower that writes the audit log.
    followed_to: i64,
    chains: BTreeMap<Uuid, AuditChain>,
    /// The root over all heads; `None` after a chain grew.
    heads: Option<Hash>,
    pub(super) entries: u64,
    /// Events after the follower's position.
    pub(super) events_awaited: u64,
    /// Entries of these events.
    pub(super) entries_awaited: u64,
    /// The first of these entries.
    pub(super) first_awaited: Vec<AwaitedEntry>,
    /// Late entries.
    pub(super) late_entries: u64,
    /// The first of these entries.
    pub(super) first_late: Vec<AddedLate>,
}

impl ChainWalk {
    pub(super) fn new(followed_to: i64) -> Self {
        Self {
            rows: PagedRows::default(),
            followed_to,
            chains: BTreeMap::new(),
            heads: None,
            entries: 0,
            events_awaited: 0,
            entries_awaited: 0,
            first_awaited: Vec::new(),
            late_entries: 0,
            first_late: Vec::new(),
        }
    }

    /// The chains after this position, to which [`ChainWalk::restore_entry`] adds the entries up to
    /// it.
    pub(super) fn after_position(position: i64) -> Self {
        Self { rows: PagedRows::from_position(position + 1), ..Self::new(position) }
    }

    /// Adds the hash of an entry that was verified before.
    pub(super) fn restore_entry(&mut self, entry: ChainHash) {
        self.chains.entry(entry.firm_id).or_default().add_verified(entry.hash);
    }

    /// Goes on in a later snapshot.
    pub(super) const fn reopen(&mut self, followed_to: i64) {
        self.followed_to = followed_to;
        self.rows.reopen();
    }

    /// Compares the entries that stand where an event stands with the stored rows.
    pub(super) async fn compare_entries(
        &mut self,
        connection: &mut PgConnection,
        event: &WalkedEvent,
        expected: ExpectedEntries,
    ) -> Result<(), VerifyStop> {
        let row = self.rows.next_through(connection, event.position).await?;
        if let Some(row) = row.as_ref().filter(|row| row.position < event.position) {
            return refuse_stray(row);
        }
        if event.position > self.followed_to {
            self.wait_for(expected);
            return row.as_ref().map_or(Ok(()), refuse_stray);
        }
        let ExpectedEntries { own, late } = expected;
        let statement = match &own {
            ExpectedEntry::Entry(entry) if entry.deed.action == Action::LateEntryAdded => {
                Some(entry.clone())
            }
            _ => None,
        };
        self.compare_own(event, own, row)?;
        match statement {
            Some(statement) => self.add_late(connection, &statement, &late).await,
            None => Ok(()),
        }
    }

    /// Compares the entry of an event with the stored row.
    fn compare_own(
        &mut self,
        event: &WalkedEvent,
        own: ExpectedEntry,
        row: Option<EntryRow>,
    ) -> Result<(), VerifyStop> {
        match (own, row) {
            // The row is compared where its statement stands.
            (ExpectedEntry::Late { stated_at }, _) if stated_at <= self.followed_to => Ok(()),
            (ExpectedEntry::Late { .. }, None) => Ok(()),
            (ExpectedEntry::Late { .. }, Some(row)) => refuse_stray(&row),
            (ExpectedEntry::None | ExpectedEntry::Unknown, None) => Ok(()),
            (ExpectedEntry::None, Some(row)) => refuse_stray(&row),
            (ExpectedEntry::Unknown, Some(row)) => self.take_over(event, &row),
            (ExpectedEntry::Entry(entry), row) => self.add_entry(&entry, row.as_ref()),
        }
    }

    /// Adds the late entries that a statement is about, and compares their rows.
    async fn add_late(
        &mut self,
        connection: &mut PgConnection,
        statement: &AuditEntry,
        late: &[AuditEntry],
    ) -> Result<(), VerifyStop> {
        if late.is_empty() {
            let place = FlawLocation::Event { position: statement.position };
            return broken_at(
                place,
                "it states that an entry is late, and no event has that entry",
            );
        }
        let positions: Vec<i64> = late.iter().map(|entry| entry.position).collect();
        let rows = find_at_all(connection, &positions).await?;
        for entry in late {
            self.add_entry(entry, rows.iter().find(|row| row.position == entry.position))?;
            self.late_entries += 1;
            if self.first_late.len() < LATE_LISTED_MAX {
                let added = self.added_late(statement, entry);
                self.first_late.push(added);
            }
        }
        Ok(())
    }

    fn added_late(&self, statement: &AuditEntry, entry: &AuditEntry) -> AddedLate {
        let AuditEntry { firm_id, position, at, ref deed, .. } = *entry;
        let EntryParty { kind, id } = &statement.actor;
        AddedLate {
            firm_id,
            sequence: self.chain(firm_id).map_or(0, AuditChain::sequence).cast_signed(),
            position,
            at,
            action: deed.action.name(),
            stated_at: statement.position,
            stated_by: id.as_ref().map_or_else(|| kind.to_string(), |id| format!("{kind} {id}")),
            reason: statement.deed.reason.clone(),
        }
    }

    /// Adds an entry to its chain, and compares the row.
    fn add_entry(&mut self, entry: &AuditEntry, row: Option<&EntryRow>) -> Result<(), VerifyStop> {
        let linked = self.link_entry(entry.firm_id, |chain| chain.add_entry(entry));
        let expected = EntryRow::new(entry, linked);
        match row {
            Some(row) if *row == expected => Ok(()),
            Some(row) => broken_at(location_of(&expected), describe_difference(row, &expected)),
            None => broken_at(location_of(&expected), "it is missing"),
        }
    }

    /// Takes the stored bytes of an entry whose event this build cannot read. They must name the
    /// event and its digest, and must follow the entry before.
    fn take_over(&mut self, event: &WalkedEvent, row: &EntryRow) -> Result<(), VerifyStop> {
        let sequence = self.chains.get(&event.firm_id).map_or(0, AuditChain::sequence) + 1;
        let said = StoredEntry::read(&row.entry, sequence).filter(|said| {
            (said.firm_id, said.position, said.event_id)
                == (event.firm_id, event.position, event.event_id)
                && said.digest == hex::encode(event.digest)
        });
        let Some(said) = said else {
            return broken_at(location_of(row), "its bytes are not what its event says");
        };
        let linked = self.link_entry(event.firm_id, |chain| chain.add_canonical(row.entry.clone()));
        let expected = EntryRow::of_bytes(said, linked);
        if *row == expected {
            return Ok(());
        }
        broken_at(location_of(&expected), describe_difference(row, &expected))
    }

    fn link_entry(
        &mut self,
        firm_id: Uuid,
        add: impl FnOnce(&mut AuditChain) -> LinkedEntry,
    ) -> LinkedEntry {
        self.heads = None;
        self.entries += 1;
        add(self.chains.entry(firm_id).or_default())
    }

    fn wait_for(&mut self, expected: ExpectedEntries) {
        self.events_awaited += 1;
        let own = match expected.own {
            ExpectedEntry::Entry(entry) => Some(*entry),
            _ => None,
        };
        for AuditEntry { position, firm_id, at, deed, .. } in own.into_iter().chain(expected.late) {
            self.entries_awaited += 1;
            if self.first_awaited.len() < AWAITED_LISTED_MAX {
                let action = deed.action.name();
                self.first_awaited.push(AwaitedEntry { position, firm_id, at, action });
            }
        }
    }

    /// Refuses an entry after the last event, up to this position.
    pub(super) async fn refuse_surplus(
        &mut self,
        connection: &mut PgConnection,
        through: i64,
    ) -> Result<(), VerifyStop> {
        let left = self.rows.next_through(connection, through).await?;
        left.as_ref().map_or(Ok(()), refuse_stray)
    }

    /// The root over all heads.
    pub(super) fn heads_root(&mut self) -> Hash {
        *self.heads.get_or_insert_with(|| {
            let leaves =
                self.chains.iter().map(|(firm_id, chain)| chain.head(*firm_id).leaf_hash());
            leaves.collect::<MerkleFrontier>().root()
        })
    }

    pub(super) fn chain(&self, firm_id: Uuid) -> Option<&AuditChain> {
        self.chains.get(&firm_id)
    }

    pub(super) fn firm_count(&self) -> usize {
        self.chains.len()
    }
}

/// Refuses a row without an event.
fn refuse_stray(row: &EntryRow) -> Result<(), VerifyStop> {
    broken_at(location_of(row), "no event in the log has led to it")
}

fn location_of(row: &EntryRow) -> FlawLocation {
    FlawLocation::Entry {
        firm_id: row.firm_id,
        sequence: row.sequence,
        position: Some(row.position),
    }
}

fn describe_difference(row: &EntryRow, expected: &EntryRow) -> String {
    if (row.firm_id, row.sequence) != (expected.firm_id, expected.sequence) {
        return format!("what is there is entry {} of firm {}", row.sequence, row.firm_id);
    }
    let why = if row.entry != expected.entry {
        "its bytes are not what its event says"
    } else if row.previous_hash != expected.previous_hash {
        "it does not follow the entry before"
    } else if row.hash != expected.hash {
        "its hash is not that of its bytes and the hash before"
    } else {
        "its columns are not what its bytes say"
    };
    why.to_owned()
}
