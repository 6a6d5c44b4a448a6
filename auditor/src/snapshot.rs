//! One snapshot of the database: the position that the audit log has reached, the head of every
//! chain, and the seals up to that position.

use domain::audit::merkle::{Hash, MerkleFrontier};
use domain::audit::{AuditCheckpoint, GENESIS_HASH, OpenBlock, Seal};
use eventstore::proof;
use projector::audit::{self, ComparedHead, compared_heads_after, followed_to};
use projector::seals::{self, SealRow};
use sqlx::{Executor, PgConnection, PgPool, Postgres, Transaction};
use uuid::Uuid;

use crate::error::AuditError;
use crate::flaw::{Flaw, FlawLocation};
use crate::tables;

/// Heads in one read.
const HEADS_PER_PAGE: i64 = 5_000;

/// Most whole blocks that a checkpoint seals by itself, because the worker is behind. More of them
/// are no backlog, but a forged position.
const UNSEALED_BLOCKS_MAX: i64 = 100_000;

/// Begins the transaction that reads the snapshot. The tables must be plain tables. The locks come
/// before the first read: a rebuild swaps tables, and the new table would lack rows of the
/// snapshot.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, AuditError> {
    lock_tables(proof::begin_snapshot(pool).await?).await
}

/// Begins the transaction of a read whose client may take its time.
pub(crate) async fn begin_long(
    pool: &PgPool,
) -> Result<Transaction<'static, Postgres>, AuditError> {
    lock_tables(proof::long_snapshot(pool).await?).await
}

async fn lock_tables(
    mut transaction: Transaction<'static, Postgres>,
) -> Result<Transaction<'static, Postgres>, AuditError> {
    // A signer's read of a long stretch takes longer than a statement of the service may.
    transaction.execute("set local statement_timeout = 0").await?;
    if let Some(flaw) = tables::first_flaw(&mut transaction).await? {
        return Err(AuditError::Flawed(flaw));
    }
    transaction.execute("lock table audit_log, audit_heads, seals in access share mode").await?;
    Ok(transaction)
}

/// The state of the log and its proof at one moment.
pub(crate) struct AuditSnapshot {
    /// The position that the audit log has reached.
    pub(crate) position: i64,
    /// The leaves of the tree over all heads, in order.
    pub(crate) heads: Vec<Hash>,
    /// The number of whole blocks up to `position`.
    pub(crate) seals: i64,
    /// The hash of the last whole block.
    pub(crate) sealed: Hash,
    /// The events after the last whole block.
    pub(crate) open: OpenBlock,
}

impl AuditSnapshot {
    pub(crate) async fn read(connection: &mut PgConnection) -> Result<Self, AuditError> {
        let position = followed_position(connection).await?;
        if position > proof::drawn_height(connection).await? {
            return flaw_at(FlawLocation::Event { position }, UNDRAWN);
        }
        let heads = read_heads(connection).await?;
        let SealState { seals, sealed, open } = SealState::up_to(connection, position).await?;
        Ok(Self { position, heads, seals, sealed, open })
    }

    /// The root over all heads.
    pub(crate) fn heads_root(&self) -> Hash {
        self.heads.iter().copied().collect::<MerkleFrontier>().root()
    }
}

/// The flaw of a position that no transaction can have drawn.
pub(crate) const UNDRAWN: &str = "no transaction has drawn its position";

pub(crate) fn flaw_at<T>(location: FlawLocation, why: &str) -> Result<T, AuditError> {
    Err(AuditError::Flawed(Flaw { location, why: why.to_owned() }))
}

/// The position of the last event that the audit log has read. Followers move past positions
/// without an event, and these are not counted.
pub(crate) async fn followed_position(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    Ok(followed_to(connection).await?.min(proof::height(connection).await?))
}

/// The seals up to a position, and the events after them.
#[derive(PartialEq)]
struct SealState {
    seals: i64,
    sealed: Hash,
    open: OpenBlock,
}

impl SealState {
    async fn up_to(connection: &mut PgConnection, position: i64) -> Result<Self, AuditError> {
        let last = seals::last_seal(connection, position).await?;
        let (mut sealed, mut after) =
            last.map_or((GENESIS_HASH, 0), |row| (row.hash, row.last_position));
        let whole = seals::sealed_to(connection).await?.min(position) / Seal::POSITIONS_PER_BLOCK;
        if after != whole * Seal::POSITIONS_PER_BLOCK {
            let number = last.map_or(whole, |row| row.number);
            return flaw_at(FlawLocation::Seal { number }, "it is not the seal of the last block");
        }
        if (position - after) / Seal::POSITIONS_PER_BLOCK > UNSEALED_BLOCKS_MAX {
            return flaw_at(
                FlawLocation::Follower { name: "seals" },
                "it is too far behind the log",
            );
        }
        // The worker that writes seals may be behind. Its next seals follow from the events.
        while position - after >= Seal::POSITIONS_PER_BLOCK {
            let end = after + Seal::POSITIONS_PER_BLOCK;
            let tree = read_tree(connection, after, end).await?;
            sealed = SealRow::new(end, &tree, sealed).hash;
            after = end;
        }
        let open = read_tree(connection, after, position).await?;
        let open = OpenBlock { events: open.size(), root: open.root() };
        Ok(Self { seals: after / Seal::POSITIONS_PER_BLOCK, sealed, open })
    }
}

/// Refuses a log that differs from the last signed checkpoint. The end of the log is lost then, as
/// after a failover to a replica that was behind (case E17). Or the database belongs to another
/// log.
pub(crate) async fn require_unbroken(
    connection: &mut PgConnection,
    last: &AuditCheckpoint,
) -> Result<(), AuditError> {
    let signed = SealState { seals: last.seals, sealed: last.sealed, open: last.open };
    if SealState::up_to(connection, last.position).await? == signed {
        return Ok(());
    }
    Err(AuditError::Lost { number: last.number, position: last.position })
}

async fn read_tree(
    connection: &mut PgConnection,
    after: i64,
    through: i64,
) -> Result<MerkleFrontier, sqlx::Error> {
    let digests = proof::event_digests(connection, after, through).await?;
    Ok(digests.iter().map(|(position, digest)| Seal::event_leaf(*position, digest)).collect())
}

/// The leaf of every head, in the order of the firms' ids. Each head must be the last entry of its
/// chain: a forged head that is signed would contradict the true history for good.
async fn read_heads(connection: &mut PgConnection) -> Result<Vec<Hash>, AuditError> {
    let mut leaves = Vec::new();
    let mut after: Option<Uuid> = None;
    loop {
        let rows = compared_heads_after(connection, after, HEADS_PER_PAGE).await?;
        for row in &rows {
            leaves.push(checked_leaf(row)?);
        }
        match rows.last() {
            Some(last) => after = Some(last.head.firm_id),
            None => break,
        }
    }
    if audit::count_firms(connection).await? != i64::try_from(leaves.len()).unwrap_or(i64::MAX) {
        return flaw_at(FlawLocation::Heads, "the kept end of a chain is missing");
    }
    Ok(leaves)
}

fn checked_leaf(row: &ComparedHead) -> Result<Hash, AuditError> {
    match row.head.chain_head() {
        Some(head) if row.is_last_entry() => Ok(head.leaf_hash()),
        _ => flaw_at(
            FlawLocation::Head { firm_id: row.head.firm_id },
            "the kept end of the chain is not its last entry",
        ),
    }
}
