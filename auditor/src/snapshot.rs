//! One snapshot of the database: the position that the audit log has reached, the head of every
//! chain, and the seals up to that position.

use domain::audit::{AuditCheckpoint, GENESIS_HASH, OpenBlock, Seal};
use domain::merkle::{Hash, MerkleFrontier};
use eventstore::proof;
use projector::audit::{HeadRow, followed_to, heads_after};
use projector::seals::{self, SealRow};
use sqlx::{Executor, PgConnection, PgPool, Postgres, Transaction};
use uuid::Uuid;

use crate::error::AuditError;

/// Heads in one read.
const HEADS_PER_PAGE: i64 = 5_000;

/// Begins the transaction that reads the snapshot. The tables are locked before the first read: a
/// rebuild swaps tables, and the new table would lack rows of the snapshot.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    let mut transaction = proof::snapshot(pool).await?;
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
        let position = followed(connection).await?;
        let heads = heads(connection).await?;
        let SealState { seals, sealed, open } = SealState::up_to(connection, position).await?;
        Ok(Self { position, heads, seals, sealed, open })
    }

    /// The root over all heads.
    pub(crate) fn root(&self) -> Hash {
        self.heads.iter().copied().collect::<MerkleFrontier>().root()
    }
}

/// The position of the last event that the audit log has read. Followers move past positions
/// without an event, and these are not counted.
pub(crate) async fn followed(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
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
        let last = seals::last(connection, position).await?;
        let (mut sealed, mut after) =
            last.map_or((GENESIS_HASH, 0), |row| (row.hash, row.last_position));
        // The worker that writes seals may be behind. Its next seals follow from the events.
        while position - after >= Seal::POSITIONS_PER_BLOCK {
            let end = after + Seal::POSITIONS_PER_BLOCK;
            let tree = tree(connection, after, end).await?;
            sealed = SealRow::of(end, &tree, sealed).hash;
            after = end;
        }
        let open = tree(connection, after, position).await?;
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

async fn tree(
    connection: &mut PgConnection,
    after: i64,
    through: i64,
) -> Result<MerkleFrontier, sqlx::Error> {
    let digests = proof::digests(connection, after, through).await?;
    Ok(digests.iter().map(|(position, digest)| Seal::leaf(*position, digest)).collect())
}

/// The leaf of every head, in the order of the firms' ids.
async fn heads(connection: &mut PgConnection) -> Result<Vec<Hash>, AuditError> {
    let mut leaves = Vec::new();
    let mut after: Option<Uuid> = None;
    loop {
        let rows = heads_after(connection, after, HEADS_PER_PAGE).await?;
        for row in &rows {
            leaves.push(leaf(row)?);
        }
        match rows.last() {
            Some(last) => after = Some(last.firm_id),
            None => return Ok(leaves),
        }
    }
}

fn leaf(row: &HeadRow) -> Result<Hash, AuditError> {
    let head = row.head().ok_or(AuditError::BrokenHead(row.firm_id))?;
    Ok(head.leaf())
}
