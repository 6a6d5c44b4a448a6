//! Copies the next segment of the log into an archive.
//!
//! A segment is copied once all of it is sealed and a day old. The copy is read back from its files
//! before it is signed. A crash at any moment leaves no manifest, or a whole one: files without a
//! manifest are made again, and taken if they are there with the same content.

use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::audit::merkle::{Hash, MerkleFrontier};
use domain::audit::{ArchivedBlock, ArchivedFile, GENESIS_HASH, Seal, SegmentManifest};
use domain::values::Timestamp;
use eventstore::crash;
use eventstore::presence::{self, ProcessGroup, SolePlace};
use eventstore::proof::{self, CanonicalEvent};
use projector::seals::{self, SealRow};
use projector::signatures;
use sha2::{Digest, Sha256};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use vault::installation;

use super::files::LogArchive;
use super::lines::{SegmentContent, compress, event_line};
use super::verify::{check_manifest, verify_segment};
use super::{SignedManifest, read_beside};
use crate::error::AuditError;
use crate::flaw::FlawLocation;
use crate::notary::Notary;
use crate::snapshot::{self, flaw_at};

/// Nothing younger than this is archived.
pub const SEGMENT_AGE_MIN: Duration = Duration::from_secs(24 * 3_600);

/// The result of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveStep {
    /// A segment was archived.
    Archived(Box<SegmentManifest>),
    /// The next segment is not sealed to its end.
    NotWhole {
        /// The number of the segment.
        number: u64,
        /// The position up to which the log is sealed.
        sealed_to: i64,
    },
    /// No signed checkpoint covers the next segment.
    Unsigned {
        /// The number of the segment.
        number: u64,
    },
    /// Another process has archived the next segment.
    ArchivedElsewhere {
        /// The number of the segment.
        number: u64,
    },
    /// Another process archives now.
    HeldElsewhere {
        /// The session of that process, for an operator.
        holder: String,
    },
    /// The last event of the next segment is less than a day old.
    TooYoung {
        /// The number of the segment.
        number: u64,
    },
}

/// How far an archive is behind its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveStanding {
    /// The last position of the archive.
    pub through: i64,
    /// The position up to which the log is sealed.
    pub sealed_to: i64,
    /// Number of sealed segments that are not in the archive.
    pub waiting: i64,
    /// When the last event of the first of them was recorded.
    pub waiting_since: Option<DateTime<Utc>>,
}

/// Writes the segments of one database.
#[derive(Debug)]
pub struct SegmentWriter<'a> {
    pool: &'a PgPool,
    archive: LogArchive,
    notary: &'a Notary,
    /// Whether an archive without a segment is begun.
    begins: bool,
    /// Ends the copy of a segment.
    stop: CancellationToken,
}

/// The end of the archive, from which the next segment goes on.
struct ArchiveEnd {
    installation_id: Uuid,
    last: Option<SegmentManifest>,
}

impl ArchiveEnd {
    fn number(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.number)
    }

    fn last_seal(&self) -> Hash {
        self.last.as_ref().map_or(GENESIS_HASH, |last| last.last_seal)
    }
}

/// The blocks of a segment that are in its file so far.
#[derive(Default)]
struct CopiedBlocks {
    blocks: Vec<ArchivedBlock>,
    offset: u64,
    content: SegmentContent,
}

impl<'a> SegmentWriter<'a> {
    /// A writer of this database into this archive, which the notary signs. It begins an archive
    /// that has no segment.
    #[must_use]
    pub fn new(pool: &'a PgPool, archive: &'a LogArchive, notary: &'a Notary) -> Self {
        Self {
            pool,
            archive: archive.clone(),
            notary,
            begins: true,
            stop: CancellationToken::new(),
        }
    }

    /// Returns this writer for a process that may stop. The writer does not begin an archive: an
    /// unmounted directory has no segment either.
    #[must_use]
    pub fn that_stops(self, stop: CancellationToken) -> Self {
        Self { archive: self.archive.that_stops(&stop), begins: false, stop, ..self }
    }

    /// Compares the end of the archive with the log.
    ///
    /// # Errors
    /// [`AuditError::BrokenArchive`] if the archive is not of this log.
    pub async fn standing(&self) -> Result<ArchiveStanding, AuditError> {
        let archive = self.archive.clone();
        let last = read_beside(move || archive.read_last()).await?;
        let mut connection = self.pool.acquire().await?;
        let end = self.check_end(&mut connection, last).await?;
        let through = SegmentManifest::ends_at(end.number());
        let sealed_to = seals::sealed_to(&mut connection).await?;
        let waiting = (sealed_to - through).max(0) / SegmentManifest::POSITIONS;
        let waiting_since = match waiting {
            0 => None,
            _ => {
                let end = through + SegmentManifest::POSITIONS;
                proof::last_recorded_at(&mut connection, end).await?
            }
        };
        Ok(ArchiveStanding { through, sealed_to, waiting, waiting_since })
    }

    /// Archives the next segment, if it is whole and old enough.
    ///
    /// # Errors
    /// [`AuditError`]. Nothing is signed then.
    pub async fn write_next(&self, now: Timestamp) -> Result<ArchiveStep, AuditError> {
        if self.notary.keys.current_key()?.is_none() {
            return Err(AuditError::NoKey);
        }
        // The place lasts as long as the session. A pool would hand both to another task.
        let mut connection = self.pool.acquire().await?.detach();
        let place = presence::join_alone(&mut connection, ProcessGroup::Archiving).await?;
        if let SolePlace::HeldBy(holder) = place {
            return Ok(ArchiveStep::HeldElsewhere { holder });
        }
        let step = self.write_alone(&mut connection, now).await;
        connection.close().await?;
        step
    }

    async fn write_alone(
        &self,
        connection: &mut PgConnection,
        now: Timestamp,
    ) -> Result<ArchiveStep, AuditError> {
        self.archive.remove_drafts()?;
        let end = self.check_end(connection, self.archive.read_last()?).await?;
        let number = end.number() + 1;
        let through = SegmentManifest::ends_at(number);
        let sealed_to = seals::sealed_to(connection).await?;
        if sealed_to < through {
            return Ok(ArchiveStep::NotWhole { number, sealed_to });
        }
        let recorded_at = proof::last_recorded_at(connection, through).await?;
        if recorded_at.is_some_and(|at| at > now.get() - SEGMENT_AGE_MIN) {
            return Ok(ArchiveStep::TooYoung { number });
        }
        if end.last.is_none() && !self.begins {
            return Err(AuditError::NotBegun);
        }
        if !self.is_signed(connection, end.installation_id, through).await? {
            return Ok(ArchiveStep::Unsigned { number });
        }
        let manifest = self.copy_segment(connection, &end).await?;
        let checked = manifest.check(end.last.as_ref());
        checked.map_err(|fault| AuditError::in_segment(number, None, fault.to_string()))?;
        // The content of the files counts, and not what was meant to be written.
        let manifest = read_back(self.archive.clone(), manifest).await?;
        crash::point("archiving");
        let signature = self.notary.keys.sign(&manifest.signed_bytes())?;
        let signature = signature.ok_or(AuditError::NoKey)?;
        let signed = SignedManifest {
            public_key: signature.key.hex(),
            signature: hex::encode(&signature.bytes),
            manifest,
        };
        if self.archive.store_manifest(&signed)? {
            crash::point("archiving");
            return Ok(ArchiveStep::Archived(Box::new(signed.manifest)));
        }
        // Another process has archived the segment meanwhile.
        Ok(ArchiveStep::ArchivedElsewhere { number })
    }

    /// Whether a signed checkpoint covers the log up to this position. This notary must be the one
    /// that signs, and the log must be the one that it has signed.
    async fn is_signed(
        &self,
        connection: &mut PgConnection,
        installation_id: Uuid,
        through: i64,
    ) -> Result<bool, AuditError> {
        let remembered = signatures::last(connection).await?;
        if let Some(refusal) =
            self.notary.signing_refusal(remembered.as_ref(), Some(installation_id))?
        {
            return Err(refusal.into());
        }
        self.notary.keys.complete_pair()?;
        let last = self.notary.checkpoints.read_last()?;
        let Some(last) = last.filter(|last| last.checkpoint.position >= through) else {
            return Ok(false);
        };
        snapshot::require_unbroken(connection, &last.checkpoint).await?;
        Ok(true)
    }

    /// The end of the archive. Its last seal must be the one of the database.
    async fn check_end(
        &self,
        connection: &mut PgConnection,
        last: Option<SignedManifest>,
    ) -> Result<ArchiveEnd, AuditError> {
        let installation_id = installation::id_seen_by(connection).await?;
        let installation_id = installation_id.ok_or(AuditError::NoInstallation)?;
        let Some(signed) = last else {
            return Ok(ArchiveEnd { installation_id, last: None });
        };
        let number = signed.manifest.number;
        let broken = |why: &str| Err(AuditError::in_segment(number, None, why));
        if let Err(why) = check_manifest(&signed, None, &self.notary.known_keys()?.keys) {
            return broken(&why);
        }
        let manifest = signed.manifest;
        if manifest.installation_id != installation_id {
            return broken("it is of another installation: name an archive of this one");
        }
        let ends_at = SegmentManifest::ends_at(number);
        let seal = seals::last_seal(connection, ends_at).await?;
        if seal.is_none_or(|seal| (seal.last_position, seal.hash) != (ends_at, manifest.last_seal))
        {
            return broken(
                "its last seal is not the one of the database: the database lost the end of its \
                 log, or it is another log",
            );
        }
        Ok(ArchiveEnd { installation_id, last: Some(manifest) })
    }

    /// Writes the files of the segment after this end.
    async fn copy_segment(
        &self,
        connection: &mut PgConnection,
        end: &ArchiveEnd,
    ) -> Result<SegmentManifest, AuditError> {
        let number = end.number() + 1;
        let first = SegmentManifest::begins_after(number) + Seal::POSITIONS_PER_BLOCK;
        let rows = seals::list_from(connection, first, SegmentManifest::BLOCKS).await?;
        let mut draft = self.archive.begin_file(number)?;
        let mut copied = CopiedBlocks::default();
        for row in &rows {
            if self.stop.is_cancelled() {
                return Err(AuditError::Stopped);
            }
            let after = row.last_position - Seal::POSITIONS_PER_BLOCK;
            let events = proof::canonical_events(connection, after, row.last_position).await?;
            draft.write(&copied.add_block(row, &events)?)?;
        }
        let SegmentContent { hasher, index, first_at, last_at } = copied.content;
        let index = index.to_bytes();
        let events_file = archived_file(number, "events.jsonl.gz", copied.offset, hasher);
        let index_hash = Sha256::new_with_prefix(&index);
        let index_file = archived_file(number, "index", index.len() as u64, index_hash);
        self.archive.keep_file(number, draft, &events_file)?;
        crash::point("archiving");
        let mut draft = self.archive.begin_file(number)?;
        draft.write(&index)?;
        self.archive.keep_file(number, draft, &index_file)?;
        crash::point("archiving");
        let (root, last_seal) = SegmentManifest::sealed(&copied.blocks, end.last_seal());
        let manifest = SegmentManifest {
            v: SegmentManifest::VERSION,
            installation_id: end.installation_id,
            number,
            events: copied.blocks.iter().map(|block| block.events).sum(),
            first_at,
            last_at,
            events_file,
            index_file,
            blocks: copied.blocks,
            root,
            seal_before: end.last_seal(),
            last_seal,
            manifest_before: end.last.as_ref().map_or(GENESIS_HASH, SegmentManifest::hash),
        };
        if rows.last().is_some_and(|row| row.hash == last_seal) {
            return Ok(manifest);
        }
        let location = FlawLocation::Seal { number: first / Seal::POSITIONS_PER_BLOCK };
        flaw_at(location, "it does not follow")
    }
}

impl CopiedBlocks {
    /// Adds the events under a seal, and returns their compressed bytes.
    fn add_block(
        &mut self,
        row: &SealRow,
        events: &[CanonicalEvent],
    ) -> Result<Vec<u8>, AuditError> {
        let mut lines = Vec::new();
        let mut tree = MerkleFrontier::default();
        for event in events {
            let Some((digest, bytes)) = &event.content else {
                let location = FlawLocation::Event { position: event.position };
                return flaw_at(location, "its digest is not the one of its row");
            };
            lines.extend(event_line(event.position, bytes));
            tree.push_leaf(Seal::event_leaf(event.position, digest));
            self.content.add_event(&event.aggregate_id, event.recorded_at, row.number);
        }
        if (tree.size().cast_signed(), tree.root()) != (row.events, row.root) {
            let location = FlawLocation::Seal { number: row.number };
            return flaw_at(location, "its events are not those of the log");
        }
        let compressed = compress(&lines)?;
        self.content.hasher.update(&compressed);
        self.blocks.push(ArchivedBlock {
            number: row.number,
            offset: self.offset,
            bytes: compressed.len() as u64,
            sha256: Sha256::digest(&compressed).into(),
            events: tree.size(),
            root: row.root,
        });
        self.offset += compressed.len() as u64;
        Ok(compressed)
    }
}

/// Verifies the files of a segment. They are a million events, so no task waits for that.
async fn read_back(
    archive: LogArchive,
    manifest: SegmentManifest,
) -> Result<SegmentManifest, AuditError> {
    let number = manifest.number;
    let read = spawn_blocking(move || {
        verify_segment(&archive, &manifest, |_| {})?;
        Ok(manifest)
    });
    read.await.unwrap_or_else(|error| Err(AuditError::in_segment(number, None, error.to_string())))
}

fn archived_file(number: u64, kind: &str, bytes: u64, hash: Sha256) -> ArchivedFile {
    let sha256: Hash = hash.finalize().into();
    let name = format!("{number:08}-{}.{kind}", &hex::encode(sha256)[..16]);
    ArchivedFile { name, bytes, sha256 }
}
