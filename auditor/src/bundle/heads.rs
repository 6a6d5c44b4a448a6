//! The heads of all chains as a signed checkpoint saw them. The heads are not stored. They follow
//! from the entries up to the checkpoint's position, and must have the root that was signed.

use domain::audit::{AuditChain, AuditCheckpoint, ChainHead};
use domain::merkle::{Hash, MerkleFrontier};
use projector::audit::{ChainSpan, EarlierHead, hashes, heads_at};
use sqlx::PgConnection;
use uuid::Uuid;

use super::SignedHeads;
use crate::error::AuditError;
use crate::verify::{Flaw, FlawLocation};

/// Heads in one read.
const HEADS_PER_PAGE: i64 = 5_000;

/// Hashes in one read.
pub(super) const HASHES_PER_PAGE: i64 = 50_000;

impl SignedHeads {
    /// The heads under a checkpoint that was signed before.
    pub(super) async fn at(
        connection: &mut PgConnection,
        firm_id: Uuid,
        said: &AuditCheckpoint,
    ) -> Result<Self, AuditError> {
        let mut found = None;
        let mut leaves = Vec::new();
        let mut after: Option<Uuid> = None;
        loop {
            let rows = heads_at(connection, after, said.position, HEADS_PER_PAGE).await?;
            for row in &rows {
                let head = earlier_head(connection, row).await?;
                if head.firm_id == firm_id {
                    found = Some((head, leaves.len()));
                }
                leaves.push(head.leaf());
            }
            match rows.last() {
                Some(last) => after = Some(last.head.firm_id),
                None => break,
            }
        }
        let is_signed = leaves.iter().copied().collect::<MerkleFrontier>().root() == said.heads;
        if !is_signed || u64::try_from(leaves.len()) != Ok(said.firms) {
            let location = FlawLocation::Checkpoint { number: said.number };
            let why = "the heads of the chains at its position are not those that it signed";
            return Err(AuditError::Flawed(Flaw { location, why: why.to_owned() }));
        }
        let (head, index) = found.ok_or(AuditError::NotSignedYet)?;
        Ok(Self { head, index: u64::try_from(index).unwrap_or(u64::MAX), leaves })
    }
}

/// The head of a chain at an earlier position. A chain that has grown since is hashed again.
async fn earlier_head(
    connection: &mut PgConnection,
    EarlierHead { head, earlier }: &EarlierHead,
) -> Result<ChainHead, AuditError> {
    if *earlier == head.sequence {
        return head.head().ok_or(AuditError::BrokenHead(head.firm_id));
    }
    let mut chain = AuditChain::default();
    let mut next = 1;
    while next <= *earlier {
        let page = ChainSpan { first: next, last: (*earlier).min(next + HASHES_PER_PAGE - 1) };
        let page_hashes: Vec<Hash> = hashes(connection, head.firm_id, page).await?;
        page_hashes.into_iter().for_each(|hash| chain.add_verified(hash));
        next = page.last + 1;
    }
    Ok(chain.head(head.firm_id))
}
