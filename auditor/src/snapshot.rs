//! One look at the database, at one moment: how far the log was followed, where every chain ends, and
//! what seals the log up to there.

use domain::audit::{AuditCheckpoint, GENESIS_HASH, OpenBlock, Seal};
use domain::merkle::{Hash, MerkleFrontier};
use eventstore::proof;
use projector::audit::{HeadRow, followed_to, heads_after};
use projector::seals::{self, SealRow};
use sqlx::{Executor, PgConnection, PgPool, Postgres, Transaction};
use uuid::Uuid;

use crate::error::AuditError;

/// Heads read at a time.
const HEADS_PER_PAGE: i64 = 5_000;

/// A snapshot of the log and its proof. The tables are locked before it first looks: a rebuilt one that is
/// swapped in later has no rows of that moment.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    let mut transaction = proof::snapshot(pool).await?;
    transaction.execute("lock table audit_log, audit_heads, seals in access share mode").await?;
    Ok(transaction)
}

/// Where everything stands.
pub(crate) struct AuditSnapshot {
    /// The log was followed up to here.
    pub(crate) position: i64,
    /// The leaves of the tree over all heads, in order.
    pub(crate) heads: Vec<Hash>,
    /// The blocks of the log up to there that are whole.
    pub(crate) seals: i64,
    /// The hash of the last of them.
    pub(crate) sealed: Hash,
    /// The events after it.
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

/// The last event that was followed. Followers go past positions that no event came to.
pub(crate) async fn followed(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    Ok(followed_to(connection).await?.min(proof::height(connection).await?))
}

/// What seals the log up to a position.
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
        // The sealing worker may be behind. What it will write is known all the same.
        while position - after >= Seal::POSITIONS_PER_BLOCK {
            let end = after + Seal::POSITIONS_PER_BLOCK;
            let tree = tree(connection, after, end).await?;
            (sealed, after) = (SealRow::of(end, &tree, sealed).hash, end);
        }
        let open = tree(connection, after, position).await?;
        let open = OpenBlock { events: open.size(), root: open.root() };
        Ok(Self { seals: after / Seal::POSITIONS_PER_BLOCK, sealed, open })
    }
}

/// Refuses a log that does not say any more what was signed last: its end is lost, as with a replica
/// that was behind (case E17), or it is another one.
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

/// The leaves of all heads, in the order of their firms.
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
