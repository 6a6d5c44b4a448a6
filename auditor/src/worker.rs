//! Takes a signed checkpoint each hour. An hour without events gets one too, which proves that
//! there were none (case G7).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use domain::audit::{EndedVerification, VerificationOutcome};
use domain::values::Timestamp;
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{Clock, outage};
use projector::verifications::VerificationEnd;
use projector::{signatures, verifications};
use sqlx::PgPool;
use vault::Entropy;

use crate::error::AuditError;
use crate::notary::Notary;
use crate::turn::SigningTurn;

const HOUR_SECONDS: i64 = 3_600;

/// The wait after a failure. Shorter waits would fill the log while a disk is full.
const RETRY_SECONDS: i64 = 60;

/// A process without the key of the series is no fault while another one signs at least this often.
const SIGNED_BY_OTHERS_HOURS: i64 = 2;

/// The worker that takes signed checkpoints. Of several workers on one database, one takes each.
pub struct Checkpointer {
    notary: Notary,
    pool: PgPool,
    clock: Clock,
    entropy: Arc<dyn Entropy>,
    next: i64,
}

impl Checkpointer {
    /// A worker for this database and this clock. The first checkpoint is taken as soon as one is
    /// due.
    #[must_use]
    pub const fn new(
        notary: Notary,
        pool: PgPool,
        clock: Clock,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self { notary, pool, clock, entropy, next: 0 }
    }

    /// Takes a signed checkpoint, unless this hour already has one.
    async fn take_due(&self, now: Timestamp) -> Result<(), AuditError> {
        let last = signatures::last(&mut *self.pool.acquire().await?).await?;
        let last = last.map(|signature| signature.at);
        if is_due(last, now) {
            match self.notary.take_turn(&self.pool).await {
                Ok(turn) if is_due(turn.last_signed_at(), now) => {
                    self.take_in_turn(turn, now).await?;
                }
                // Another process was faster.
                Ok(_) => {}
                Err(AuditError::Refused(refusal))
                    if refusal.is_about_key() && is_signed_by_others(last, now) =>
                {
                    tracing::warn!(%refusal, "another process signs checkpoints, and this one cannot");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Notes a flaw that keeps this worker from signing, as the verdict of a verification. Doctor
    /// and metrics show the verdict, and a verification that is broken runs again soon.
    async fn note_flaw(&self, flaw: String, now: Timestamp) -> Result<(), AuditError> {
        let mut connection = self.pool.acquire().await?;
        let ended = verifications::state(&mut connection).await?.ended;
        let position = ended.as_ref().map_or(0, |ended| ended.position);
        // Each try finds the same flaw, and the first verdict tells its age.
        if !ended.is_some_and(|ended| ended.outcome.is_broken()) {
            let outcome = VerificationOutcome::Broken(flaw);
            let ended = EndedVerification { at: now, position, outcome };
            let end = VerificationEnd { ended, intact: None, needs_archive: false };
            verifications::note_end(&mut connection, &end).await?;
        }
        Ok(())
    }

    async fn take_in_turn(&self, turn: SigningTurn<'_>, now: Timestamp) -> Result<(), AuditError> {
        let taken = turn.take_checkpoint(&self.pool, &*self.entropy, now).await?.checkpoint;
        tracing::info!(number = taken.number, position = taken.position, "a checkpoint was signed");
        Ok(())
    }
}

fn is_due(last: Option<Timestamp>, now: Timestamp) -> bool {
    last.is_none_or(|last| epoch_hour(last) < epoch_hour(now))
}

fn is_signed_by_others(last: Option<Timestamp>, now: Timestamp) -> bool {
    last.is_some_and(|last| epoch_hour(now) - epoch_hour(last) <= SIGNED_BY_OTHERS_HOURS)
}

fn epoch_hour(at: Timestamp) -> i64 {
    at.get().timestamp() / HOUR_SECONDS
}

impl Worker for Checkpointer {
    const NAME: &'static str = "checkpoints";
    const WAKES: WakeOn = WakeOn::Timer;
    /// A signature compares all events since the last one, which may be weeks of them.
    const STEP_TIME_MAX: Duration = Duration::from_secs(6 * 3_600);
    type Error = Infallible;

    async fn step(&mut self) -> Result<NextStep, Infallible> {
        let now = self.clock.now();
        let second = now.get().timestamp();
        if self.clock.fault().is_some() || second < self.next {
            return Ok(NextStep::IDLE);
        }
        self.next = match self.take_due(now).await {
            Ok(()) => (epoch_hour(now) + 1) * HOUR_SECONDS,
            Err(error) => {
                if !outage::explains(&error) {
                    tracing::error!(%error, "no checkpoint of the audit log could be taken");
                }
                if let Some(flaw) = error.flaw()
                    && let Err(error) = self.note_flaw(flaw, now).await
                {
                    tracing::error!(%error, "the flaw of the audit log could not be noted");
                }
                second + RETRY_SECONDS
            }
        };
        Ok(NextStep::IDLE)
    }
}
