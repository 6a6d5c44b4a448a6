//! Verifies an archive by its files alone: each byte, each digest, each seal and each link.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use domain::audit::SegmentManifest;
use sha2::{Digest, Sha256};

use super::SignedManifest;
use super::files::{CheckedBlock, LogArchive};
use super::lines::{ArchivedEvent, SegmentContent, block_tree};
use crate::error::AuditError;
use crate::flaw::{Flaw, FlawLocation};
use crate::keys::PublicKey;

/// The part of an archive whose events are read. All links and signatures are always checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifiedPart {
    /// All segments.
    All,
    /// Segments by their numbers.
    Segments {
        /// The first one.
        first: u64,
        /// The last one.
        last: u64,
    },
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveReport {
    /// Number of segments whose links and signatures were checked.
    pub segments: u64,
    /// Number of events in the segments that were read.
    pub events: u64,
    /// Compressed bytes of these segments.
    pub bytes: u64,
    /// The last position of the archive.
    pub through: i64,
    /// The first flaw of each broken segment.
    pub flaws: Vec<Flaw>,
}

/// Verifies an archive with one thread a core. `progress` gets the number of events done and of all
/// events.
///
/// # Errors
/// If a folder or a manifest cannot be read. A flaw is no error.
pub fn verify(
    archive: &LogArchive,
    trusted: &[PublicKey],
    part: VerifiedPart,
    progress: impl Fn(u64, u64) + Sync,
) -> Result<ArchiveReport, AuditError> {
    let signed = archive.read_manifests()?;
    let mut report = ArchiveReport { segments: signed.len() as u64, ..ArchiveReport::default() };
    let mut chosen: Vec<&SegmentManifest> = Vec::new();
    let mut before: Option<&SegmentManifest> = None;
    for one in &signed {
        let manifest = &one.manifest;
        let is_headless = before.is_none() && manifest.number != 1;
        match check_manifest(one, before, trusted) {
            // Numbers of a manifest that nobody signed mean nothing, so its files are not read.
            Err(why) => report.flaws.push(Flaw::in_segment(manifest.number, None, why)),
            Ok(()) if is_headless => {
                let why = "the segments before it are missing";
                report.flaws.push(Flaw::in_segment(manifest.number, None, why));
            }
            Ok(()) if part.includes(manifest) => chosen.push(manifest),
            Ok(()) => {}
        }
        report.through = SegmentManifest::ends_at(manifest.number);
        before = Some(manifest);
    }
    if let VerifiedPart::Segments { first, last } = part {
        let is_there = |number| signed.iter().any(|one| one.manifest.number == number);
        if let Some(number) = (first..=last).find(|number| !is_there(*number)) {
            return Err(AuditError::in_segment(number, None, "the archive has no such segment"));
        }
    }
    report.events = chosen.iter().map(|manifest| manifest.events).sum();
    report.bytes = chosen.iter().map(|manifest| manifest.events_file.bytes).sum();
    let flaws = verify_beside(archive, &chosen, &|done| progress(done, report.events))?;
    report.flaws.extend(flaws);
    report.flaws.sort_by_key(|flaw| match flaw.location {
        FlawLocation::Segment { number, .. } => number,
        _ => 0,
    });
    Ok(report)
}

impl VerifiedPart {
    fn includes(self, manifest: &SegmentManifest) -> bool {
        match self {
            Self::All => true,
            Self::Segments { first, last } => (first..=last).contains(&manifest.number),
        }
    }
}

/// Checks a signed manifest without its files.
pub(super) fn check_manifest(
    signed: &SignedManifest,
    before: Option<&SegmentManifest>,
    trusted: &[PublicKey],
) -> Result<(), String> {
    check_signature(signed, trusted)?;
    // An archive may begin anywhere. After that, no segment may be missing.
    if before.is_some_and(|before| before.number + 1 != signed.manifest.number) {
        return Err("the segment before is missing".to_owned());
    }
    signed.manifest.check(before).map_err(|fault| fault.to_string())
}

/// Checks that a trusted key has signed a manifest.
pub(super) fn check_signature(
    signed: &SignedManifest,
    trusted: &[PublicKey],
) -> Result<(), String> {
    let Some(key) = signed.verified_key() else {
        return Err("the signature of its manifest is wrong".to_owned());
    };
    if !trusted.contains(&key) {
        return Err(format!(
            "its manifest is signed with the key {}, which is not trusted",
            key.id()
        ));
    }
    Ok(())
}

/// Verifies segments in threads. Each takes the next one.
fn verify_beside(
    archive: &LogArchive,
    manifests: &[&SegmentManifest],
    progress: &(impl Fn(u64) + Sync),
) -> Result<Vec<Flaw>, AuditError> {
    let next = AtomicUsize::new(0);
    let done = AtomicU64::new(0);
    let flaws = Mutex::new(Vec::new());
    let work = || -> Result<(), AuditError> {
        while let Some(manifest) = manifests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let told = |events| progress(done.fetch_add(events, Ordering::Relaxed) + events);
            match verify_segment(archive, manifest, told) {
                Err(AuditError::BrokenArchive(flaw)) => {
                    if let Ok(mut flaws) = flaws.lock() {
                        flaws.push(flaw);
                    }
                }
                other => other?,
            }
        }
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(manifests.len());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    Ok(flaws.into_inner().unwrap_or_default())
}

/// Reads a segment's files, and compares them with the manifest.
///
/// # Errors
/// [`AuditError::BrokenArchive`] with the first difference, or the error of a file.
pub(super) fn verify_segment(
    archive: &LogArchive,
    manifest: &SegmentManifest,
    progress: impl Fn(u64),
) -> Result<(), AuditError> {
    let broken = |block, why| Err(AuditError::in_segment(manifest.number, block, why));
    let mut content = SegmentContent::default();
    let mut reader = archive.open_blocks(manifest)?;
    for block in &manifest.blocks {
        let CheckedBlock { compressed, events } = reader.read(block)?;
        content.hasher.update(&compressed);
        let tree = match block_tree(block.number, &events) {
            Ok(tree) => tree,
            Err(why) => return broken(Some(block.number), why),
        };
        if (tree.size(), tree.root()) != (block.events, block.root) {
            return broken(Some(block.number), "its events are not those of its seal".to_owned());
        }
        for ArchivedEvent { columns, .. } in &events {
            content.add_event(&columns.aggregate_id, columns.recorded_at, block.number);
        }
        progress(block.events);
    }
    if content.hasher.finalize()[..] != manifest.events_file.sha256 {
        return broken(None, "the file of events is not the one of its manifest".to_owned());
    }
    if (content.first_at, content.last_at) != (manifest.first_at, manifest.last_at) {
        return broken(None, "its times are not those of its events".to_owned());
    }
    let stored = archive.read_index(manifest)?;
    if stored.len() as u64 != manifest.index_file.bytes
        || Sha256::digest(&stored)[..] != manifest.index_file.sha256
        || stored != content.index.to_bytes()
    {
        return broken(None, "the index is not the one of its events".to_owned());
    }
    Ok(())
}
