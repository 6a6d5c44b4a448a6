//! Verifies the log about once a day, in short steps: new events, the links of all seals, and a
//! stretch of the older events. After a broken verification it verifies again at once, and then
//! each hour until the log is whole. Of several processes one verifies at a time; if it ends,
//! another one resumes at its position.
//!
//! Only an intact verification moves the stretch. So the verification after a broken one reads the
//! same events again, and the flaw stays the verdict until these events are intact.

use std::time::Duration;

use domain::audit::{
    EndedVerification, LogRotation, NextVerification, RunningVerification, VerificationOutcome,
    VerificationState, VerificationTimes, VerifiedParts,
};
use domain::values::Timestamp;
use eventstore::Clock;
use eventstore::presence::{self, ProcessGroup};
use eventstore::worker::{NextStep, WakeOn, Worker};
use projector::verifications::VerificationEnd;
use projector::{signatures, verifications};
use sqlx::{PgConnection, PgPool};

use crate::archive::LogArchive;
use crate::error::AuditError;
use crate::notary::Notary;
use crate::verify::{ProofFiles, SteppedWalk, WalkBeginning, WalkStep};

/// The wait between two steps. A step takes about as long, so a verification needs half of a core.
const STEP_INTERVAL: Duration = Duration::from_millis(100);

/// The wait after a failure, and of a process that leaves the work to another one.
const RETRY_SECONDS: i64 = 60;

/// The time between two looks whether a verification is due. Another process may have ended one, or
/// a signer may have noted a flaw.
const LOOK_SECONDS: i64 = 60;

const HOUR_SECONDS: i64 = 3_600;

/// The times of verifications.
#[derive(Debug, Clone, Copy)]
pub struct VerificationSchedule {
    /// The time from the end of a verification to the begin of the next.
    pub interval: Duration,
    /// The time within which each older event is read again.
    pub reread_within: Duration,
}

/// The worker that verifies the log.
pub struct AuditVerifier {
    notary: Notary,
    archive: Option<LogArchive>,
    pool: PgPool,
    clock: Clock,
    interval: Duration,
    rotation: LogRotation,
    mode: VerifierMode,
    /// Verifications in a row that this worker found broken.
    broken_in_row: u32,
}

enum VerifierMode {
    /// Nothing is due before this second.
    Waiting { until: i64 },
    /// A verification is between two parts of the log.
    BetweenParts(Box<Verification>),
    /// A verification walks over a part of the log.
    Walking { verification: Box<Verification>, walk: Box<SteppedWalk> },
}

/// A verification under way. Its session keeps other processes from another one.
struct Verification {
    session: PgConnection,
    began_at: Timestamp,
    parts: VerifiedParts,
    verified_to: i64,
    /// Why a part could not be verified completely. Progress is not noted from then on, so that
    /// another process reads the part again.
    incomplete: Option<String>,
    /// Whether the last verdict may be about the archive.
    needs_archive: bool,
    /// Whether this one may be.
    has_read_archive: bool,
}

impl Verification {
    async fn note_progress(&mut self) -> Result<(), AuditError> {
        if self.incomplete.is_some() {
            return Ok(());
        }
        let running = RunningVerification { began_at: self.began_at, position: self.verified_to };
        Ok(verifications::note_progress(&mut self.session, running).await?)
    }
}

impl AuditVerifier {
    /// A worker for this database and this clock.
    #[must_use]
    pub const fn new(
        notary: Notary,
        pool: PgPool,
        clock: Clock,
        schedule: VerificationSchedule,
    ) -> Self {
        let VerificationSchedule { interval, reread_within } = schedule;
        let rotation = LogRotation::new(reread_within, interval);
        let mode = VerifierMode::Waiting { until: 0 };
        Self { notary, archive: None, pool, clock, interval, rotation, mode, broken_in_row: 0 }
    }

    /// The worker of a process that has the archive.
    #[must_use]
    pub fn with_archive(self, archive: Option<LogArchive>) -> Self {
        Self { archive, ..self }
    }

    /// Begins or resumes a verification if one is due, and no other process has it.
    async fn begin_due(&mut self, now: Timestamp) -> Result<VerifierMode, AuditError> {
        let later = VerifierMode::Waiting { until: epoch_second(now) + RETRY_SECONDS };
        let mut session = self.pool.acquire().await?;
        let state = verifications::state(&mut session).await?;
        let due = self.due_second(&state);
        if epoch_second(now) < due {
            return Ok(VerifierMode::Waiting { until: due.min(epoch_second(now) + LOOK_SECONDS) });
        }
        if !self.may_acquit(&state) {
            return Ok(later);
        }
        let signed = signatures::last(&mut session).await?;
        let has_files = !self.notary.checkpoints.numbered_files()?.is_empty();
        let Some(signed) = signed.filter(|_| has_files) else {
            // Without a checkpoint nothing is proved. Another process may have the folder.
            return Ok(later);
        };
        // A pool would hand the connection, and so the place, to another task.
        let mut session = session.detach();
        if presence::join_limited(&mut session, ProcessGroup::Verifying, 1).await?.is_none() {
            return Ok(later);
        }
        // The process before may have ended its work meanwhile.
        let state = verifications::state(&mut session).await?;
        if epoch_second(now) < self.due_second(&state) || !self.may_acquit(&state) {
            return Ok(later);
        }
        let VerificationState { running, intact, needs_archive, .. } = state;
        let running = running.unwrap_or(RunningVerification { began_at: now, position: 0 });
        let began_at = running.began_at;
        let parts = self.rotation.due_parts(intact, signed.position, began_at);
        let verification = Verification {
            session,
            began_at,
            parts,
            verified_to: running.position,
            incomplete: None,
            needs_archive,
            has_read_archive: false,
        };
        self.begin_part(Box::new(verification), now).await
    }

    /// Begins the next part of a verification.
    async fn begin_part(
        &mut self,
        mut verification: Box<Verification>,
        now: Timestamp,
    ) -> Result<VerifierMode, AuditError> {
        let part = verification.parts.part_after(verification.verified_to);
        let files = ProofFiles { notary: &self.notary, archive: self.archive.as_ref() };
        match SteppedWalk::begin(&self.pool, files, part).await? {
            WalkBeginning::Begun(walk) => {
                verification.note_progress().await?;
                Ok(VerifierMode::Walking { verification, walk })
            }
            WalkBeginning::Ended(outcome) => {
                self.end_part(verification, EndedPart { through: part.through, outcome }, now).await
            }
        }
    }

    /// Ends a part of a verification, and with the last part the verification.
    async fn end_part(
        &mut self,
        mut verification: Box<Verification>,
        EndedPart { through, outcome }: EndedPart,
        now: Timestamp,
    ) -> Result<VerifierMode, AuditError> {
        let outcome = match (outcome, through) {
            (broken @ VerificationOutcome::Broken(_), _) => broken,
            (VerificationOutcome::Intact, None) => match verification.incomplete.take() {
                Some(why) => VerificationOutcome::Incomplete(why),
                None => VerificationOutcome::Intact,
            },
            (incomplete, None) => incomplete,
            (outcome, Some(through)) => {
                if let VerificationOutcome::Incomplete(why) = outcome {
                    verification.incomplete = Some(why);
                }
                verification.verified_to = through;
                verification.note_progress().await?;
                return Ok(VerifierMode::BetweenParts(verification));
            }
        };
        let position = verification.verified_to;
        self.end_verification(*verification, EndedVerification { at: now, position, outcome }).await
    }

    /// Notes the end of a verification. A flaw is an error in the log.
    async fn end_verification(
        &mut self,
        mut verification: Verification,
        ended: EndedVerification,
    ) -> Result<VerifierMode, AuditError> {
        let through = ended.position;
        match &ended.outcome {
            VerificationOutcome::Intact => tracing::info!(through, "the log was verified: intact"),
            VerificationOutcome::Broken(flaw) => tracing::error!(
                flaw,
                through,
                "THE LOG IS BROKEN: run `firmforms audit verify`, and keep the signed checkpoints"
            ),
            VerificationOutcome::Incomplete(why) => {
                tracing::warn!(why, through, "the log could not be verified completely");
            }
        }
        let is_broken = ended.outcome.is_broken();
        self.broken_in_row = if is_broken { self.broken_in_row.saturating_add(1) } else { 0 };
        let Verification { parts, began_at, needs_archive, has_read_archive, .. } = verification;
        let times = VerificationTimes { began_at, ended_at: ended.at };
        let is_intact = ended.outcome == VerificationOutcome::Intact;
        let intact = is_intact.then(|| self.rotation.end_of(parts, times, through));
        let needs_archive = !is_intact && (needs_archive || is_broken && has_read_archive);
        let until = self.next_due(&ended).min(epoch_second(ended.at) + LOOK_SECONDS);
        let end = VerificationEnd { ended, intact, needs_archive };
        verifications::note_end(&mut verification.session, &end).await?;
        Ok(VerifierMode::Waiting { until })
    }

    /// Whether this process may call the log intact. Without the archive it would not see a flaw
    /// of the archive.
    const fn may_acquit(&self, state: &VerificationState) -> bool {
        !state.needs_archive || self.archive.is_some()
    }

    /// The second at which a verification is due. One under way is due at once.
    fn due_second(&self, state: &VerificationState) -> i64 {
        match (&state.running, &state.ended) {
            (None, Some(ended)) => self.next_due(ended),
            _ => 0,
        }
    }

    /// The second at which the verification after this one is due.
    fn next_due(&self, ended: &EndedVerification) -> i64 {
        let wait = match ended.outcome.next(self.broken_in_row) {
            NextVerification::AtOnce => 0,
            NextVerification::AfterAnHour => HOUR_SECONDS.min(self.interval_seconds()),
            NextVerification::AfterInterval => self.interval_seconds(),
        };
        epoch_second(ended.at) + wait
    }

    /// Does one step of a walk.
    async fn go_on(
        &mut self,
        mut verification: Box<Verification>,
        mut walk: Box<SteppedWalk>,
        now: Timestamp,
    ) -> Result<VerifierMode, AuditError> {
        let step = walk.step(&self.pool).await?;
        verification.verified_to = walk.position().max(verification.verified_to);
        verification.has_read_archive |= walk.has_read_archive();
        if let Some(why) = walk.unread_reason() {
            verification.incomplete.get_or_insert(why);
        }
        match step {
            WalkStep::On => {
                verification.note_progress().await?;
                Ok(VerifierMode::Walking { verification, walk })
            }
            WalkStep::RangesChanged => Ok(VerifierMode::BetweenParts(verification)),
            WalkStep::Ended(outcome) => {
                let through = walk.last_position();
                self.end_part(verification, EndedPart { through, outcome }, now).await
            }
        }
    }

    fn interval_seconds(&self) -> i64 {
        i64::try_from(self.interval.as_secs()).unwrap_or(i64::MAX / 2)
    }
}

/// The end of a part.
struct EndedPart {
    /// The last position of the part; `None` for the last part.
    through: Option<i64>,
    outcome: VerificationOutcome,
}

fn epoch_second(at: Timestamp) -> i64 {
    at.get().timestamp()
}

impl Worker for AuditVerifier {
    const NAME: &'static str = "verification";
    const WAKES: WakeOn = WakeOn::Timer;
    type Error = AuditError;

    async fn step(&mut self) -> Result<NextStep, AuditError> {
        let now = self.clock.now();
        if self.clock.fault().is_some() {
            return Ok(NextStep::IDLE);
        }
        // After a failure the verification is resumed at its noted position.
        let retry = VerifierMode::Waiting { until: epoch_second(now) + RETRY_SECONDS };
        self.mode = match std::mem::replace(&mut self.mode, retry) {
            VerifierMode::Waiting { until } if epoch_second(now) < until => {
                VerifierMode::Waiting { until }
            }
            VerifierMode::Waiting { .. } => self.begin_due(now).await?,
            VerifierMode::BetweenParts(verification) => self.begin_part(verification, now).await?,
            VerifierMode::Walking { verification, walk } => {
                self.go_on(verification, walk, now).await?
            }
        };
        Ok(match self.mode {
            VerifierMode::Waiting { .. } => NextStep::IDLE,
            _ => NextStep::IdleFor(STEP_INTERVAL),
        })
    }
}
