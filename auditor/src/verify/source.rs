//! The source of the walk: the events of the database, and those of ranges that have left it for
//! the archive. A block that comes from the archive has the bytes that its manifest names, and the
//! walk compares their digests with the seals of the database.

use std::sync::Arc;

use eventstore::proof::{self, CheckedEvent};
use eventstore::ranges::{self, DroppedRange};
use eventstore::{TRAFFIC_KINDS, Upcasters};
use sqlx::PgConnection;
use tokio::task::spawn_blocking;

use super::rows::ROWS_PER_PAGE;
use super::{FlawLocation, VerifyStop, broken_at};
use crate::archive::{ArchiveReader, LogArchive};
use crate::error::AuditError;
use crate::keys::PublicKey;

/// Where the walk finds the events.
#[derive(Default)]
pub(super) struct LogSource {
    /// The ranges that have left, in order.
    dropped: Vec<DroppedRange>,
    archive: Option<Arc<ArchiveReader>>,
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
        Ok(Self { dropped, archive: Some(Arc::new(reader)) })
    }

    /// Reads the events at this position and above, a page of them.
    pub(super) async fn read(
        &self,
        connection: &mut PgConnection,
        from: i64,
    ) -> Result<SourcePage, VerifyStop> {
        let upcasters = Upcasters::current();
        let next_dropped = self.dropped.iter().find(|one| one.range.last_position >= from);
        if let Some(DroppedRange { range, .. }) = next_dropped
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
        if let Some(border) = next_dropped.map(|one| one.range.first_position)
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
        let Some(archive) = self.archive.clone() else {
            return Err(VerifyStop::Unknown("an archive is needed, and none is named".to_owned()));
        };
        let (lines, through) = run_blocking(move || archive.read_page(from, last_position)).await?;
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
    let ended = spawn_blocking(read).await;
    match ended {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(AuditError::BrokenArchive(flaw))) => Err(VerifyStop::Broken(flaw)),
        Ok(Err(error)) => Err(VerifyStop::Failed(error)),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
