//! The walk over the log. In each window the expected entries and seals are computed from the
//! events and compared with the stored rows.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::vec::IntoIter;

use domain::audit::{AuditChain, AuditCheckpoint, AuditEntry, GENESIS_HASH, Seal};
use domain::merkle::{Hash, MerkleFrontier};
use domain::time::Timestamp;
use eventstore::proof::{self, CheckedEvent};
use eventstore::{RecordedEvent, Upcasters};
use projector::audit::{self, EntryRow, entries_of};
use projector::seals::{self, SealRow};
use sqlx::PgConnection;
use uuid::Uuid;

use super::witnesses::TrustedCheckpoints;
use super::{DatabaseReport, FlawLocation, VerifyStop, broken};

/// Positions in one window.
pub(super) const WINDOW_POSITIONS: i64 = 4 * Seal::POSITIONS_PER_BLOCK;

/// The position of the walk, and the state computed so far.
pub(super) struct AuditWalk {
    witnesses: TrustedCheckpoints,
    followed_to: i64,
    sealed_to: i64,
    chains: BTreeMap<Uuid, AuditChain>,
    /// The root over all heads; `None` after a chain grew.
    heads: Option<Hash>,
    block: MerkleFrontier,
    sealed: Hash,
    seals: i64,
    events: u64,
    entries: u64,
    agreed: u64,
    witnessed: Option<(i64, Timestamp)>,
}

/// The stored rows of a window, in order.
struct WindowRows {
    rows: Peekable<IntoIter<EntryRow>>,
    seals: Peekable<IntoIter<SealRow>>,
}

impl AuditWalk {
    pub(super) fn new(witnesses: TrustedCheckpoints, followed_to: i64, sealed_to: i64) -> Self {
        Self {
            witnesses,
            followed_to,
            sealed_to,
            chains: BTreeMap::new(),
            heads: None,
            block: MerkleFrontier::default(),
            sealed: GENESIS_HASH,
            seals: 0,
            events: 0,
            entries: 0,
            agreed: 0,
            witnessed: None,
        }
    }

    /// Verifies the events after position `after`, up to `through`.
    pub(super) async fn window(
        &mut self,
        connection: &mut PgConnection,
        after: i64,
        through: i64,
    ) -> Result<(), VerifyStop> {
        let checked = proof::checked(connection, &Upcasters::current(), after, through).await?;
        let events = intact(checked)?;
        let followed = events.partition_point(|event| event.position <= self.followed_to);
        let entries = entries_of(connection, &events[..followed]).await?;
        let mut there = WindowRows {
            rows: audit::between(connection, after, through).await?.into_iter().peekable(),
            seals: seals::between(connection, after, through).await?.into_iter().peekable(),
        };
        let mut entries = entries.iter().peekable();
        for event in &events {
            self.advance_to(event.position, &mut there)?;
            self.block.push(Seal::leaf(event.position, &event.digest));
            self.events += 1;
            let entry = entries.next_if(|entry| entry.position == event.position);
            self.compare_entry(event.position, entry, &mut there)?;
        }
        self.advance_to(through + 1, &mut there)?;
        refuse_stray(there.rows.next())
    }

    /// Compares the expected entry of an event with the stored row.
    fn compare_entry(
        &mut self,
        position: i64,
        entry: Option<&AuditEntry>,
        there: &mut WindowRows,
    ) -> Result<(), VerifyStop> {
        let row = there.rows.next_if(|row| row.position <= position);
        let Some(entry) = entry else {
            return refuse_stray(row);
        };
        let chain = self.chains.entry(entry.firm_id).or_default();
        let linked = chain.add(entry);
        let expected = EntryRow::of(entry, linked);
        let place = location_of(&expected);
        self.heads = None;
        self.entries += 1;
        match row {
            Some(row) if row == expected => Ok(()),
            Some(row) if row.position < position => refuse_stray(Some(row)),
            Some(row) => broken(place, difference(&row, &expected)),
            None => broken(place, "it is missing"),
        }
    }

    /// Moves to a position: compares each seal and signed checkpoint that ends before.
    fn advance_to(&mut self, position: i64, there: &mut WindowRows) -> Result<(), VerifyStop> {
        loop {
            let end = (self.seals + 1) * Seal::POSITIONS_PER_BLOCK;
            let witness = self.witnesses.next().map(|checkpoint| checkpoint.position);
            if end < position && witness.is_none_or(|witness| end <= witness) {
                self.compare_seal(end, there)?;
            } else if witness.is_some_and(|witness| witness < position) {
                self.compare_checkpoint()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Compares the seal of a block that has just become whole.
    fn compare_seal(&mut self, end: i64, there: &mut WindowRows) -> Result<(), VerifyStop> {
        let block = std::mem::take(&mut self.block);
        let expected = SealRow::of(end, &block, self.sealed);
        self.sealed = expected.hash;
        self.seals += 1;
        let place = FlawLocation::Seal { number: expected.number };
        match there.seals.next_if(|row| row.last_position <= end) {
            Some(row) if row == expected => Ok(()),
            Some(row) if row.root == expected.root => {
                broken(place, "it does not follow the seal before")
            }
            Some(_) => broken(place, "the events in its block are not those that were sealed"),
            None if end <= self.sealed_to => broken(place, "it is missing"),
            None => Ok(()),
        }
    }

    /// Compares the computed state with the next signed checkpoint.
    fn compare_checkpoint(&mut self) -> Result<(), VerifyStop> {
        let heads = *self.heads.get_or_insert_with(|| {
            let leaves = self.chains.iter().map(|(firm_id, chain)| chain.head(*firm_id).leaf());
            leaves.collect::<MerkleFrontier>().root()
        });
        let Some(said) = self.witnesses.take_next() else {
            return Ok(());
        };
        let place = FlawLocation::Checkpoint { number: said.number };
        let log = (said.seals, said.sealed, said.open.events, said.open.root);
        if log != (self.seals, self.sealed, self.block.size(), self.block.root()) {
            return broken(place, mismatch("the log", &said));
        }
        let firms = u64::try_from(self.chains.len()).unwrap_or(u64::MAX);
        if (said.firms, said.heads) != (firms, heads) {
            return broken(place, mismatch("the audit log", &said));
        }
        self.agreed += 1;
        self.witnessed = Some((said.position, said.at));
        Ok(())
    }

    /// Refuses leftovers: a signed checkpoint of a longer log, or a row without an event.
    pub(super) async fn end(
        &mut self,
        connection: &mut PgConnection,
        end: i64,
    ) -> Result<(), VerifyStop> {
        if self.witnesses.next().is_some_and(|said| said.position <= self.followed_to) {
            // The last positions of the log were drawn and never used.
            let mut nothing = WindowRows {
                rows: Vec::new().into_iter().peekable(),
                seals: Vec::new().into_iter().peekable(),
            };
            self.advance_to(self.followed_to + 1, &mut nothing)?;
        }
        if let Some(said) = self.witnesses.next() {
            let why = format!("the log reached position {}, and ends at {end} now", said.position);
            return broken(FlawLocation::Checkpoint { number: said.number }, why);
        }
        let rows = audit::between(connection, end.min(self.followed_to), i64::MAX).await?;
        refuse_stray(rows.into_iter().find(|row| row.position > end))
    }

    pub(super) fn report(&self, through: i64) -> DatabaseReport {
        DatabaseReport {
            events: self.events,
            through,
            seals: self.seals,
            entries: self.entries,
            firms: u64::try_from(self.chains.len()).unwrap_or(u64::MAX),
            checkpoints: self.agreed,
            witnessed: self.witnessed,
        }
    }

    pub(super) fn chain(&self, firm_id: Uuid) -> Option<&AuditChain> {
        self.chains.get(&firm_id)
    }

    pub(super) fn chains(&self) -> impl Iterator<Item = &Uuid> {
        self.chains.keys()
    }
}

/// The events, if each stored digest is right.
fn intact(checked: Vec<CheckedEvent>) -> Result<Vec<RecordedEvent>, VerifyStop> {
    let read = |checked: CheckedEvent| {
        if !checked.intact {
            let place = FlawLocation::Event { position: checked.position };
            return broken(place, "its digest is not that of what is stored");
        }
        checked
            .event
            .map_err(|error| VerifyStop::Unknown(format!("an event of another build: {error}")))
    };
    checked.into_iter().map(read).collect()
}

/// Refuses a row without an event.
fn refuse_stray(row: Option<EntryRow>) -> Result<(), VerifyStop> {
    row.map_or(Ok(()), |row| broken(location_of(&row), "no event in the log has led to it"))
}

fn location_of(row: &EntryRow) -> FlawLocation {
    FlawLocation::Entry {
        firm_id: row.firm_id,
        sequence: row.sequence,
        position: Some(row.position),
    }
}

fn difference(row: &EntryRow, expected: &EntryRow) -> String {
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

fn mismatch(subject: &str, said: &AuditCheckpoint) -> String {
    format!("{subject} up to position {} is not what was signed at {}", said.position, said.at)
}
