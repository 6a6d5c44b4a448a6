//! Seals cover the whole log, one block of positions each. A seal is the Merkle root over the
//! digests of the block's events, linked to the seal before. A block is sealed once, when no event
//! can appear in it any more.

use std::time::Duration;

use domain::audit::merkle::{Hash, MerkleFrontier};
use domain::audit::{GENESIS_HASH, Seal};
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{CaughtUp, Fence, Store, checkpoint, proof};
use sqlx::{FromRow, PgConnection};

/// The number of blocks sealed at once. It keeps a transaction well under 100 ms.
pub(crate) const BLOCKS_PER_STEP: i64 = 8;

/// The number of empty blocks sealed at once. The positions of the log have a gap of thousands of
/// blocks where it was laid out in ranges.
const EMPTY_BLOCKS_PER_STEP: i64 = 4_096;

/// The shortest time between two steps. Seals may be late.
const STEP_INTERVAL_MIN: Duration = Duration::from_secs(3);

/// The worker that seals the log.
pub struct SealWorker {
    store: Store,
    fence: Fence,
    caught_up: CaughtUp,
    /// The end of the first block that was not settled, as of the last look.
    next_end: i64,
}

impl SealWorker {
    /// Makes a worker that seals this log.
    #[must_use]
    pub fn new(store: Store, fence: Fence) -> Self {
        Self { store, fence, caught_up: CaughtUp::default(), next_end: 0 }
    }
}

impl Worker for SealWorker {
    const NAME: &'static str = "seals";
    const WAKES: WakeOn = WakeOn::AnyEvent;
    const STEP_INTERVAL_MIN: Duration = STEP_INTERVAL_MIN;
    type Error = sqlx::Error;

    async fn step(&mut self) -> Result<NextStep, sqlx::Error> {
        let look = self.fence.look().await?;
        // Events that are not settled yet will be settled soon.
        let idle = if look.more { NextStep::HELD_UP } else { NextStep::IDLE };
        if self.caught_up.is_valid_in(look.life) && look.settled < self.next_end {
            return Ok(idle);
        }
        let mut transaction = self.store.pool().begin().await?;
        let Some(after) = checkpoint::lock_position(&mut transaction, Self::NAME).await? else {
            return Ok(NextStep::HELD_UP);
        };
        if !self.fence.still_holds(look) {
            return Ok(NextStep::Busy);
        }
        let blocks = ((look.settled - after) / Seal::POSITIONS_PER_BLOCK).min(BLOCKS_PER_STEP);
        if blocks <= 0 {
            transaction.rollback().await?;
            self.caught_up.up_to(look);
            self.next_end = after + Seal::POSITIONS_PER_BLOCK;
            return Ok(idle);
        }
        let last_block = after + blocks * Seal::POSITIONS_PER_BLOCK;
        let through = match proof::next_position(&mut transaction, after).await? {
            Some(next) if next <= last_block => last_block,
            next => end_of_gap(after, next.map_or(look.settled, |next| look.settled.min(next - 1))),
        };
        seal_between(&mut transaction, after, through).await?;
        checkpoint::move_to(&mut transaction, Self::NAME, through).await?;
        transaction.commit().await?;
        Ok(NextStep::Busy)
    }
}

/// The end of the last empty block that one step seals. No event is above `after` and at or below
/// `through`.
fn end_of_gap(after: i64, through: i64) -> i64 {
    let blocks = ((through - after) / Seal::POSITIONS_PER_BLOCK).min(EMPTY_BLOCKS_PER_STEP);
    after + blocks * Seal::POSITIONS_PER_BLOCK
}

/// Seals the blocks whose positions are above `after`, up to `through`. Both are ends of blocks.
pub(crate) async fn seal_between(
    connection: &mut PgConnection,
    after: i64,
    through: i64,
) -> Result<(), sqlx::Error> {
    let digests = proof::event_digests(connection, after, through).await?;
    let previous = last_seal(connection, after).await?;
    let previous_hash = previous.map_or(GENESIS_HASH, |seal| seal.hash);
    let seals = make_seals(after, through, &digests, previous_hash);
    insert_seals(connection, &seals).await
}

/// A row of the table `seals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct SealRow {
    /// The number of the block, from 1.
    pub number: i64,
    /// The last position of the block.
    pub last_position: i64,
    /// The number of events in the block.
    pub events: i64,
    /// The Merkle root over the events.
    pub root: Hash,
    /// The hash of the seal before.
    pub previous_hash: Hash,
    /// The hash of this seal.
    pub hash: Hash,
}

impl SealRow {
    /// Makes the row of the block that ends at this position, with this tree.
    #[must_use]
    pub fn new(last_position: i64, tree: &MerkleFrontier, previous_hash: Hash) -> Self {
        let number = last_position / Seal::POSITIONS_PER_BLOCK;
        let seal = Seal { number, last_position, events: tree.size(), root: tree.root() };
        Self {
            number,
            last_position,
            events: tree.size().cast_signed(),
            root: seal.root,
            previous_hash,
            hash: seal.linked_hash(&previous_hash),
        }
    }
}

/// Makes the seals of whole blocks.
fn make_seals(after: i64, through: i64, digests: &[(i64, Hash)], previous: Hash) -> Vec<SealRow> {
    let mut digests = digests.iter().peekable();
    let mut previous = previous;
    let mut rows = Vec::new();
    let mut end = after + Seal::POSITIONS_PER_BLOCK;
    while end <= through {
        let mut tree = MerkleFrontier::default();
        while let Some((position, digest)) = digests.next_if(|(position, _)| *position <= end) {
            tree.push_leaf(Seal::event_leaf(*position, digest));
        }
        let row = SealRow::new(end, &tree, previous);
        previous = row.hash;
        rows.push(row);
        end += Seal::POSITIONS_PER_BLOCK;
    }
    rows
}

async fn insert_seals(connection: &mut PgConnection, rows: &[SealRow]) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into seals (number, last_position, events, root, previous_hash, hash)
         select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[],
                              $6::bytea[])",
    )
    .bind(rows.iter().map(|row| row.number).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.last_position).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.events).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.root).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.previous_hash).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.hash).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the last seal that ends at or before this position.
pub async fn last_seal(
    connection: &mut PgConnection,
    through: i64,
) -> Result<Option<SealRow>, sqlx::Error> {
    sqlx::query_as(
        "select number, last_position, events, root, previous_hash, hash from seals
          where last_position <= $1 order by last_position desc limit 1",
    )
    .bind(through)
    .fetch_optional(connection)
    .await
}

/// Returns the position up to which the log is sealed.
pub async fn sealed_to(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let position = sqlx::query_scalar("select position from checkpoints where name = $1")
        .bind(SealWorker::NAME)
        .fetch_optional(connection)
        .await?;
    Ok(position.unwrap_or(0))
}

/// Returns up to `limit` seals that end at this position or above, in order.
pub async fn list_from(
    connection: &mut PgConnection,
    from: i64,
    limit: i64,
) -> Result<Vec<SealRow>, sqlx::Error> {
    sqlx::query_as(
        "select number, last_position, events, root, previous_hash, hash from seals
          where last_position >= $1 order by last_position limit $2",
    )
    .bind(from)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Counts all seals.
pub async fn count(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from seals").fetch_one(connection).await
}

/// Counts the seals that end above this position. With the position of the worker, these are seals
/// that the worker has not made, and it will fail at the first of them.
pub async fn count_above(connection: &mut PgConnection, position: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from seals where last_position > $1")
        .bind(position)
        .fetch_one(connection)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_sealed_in_few_steps() {
        let block = Seal::POSITIONS_PER_BLOCK;
        assert_eq!(end_of_gap(block, 3 * block - 1), 2 * block, "the event ends the third block");
        assert_eq!(end_of_gap(block, 3 * block), 3 * block);
        assert_eq!(end_of_gap(0, i64::MAX), EMPTY_BLOCKS_PER_STEP * block);
    }

    /// Each seal follows the one before.
    #[test]
    fn each_block_seals_its_events() {
        let digests = [(3, [1; 32]), (1_024, [2; 32]), (1_025, [3; 32])];
        let sealed = make_seals(0, 3 * Seal::POSITIONS_PER_BLOCK, &digests, GENESIS_HASH);
        let shape = sealed.iter().map(|row| (row.number, row.last_position, row.events));
        assert_eq!(shape.collect::<Vec<_>>(), [(1, 1_024, 2), (2, 2_048, 1), (3, 3_072, 0)]);
        assert_eq!(sealed[0].previous_hash, GENESIS_HASH);
        assert_eq!(sealed[2].previous_hash, sealed[1].hash);
        let swapped = make_seals(0, 1_024, &[(3, [2; 32]), (1_024, [1; 32])], GENESIS_HASH);
        assert_ne!(swapped[0].hash, sealed[0].hash);
        let moved = make_seals(0, 1_024, &[(4, [1; 32]), (1_024, [2; 32])], GENESIS_HASH);
        assert_ne!(moved[0].hash, sealed[0].hash);
    }
}
