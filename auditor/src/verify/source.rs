//! The source of the walk: the events of the database, and those of ranges that have left it for
//! the archive. A block that comes from the archive has the bytes that its manifest names, and the
//! walk compares their digests with the seals of the database. The daily walk opens one segment at
//! a time: a log of a year has thousands of manifests.

use std::sync::Arc;

use domain::audit::SegmentManifest;
use eventstore::proof::{self, CheckedEvent};
use eventstore::ranges::{self, DroppedRange, StoredRange};
use eventstore::{TRAFFIC_KINDS, Upcasters};
use sqlx::PgConnection;

use super::rows::ROWS_PER_PAGE;
use super::{FlawLocation, VerifyStop, broken_at};
use crate::archive::{ArchiveReader, LogArchive, read_beside};
use crate::error::AuditError;
use crate::keys::PublicKey;

/// Where the walk finds the events.
#[derive(Default)]
pub(super) struct LogSource {
    /// The ranges that have left, in order.
    dropped: Vec<DroppedRange>,
    archive: ArchiveSource,
}

/// The archive of a source.
#[derive(Default)]
enum ArchiveSource {
    /// The source needs none.
    #[default]
    None,
    /// All segments are open.
    Open(Arc<ArchiveReader>),
    /// The segment of the next page is opened before the page is read.
    BySegment {
        archive: LogArchive,
        trusted: Vec<PublicKey>,
        open: Option<OpenSegment>,
        /// Whether a segment was to be read.
        is_asked: bool,
    },
}

struct OpenSegment {
    number: u64,
    reader: Arc<ArchiveReader>,
}

/// Events of one page.
pub(super) struct SourcePage {
    pub(super) events: Vec<CheckedEvent>,
    /// The lowest position of the next page; `None` after the last page.
    pub(super) next: Option<i64>,
    /// Events that the database does not have.
    pub(super) archived: i64,
}

impl LogSource {
    /// Opens the source of all events.
    ///
    /// # Errors
    /// [`VerifyStop::Unknown`] if ranges have left and no archive is named.
    pub(super) async fn open(
        connection: &mut PgConnection,
        archive: Option<&LogArchive>,
        trusted: &[PublicKey],
    ) -> Result<Self, VerifyStop> {
        let dropped = ranges::dropped_ranges(connection).await?;
        let Some(last) = dropped.last() else { return Ok(Self::default()) };
        let Some(archive) = archive.cloned() else {
            let why = format!(
                "deliveries up to position {} have left for the archive: name it by --archive-url",
                last.range.last_position
            );
            return Err(VerifyStop::Unknown(why));
        };
        let trusted = trusted.to_vec();
        let reader = run_blocking(move || ArchiveReader::open(archive, &trusted)).await?;
        Ok(Self { dropped, archive: ArchiveSource::Open(Arc::new(reader)) })
    }

    /// The source of the daily walk, which needs no archive where no range has left.
    pub(super) fn by_segment(
        dropped: Vec<DroppedRange>,
        archive: Option<LogArchive>,
        trusted: Vec<PublicKey>,
    ) -> Self {
        match archive.filter(|_| !dropped.is_empty()) {
            Some(archive) => {
                let archive =
                    ArchiveSource::BySegment { archive, trusted, open: None, is_asked: false };
                Self { dropped, archive }
            }
            None => Self::default(),
        }
    }

    /// Whether events came from the archive, or should have.
    pub(super) const fn has_read_archive(&self) -> bool {
        matches!(
            self.archive,
            ArchiveSource::Open(_) | ArchiveSource::BySegment { is_asked: true, .. }
        )
    }

    /// The range that has left with this position, or the next one.
    fn dropped_from(&self, position: i64) -> Option<StoredRange> {
        self.dropped.iter().map(|one| one.range).find(|range| range.last_position >= position)
    }

    /// Opens the segment of this position, if its range has left. The manifest and the index of the
    /// segment must be whole.
    pub(super) async fn open_archive_at(&mut self, position: i64) -> Result<(), VerifyStop> {
        let range = self.dropped_from(position);
        let ArchiveSource::BySegment { archive, trusted, open, is_asked } = &mut self.archive
        else {
            return Ok(());
        };
        let number = SegmentManifest::holding(position);
        if range.is_none_or(|range| range.first_position > position)
            || open.as_ref().is_some_and(|open| open.number == number)
        {
            return Ok(());
        }
        *is_asked = true;
        let files = archive.clone();
        let keys = trusted.clone();
        let read = move || {
            // A directory that is not mounted has no segment, and says nothing about the log.
            if files.read_last()?.is_none() {
                return Ok(None);
            }
            ArchiveReader::open_segment(files, &keys, number).map(Some)
        };
        let Some(reader) = run_blocking(read).await? else {
            return Err(VerifyStop::Unknown("the archive has no segment: is it mounted?".into()));
        };
        *open = Some(OpenSegment { number, reader: Arc::new(reader) });
        Ok(())
    }

    /// The reader of the archive at this position, and the last position that it has.
    fn reader_at(&self, position: i64) -> Option<(Arc<ArchiveReader>, i64)> {
        match &self.archive {
            ArchiveSource::Open(reader) => Some((Arc::clone(reader), i64::MAX)),
            ArchiveSource::BySegment { open: Some(open), .. } => {
                let is_open = open.number == SegmentManifest::holding(position);
                let end = SegmentManifest::ends_at(open.number);
                is_open.then(|| (Arc::clone(&open.reader), end))
            }
            _ => None,
        }
    }

    /// Reads the events at this position and above, a page of them.
    pub(super) async fn read(
        &self,
        connection: &mut PgConnection,
        from: i64,
    ) -> Result<SourcePage, VerifyStop> {
        let upcasters = Upcasters::current();
        let next_dropped = self.dropped_from(from);
        if let Some(range) = next_dropped
            && range.first_position <= from
        {
            return self.read_archived(connection, from, range.last_position).await;
        }
        let checked = proof::checked_events(connection, &upcasters, from, ROWS_PER_PAGE).await?;
        let is_last = i64::try_from(checked.len()).unwrap_or(i64::MAX) < ROWS_PER_PAGE;
        let last = checked.last().filter(|_| !is_last).map(|last| last.position);
        let mut page = SourcePage {
            next: last.and_then(|last| last.checked_add(1)),
            events: checked,
            archived: 0,
        };
        if let Some(border) = next_dropped.map(|range| range.first_position)
            && page.next.is_none_or(|next| next > border)
        {
            page.events.retain(|event| event.position < border);
            page.next = Some(border);
        }
        Ok(page)
    }

    /// Reads events of a range that has left. What decides is in the database too, and must be the
    /// same there.
    async fn read_archived(
        &self,
        connection: &mut PgConnection,
        from: i64,
        last_position: i64,
    ) -> Result<SourcePage, VerifyStop> {
        let Some((archive, end)) = self.reader_at(from) else {
            return Err(VerifyStop::Unknown("an archive is needed, and none is named".to_owned()));
        };
        let last = last_position.min(end);
        let (lines, through) = run_blocking(move || archive.read_page(from, last)).await?;
        let mut page = SourcePage {
            events: Vec::with_capacity(lines.len()),
            next: through.checked_add(1),
            archived: 0,
        };
        let mut expected = Vec::new();
        for line in lines {
            let position = line.position;
            let checked = proof::check_archived(position, line.event.get(), &Upcasters::current());
            let (kind, event) = match checked {
                Ok(checked) => checked,
                Err(why) => return broken_at(FlawLocation::Event { position }, why),
            };
            if TRAFFIC_KINDS.contains(&kind.as_str()) {
                page.archived += 1;
            } else {
                expected.push((position, event.digest));
            }
            page.events.push(event);
        }
        compare_kept(connection, from, through, &expected).await?;
        Ok(page)
    }
}

/// Compares the events that the database keeps of a stretch with those of the archive.
async fn compare_kept(
    connection: &mut PgConnection,
    from: i64,
    through: i64,
    expected: &[(i64, Option<[u8; 32]>)],
) -> Result<(), VerifyStop> {
    let mut kept = Vec::new();
    let mut next = from;
    loop {
        let upcasters = Upcasters::current();
        let page = proof::checked_events(connection, &upcasters, next, ROWS_PER_PAGE).await?;
        let here = page.iter().take_while(|event| event.position <= through);
        kept.extend(here.map(|event| (event.position, event.digest)));
        match page.last() {
            Some(last) if last.position < through => next = last.position + 1,
            _ => break,
        }
    }
    let differing = kept.iter().zip(expected).find(|(kept, expected)| kept != expected);
    let position = match differing {
        Some((kept, expected)) => kept.0.min(expected.0),
        None => match kept.len().cmp(&expected.len()) {
            std::cmp::Ordering::Equal => return Ok(()),
            std::cmp::Ordering::Less => expected[kept.len()].0,
            std::cmp::Ordering::Greater => kept[expected.len()].0,
        },
    };
    let why = "what the database keeps of it is not what the archive has";
    broken_at(FlawLocation::Event { position }, why)
}

/// Reads files on a thread that may wait for them.
async fn run_blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, AuditError> + Send + 'static,
) -> Result<T, VerifyStop> {
    match read_beside(read).await {
        Ok(read) => Ok(read),
        Err(AuditError::BrokenArchive(flaw)) => Err(VerifyStop::Broken(flaw)),
        Err(error) => Err(VerifyStop::Failed(error)),
    }
}
