//! Compares the audit log with the events: each event that somebody must answer for has its entry.
//! A follower that passed a position before its event existed has left a gap there.

use std::collections::HashMap;

use domain::audit::UNAUDITED_EVENTS;
use eventstore::tail::{self, LogRange, TailError};
use eventstore::{RecordedEvent, Upcasters, proof};
use projector::audit::{EntryRow, PlacedEntry, find_at_all, followed_to, placed_entries};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::error::AuditError;
use crate::flaw::{Flaw, FlawLocation, MissingEntry};

/// Events in one read.
const EVENTS_PER_READ: i64 = 4_096;

/// Lists the missing entries of a firm, in the order of the log. Entries that a statement calls
/// late are not among them.
///
/// # Errors
/// If the database does not answer, or an event cannot be read.
pub async fn missing_entries(
    pool: &PgPool,
    firm_id: Uuid,
) -> Result<Vec<MissingEntry>, AuditError> {
    let mut snapshot = proof::long_snapshot(pool).await?;
    let settled = followed_to(&mut snapshot).await?;
    let mut missing = Vec::new();
    let mut after = 0;
    loop {
        let range = LogRange { after, settled, limit: EVENTS_PER_READ };
        let events = proof::of_firm(&mut snapshot, firm_id, range, &UNAUDITED_EVENTS).await?;
        let Some(last) = events.last() else {
            return Ok(missing);
        };
        after = last.position;
        let compared = ComparedPage::read(&mut snapshot, &events).await?;
        missing.extend(
            compared.entries_without_row().filter(|placed| !placed.is_late()).map(missing_entry),
        );
    }
}

/// A stretch of the log: the events after a position, and up to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogStretch {
    pub(crate) after: i64,
    pub(crate) through: i64,
}

/// Requires that the audit log has the entry of each event of a stretch. The events are read once
/// more in the order of positions, as the follower has read them.
pub(crate) async fn require_complete(
    connection: &mut PgConnection,
    LogStretch { mut after, through }: LogStretch,
) -> Result<(), AuditError> {
    loop {
        let range = LogRange { after, settled: through, limit: EVENTS_PER_READ };
        let upcasters = Upcasters::current();
        let events = tail::read_except(connection, &upcasters, range, &UNAUDITED_EVENTS).await?;
        let Some(last) = events.last() else {
            return Ok(());
        };
        after = last.position;
        let compared = ComparedPage::read(connection, &events).await?;
        if let Some(first) = compared.entries_without_row().next() {
            return Err(AuditError::Gap(missing_entry(first)));
        }
        compared.require_equal()?;
    }
}

fn missing_entry(PlacedEntry { entry, .. }: &PlacedEntry) -> MissingEntry {
    MissingEntry {
        position: entry.position,
        firm_id: entry.firm_id,
        event_id: entry.event_id,
        at: entry.at,
        action: entry.deed.action.name(),
    }
}

/// A page of entries as the log leads to them, and their rows by position.
struct ComparedPage {
    placed: Vec<PlacedEntry>,
    rows: HashMap<i64, EntryRow>,
}

impl ComparedPage {
    async fn read(
        connection: &mut PgConnection,
        events: &[RecordedEvent],
    ) -> Result<Self, TailError> {
        let late = proof::late_statements(connection).await?;
        let placed = placed_entries(connection, events, &late).await?;
        let positions: Vec<i64> = placed.iter().map(|placed| placed.entry.position).collect();
        let rows = find_at_all(connection, &positions).await?.into_iter();
        Ok(Self { placed, rows: rows.map(|row| (row.position, row)).collect() })
    }

    fn entries_without_row(&self) -> impl Iterator<Item = &PlacedEntry> {
        self.placed.iter().filter(|placed| !self.rows.contains_key(&placed.entry.position))
    }

    /// Requires that the bytes of each row are what its event says.
    fn require_equal(&self) -> Result<(), AuditError> {
        for PlacedEntry { entry, .. } in &self.placed {
            let Some(row) = self.rows.get(&entry.position) else { continue };
            if row.entry != entry.canonical_json(row.sequence.cast_unsigned()) {
                let EntryRow { firm_id, sequence, position, .. } = *row;
                let location = FlawLocation::Entry { firm_id, sequence, position: Some(position) };
                let why = "its bytes are not what its event says".to_owned();
                return Err(AuditError::Flawed(Flaw { location, why }));
            }
        }
        Ok(())
    }
}
