//! The walk over the log: a window of events, the entries and seals that ought to follow from them,
//! and those that are there.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::vec::IntoIter;

use domain::audit::{BEGINNING, Chain, Checkpoint, Entry, Seal};
use domain::merkle::{Frontier, Hash};
use domain::time::Timestamp;
use eventstore::proof::{self, Checked};
use eventstore::{RecordedEvent, Upcasters};
use projector::audit::{self, EntryRow, entries_of};
use projector::seals::{self, SealRow};
use sqlx::PgConnection;
use uuid::Uuid;

use super::witnesses::Witnesses;
use super::{Place, Report, Stop, broken};

/// Positions looked at together.
pub(super) const WINDOW: i64 = 4 * Seal::BLOCK;

/// How far the walk is, and what the log comes to so far.
pub(super) struct Walk {
    witnesses: Witnesses,
    followed_to: i64,
    sealed_to: i64,
    chains: BTreeMap<Uuid, Chain>,
    /// The root over all chains, until one of them grows.
    heads: Option<Hash>,
    block: Frontier,
    sealed: Hash,
    seals: i64,
    events: u64,
    entries: u64,
    agreed: u64,
    witnessed: Option<(i64, Timestamp)>,
}

/// What is there, in order.
struct There {
    rows: Peekable<IntoIter<EntryRow>>,
    seals: Peekable<IntoIter<SealRow>>,
}

impl Walk {
    pub(super) fn new(witnesses: Witnesses, (followed_to, sealed_to): (i64, i64)) -> Self {
        Self {
            witnesses,
            followed_to,
            sealed_to,
            chains: BTreeMap::new(),
            heads: None,
            block: Frontier::default(),
            sealed: BEGINNING,
            seals: 0,
            events: 0,
            entries: 0,
            agreed: 0,
            witnessed: None,
        }
    }

    /// Walks over the events after the first position and up to the second.
    pub(super) async fn window(
        &mut self,
        connection: &mut PgConnection,
        (after, through): (i64, i64),
    ) -> Result<(), Stop> {
        let checked = proof::checked(connection, &Upcasters::current(), (after, through)).await?;
        let events = intact(checked)?;
        let followed = events.partition_point(|event| event.position <= self.followed_to);
        let entries = entries_of(connection, &events[..followed]).await?;
        let mut there = There {
            rows: audit::between(connection, (after, through)).await?.into_iter().peekable(),
            seals: seals::between(connection, (after, through)).await?.into_iter().peekable(),
        };
        let mut entries = entries.iter().peekable();
        for event in &events {
            self.pass(event.position, &mut there)?;
            self.block.push(Seal::leaf(event.position, &event.digest));
            self.events += 1;
            let entry = entries.next_if(|entry| entry.position == event.position);
            self.entry(event.position, entry, &mut there)?;
        }
        self.pass(through + 1, &mut there)?;
        stray(there.rows.next())
    }

    /// The entry of an event, against the row that is there.
    fn entry(
        &mut self,
        position: i64,
        entry: Option<&Entry>,
        there: &mut There,
    ) -> Result<(), Stop> {
        let row = there.rows.next_if(|row| row.position <= position);
        let Some(entry) = entry else {
            return stray(row);
        };
        let chain = self.chains.entry(entry.firm_id).or_default();
        let linked = chain.add(entry);
        let expected = EntryRow::of(entry, linked);
        let place = place(&expected);
        self.heads = None;
        self.entries += 1;
        match row {
            Some(row) if row == expected => Ok(()),
            Some(row) if row.position < position => stray(Some(row)),
            Some(row) => broken(place, difference(&row, &expected)),
            None => broken(place, "it is missing"),
        }
    }

    /// Comes to this position: what ends before it must hold.
    fn pass(&mut self, position: i64, there: &mut There) -> Result<(), Stop> {
        loop {
            let end = (self.seals + 1) * Seal::BLOCK;
            let witness = self.witnesses.next().map(|checkpoint| checkpoint.position);
            if end < position && witness.is_none_or(|witness| end <= witness) {
                self.seal(end, there)?;
            } else if witness.is_some_and(|witness| witness < position) {
                self.hear()?;
            } else {
                return Ok(());
            }
        }
    }

    /// A block is whole.
    fn seal(&mut self, end: i64, there: &mut There) -> Result<(), Stop> {
        let block = std::mem::take(&mut self.block);
        let expected = SealRow::of(end, &block, self.sealed);
        self.sealed = expected.hash;
        self.seals += 1;
        let place = Place::Seal { number: expected.number };
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

    /// A checkpoint says how everything stood here.
    fn hear(&mut self) -> Result<(), Stop> {
        let heads = *self.heads.get_or_insert_with(|| {
            let leaves = self.chains.iter().map(|(firm_id, chain)| chain.head(*firm_id).leaf());
            leaves.collect::<Frontier>().root()
        });
        let Some(said) = self.witnesses.pass() else {
            return Ok(());
        };
        let place = Place::Checkpoint { number: said.number };
        let log = (said.seals, said.sealed, said.open.events, said.open.root);
        if log != (self.seals, self.sealed, self.block.size(), self.block.root()) {
            return broken(place, other("the log", &said));
        }
        let firms = u64::try_from(self.chains.len()).unwrap_or(u64::MAX);
        if (said.firms, said.heads) != (firms, heads) {
            return broken(place, other("the audit log", &said));
        }
        self.agreed += 1;
        self.witnessed = Some((said.position, said.at));
        Ok(())
    }

    /// Nothing may be left: no checkpoint of a longer log, no row of an event that is not there.
    pub(super) async fn end(
        &mut self,
        connection: &mut PgConnection,
        end: i64,
    ) -> Result<(), Stop> {
        if self.witnesses.next().is_some_and(|said| said.position <= self.followed_to) {
            // The log ended in positions that were drawn and never used.
            let mut nothing = There {
                rows: Vec::new().into_iter().peekable(),
                seals: Vec::new().into_iter().peekable(),
            };
            self.pass(self.followed_to + 1, &mut nothing)?;
        }
        if let Some(said) = self.witnesses.next() {
            let why = format!("the log reached position {}, and ends at {end} now", said.position);
            return broken(Place::Checkpoint { number: said.number }, why);
        }
        let rows = audit::between(connection, (end.min(self.followed_to), i64::MAX)).await?;
        stray(rows.into_iter().find(|row| row.position > end))
    }

    pub(super) fn report(&self, through: i64) -> Report {
        Report {
            events: self.events,
            through,
            seals: self.seals,
            entries: self.entries,
            firms: u64::try_from(self.chains.len()).unwrap_or(u64::MAX),
            checkpoints: self.agreed,
            witnessed: self.witnessed,
        }
    }

    pub(super) fn chain(&self, firm_id: Uuid) -> Option<&Chain> {
        self.chains.get(&firm_id)
    }

    pub(super) fn chains(&self) -> impl Iterator<Item = &Uuid> {
        self.chains.keys()
    }
}

/// The events, if each has the digest of what is stored.
fn intact(checked: Vec<Checked>) -> Result<Vec<RecordedEvent>, Stop> {
    let read = |checked: Checked| {
        if !checked.intact {
            let place = Place::Event { position: checked.position };
            return broken(place, "its digest is not that of what is stored");
        }
        checked.event.map_err(|error| Stop::Unknown(format!("an event of another build: {error}")))
    };
    checked.into_iter().map(read).collect()
}

/// A row that no event has led to.
fn stray(row: Option<EntryRow>) -> Result<(), Stop> {
    row.map_or(Ok(()), |row| broken(place(&row), "no event in the log has led to it"))
}

fn place(row: &EntryRow) -> Place {
    Place::Entry { firm_id: row.firm_id, sequence: row.sequence, position: Some(row.position) }
}

fn difference(row: &EntryRow, expected: &EntryRow) -> String {
    if (row.firm_id, row.sequence) != (expected.firm_id, expected.sequence) {
        return format!("what is there is entry {} of firm {}", row.sequence, row.firm_id);
    }
    let what = if row.entry != expected.entry {
        "its bytes are not what its event says"
    } else if row.previous_hash != expected.previous_hash {
        "it does not follow the entry before"
    } else if row.hash != expected.hash {
        "its hash is not that of its bytes and the hash before"
    } else {
        "its columns are not what its bytes say"
    };
    what.to_owned()
}

fn other(what: &str, said: &Checkpoint) -> String {
    format!("{what} up to position {} is not what was signed at {}", said.position, said.at)
}
