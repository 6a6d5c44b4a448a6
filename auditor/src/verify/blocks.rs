//! The blocks of the log: computes each seal from the events and compares it with the stored seal.

use domain::audit::merkle::{Hash, MerkleFrontier};
use domain::audit::{AuditCheckpoint, GENESIS_HASH, Seal};
use projector::seals::SealRow;
use sqlx::PgConnection;

use super::rows::PagedRows;
use super::{FlawLocation, VerifyStop, broken_at};

/// The blocks up to the position of the walk.
pub(super) struct BlockWalk {
    pub(super) rows: PagedRows<SealRow>,
    /// The position of the worker that seals.
    sealed_to: i64,
    /// The events after the last whole block.
    block: MerkleFrontier,
    /// The hash of the last whole block.
    sealed: Hash,
    /// The number of whole blocks.
    blocks: i64,
    /// Stored seals that are right.
    pub(super) agreed: i64,
}

impl BlockWalk {
    pub(super) fn new(sealed_to: i64) -> Self {
        Self {
            rows: PagedRows::default(),
            sealed_to,
            block: MerkleFrontier::default(),
            sealed: GENESIS_HASH,
            blocks: 0,
            agreed: 0,
        }
    }

    /// The blocks after this seal, which was verified before.
    pub(super) fn after_seal(seal: &SealRow) -> Self {
        Self {
            rows: PagedRows::from_position(seal.last_position + 1),
            sealed: seal.hash,
            blocks: seal.number,
            ..Self::new(seal.last_position)
        }
    }

    /// Goes on in a later snapshot.
    pub(super) const fn reopen(&mut self, sealed_to: i64) {
        self.sealed_to = sealed_to;
        self.rows.reopen();
    }

    pub(super) fn push_event(&mut self, position: i64, digest: &Hash) {
        self.block.push_leaf(Seal::event_leaf(position, digest));
    }

    /// The last position of the block that is not whole yet.
    pub(super) const fn open_end(&self) -> i64 {
        (self.blocks + 1).saturating_mul(Seal::POSITIONS_PER_BLOCK)
    }

    /// Whether the worker has sealed the block that is not whole yet.
    pub(super) const fn is_sealed(&self) -> bool {
        self.open_end() <= self.sealed_to
    }

    /// Ends the block, and compares its seal.
    pub(super) async fn close_block(
        &mut self,
        connection: &mut PgConnection,
    ) -> Result<(), VerifyStop> {
        let end = self.open_end();
        let is_sealed = self.is_sealed();
        let block = std::mem::take(&mut self.block);
        let expected = SealRow::new(end, &block, self.sealed);
        self.sealed = expected.hash;
        self.blocks += 1;
        let row = self.rows.next_through(connection, end).await?;
        match row {
            Some(row) if !is_sealed => self.refuse_row(row),
            Some(row) if row == expected => {
                self.agreed += 1;
                Ok(())
            }
            Some(row) if row.last_position < end => {
                let why = format!("no block of the log ends at position {}", row.last_position);
                broken_at(FlawLocation::Seal { number: row.number }, why)
            }
            Some(row) if row.root == expected.root => {
                broken_at(location_of(expected), "it does not follow the seal before")
            }
            Some(_) => {
                let why = "the events in its block are not those that were sealed";
                broken_at(location_of(expected), why)
            }
            None if is_sealed => broken_at(location_of(expected), "it is missing"),
            None => Ok(()),
        }
    }

    /// Refuses a seal after the last block that the worker has sealed.
    pub(super) async fn refuse_surplus(
        &mut self,
        connection: &mut PgConnection,
    ) -> Result<(), VerifyStop> {
        let left = self.rows.next_through(connection, i64::MAX).await?;
        left.map_or(Ok(()), |row| self.refuse_row(row))
    }

    fn refuse_row(&self, row: SealRow) -> Result<(), VerifyStop> {
        let sealed_to = self.sealed_to;
        let why = format!("it is one too many: the log is sealed up to position {sealed_to}");
        broken_at(location_of(row), why)
    }

    /// Whether the log at this position is the log that was signed.
    pub(super) fn is_signed_by(&self, said: &AuditCheckpoint) -> bool {
        (said.seals, said.sealed) == (self.blocks, self.sealed)
            && (said.open.events, said.open.root) == (self.block.size(), self.block.root())
    }
}

const fn location_of(row: SealRow) -> FlawLocation {
    FlawLocation::Seal { number: row.number }
}
