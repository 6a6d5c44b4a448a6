//! The walk in steps. Each step has a short snapshot of its own, so a long log holds back no
//! vacuum.
//!
//! A step reads only positions that the audit log and the seals have passed, because no transaction
//! can add an event there any more. The last step reads the rest up to the position of the audit
//! log, and compares the kept heads in the same snapshot. It does not count rows, and leaves tables
//! that are in no chain to `audit verify`.

use domain::audit::{Seal, VerificationOutcome};
use eventstore::{proof, ranges};
use projector::audit::{ChainHash, hashes_after};
use projector::seals;
use sqlx::{PgConnection, PgPool};
use vault::installation;

use super::walk::AuditWalk;
use super::witnesses::TrustedCheckpoints;
use super::{VerifyStop, compare_heads, require_keys, stated_positions};
use crate::error::AuditError;
use crate::notary::Notary;
use crate::snapshot;

/// Hashes that one step restores.
const HASHES_PER_STEP: i64 = 50_000;

/// Positions without a seal that the last step verifies at most.
const UNSEALED_MAX: i64 = 64 * Seal::POSITIONS_PER_BLOCK;

/// A walk between two steps.
pub(crate) struct SteppedWalk {
    walk: AuditWalk,
    stage: WalkStage,
    /// Why the signed checkpoints do not prove everything.
    unwitnessed: Option<String>,
}

/// The stage of a walk.
#[derive(Debug, Clone, Copy)]
enum WalkStage {
    /// Entries up to the position of an earlier walk are read again, after this one.
    Restoring(Option<ChainHash>),
    /// Events at this position and above are verified.
    Walking(i64),
}

/// The result of a beginning.
pub(crate) enum WalkBeginning {
    /// Steps follow.
    Begun(Box<SteppedWalk>),
    /// The signed checkpoints or the stated positions decide already.
    Ended(VerificationOutcome),
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WalkStep {
    /// More steps follow.
    On,
    /// The walk has ended.
    Ended(VerificationOutcome),
}

impl SteppedWalk {
    /// Begins a walk after the last whole block before this position, or at the first event.
    pub(crate) async fn begin(
        pool: &PgPool,
        notary: &Notary,
        walked_to: i64,
    ) -> Result<WalkBeginning, AuditError> {
        match Self::try_begin(pool, notary, walked_to).await {
            Ok(walk) => Ok(WalkBeginning::Begun(Box::new(walk))),
            Err(stop) => Ok(WalkBeginning::Ended(outcome_of(stop)?)),
        }
    }

    async fn try_begin(pool: &PgPool, notary: &Notary, walked_to: i64) -> Result<Self, VerifyStop> {
        let trusted = notary.known_keys()?.keys;
        require_keys(notary, &trusted)?;
        // Read before the first snapshot: the database must hold all that a checkpoint signs.
        let installation_id = installation::id_seen_by(&mut *pool.acquire().await?).await?;
        let witnesses = TrustedCheckpoints::read(&notary.checkpoints, &trusted, installation_id)?;
        let mut transaction = snapshot::begin(pool).await?;
        let unwitnessed = witnesses.incomplete_reason(&mut transaction).await?;
        let stated = stated_positions(&mut transaction).await?;
        // Deliveries of dropped ranges were proven before. The walk reads the events after them.
        let border = ranges::border(&mut transaction).await?.map_or(0, |border| border.through);
        let begin_at = border.max(walked_to.min(stated.sealed_to) - 1);
        let seal = seals::last_seal(&mut transaction, begin_at).await?;
        transaction.rollback().await?;
        let (walk, stage) = match seal {
            Some(seal) => (AuditWalk::after_seal(witnesses, &seal), WalkStage::Restoring(None)),
            None => (AuditWalk::new(witnesses, stated), WalkStage::Walking(i64::MIN)),
        };
        Ok(Self { walk, stage, unwitnessed })
    }

    /// The last verified position.
    pub(crate) const fn position(&self) -> i64 {
        self.walk.last_position()
    }

    /// Does one step.
    pub(crate) async fn step(&mut self, pool: &PgPool) -> Result<WalkStep, AuditError> {
        match self.try_step(pool).await {
            Ok(step) => Ok(step),
            Err(stop) => Ok(WalkStep::Ended(outcome_of(stop)?)),
        }
    }

    async fn try_step(&mut self, pool: &PgPool) -> Result<WalkStep, VerifyStop> {
        let mut transaction = snapshot::begin(pool).await?;
        let step = match self.stage {
            WalkStage::Restoring(after) => self.restore_page(&mut transaction, after).await?,
            WalkStage::Walking(from) => self.walk_from(&mut transaction, from).await?,
        };
        transaction.rollback().await?;
        Ok(step)
    }

    async fn restore_page(
        &mut self,
        connection: &mut PgConnection,
        after: Option<ChainHash>,
    ) -> Result<WalkStep, VerifyStop> {
        let through = self.walk.last_position();
        let late = proof::late_statements(connection).await?;
        let later = late.iter().filter(|statement| statement.stated_at > through);
        let later: Vec<i64> = later.map(|statement| statement.about.position).collect();
        let hashes = hashes_after(connection, after, through, &later, HASHES_PER_STEP).await?;
        self.stage = match hashes.last() {
            Some(last) => WalkStage::Restoring(Some(*last)),
            None => WalkStage::Walking(through + 1),
        };
        hashes.into_iter().for_each(|hash| self.walk.chains.restore_entry(hash));
        Ok(WalkStep::On)
    }

    async fn walk_from(
        &mut self,
        connection: &mut PgConnection,
        from: i64,
    ) -> Result<WalkStep, VerifyStop> {
        let border = ranges::border(connection).await?.map_or(0, |border| border.through);
        if border > self.walk.last_position() {
            let why =
                "a range of the log has left meanwhile: the next verification begins after it";
            return Err(VerifyStop::Unknown(why.to_owned()));
        }
        let stated = stated_positions(connection).await?;
        self.walk.reopen(stated);
        let settled = stated.followed_to.min(stated.sealed_to);
        if let Some(next) = self.walk.verify_page(connection, from, settled).await? {
            self.stage = WalkStage::Walking(next);
            return Ok(WalkStep::On);
        }
        if stated.followed_to - settled > UNSEALED_MAX {
            let behind = stated.followed_to - settled;
            let why = format!("the seals are {behind} positions behind the audit log");
            return Err(VerifyStop::Unknown(why));
        }
        self.walk_to_end(connection, stated.followed_to).await
    }

    /// Verifies the events without a seal, and the kept heads.
    async fn walk_to_end(
        &mut self,
        connection: &mut PgConnection,
        followed_to: i64,
    ) -> Result<WalkStep, VerifyStop> {
        let last = self.walk.last_position();
        let mut from = if last == 0 { Some(i64::MIN) } else { Some(last + 1) };
        while let Some(first) = from {
            from = self.walk.verify_page(connection, first, followed_to).await?;
        }
        self.walk.end_at_followed(connection).await?;
        compare_heads(connection, &self.walk).await?;
        let unread = self.walk.unread.take();
        let unread = unread.map(|why| format!("an event of another build: {why}"));
        let outcome = match unread.or_else(|| self.unwitnessed.take()) {
            Some(why) => VerificationOutcome::Incomplete(why),
            None => VerificationOutcome::Intact,
        };
        Ok(WalkStep::Ended(outcome))
    }
}

/// The outcome of a walk that stopped.
fn outcome_of(stop: VerifyStop) -> Result<VerificationOutcome, AuditError> {
    match stop {
        VerifyStop::Broken(flaw) => Ok(VerificationOutcome::Broken(flaw.to_string())),
        VerifyStop::Unknown(why) => Ok(VerificationOutcome::Incomplete(why)),
        VerifyStop::Failed(error) => Err(error),
    }
}
