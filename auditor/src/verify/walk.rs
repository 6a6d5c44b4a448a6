//! The walk over the log. Events, entries and seals are read in the order of their positions, from
//! the lowest to the highest there is. Each row of the three tables is visited once: the expected
//! entries and seals are computed from the events and compared with the stored rows.

use domain::values::Timestamp;
use eventstore::proof;
use projector::seals::SealRow;
use projector::{audit, seals};
use sqlx::PgConnection;

use super::blocks::BlockWalk;
use super::chains::ChainWalk;
use super::events::{EventPage, LogTally, WalkedEvent};
use super::source::LogSource;
use super::witnesses::{TrustedCheckpoints, mismatch_text};
use super::{DatabaseReport, FlawLocation, VerifyStop, broken_at};
use crate::snapshot::UNDRAWN;

/// Positions that the database states.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatedPositions {
    /// The highest position that a transaction has drawn.
    pub(super) drawn: i64,
    /// The highest position of an event.
    pub(super) height: i64,
    /// The position of the follower that writes the audit log.
    pub(super) followed_to: i64,
    /// The position of the worker that seals.
    pub(super) sealed_to: i64,
}

/// The position of the walk, and the state computed so far.
pub(super) struct AuditWalk {
    stated: StatedPositions,
    source: LogSource,
    witnesses: TrustedCheckpoints,
    pub(super) chains: ChainWalk,
    blocks: BlockWalk,
    pub(super) tally: LogTally,
    /// The first event that this build cannot read, and why not.
    pub(super) unread: Option<String>,
    last: i64,
    events: i64,
    /// Events that the database does not have.
    archived: i64,
    agreed: u64,
    witnessed: Option<(i64, Timestamp)>,
    /// Events up to the last agreeing checkpoint.
    signed_events: i64,
}

impl AuditWalk {
    pub(super) fn new(witnesses: TrustedCheckpoints, stated: StatedPositions) -> Self {
        Self {
            stated,
            source: LogSource::default(),
            witnesses,
            chains: ChainWalk::new(stated.followed_to),
            blocks: BlockWalk::new(stated.sealed_to),
            tally: LogTally::default(),
            unread: None,
            last: 0,
            events: 0,
            archived: 0,
            agreed: 0,
            witnessed: None,
            signed_events: 0,
        }
    }

    /// The walk over events of this source.
    pub(super) fn reading(self, source: LogSource) -> Self {
        Self { source, ..self }
    }

    /// A walk that goes on after this seal, with later checkpoints. Its chains have no entry yet.
    pub(super) fn after_seal(witnesses: TrustedCheckpoints, seal: &SealRow) -> Self {
        let last = seal.last_position;
        let stated =
            StatedPositions { drawn: last, height: last, followed_to: last, sealed_to: last };
        Self {
            chains: ChainWalk::after_position(last),
            blocks: BlockWalk::after_seal(seal),
            last,
            ..Self::new(witnesses, stated)
        }
    }

    /// Goes on in a later snapshot, which states these positions.
    pub(super) const fn reopen(&mut self, stated: StatedPositions) {
        self.stated = stated;
        self.chains.reopen(stated.followed_to);
        self.blocks.reopen(stated.sealed_to);
    }

    /// Opens the archive where events at this position are there. Files may be read for long, so no
    /// snapshot should be open.
    pub(super) async fn open_archive_at(&mut self, position: i64) -> Result<(), VerifyStop> {
        self.source.open_archive_at(position).await
    }

    /// Whether events came from the archive.
    pub(super) const fn has_read_archive(&self) -> bool {
        self.source.has_read_archive()
    }

    /// The last verified position.
    pub(super) const fn last_position(&self) -> i64 {
        self.last
    }

    /// Verifies all events. Calls `progress` with the position after each page.
    pub(super) async fn verify_all(
        &mut self,
        connection: &mut PgConnection,
        progress: impl Fn(i64),
    ) -> Result<(), VerifyStop> {
        let mut from = Some(i64::MIN);
        while let Some(first) = from {
            from = self.verify_page(connection, first, i64::MAX).await?;
            progress(self.last);
        }
        self.check_end(connection).await
    }

    /// Verifies one page of events at this position and above, up to `through`. Returns the lowest
    /// position of the next page; `None` after the last page.
    pub(super) async fn verify_page(
        &mut self,
        connection: &mut PgConnection,
        from: i64,
        through: i64,
    ) -> Result<Option<i64>, VerifyStop> {
        let page = EventPage::read(connection, &self.source, from, &mut self.tally).await?;
        self.archived += page.archived;
        let page = page.up_to(through);
        let next = page.next;
        self.unread = self.unread.take().or_else(|| page.first_unread().cloned());
        for event in page.into_events() {
            let (event, expected) = event?;
            self.verify_event(connection, &event).await?;
            self.chains.compare_entries(connection, &event, expected).await?;
        }
        Ok(next)
    }

    /// Steps to the next event.
    async fn verify_event(
        &mut self,
        connection: &mut PgConnection,
        event: &WalkedEvent,
    ) -> Result<(), VerifyStop> {
        let position = event.position;
        let place = FlawLocation::Event { position };
        if position < 1 {
            return broken_at(place, "positions begin at 1");
        }
        if position == self.last {
            return broken_at(place, "two events have this position");
        }
        if position > self.stated.drawn {
            let why = format!("{UNDRAWN}: the highest is {}", self.stated.drawn);
            return broken_at(place, why);
        }
        self.advance_to(connection, position).await?;
        self.blocks.push_event(position, &event.digest);
        self.last = position;
        self.events += 1;
        Ok(())
    }

    /// Moves to a position: compares each seal and signed checkpoint that ends before. Blocks that
    /// are not sealed end only where a checkpoint needs them.
    async fn advance_to(
        &mut self,
        connection: &mut PgConnection,
        position: i64,
    ) -> Result<(), VerifyStop> {
        loop {
            let end = self.blocks.open_end();
            let witness = self.witnesses.next().map(|checkpoint| checkpoint.position);
            let is_needed = self.blocks.is_sealed() || witness.is_some();
            if is_needed && end < position && witness.is_none_or(|witness| end <= witness) {
                self.blocks.close_block(connection).await?;
            } else if witness.is_some_and(|witness| witness < position) {
                self.compare_checkpoint()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Compares the computed state with the next signed checkpoint.
    fn compare_checkpoint(&mut self) -> Result<(), VerifyStop> {
        let Some(said) = self.witnesses.take_next() else {
            return Ok(());
        };
        let place = FlawLocation::Checkpoint { number: said.number };
        if !self.blocks.is_signed_by(&said) {
            return broken_at(place, mismatch_text("the log", &said));
        }
        if (said.firms, said.heads) != (self.firm_count(), self.chains.heads_root()) {
            return broken_at(place, mismatch_text("the audit log", &said));
        }
        self.agreed += 1;
        self.witnessed = Some((said.position, said.at));
        self.signed_events = self.events;
        Ok(())
    }

    /// Compares what ends after the last event, and refuses leftovers.
    async fn check_end(&mut self, connection: &mut PgConnection) -> Result<(), VerifyStop> {
        let StatedPositions { height, sealed_to, .. } = self.stated;
        // The last positions of the log may have been drawn and never used.
        self.refuse_longer_log(connection, height.max(sealed_to)).await?;
        self.chains.refuse_surplus(connection, i64::MAX).await?;
        self.blocks.refuse_surplus(connection).await?;
        self.compare_counts(connection).await
    }

    /// Compares what ends at this position, the end of a block.
    pub(super) async fn end_at(
        &mut self,
        connection: &mut PgConnection,
        through: i64,
    ) -> Result<(), VerifyStop> {
        self.advance_to(connection, through.saturating_add(1)).await?;
        self.chains.refuse_surplus(connection, through).await
    }

    /// Compares what ends at the position of the audit log, in the snapshot that states it.
    pub(super) async fn end_at_followed(
        &mut self,
        connection: &mut PgConnection,
    ) -> Result<(), VerifyStop> {
        self.refuse_longer_log(connection, self.stated.followed_to).await?;
        self.chains.refuse_surplus(connection, i64::MAX).await?;
        // Blocks above the audit log's position are not visited.
        if self.blocks.is_sealed() { Ok(()) } else { self.blocks.refuse_surplus(connection).await }
    }

    /// Moves to the end, and refuses signed checkpoints of a longer log.
    async fn refuse_longer_log(
        &mut self,
        connection: &mut PgConnection,
        end: i64,
    ) -> Result<(), VerifyStop> {
        self.advance_to(connection, end.saturating_add(1)).await?;
        if let Some(said) = self.witnesses.next() {
            let why = format!("the log reached position {}, and ends at {end} now", said.position);
            return broken_at(FlawLocation::Checkpoint { number: said.number }, why);
        }
        Ok(())
    }

    /// Compares the number of rows with the number of visited rows. The count reads the tables and
    /// not the index of positions, so it finds rows that the index does not have.
    async fn compare_counts(&self, connection: &mut PgConnection) -> Result<(), VerifyStop> {
        proof::read_without_indexes(connection).await?;
        let counts = [
            ("events", proof::count_events(connection).await?, self.events - self.archived),
            ("audit_log", audit::count_entries(connection).await?, self.chains.rows.walked),
            ("seals", seals::count(connection).await?, self.blocks.rows.walked),
        ];
        proof::read_with_indexes(connection).await?;
        for (name, there, walked) in counts {
            if there != walked {
                let why = format!("it has {there} rows, and {walked} of them have a position");
                return broken_at(FlawLocation::Table { name }, why);
            }
        }
        Ok(())
    }

    fn firm_count(&self) -> u64 {
        u64::try_from(self.chains.firm_count()).unwrap_or(u64::MAX)
    }

    pub(super) fn report(&self) -> DatabaseReport {
        let StatedPositions { drawn, height, sealed_to, .. } = self.stated;
        DatabaseReport {
            events: self.events.unsigned_abs(),
            archived: self.archived.unsigned_abs(),
            through: height.max(sealed_to),
            seals: self.blocks.agreed,
            entries: self.chains.entries,
            firms: self.firm_count(),
            checkpoints: self.agreed,
            witnessed: self.witnessed,
            events_unsigned: (self.events - self.signed_events).unsigned_abs(),
            events_awaited: self.chains.events_awaited,
            entries_awaited: self.chains.entries_awaited,
            first_awaited: self.chains.first_awaited.clone(),
            late_entries: self.chains.late_entries,
            first_late: self.chains.first_late.clone(),
            blocks_awaited: (drawn - sealed_to) / domain::audit::Seal::POSITIONS_PER_BLOCK,
            ..DatabaseReport::default()
        }
    }
}
