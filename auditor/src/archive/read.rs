//! Finds events in an archive.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use domain::audit::{ArchivedBlock, SegmentManifest};
use domain::values::Timestamp;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::files::LogArchive;
use super::lines::{ArchivedEvent, EventColumns, blocks_of, stream_key};
use super::verify::{check_manifest, check_signature};
use crate::error::AuditError;
use crate::keys::PublicKey;

/// The events of a page, at least.
const EVENTS_PER_PAGE: usize = 500;

/// The events to find.
#[derive(Debug, Clone, Default)]
pub struct ArchiveFilter {
    /// Only events of this firm.
    pub firm_id: Option<Uuid>,
    /// Only events of these types.
    pub event_types: Vec<String>,
    /// Only events recorded at this time or later.
    pub since: Option<Timestamp>,
    /// Only events recorded before this time.
    pub until: Option<Timestamp>,
}

impl ArchiveFilter {
    fn includes(&self, columns: &EventColumns) -> bool {
        self.firm_id.is_none_or(|firm_id| firm_id == columns.firm_id)
            && (self.event_types.is_empty() || self.event_types.contains(&columns.event_type))
            && self.since.is_none_or(|since| columns.recorded_at >= since)
            && self.until.is_none_or(|until| columns.recorded_at < until)
    }

    /// Whether a segment may have such events.
    fn may_lie_in(&self, manifest: &SegmentManifest) -> bool {
        let (Some(first), Some(last)) = (manifest.first_at, manifest.last_at) else { return false };
        self.since.is_none_or(|since| last >= since) && self.until.is_none_or(|until| first < until)
    }
}

/// A reader of an archive whose manifests are linked and signed. Each block that it reads is
/// compared with its manifest.
#[derive(Debug)]
pub struct ArchiveReader {
    archive: LogArchive,
    manifests: Vec<SegmentManifest>,
}

impl ArchiveReader {
    /// Reads and checks the manifests.
    ///
    /// # Errors
    /// [`AuditError::BrokenArchive`], or the error of a file.
    pub fn open(archive: LogArchive, trusted: &[PublicKey]) -> Result<Self, AuditError> {
        let mut manifests: Vec<SegmentManifest> = Vec::new();
        for signed in archive.read_manifests()? {
            if let Err(why) = check_manifest(&signed, manifests.last(), trusted) {
                return Err(AuditError::in_segment(signed.manifest.number, None, why));
            }
            manifests.push(signed.manifest);
        }
        Ok(Self { archive, manifests })
    }

    /// Reads and checks the manifest and the index of one segment. The reader has no other one.
    ///
    /// # Errors
    /// [`AuditError::BrokenArchive`], or the error of a file.
    pub fn open_segment(
        archive: LogArchive,
        trusted: &[PublicKey],
        number: u64,
    ) -> Result<Self, AuditError> {
        let broken = |why: String| AuditError::in_segment(number, None, why);
        let manifest = read_signed(&archive, trusted, number)?;
        let before = match number {
            0 | 1 => None,
            _ => archive.find_manifest(number - 1)?.map(|before| before.manifest),
        };
        manifest.check(before.as_ref()).map_err(|fault| broken(fault.to_string()))?;
        read_checked_index(&archive, &manifest)?;
        Ok(Self { archive, manifests: vec![manifest] })
    }

    /// Reads and checks the manifests of the segments of some periods, up to a position. It reads
    /// few others, because the times of segments ascend. `None` for more than `most` segments.
    ///
    /// # Errors
    /// [`AuditError::BrokenArchive`], or the error of a file.
    pub fn open_periods(
        archive: LogArchive,
        trusted: &[PublicKey],
        through: i64,
        periods: &[RangeInclusive<Timestamp>],
        most: usize,
    ) -> Result<Option<Self>, AuditError> {
        let end = SegmentManifest::holding(through) + 1;
        let mut found: BTreeMap<u64, SegmentManifest> = BTreeMap::new();
        for period in periods {
            for number in first_segment(&archive, trusted, end, *period.start())?..end {
                let manifest = match found.remove(&number) {
                    Some(manifest) => manifest,
                    None => read_signed(&archive, trusted, number)?,
                };
                if manifest.first_at.is_some_and(|at| at > *period.end()) {
                    break;
                }
                found.insert(number, manifest);
                if found.len() > most {
                    return Ok(None);
                }
            }
        }
        for manifest in found.values() {
            let before = found.get(&(manifest.number - 1));
            manifest.check(before).map_err(|fault| {
                AuditError::in_segment(manifest.number, None, fault.to_string())
            })?;
        }
        Ok(Some(Self { archive, manifests: found.into_values().collect() }))
    }

    /// Returns the events of all streams with these ids, in order.
    ///
    /// # Errors
    /// [`AuditError::BrokenArchive`], or the error of a file.
    pub fn find_streams(&self, ids: &[String]) -> Result<Vec<ArchivedEvent>, AuditError> {
        let mut events = Vec::new();
        for manifest in &self.manifests {
            let index = read_checked_index(&self.archive, manifest)?;
            let numbers: BTreeSet<_> =
                ids.iter().flat_map(|id| blocks_of(&index, stream_key(id))).collect();
            if numbers.is_empty() {
                continue;
            }
            let blocks = manifest.blocks.iter().filter(|block| numbers.contains(&block.number));
            self.read_blocks(manifest, blocks, |event| {
                if ids.contains(&event.columns.aggregate_id) {
                    events.push(event);
                }
                true
            })?;
        }
        Ok(events)
    }

    /// Returns events from this position up to `last`, in whole blocks, and the position up to
    /// which these are all. A page has some hundred events at least, unless it is the last one.
    ///
    /// # Errors
    /// [`AuditError::BrokenArchive`] if the archive lacks a part of it, or the error of a file.
    pub fn read_page(&self, from: i64, last: i64) -> Result<(Vec<ArchivedEvent>, i64), AuditError> {
        let mut events: Vec<ArchivedEvent> = Vec::new();
        let mut through = from - 1;
        let of_page = self.manifests.iter().filter(|manifest| {
            SegmentManifest::ends_at(manifest.number) >= from
                && SegmentManifest::begins_after(manifest.number) < last
        });
        for manifest in of_page {
            if SegmentManifest::begins_after(manifest.number) > through {
                break;
            }
            let mut reader = None;
            for block in &manifest.blocks {
                let end = block.seal().last_position.min(last);
                if end < from {
                    continue;
                }
                if block.events > 0 {
                    let reader = match &mut reader {
                        Some(reader) => reader,
                        none => none.insert(self.archive.open_blocks(manifest)?),
                    };
                    let read = reader.read(block)?.events.into_iter();
                    events.extend(read.filter(|event| (from..=last).contains(&event.position)));
                }
                through = end;
                if events.len() >= EVENTS_PER_PAGE || through == last {
                    return Ok((events, through));
                }
            }
        }
        let number = SegmentManifest::holding(through + 1);
        Err(AuditError::in_segment(number, None, "the archive has no such segment"))
    }

    /// Hands out the events that a filter includes, in order, until `hand_out` returns false.
    ///
    /// # Errors
    /// [`AuditError::BrokenArchive`], or the error of a file.
    pub fn find(
        &self,
        filter: &ArchiveFilter,
        mut hand_out: impl FnMut(ArchivedEvent) -> bool,
    ) -> Result<(), AuditError> {
        for manifest in self.manifests.iter().filter(|one| filter.may_lie_in(one)) {
            let wants_more = self.read_blocks(manifest, &manifest.blocks, |event| {
                !filter.includes(&event.columns) || hand_out(event)
            })?;
            if !wants_more {
                break;
            }
        }
        Ok(())
    }

    /// Reads blocks until `take` returns false, and returns whether it wants more.
    fn read_blocks<'m>(
        &self,
        manifest: &SegmentManifest,
        blocks: impl IntoIterator<Item = &'m ArchivedBlock>,
        mut take: impl FnMut(ArchivedEvent) -> bool,
    ) -> Result<bool, AuditError> {
        let mut reader = self.archive.open_blocks(manifest)?;
        for block in blocks {
            if !reader.read(block)?.events.into_iter().all(&mut take) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Reads a manifest that a trusted key has signed.
fn read_signed(
    archive: &LogArchive,
    trusted: &[PublicKey],
    number: u64,
) -> Result<SegmentManifest, AuditError> {
    let broken = |why: String| AuditError::in_segment(number, None, why);
    let Some(signed) = archive.find_manifest(number)? else {
        return Err(broken("the archive has no such segment".to_owned()));
    };
    check_signature(&signed, trusted).map_err(broken)?;
    Ok(signed.manifest)
}

/// Reads the index of a segment, which must be the one of its manifest.
fn read_checked_index(
    archive: &LogArchive,
    manifest: &SegmentManifest,
) -> Result<Vec<u8>, AuditError> {
    let index = archive.read_index(manifest)?;
    if Sha256::digest(&index)[..] != manifest.index_file.sha256 {
        let why = "the index is not the one of its manifest";
        return Err(AuditError::in_segment(manifest.number, None, why));
    }
    Ok(index)
}

/// Returns the first segment with events of this time or later, before `end`.
fn first_segment(
    archive: &LogArchive,
    trusted: &[PublicKey],
    end: u64,
    since: Timestamp,
) -> Result<u64, AuditError> {
    let mut first = 1;
    let mut behind = end;
    while first < behind {
        let middle = first.midpoint(behind);
        // A segment without events has no times, so the next one with events decides.
        let mut asked = middle;
        let mut last_at = None;
        while asked < behind && last_at.is_none() {
            last_at = read_signed(archive, trusted, asked)?.last_at;
            asked += 1;
        }
        if last_at.is_some_and(|at| at < since) {
            first = asked;
        } else {
            behind = middle;
        }
    }
    Ok(first)
}
