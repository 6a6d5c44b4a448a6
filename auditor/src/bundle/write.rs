//! Writes a bundle, page by page. Header and proof are made first, so that a bundle that cannot be
//! proved is not begun.

use std::collections::BTreeMap;
use std::io::Write;

use domain::audit::merkle::{self, Hash, MerkleFrontier, sibling_ranges};
use domain::audit::{
    AuditPeriod, BackwardPeriod, ChainHead, EntryTime, PeriodStretch, ProvedPeriod,
};
use domain::values::Timestamp;
use eventstore::proof;
use projector::audit::{
    ChainSpan, EntryRow, chain_ends, find_span, list_hashes, list_span, proving_span,
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;
use vault::Entropy;

use super::heads::HASHES_PER_PAGE;
use super::{BUNDLE_KIND, BundleEntry, BundleHeader, BundleProof, SignedHeads, bundle_version};
use crate::checkpoints::SignedCheckpoint;
use crate::error::AuditError;
use crate::flaw::{Flaw, FlawLocation};
use crate::notary::Notary;
use crate::snapshot;

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
    /// The selected period.
    ///
    /// # Errors
    /// If it ends before it begins.
    pub fn period(&self) -> Result<AuditPeriod, BackwardPeriod> {
        AuditPeriod::between(self.since, self.until)
    }

    /// The range of the firm's chain that holds all selected entries. `None` if there are none.
    pub(crate) async fn find_span(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Option<ChainSpan>, AuditError> {
        let since = self.since.map(Timestamp::get);
        let until = self.until.map(Timestamp::get);
        Ok(find_span(connection, self.firm_id, i64::MAX, since, until).await?)
    }
}

/// A bundle under way. Each page is the next part of the file.
pub struct BundlePages {
    period: AuditPeriod,
    span: ChainSpan,
    next: i64,
    header: BundleHeader,
    proof: BundleProof,
    stretch: PeriodStretch,
    actions: BTreeMap<String, u64>,
    sha256: Sha256,
}

/// A whole bundle in figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleSummary {
    /// The firm.
    pub firm_id: Uuid,
    /// The sequence of the first entry in the file.
    pub first: u64,
    /// The sequence of the last entry in the file.
    pub last: u64,
    /// The content of the period.
    pub proved: ProvedPeriod,
    /// The number of entries of each action in the period.
    pub actions: BTreeMap<String, u64>,
    /// The SHA-256 of the file.
    pub sha256: Hash,
    /// The number of entries that the firm had at the signed checkpoint.
    pub of: u64,
    /// The signed checkpoint.
    pub signed: SignedCheckpoint,
}

/// Writes a bundle, and takes a signed checkpoint for it. Calls `progress` with the entries written
/// so far and the entries in all.
///
/// # Errors
/// If the firm has no entry, or the database does not answer, or a file cannot be written.
pub async fn export(
    pool: &PgPool,
    signing: CheckpointSigning<'_>,
    asked: ExportSelection,
    mut to: impl Write + Send,
    progress: impl Fn(u64, u64) + Send,
) -> Result<BundleSummary, AuditError> {
    let turn = signing.notary.take_turn(pool).await?;
    let mut transaction = snapshot::begin_long(pool).await?;
    let standing = signing.notary.checked_snapshot(&mut transaction).await?;
    let kept = chain_ends(&mut transaction, &[asked.firm_id]).await?.pop();
    let head = kept.ok_or(AuditError::Nothing)?;
    let head = head.chain_head().ok_or(AuditError::BrokenHead(asked.firm_id))?;
    let draft = BundleDraft::new(&mut transaction, asked, &head).await?;
    let signed = turn.sign_snapshot(&standing, signing.entropy, signing.at).await?;
    let place = standing.heads.iter().position(|leaf| *leaf == head.leaf_hash());
    let place = place.ok_or(AuditError::BrokenHead(asked.firm_id))?;
    let index = u64::try_from(place).unwrap_or(u64::MAX);
    let mut pages =
        draft.with_checkpoint(SignedHeads { head, index, leaves: standing.heads }, signed);
    while let Some(text) = pages.next(&mut transaction).await? {
        to.write_all(text.as_bytes())?;
        progress(pages.written_count(), pages.entry_count());
    }
    to.flush()?;
    pages.summary()
}

/// Prepares a bundle under a checkpoint that was signed before. Later entries are not in it. The
/// bundle depends on the selection and the checkpoint alone: the same bytes come out each time.
///
/// # Errors
/// If the checkpoint has no entry of the firm, its signature is wrong, or the database contradicts
/// it or does not answer.
pub async fn pages_under(
    pool: &PgPool,
    signed: SignedCheckpoint,
    asked: ExportSelection,
) -> Result<BundlePages, AuditError> {
    if signed.verified_key().is_none() {
        let location = FlawLocation::Checkpoint { number: signed.checkpoint.number };
        let why = "the signature is not that of its key over what it says".to_owned();
        return Err(AuditError::Flawed(Flaw { location, why }));
    }
    let mut transaction = proof::begin_snapshot(pool).await?;
    let heads =
        SignedHeads::under_checkpoint(&mut transaction, asked.firm_id, &signed.checkpoint).await?;
    let draft = BundleDraft::new(&mut transaction, asked, &heads.head).await?;
    transaction.rollback().await?;
    Ok(draft.with_checkpoint(heads, signed))
}

/// The parts of a bundle that follow from the firm's chain alone.
struct BundleDraft {
    period: AuditPeriod,
    span: ChainSpan,
    header: BundleHeader,
    entry_path: Vec<String>,
}

impl BundleDraft {
    /// Selects the entries of a chain that ends at this head.
    async fn new(
        connection: &mut PgConnection,
        asked: ExportSelection,
        head: &ChainHead,
    ) -> Result<Self, AuditError> {
        let firm_id = asked.firm_id;
        let period = asked.period()?;
        let through = head.sequence.cast_signed();
        let span = proving_span(connection, firm_id, through, period).await?;
        let begin = ChainSpan { last: span.first, ..span };
        let first = list_span(connection, firm_id, begin).await?.pop();
        let first = first.ok_or_else(|| gap_error(firm_id))?;
        let header = BundleHeader {
            bundle: BUNDLE_KIND.to_owned(),
            v: bundle_version(period),
            firm_id,
            first: span.first.cast_unsigned(),
            last: span.last.cast_unsigned(),
            previous_hash: hex::encode(first.previous_hash),
            since: period.since.map(String::from),
            until: period.until.map(String::from),
        };
        let entry_path = read_entry_path(connection, firm_id, span.last, head.sequence).await?;
        Ok(Self { period, span, header, entry_path })
    }

    /// Puts the entries under a signed checkpoint over these heads.
    fn with_checkpoint(self, heads: SignedHeads, signed: SignedCheckpoint) -> BundlePages {
        let Self { period, span, header, entry_path } = self;
        let SignedHeads { head, index: head_index, leaves } = heads;
        let head_path = hex_texts(&merkle::sibling_path(&leaves, head_index));
        BundlePages {
            period,
            span,
            next: span.first,
            header,
            proof: BundleProof { entry_path, head, head_index, head_path, signed },
            stretch: PeriodStretch::new(period),
            actions: BTreeMap::new(),
            sha256: Sha256::new(),
        }
    }
}

impl BundlePages {
    /// The next part of the file: the header before the first entries, the proof after the last.
    ///
    /// # Errors
    /// If the database does not answer, or lacks an entry.
    pub async fn next(
        &mut self,
        connection: &mut PgConnection,
    ) -> Result<Option<String>, AuditError> {
        let ChainSpan { first, last } = self.span;
        if self.next > last {
            return Ok(None);
        }
        let mut text = if self.next == first { json_line(&self.header)? } else { String::new() };
        let page = ChainSpan { first: self.next, last: last.min(self.next + ENTRIES_PER_PAGE - 1) };
        let rows = list_span(connection, self.header.firm_id, page).await?;
        if i64::try_from(rows.len()) != Ok(page.last - page.first + 1) {
            return Err(gap_error(self.header.firm_id));
        }
        for row in &rows {
            self.count_entry(row);
            let entry = String::from_utf8_lossy(&row.entry).into_owned();
            text += &json_line(&BundleEntry { entry, hash: hex::encode(row.hash) })?;
        }
        if page.last == last {
            self.proved_period()?;
            text += &json_line(&self.proof)?;
        }
        self.sha256.update(&text);
        self.next = page.last + 1;
        Ok(Some(text))
    }

    /// The number of entries in the parts so far.
    #[must_use]
    pub const fn written_count(&self) -> u64 {
        (self.next - self.span.first).cast_unsigned()
    }

    /// The number of entries in the file.
    #[must_use]
    pub const fn entry_count(&self) -> u64 {
        self.header.last - self.header.first + 1
    }

    /// The whole bundle in figures, after its last part.
    ///
    /// # Errors
    /// If parts are left.
    pub fn summary(self) -> Result<BundleSummary, AuditError> {
        Ok(BundleSummary {
            firm_id: self.header.firm_id,
            first: self.header.first,
            last: self.header.last,
            proved: self.proved_period()?,
            actions: self.actions,
            sha256: self.sha256.finalize().into(),
            of: self.proof.head.sequence,
            signed: self.proof.signed,
        })
    }

    fn count_entry(&mut self, row: &EntryRow) {
        let at = Timestamp::from(row.at);
        self.stretch.add_entry(EntryTime { sequence: row.sequence.cast_unsigned(), at });
        if self.period.includes(at) {
            *self.actions.entry(row.action.clone()).or_default() += 1;
        }
    }

    /// The content of the period. A bundle that would not prove it is not finished.
    fn proved_period(&self) -> Result<ProvedPeriod, AuditError> {
        let proved = self.stretch.into_proved(self.proof.head.sequence);
        proved.map_err(|unproved| {
            let location = FlawLocation::Head { firm_id: self.header.firm_id };
            AuditError::Flawed(Flaw { location, why: unproved.to_string() })
        })
    }
}

fn gap_error(firm_id: Uuid) -> AuditError {
    let why = "an entry of its chain is missing".to_owned();
    AuditError::Flawed(Flaw { location: FlawLocation::Head { firm_id }, why })
}

/// The path of an entry in the tree over a firm's entries. Reads the hashes a page at a time.
async fn read_entry_path(
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
            let page = ChainSpan { first: next, last: last.min(next + HASHES_PER_PAGE - 1) };
            let page_hashes = list_hashes(connection, firm_id, page).await?;
            page_hashes.iter().for_each(|hash| tree.push_leaf(merkle::leaf_hash(hash)));
            next = page.last + 1;
        }
        roots.push(tree.root());
    }
    Ok(hex_texts(&roots))
}

fn hex_texts(hashes: &[Hash]) -> Vec<String> {
    hashes.iter().map(hex::encode).collect()
}

fn json_line(shape: &impl Serialize) -> Result<String, AuditError> {
    let text = serde_json::to_string(shape).map_err(std::io::Error::from)?;
    Ok(text + "\n")
}
