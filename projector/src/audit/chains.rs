//! Where each firm's chain ends: for the next entry, and for the next checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use domain::audit::{AuditChain, ChainHead};
use domain::merkle::Hash;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

/// The end of a chain as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct HeadRow {
    /// The firm.
    pub firm_id: Uuid,
    /// How many entries it has.
    pub sequence: i64,
    /// The hash of the last one.
    pub hash: Hash,
    /// The right edge of the tree over all of them.
    pub frontier: Vec<u8>,
}

impl HeadRow {
    /// The row of a chain.
    #[must_use]
    pub fn of(firm_id: Uuid, chain: &AuditChain) -> Self {
        let (sequence, hash) = (chain.sequence().cast_signed(), *chain.last());
        Self { firm_id, sequence, hash, frontier: chain.frontier() }
    }

    /// The chain, if the row can be one's.
    #[must_use]
    pub fn chain(&self) -> Option<AuditChain> {
        AuditChain::restored(self.sequence.cast_unsigned(), self.hash, &self.frontier)
    }

    /// What a checkpoint says of it, if the row can be a chain's.
    #[must_use]
    pub fn head(&self) -> Option<ChainHead> {
        Some(self.chain()?.head(self.firm_id))
    }
}

/// The chains of these firms; a firm without entries has none.
pub(super) async fn load(
    connection: &mut PgConnection,
    firms: &BTreeSet<Uuid>,
) -> Result<BTreeMap<Uuid, AuditChain>, sqlx::Error> {
    let firms: Vec<Uuid> = firms.iter().copied().collect();
    read(chains(connection, &firms).await?)
}

fn read(rows: Vec<HeadRow>) -> Result<BTreeMap<Uuid, AuditChain>, sqlx::Error> {
    let broken = |row: &HeadRow| {
        sqlx::Error::Decode(
            format!("the kept end of the chain of {} is not one", row.firm_id).into(),
        )
    };
    let chain = |row: HeadRow| Ok((row.firm_id, row.chain().ok_or_else(|| broken(&row))?));
    rows.into_iter().map(chain).collect()
}

/// Where the chains of these firms end.
///
/// # Errors
/// If the database does not answer.
pub async fn chains(
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

pub(super) async fn keep(
    connection: &mut PgConnection,
    chains: &BTreeMap<Uuid, AuditChain>,
) -> Result<(), sqlx::Error> {
    let rows: Vec<HeadRow> =
        chains.iter().map(|(firm_id, chain)| HeadRow::of(*firm_id, chain)).collect();
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

/// The ends of all chains in the order of their firms, after one and at most so many.
///
/// # Errors
/// If the database does not answer.
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
