//! A range of the log and its copy in the archive: compares both before the range may leave the
//! database, and brings it back.

use domain::audit::SegmentManifest;
use eventstore::ranges::{self, StoredRange};
use projector::seals;
use sqlx::PgPool;
use tokio::task::block_in_place;
use vault::installation;

use super::files::LogArchive;
use super::read::ArchiveReader;
use super::read_beside;
use super::verify::{VerifiedPart, verify};
use crate::error::AuditError;
use crate::notary::Notary;

/// Whether the archive has a range of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchivedRange {
    /// The archive has all of it, as the log has it.
    Whole {
        /// The SHA-256 of the manifest of the last segment.
        manifest: String,
    },
    /// The archive lacks it, or has something else, for this reason.
    Lacking(String),
}

/// Reads all segments of a range, and compares them with the seals of the log.
///
/// # Errors
/// If the database does not answer, or a file cannot be read.
pub async fn compare_range(
    pool: &PgPool,
    archive: &LogArchive,
    notary: &Notary,
    range: StoredRange,
) -> Result<ArchivedRange, AuditError> {
    let mut connection = pool.acquire().await?;
    let installation_id = installation::id_seen_by(&mut connection).await?;
    let seal = seals::last_seal(&mut connection, range.last_position).await?;
    drop(connection);
    let trusted = notary.known_keys()?.keys;
    let archive = archive.clone();
    let first = SegmentManifest::holding(range.first_position);
    let last = SegmentManifest::holding(range.last_position);
    let read = move || {
        let signed = archive.read_manifests()?;
        let found = signed.into_iter().find(|one| one.manifest.number == last);
        let Some(found) = found else { return Ok((None, Vec::new())) };
        let report = verify(&archive, &trusted, VerifiedPart::Segments { first, last }, |_, _| ())?;
        Ok::<_, AuditError>((Some(found.manifest), report.flaws))
    };
    let lacking = |why: String| Ok(ArchivedRange::Lacking(why));
    let (manifest, flaws) = match read_beside(read).await {
        Err(AuditError::BrokenArchive(flaw)) => return lacking(flaw.to_string()),
        read => read?,
    };
    let Some(manifest) = manifest else {
        return lacking(format!("it has no segment {last}"));
    };
    if let Some(flaw) = flaws.first() {
        return lacking(flaw.to_string());
    }
    if Some(manifest.installation_id) != installation_id {
        return lacking(format!("it is of the installation {}", manifest.installation_id));
    }
    // Each seal is linked to the one before, so the last one stands for all.
    if seal.is_none_or(|seal| {
        seal.last_position != range.last_position || seal.hash != manifest.last_seal
    }) {
        return lacking(format!("segment {last} does not end with the seal of the log"));
    }
    Ok(ArchivedRange::Whole { manifest: hex::encode(manifest.hash()) })
}

/// Brings a range back from the archive, in one transaction of the owner of the tables. Returns the
/// number of its occurrences and deliveries. `progress` gets each position that is done.
///
/// # Errors
/// If the database does not answer or refuses, or the archive lacks a part of the range.
pub async fn attach_range(
    pool: &PgPool,
    archive: &ArchiveReader,
    range: StoredRange,
    progress: impl Fn(i64),
) -> Result<u64, AuditError> {
    let mut transaction = pool.begin().await?;
    ranges::begin_attach(&mut transaction, range).await?;
    let mut from = range.first_position;
    let mut events = 0;
    while from <= range.last_position {
        let (lines, through) = block_in_place(|| archive.read_page(from, range.last_position))?;
        let rows: Vec<(i64, &str)> =
            lines.iter().map(|line| (line.position, line.event.get())).collect();
        events += ranges::insert_archived(&mut transaction, range, &rows).await?;
        progress(through);
        from = through + 1;
    }
    ranges::end_attach(&mut transaction, range).await?;
    transaction.commit().await?;
    Ok(events)
}
