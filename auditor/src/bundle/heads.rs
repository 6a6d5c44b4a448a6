//! The heads of all chains as a signed checkpoint saw them. The heads are not stored. They follow
//! from the entries up to the checkpoint's position, and must have the root that was signed.

use std::collections::HashMap;

use domain::audit::merkle::{Hash, MerkleFrontier};
use domain::audit::{AuditChain, AuditCheckpoint, ChainHead};
use projector::audit::{ChainSpan, HeadRow, grown_after, heads_after, list_hashes};
use sqlx::PgConnection;
use uuid::Uuid;

use super::SignedHeads;
use crate::error::AuditError;
use crate::flaw::FlawLocation;
use crate::snapshot::flaw_at;

/// Heads in one read.
const HEADS_PER_PAGE: i64 = 5_000;

/// Hashes in one read.
pub(super) const HASHES_PER_PAGE: i64 = 50_000;

impl SignedHeads {
    /// The heads under a checkpoint that was signed before. All reads must see one snapshot.
    pub(super) async fn under_checkpoint(
        connection: &mut PgConnection,
        firm_id: Uuid,
        said: &AuditCheckpoint,
    ) -> Result<Self, AuditError> {
        let grown = grown_after(connection, said.position).await?.into_iter();
        let earlier: HashMap<Uuid, i64> =
            grown.map(|chain| (chain.firm_id, chain.earlier)).collect();
        let mut found = None;
        let mut leaves = Vec::new();
        let mut after: Option<Uuid> = None;
        loop {
            let rows = heads_after(connection, after, HEADS_PER_PAGE).await?;
            for row in &rows {
                let head = match earlier.get(&row.firm_id) {
                    Some(0) => continue,
                    Some(sequence) => earlier_head(connection, row.firm_id, *sequence).await?,
                    None => kept_head(row)?,
                };
                if head.firm_id == firm_id {
                    found = Some((head, leaves.len()));
                }
                leaves.push(head.leaf_hash());
            }
            match rows.last() {
                Some(last) => after = Some(last.firm_id),
                None => break,
            }
        }
        let is_signed = leaves.iter().copied().collect::<MerkleFrontier>().root() == said.heads;
        if !is_signed || u64::try_from(leaves.len()) != Ok(said.firms) {
            let location = FlawLocation::Checkpoint { number: said.number };
            let why = "the heads of the chains at its position are not those that it signed";
            return flaw_at(location, why);
        }
        let (head, index) = found.ok_or(AuditError::NotSignedYet)?;
        Ok(Self { head, index: u64::try_from(index).unwrap_or(u64::MAX), leaves })
    }
}

fn kept_head(row: &HeadRow) -> Result<ChainHead, AuditError> {
    row.chain_head().ok_or(AuditError::BrokenHead(row.firm_id))
}

/// The head of a chain when it had so many entries. Their hashes are hashed again.
async fn earlier_head(
    connection: &mut PgConnection,
    firm_id: Uuid,
    sequence: i64,
) -> Result<ChainHead, AuditError> {
    let mut chain = AuditChain::default();
    let mut next = 1;
    while next <= sequence {
        let page = ChainSpan { first: next, last: sequence.min(next + HASHES_PER_PAGE - 1) };
        let page_hashes: Vec<Hash> = list_hashes(connection, firm_id, page).await?;
        page_hashes.into_iter().for_each(|hash| chain.add_verified(hash));
        next = page.last + 1;
    }
    Ok(chain.head(firm_id))
}
