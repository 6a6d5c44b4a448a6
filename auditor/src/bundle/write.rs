//! Writes a bundle from one snapshot of the database, under a signed checkpoint of that snapshot.

use std::io::Write;

use crate::snapshot;
use domain::audit::FORMAT_VERSION;
use domain::merkle::{self, Hash, MerkleFrontier, sibling_ranges};
use domain::time::Timestamp;
use projector::audit::{ChainSpan, chains, hashes, span, stretch};
use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;
use vault::Entropy;

use super::{BUNDLE_KIND, BundleEntry, BundleHeader, BundleProof};
use crate::error::AuditError;
use crate::files::SignedCheckpoint;
use crate::notary::Notary;

/// Entries in one read.
const ENTRIES_PER_PAGE: i64 = 1_000;

/// The entries to export.
#[derive(Debug, Clone, Copy)]
pub struct ExportSelection {
    /// The firm.
    pub firm_id: Uuid,
    /// Only entries from this time on.
    pub since: Option<Timestamp>,
    /// Only entries before this time.
    pub until: Option<Timestamp>,
}

/// The notary that signs a bundle's checkpoint, with its randomness and its time.
#[derive(Clone, Copy)]
pub struct CheckpointSigning<'a> {
    /// The notary.
    pub notary: &'a Notary,
    /// The source of a new key, if the notary has none.
    pub entropy: &'a dyn Entropy,
    /// The time of the signed checkpoint.
    pub at: Timestamp,
}

impl ExportSelection {
    /// The range of the firm's chain that holds all selected entries, up to position `through`.
    pub(crate) async fn span(
        &self,
        connection: &mut PgConnection,
        through: i64,
    ) -> Result<ChainSpan, AuditError> {
        let since = self.since.map(Timestamp::get);
        let until = self.until.map(Timestamp::get);
        let span = span(connection, self.firm_id, through, since, until).await?;
        span.ok_or(AuditError::Nothing)
    }
}

/// Writes a bundle, and takes a signed checkpoint for it. Calls `progress` with the entries written
/// so far and the entries in all.
///
/// # Errors
/// If there is nothing to write, or the database does not answer, or a file cannot be written.
pub async fn export(
    pool: &PgPool,
    signing: CheckpointSigning<'_>,
    asked: ExportSelection,
    mut to: impl Write + Send,
    progress: impl Fn(u64, u64) + Send,
) -> Result<SignedCheckpoint, AuditError> {
    let turn = signing.notary.turn(pool).await?;
    let mut transaction = snapshot::begin(pool).await?;
    let standing = signing.notary.standing(&mut transaction).await?;
    let kept = chains(&mut transaction, &[asked.firm_id]).await?.pop();
    let head = kept.ok_or(AuditError::Nothing)?;
    let head = head.head().ok_or(AuditError::BrokenHead(asked.firm_id))?;
    let span = asked.span(&mut transaction, head.sequence.cast_signed()).await?;
    let signed = turn.sign(&standing, signing.entropy, signing.at).await?;
    write_entries(&mut transaction, asked.firm_id, span, &mut to, progress).await?;
    let place = standing.heads.iter().position(|leaf| *leaf == head.leaf());
    let place = place.ok_or(AuditError::BrokenHead(asked.firm_id))?;
    let head_index = u64::try_from(place).unwrap_or(u64::MAX);
    let proof = BundleProof {
        entry_path: path(&mut transaction, asked.firm_id, span.last, head.sequence).await?,
        head,
        head_index,
        head_path: texts(&merkle::path(&standing.heads, head_index)),
        signed,
    };
    write_line(&mut to, &proof)?;
    to.flush()?;
    Ok(proof.signed)
}

async fn write_entries(
    connection: &mut PgConnection,
    firm_id: Uuid,
    span: ChainSpan,
    to: &mut (impl Write + Send),
    progress: impl Fn(u64, u64) + Send,
) -> Result<(), AuditError> {
    let first = span.first.cast_unsigned();
    let last = span.last.cast_unsigned();
    let mut next = span.first;
    while next <= span.last {
        let page = ChainSpan { first: next, last: span.last.min(next + ENTRIES_PER_PAGE - 1) };
        for row in stretch(connection, firm_id, page).await? {
            if row.sequence == span.first {
                let previous_hash = hex::encode(row.previous_hash);
                let bundle = BUNDLE_KIND.to_owned();
                write_line(
                    to,
                    &BundleHeader {
                        bundle,
                        v: FORMAT_VERSION,
                        firm_id,
                        first,
                        last,
                        previous_hash,
                    },
                )?;
            }
            let entry = String::from_utf8_lossy(&row.entry).into_owned();
            write_line(to, &BundleEntry { entry, hash: hex::encode(row.hash) })?;
        }
        next = page.last + 1;
        progress((next - span.first).cast_unsigned(), last - first + 1);
    }
    Ok(())
}

/// The path of an entry in the tree over a firm's entries. Reads the hashes a page at a time.
async fn path(
    connection: &mut PgConnection,
    firm_id: Uuid,
    sequence: i64,
    size: u64,
) -> Result<Vec<String>, AuditError> {
    let mut roots = Vec::new();
    for stretch in sibling_ranges(sequence.cast_unsigned() - 1, size) {
        let mut tree = MerkleFrontier::default();
        let mut next = stretch.start.cast_signed() + 1;
        let last = stretch.end.cast_signed();
        while next <= last {
            let page = ChainSpan { first: next, last: last.min(next + 50 * ENTRIES_PER_PAGE - 1) };
            let page_hashes = hashes(connection, firm_id, page).await?;
            page_hashes.iter().for_each(|hash| tree.push(merkle::leaf(hash)));
            next = page.last + 1;
        }
        roots.push(tree.root());
    }
    Ok(texts(&roots))
}

fn texts(hashes: &[Hash]) -> Vec<String> {
    hashes.iter().map(hex::encode).collect()
}

fn write_line(to: &mut impl Write, shape: &impl Serialize) -> Result<(), AuditError> {
    serde_json::to_writer(&mut *to, shape).map_err(std::io::Error::from)?;
    Ok(to.write_all(b"\n")?)
}
