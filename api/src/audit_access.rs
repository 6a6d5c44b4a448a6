//! The parts of the proof that the internal API shows and that no table has: signed checkpoints and
//! public keys in their folders, and the sessions of feeds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use auditor::archive::{ArchiveReader, ArchiveStanding, ArchivedEvent, LogArchive, SegmentWriter};
use auditor::bundle::{self, BundlePages, ExportSelection};
use auditor::{AuditError, KnownKeys, Notary, SignedCheckpoint};
use domain::audit::FeedSession;
use domain::values::Timestamp;
use eventstore::RecordedEvent;
use projector::as_of::LeftStreams;
use sqlx::PgPool;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use crate::error::Error;

/// Most calls of one process that wait for entries. A waiting call looks once per second.
const WAITING_CALLS_MAX: usize = 64;

/// Most calls of one process that read the archive.
const ARCHIVE_READS_MAX: usize = 2;

/// Most segments that one call reads. The index of each has about 20 MB.
const SEGMENTS_MAX: usize = 32;

/// Access to the proof. Clones of the service share it.
pub struct AuditAccess {
    notary: Option<Notary>,
    archive: Option<LogArchive>,
    sessions: Mutex<HashMap<FeedReader, FeedSession>>,
    waiting: Semaphore,
    archive_turns: Semaphore,
}

/// A reader of a feed, by token. Without a firm it is the feed of all chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FeedReader {
    pub(crate) token_id: Uuid,
    pub(crate) firm_id: Option<Uuid>,
}

impl AuditAccess {
    /// Access by the folders of this notary, and the archive. Without a notary, no checkpoint and
    /// no key is known.
    #[must_use]
    pub fn new(notary: Option<Notary>, archive: Option<LogArchive>) -> Arc<Self> {
        let waiting = Semaphore::new(WAITING_CALLS_MAX);
        let archive_turns = Semaphore::new(ARCHIVE_READS_MAX);
        Arc::new(Self { notary, archive, sessions: Mutex::default(), waiting, archive_turns })
    }

    /// The events of streams that have left the database. None is found without the archive, or if
    /// they may lie in too many segments.
    ///
    /// # Errors
    /// `rate_limited` beside other such questions.
    pub(crate) async fn find_streams(
        &self,
        left: LeftStreams,
    ) -> Result<Vec<RecordedEvent>, Error> {
        let Some(archive) = self.archive.clone() else { return Ok(Vec::new()) };
        let _turn = self.archive_turns.try_acquire().map_err(|_| Error::RateLimited(1))?;
        self.on_disk(move |notary| {
            let LeftStreams { ids, through, periods } = left;
            let trusted = notary.known_keys()?.keys;
            let opened =
                ArchiveReader::open_periods(archive, &trusted, through, &periods, SEGMENTS_MAX)?;
            let Some(reader) = opened else { return Ok(Vec::new()) };
            let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
            reader.find_streams(&ids)?.iter().map(ArchivedEvent::recorded).collect()
        })
        .await
    }

    /// The end of the archive, compared with this log. `None` without an archive.
    pub(crate) async fn archive_standing(
        &self,
        pool: &PgPool,
    ) -> Result<Option<ArchiveStanding>, Error> {
        let (Some(archive), Some(notary)) = (&self.archive, &self.notary) else {
            return Ok(None);
        };
        Ok(Some(SegmentWriter::new(pool, archive, notary).standing().await?))
    }

    /// The public keys, and their source.
    pub(crate) async fn known_keys(&self) -> Result<KnownKeys, Error> {
        self.on_disk(|notary| notary.known_keys()).await
    }

    /// Up to `limit` signed checkpoints after this number.
    pub(crate) async fn checkpoints_after(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SignedCheckpoint>, Error> {
        self.on_disk(move |notary| notary.checkpoints.list_after(after, limit)).await
    }

    /// The signed checkpoint with this number, or the newest.
    pub(crate) async fn read_checkpoint(
        &self,
        number: Option<u64>,
    ) -> Result<SignedCheckpoint, Error> {
        let newest = || async {
            let last = self.on_disk(|notary| notary.checkpoints.read_last()).await?;
            last.ok_or(Error::NotSigned)
        };
        let Some(number) = number else { return newest().await };
        match self.on_disk(move |notary| notary.checkpoints.read_numbered(number)).await? {
            Some(signed) => Ok(signed),
            None => Err(Error::NoSuchCheckpoint { newest: newest().await?.checkpoint.number }),
        }
    }

    /// A bundle under a signed checkpoint that exists.
    pub(crate) async fn bundle_under(
        &self,
        pool: &PgPool,
        signed: SignedCheckpoint,
        asked: ExportSelection,
    ) -> Result<BundlePages, Error> {
        Ok(bundle::pages_under(pool, signed, asked).await?)
    }

    /// The right of a call to wait for entries.
    pub(crate) fn acquire_wait(&self) -> Result<SemaphorePermit<'_>, Error> {
        self.waiting.try_acquire().map_err(|_| Error::RateLimited(1))
    }

    /// The number of calls that wait for entries now.
    #[must_use]
    pub fn waiting_calls(&self) -> usize {
        WAITING_CALLS_MAX - self.waiting.available_permits()
    }

    /// Whether a recorded session covers a call. The call then prolongs the session.
    pub(crate) fn goes_on(&self, reader: FeedReader, after: i64, now: Timestamp) -> bool {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get_mut(&reader).filter(|session| session.covers(after, now));
        session.map(|session| session.used_at = now).is_some()
    }

    /// Notes that a session was recorded, and forgets ended ones.
    pub(crate) fn note_session(&self, reader: FeedReader, after: i64, now: Timestamp) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.is_open(now));
        sessions.insert(reader, FeedSession::begun(after, now));
    }

    /// Reads files beside the threads that serve other calls.
    async fn on_disk<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Notary) -> Result<T, AuditError> + Send + 'static,
    ) -> Result<T, Error> {
        let notary = self.notary.clone().ok_or(Error::NotSigned)?;
        let read = spawn_blocking(move || read(&notary)).await;
        let read =
            read.map_err(|_| Error::Unavailable("the reading of a file broke down".into()))?;
        Ok(read?)
    }
}
