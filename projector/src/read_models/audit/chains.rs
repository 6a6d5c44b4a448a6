//! The ends of all audit chains. The next entry and the next signed checkpoint begin there.

use std::collections::{BTreeMap, BTreeSet};

use domain::audit::merkle::Hash;
use domain::audit::{AuditChain, ChainHead};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

/// A row of the table `audit_heads`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct HeadRow {
    /// The firm.
    pub firm_id: Uuid,
    /// The number of entries in the chain.
    pub sequence: i64,
    /// The hash of the last entry.
    pub hash: Hash,
    /// The right edge of the Merkle tree over all entries.
    pub frontier: Vec<u8>,
}

impl HeadRow {
    /// Makes the row of a chain.
    #[must_use]
    pub fn new(firm_id: Uuid, chain: &AuditChain) -> Self {
        Self {
            firm_id,
            sequence: chain.sequence().cast_signed(),
            hash: *chain.last_hash(),
            frontier: chain.frontier_bytes(),
        }
    }

    /// Restores the chain. Returns `None` if the row is no end of a chain.
    #[must_use]
    pub fn restored_chain(&self) -> Option<AuditChain> {
        AuditChain::restored(self.sequence.cast_unsigned(), self.hash, &self.frontier)
    }

    /// Returns the head for a signed checkpoint. Returns `None` if the row is no end of a chain.
    #[must_use]
    pub fn chain_head(&self) -> Option<ChainHead> {
        Some(self.restored_chain()?.head(self.firm_id))
    }
}

/// Loads the chains of these firms. A firm without entries has no chain.
pub(super) async fn load_chains(
    connection: &mut PgConnection,
    firms: &BTreeSet<Uuid>,
) -> Result<BTreeMap<Uuid, AuditChain>, sqlx::Error> {
    let firms: Vec<Uuid> = firms.iter().copied().collect();
    restore_chains(chain_ends(connection, &firms).await?)
}

fn restore_chains(rows: Vec<HeadRow>) -> Result<BTreeMap<Uuid, AuditChain>, sqlx::Error> {
    let broken = |row: &HeadRow| {
        sqlx::Error::Decode(
            format!("the kept end of the chain of {} is not one", row.firm_id).into(),
        )
    };
    let chain = |row: HeadRow| Ok((row.firm_id, row.restored_chain().ok_or_else(|| broken(&row))?));
    rows.into_iter().map(chain).collect()
}

/// Returns the ends of these firms' chains.
pub async fn chain_ends(
    connection: &mut PgConnection,
    firms: &[Uuid],
) -> Result<Vec<HeadRow>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, sequence, hash, frontier from audit_heads where firm_id = any($1)",
    )
    .bind(firms)
    .fetch_all(connection)
    .await
}

pub(super) async fn keep_chains(
    connection: &mut PgConnection,
    chains: &BTreeMap<Uuid, AuditChain>,
) -> Result<(), sqlx::Error> {
    let rows: Vec<HeadRow> =
        chains.iter().map(|(firm_id, chain)| HeadRow::new(*firm_id, chain)).collect();
    sqlx::query(
        "insert into audit_heads (firm_id, sequence, hash, frontier)
         select * from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bytea[])
         on conflict (firm_id) do update
            set sequence = excluded.sequence, hash = excluded.hash, frontier = excluded.frontier",
    )
    .bind(rows.iter().map(|row| row.firm_id).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.sequence).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.hash).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.frontier.as_slice()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// A kept end of a chain, and the last entry of that chain.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ComparedHead {
    /// The kept end.
    #[sqlx(flatten)]
    pub head: HeadRow,
    last_sequence: Option<i64>,
    last_hash: Option<Hash>,
}

impl ComparedHead {
    /// Tells whether the kept end is the end of the chain.
    #[must_use]
    pub fn is_last_entry(&self) -> bool {
        let HeadRow { sequence, hash, .. } = &self.head;
        self.last_sequence == Some(*sequence) && self.last_hash == Some(*hash)
    }
}

/// Returns the ends of up to `limit` chains after one firm, each with the last entry of its chain.
/// PostgreSQL looks each entry up in the index.
pub async fn compared_heads_after(
    connection: &mut PgConnection,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<ComparedHead>, sqlx::Error> {
    sqlx::query_as(
        "select head.firm_id, head.sequence, head.hash, head.frontier,
                entry.sequence as last_sequence, entry.hash as last_hash
           from (select firm_id, sequence, hash, frontier from audit_heads
                  where $1::uuid is null or firm_id > $1 order by firm_id limit $2) head
           left join lateral (select sequence, hash from audit_log where firm_id = head.firm_id
                               order by sequence desc limit 1) entry on true
          order by head.firm_id",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Returns the ends of up to `limit` chains after one firm, in the order of their firms.
pub async fn heads_after(
    connection: &mut PgConnection,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<HeadRow>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, sequence, hash, frontier from audit_heads
          where $1::uuid is null or firm_id > $1 order by firm_id limit $2",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// A chain that has grown since a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct GrownChain {
    /// The firm.
    pub firm_id: Uuid,
    /// The number of entries up to the position.
    pub earlier: i64,
}

/// Returns the chains with entries after a position. PostgreSQL reads these entries in the order of
/// the log, and no others: the order of the inner list keeps it from reading whole chains.
pub async fn grown_after(
    connection: &mut PgConnection,
    position: i64,
) -> Result<Vec<GrownChain>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, min(sequence) - 1 as earlier
           from (select firm_id, sequence from audit_log where position > $1
                  order by position) entry
          group by firm_id",
    )
    .bind(position)
    .fetch_all(connection)
    .await
}
