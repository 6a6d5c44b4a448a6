//! Verifies the whole log about once a day, in short steps. After a broken verification it verifies
//! again at once, and then each hour until the log is whole. Of several processes one verifies at a
//! time; if it ends, another one resumes at its position.

use std::time::Duration;

use domain::audit::{
    EndedVerification, NextVerification, RunningVerification, VerificationOutcome,
};
use domain::values::Timestamp;
use eventstore::Clock;
use eventstore::presence::{self, ProcessGroup};
use eventstore::worker::{NextStep, WakeOn, Worker};
use projector::{signatures, verifications};
use sqlx::{PgConnection, PgPool};

use crate::error::AuditError;
use crate::notary::Notary;
use crate::verify::{SteppedWalk, WalkBeginning, WalkStep};

/// The wait between two steps. A step takes about as long, so a verification needs half of a core.
const STEP_INTERVAL: Duration = Duration::from_millis(100);

/// The wait after a failure, and of a process that leaves the work to another one.
const RETRY_SECONDS: i64 = 60;

/// The time between two looks whether a verification is due. Another process may have ended one, or
/// a signer may have noted a flaw.
const LOOK_SECONDS: i64 = 60;

const HOUR_SECONDS: i64 = 3_600;

/// The worker that verifies the log.
pub struct AuditVerifier {
    notary: Notary,
    pool: PgPool,
    clock: Clock,
    interval: Duration,
    mode: VerifierMode,
    /// Verifications in a row that this worker found broken.
    broken_in_row: u32,
}

enum VerifierMode {
    /// Nothing is due before this second.
    Waiting { until: i64 },
    /// A verification is under way.
    Verifying(Box<Verification>),
}

/// A verification under way. Its session keeps other processes from another one.
struct Verification {
    session: PgConnection,
    began_at: Timestamp,
    walk: Box<SteppedWalk>,
}

impl AuditVerifier {
    /// A worker for this database and this clock. `interval` is the time from the end of a
    /// verification to the begin of the next.
    #[must_use]
    pub const fn new(notary: Notary, pool: PgPool, clock: Clock, interval: Duration) -> Self {
        let mode = VerifierMode::Waiting { until: 0 };
        Self { notary, pool, clock, interval, mode, broken_in_row: 0 }
    }

    /// Begins or resumes a verification if one is due, and no other process has it.
    async fn begin_due(&mut self, now: Timestamp) -> Result<VerifierMode, AuditError> {
        let later = VerifierMode::Waiting { until: epoch_second(now) + RETRY_SECONDS };
        let mut session = self.pool.acquire().await?;
        let state = verifications::state(&mut session).await?;
        let due = state.ended.map_or(0, |ended| self.next_due(&ended));
        if state.running.is_none() && epoch_second(now) < due {
            return Ok(VerifierMode::Waiting { until: due.min(epoch_second(now) + LOOK_SECONDS) });
        }
        let is_signed = signatures::last(&mut session).await?.is_some();
        if !is_signed || self.notary.checkpoints.numbered_files()?.is_empty() {
            // Without a checkpoint nothing is proved. Another process may have the folder.
            return Ok(later);
        }
        // A pool would hand the connection, and so the place, to another task.
        let mut session = session.detach();
        if presence::join_limited(&mut session, ProcessGroup::Verifying, 1).await?.is_none() {
            return Ok(later);
        }
        // The process before may have ended its work meanwhile.
        let running = verifications::state(&mut session).await?.running;
        let running = running.unwrap_or(RunningVerification { began_at: now, position: 0 });
        let began_at = running.began_at;
        match SteppedWalk::begin(&self.pool, &self.notary, running.position).await? {
            WalkBeginning::Begun(walk) => {
                verifications::note_progress(&mut session, running).await?;
                let verification = Verification { session, began_at, walk };
                Ok(VerifierMode::Verifying(Box::new(verification)))
            }
            WalkBeginning::Ended(outcome) => {
                let ended = EndedVerification { at: now, position: running.position, outcome };
                self.end_verification(&mut session, ended).await
            }
        }
    }

    /// Notes the end of a verification. A flaw is an error in the log.
    async fn end_verification(
        &mut self,
        session: &mut PgConnection,
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
        self.broken_in_row =
            if ended.outcome.is_broken() { self.broken_in_row.saturating_add(1) } else { 0 };
        verifications::note_end(session, &ended).await?;
        let until = self.next_due(&ended).min(epoch_second(ended.at) + LOOK_SECONDS);
        Ok(VerifierMode::Waiting { until })
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

    /// Does one step of a verification.
    async fn go_on(
        &mut self,
        mut verification: Box<Verification>,
        now: Timestamp,
    ) -> Result<VerifierMode, AuditError> {
        let step = verification.walk.step(&self.pool).await?;
        let Verification { session, began_at, walk } = &mut *verification;
        let position = walk.position();
        match step {
            WalkStep::On => {
                let running = RunningVerification { began_at: *began_at, position };
                verifications::note_progress(session, running).await?;
                Ok(VerifierMode::Verifying(verification))
            }
            WalkStep::Ended(outcome) => {
                self.end_verification(session, EndedVerification { at: now, position, outcome })
                    .await
            }
        }
    }

    fn interval_seconds(&self) -> i64 {
        i64::try_from(self.interval.as_secs()).unwrap_or(i64::MAX / 2)
    }
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
            VerifierMode::Verifying(verification) => self.go_on(verification, now).await?,
        };
        Ok(match self.mode {
            VerifierMode::Waiting { .. } => NextStep::IDLE,
            VerifierMode::Verifying(_) => NextStep::IdleFor(STEP_INTERVAL),
        })
    }
}
