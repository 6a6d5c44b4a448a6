//! Archives whole segments of the log, once they are a day old.

use std::convert::Infallible;
use std::time::Duration;

use domain::values::Timestamp;
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{Clock, outage};
use sqlx::PgPool;
use telemetry::metrics::ARCHIVE_AGE;
use tokio_util::sync::CancellationToken;

use crate::archive::{ArchiveStep, LogArchive, SEGMENT_AGE_MIN, SegmentWriter};
use crate::error::AuditError;
use crate::notary::Notary;

/// The wait between two looks. A segment is a day old at least, so an hour more does not matter.
const LOOK_SECONDS: i64 = 3_600;

/// The wait after a failure, and for a signed checkpoint.
const RETRY_SECONDS: i64 = 600;

/// The worker of an archive. Of several workers on one database, one archives at a time. Without
/// the key that signs it does nothing.
pub struct Archiver {
    archive: LogArchive,
    notary: Notary,
    pool: PgPool,
    clock: Clock,
    stop: CancellationToken,
    next: i64,
    /// Since when a segment is due that has no copy.
    due_since: Option<Timestamp>,
}

/// The outcome of a look.
enum ArchiveLook {
    /// Nothing more is due.
    UpToDate,
    /// A segment was archived, and another may be due.
    Archived,
    /// A segment is due since this time, and has no copy. The time may not be known.
    Behind(Option<Timestamp>),
}

impl Archiver {
    /// A worker for this archive, this database and this clock, until the process stops.
    #[must_use]
    pub const fn new(
        archive: LogArchive,
        notary: Notary,
        pool: PgPool,
        clock: Clock,
        stop: CancellationToken,
    ) -> Self {
        Self { archive, notary, pool, clock, stop, next: 0, due_since: None }
    }

    async fn look(&self, now: Timestamp) -> ArchiveLook {
        let Self { archive, notary, pool, stop, .. } = self;
        // Another process has the key.
        if !notary.can_sign() {
            return ArchiveLook::UpToDate;
        }
        let writer = SegmentWriter::new(pool, archive, notary).that_stops(stop.clone());
        match writer.write_next(now).await {
            Ok(ArchiveStep::Archived(manifest)) => {
                tracing::info!(segment = manifest.number, "a segment of the log was archived");
                return ArchiveLook::Archived;
            }
            Ok(ArchiveStep::ArchivedElsewhere { .. }) => return ArchiveLook::Archived,
            Ok(ArchiveStep::NotWhole { .. } | ArchiveStep::TooYoung { .. }) => {
                return ArchiveLook::UpToDate;
            }
            Ok(ArchiveStep::Unsigned { .. } | ArchiveStep::HeldElsewhere { .. })
            | Err(AuditError::Stopped) => {}
            Err(error) if outage::explains(&error) => {}
            Err(error) => tracing::error!(%error, "no segment of the log could be archived"),
        }
        match writer.standing().await {
            Ok(standing) if standing.waiting == 0 => ArchiveLook::UpToDate,
            Ok(standing) => {
                let due = standing.waiting_since.map(|at| at + SEGMENT_AGE_MIN);
                ArchiveLook::Behind(due.map(Timestamp::from))
            }
            Err(_) => ArchiveLook::Behind(None),
        }
    }

    /// Notes a look, and returns the wait after it in seconds.
    fn note_look(&mut self, look: &ArchiveLook, now: Timestamp) -> i64 {
        let (due_since, wait) = match look {
            ArchiveLook::UpToDate => (None, LOOK_SECONDS),
            ArchiveLook::Archived => (None, 0),
            ArchiveLook::Behind(since) => (since.or(self.due_since).or(Some(now)), RETRY_SECONDS),
        };
        self.due_since = due_since;
        wait
    }

    fn set_age_gauge(&self, now: Timestamp) {
        let age = self.due_since.map_or(0, |since| (now.get() - since.get()).num_seconds());
        ARCHIVE_AGE.set(&[], u32::try_from(age.max(0)).map_or(f64::MAX, f64::from));
    }
}

impl Worker for Archiver {
    const NAME: &'static str = "archive";
    const WAKES: WakeOn = WakeOn::Timer;
    /// A look compares all events since the last signature, and copies a million.
    const STEP_TIME_MAX: Duration = Duration::from_secs(6 * 3_600);
    type Error = Infallible;

    async fn step(&mut self) -> Result<NextStep, Infallible> {
        let now = self.clock.now();
        let second = now.get().timestamp();
        if self.clock.fault().is_some() || second < self.next {
            self.set_age_gauge(now);
            return Ok(NextStep::IDLE);
        }
        let look = self.look(now).await;
        let wait = self.note_look(&look, now);
        self.set_age_gauge(now);
        self.next = second + wait;
        Ok(if wait == 0 { NextStep::Busy } else { NextStep::IDLE })
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    /// The age begins when the segment was due, else at the first look in vain. It ends with a
    /// segment, or when none is due.
    #[tokio::test]
    async fn a_due_segment_without_a_copy_ages() {
        let begin: Timestamp = "2026-11-29T12:00:00.000Z".parse().unwrap();
        let folder = std::path::PathBuf::from("/nonexistent");
        let notary = Notary {
            keys: crate::KeyFolder::in_folder(folder.clone()),
            checkpoints: crate::CheckpointFolder::in_folder(folder.clone()),
        };
        let pool = PgPool::connect_lazy("postgres://localhost/none").unwrap();
        let archive = LogArchive::in_folder(folder);
        let clock = Clock::standing_at(begin);
        let mut worker = Archiver::new(archive, notary, pool, clock, CancellationToken::new());
        let later = |hours| Timestamp::from(begin.get() + TimeDelta::hours(hours));
        let behind = ArchiveLook::Behind(None);
        assert_eq!(worker.note_look(&behind, begin), RETRY_SECONDS);
        worker.note_look(&behind, later(1));
        assert_eq!(worker.due_since, Some(begin));
        worker.note_look(&ArchiveLook::Behind(Some(later(-30))), later(2));
        assert_eq!(worker.due_since, Some(later(-30)), "a restart changes nothing");
        assert_eq!(worker.note_look(&ArchiveLook::UpToDate, later(3)), LOOK_SECONDS);
        assert_eq!(worker.due_since, None);
        worker.note_look(&behind, later(4));
        assert_eq!(worker.note_look(&ArchiveLook::Archived, later(5)), 0);
        assert_eq!(worker.due_since, None);
    }
}
