//! The links of the seals without their events: each seal follows from the one before, and the
//! signed checkpoints name them. So the roots of all blocks are those that were signed, although
//! the events may differ from their roots.

use domain::audit::merkle::Hash;
use domain::audit::{GENESIS_HASH, Seal};
use projector::seals::{self, SealRow};
use sqlx::PgConnection;

use super::rows::ROWS_PER_PAGE;
use super::witnesses::{TrustedCheckpoints, mismatch_text};
use super::{FlawLocation, VerifyStop, broken_at};

/// The seals up to the position of the walk.
pub(super) struct LinkWalk {
    /// The number of visited seals.
    blocks: i64,
    /// The hash of the last one.
    sealed: Hash,
    /// The number of the last seal to visit.
    last_number: i64,
    witnesses: TrustedCheckpoints,
}

impl LinkWalk {
    /// The walk from the first seal to this one. Its checkpoints end there.
    pub(super) const fn up_to(seal: &SealRow, witnesses: TrustedCheckpoints) -> Self {
        let last_number = seal.last_position / Seal::POSITIONS_PER_BLOCK;
        Self { blocks: 0, sealed: GENESIS_HASH, last_number, witnesses }
    }

    /// Verifies a page of seals. Returns whether more follow.
    pub(super) async fn verify_page(
        &mut self,
        connection: &mut PgConnection,
    ) -> Result<bool, VerifyStop> {
        let from = match self.blocks {
            0 => i64::MIN,
            blocks => blocks * Seal::POSITIONS_PER_BLOCK + 1,
        };
        let rows = seals::list_from(connection, from, ROWS_PER_PAGE).await?;
        if rows.is_empty() && self.blocks < self.last_number {
            return broken_at(FlawLocation::Seal { number: self.blocks + 1 }, "it is missing");
        }
        for row in &rows {
            if self.blocks == self.last_number {
                break;
            }
            self.compare_checkpoints()?;
            self.add_seal(row)?;
        }
        self.compare_checkpoints()?;
        Ok(self.blocks < self.last_number)
    }

    fn add_seal(&mut self, row: &SealRow) -> Result<(), VerifyStop> {
        let number = self.blocks + 1;
        let last_position = number * Seal::POSITIONS_PER_BLOCK;
        let place = FlawLocation::Seal { number };
        if row.last_position > last_position {
            return broken_at(place, "it is missing");
        }
        if (row.number, row.last_position) != (number, last_position) {
            let why = format!("no block of the log ends at position {}", row.last_position);
            return broken_at(FlawLocation::Seal { number: row.number }, why);
        }
        if row.previous_hash != self.sealed {
            return broken_at(place, "it does not follow the seal before");
        }
        let events = row.events.cast_unsigned();
        let seal = Seal { number, last_position, events, root: row.root };
        if row.hash != seal.linked_hash(&self.sealed) {
            return broken_at(place, "its hash is not that of its block and of the seal before");
        }
        self.blocks = number;
        self.sealed = row.hash;
        Ok(())
    }

    /// Compares the signed checkpoints that end in the block after the last visited seal.
    fn compare_checkpoints(&mut self) -> Result<(), VerifyStop> {
        let end = (self.blocks + 1) * Seal::POSITIONS_PER_BLOCK;
        while self.witnesses.next().is_some_and(|said| said.position < end) {
            let Some(said) = self.witnesses.take_next() else { break };
            if (said.seals, said.sealed) != (self.blocks, self.sealed) {
                let place = FlawLocation::Checkpoint { number: said.number };
                return broken_at(place, mismatch_text("the log", &said));
            }
        }
        Ok(())
    }
}
