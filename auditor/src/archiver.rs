//! Archives whole segments of the log, once they are a day old.

use std::convert::Infallible;
use std::time::Duration;

use domain::values::Timestamp;
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{Clock, outage};
use sqlx::PgPool;
use telemetry::metrics::ARCHIVE_AGE;

use crate::archive::{ArchiveFolder, ArchiveStep, SegmentWriter};
use crate::error::AuditError;
use crate::notary::Notary;

/// The wait between two looks. A segment is a day old at least, so an hour more does not matter.
const LOOK_SECONDS: i64 = 3_600;

/// The wait after a failure, and for a signed checkpoint.
const RETRY_SECONDS: i64 = 600;

/// The worker of an archive. Of several workers on one database, one archives at a time.
pub struct Archiver {
    archive: ArchiveFolder,
    notary: Notary,
    pool: PgPool,
    clock: Clock,
    next: i64,
    /// The first look after which a due segment had no copy.
    behind_since: Option<Timestamp>,
}

impl Archiver {
    /// A worker for this archive, this database and this clock.
    #[must_use]
    pub const fn new(archive: ArchiveFolder, notary: Notary, pool: PgPool, clock: Clock) -> Self {
        Self { archive, notary, pool, clock, next: 0, behind_since: None }
    }

    async fn archive_next(&self, now: Timestamp) -> Result<ArchiveStep, AuditError> {
        let Self { archive, notary, pool, .. } = self;
        SegmentWriter { pool, archive, notary }.write_next(now).await
    }

    /// The wait after this look, in seconds. Tells how long a due segment has had no copy.
    fn note(&mut self, ended: Result<ArchiveStep, AuditError>, now: Timestamp) -> i64 {
        let (is_behind, wait) = match ended {
            Ok(ArchiveStep::Archived(manifest)) => {
                tracing::info!(segment = manifest.number, "a segment of the log was archived");
                (false, 0)
            }
            Ok(ArchiveStep::ArchivedElsewhere { .. }) => (false, 0),
            Ok(ArchiveStep::Unsigned { .. }) => (true, RETRY_SECONDS),
            Ok(_) => (false, LOOK_SECONDS),
            Err(error) => {
                if !outage::explains(&error) {
                    tracing::error!(%error, "no segment of the log could be archived");
                }
                (true, RETRY_SECONDS)
            }
        };
        let since = self.behind_since.filter(|_| is_behind);
        self.behind_since = since.or_else(|| is_behind.then_some(now));
        wait
    }

    fn tell_age(&self, now: Timestamp) {
        let age = self.behind_since.map_or(0, |since| (now.get() - since.get()).num_seconds());
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
            self.tell_age(now);
            return Ok(NextStep::IDLE);
        }
        let ended = self.archive_next(now).await;
        let wait = self.note(ended, now);
        self.tell_age(now);
        self.next = second + wait;
        Ok(if wait == 0 { NextStep::Busy } else { NextStep::IDLE })
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    /// The age begins at the first look in vain, and ends with a segment or when none is due.
    #[tokio::test]
    async fn a_due_segment_without_a_copy_ages() {
        let begin: Timestamp = "2026-11-29T12:00:00.000Z".parse().unwrap();
        let folder = std::path::PathBuf::from("/nonexistent");
        let notary = Notary {
            keys: crate::KeyFolder::in_folder(folder.clone()),
            checkpoints: crate::CheckpointFolder::in_folder(folder.clone()),
        };
        let pool = PgPool::connect_lazy("postgres://localhost/none").unwrap();
        let clock = Clock::standing_at(begin);
        let mut worker = Archiver::new(ArchiveFolder::in_folder(folder), notary, pool, clock);
        let later = |hours| Timestamp::from(begin.get() + TimeDelta::hours(hours));
        let unsigned = || Ok(ArchiveStep::Unsigned { number: 1 });
        assert_eq!(worker.note(unsigned(), begin), RETRY_SECONDS);
        assert_eq!(worker.note(Err(AuditError::NoKey), later(1)), RETRY_SECONDS);
        assert_eq!(worker.behind_since, Some(begin));
        assert_eq!(worker.note(Ok(ArchiveStep::TooYoung { number: 1 }), later(2)), LOOK_SECONDS);
        assert_eq!(worker.behind_since, None);
        worker.note(unsigned(), later(3));
        assert_eq!(worker.note(Ok(ArchiveStep::ArchivedElsewhere { number: 1 }), later(4)), 0);
        assert_eq!(worker.behind_since, None);
    }
}
