//! The walk in steps. Each step has a short snapshot of its own, so a long log holds back no
//! vacuum.
//!
//! A walk visits a part of the log. Before it begins, the hashes of all entries before the part are
//! read again, so signed checkpoints prove them. The last part proves the links of all seals before
//! it, too.
//!
//! A step reads only positions that the audit log and the seals have passed, because no transaction
//! can add an event there any more. The last step reads the rest up to the position of the audit
//! log, and compares the kept heads in the same snapshot. It does not count rows, and leaves tables
//! that are in no chain to `audit verify`.

use domain::audit::{LogPart, Seal, VerificationOutcome};
use eventstore::proof;
use eventstore::ranges::{self, DroppedRange};
use projector::audit::{ChainHash, hashes_after};
use projector::seals;
use sqlx::{PgConnection, PgPool};
use vault::installation;

use super::links::LinkWalk;
use super::source::LogSource;
use super::walk::AuditWalk;
use super::witnesses::TrustedCheckpoints;
use super::{VerifyStop, compare_heads, require_keys, stated_positions};
use crate::archive::LogArchive;
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
    /// The last position of a part; `None` for the part that ends with the log.
    through: Option<i64>,
    /// The ranges that had left at the beginning.
    dropped: Vec<DroppedRange>,
    /// Why the signed checkpoints do not prove everything.
    unwitnessed: Option<String>,
}

/// The stage of a walk.
enum WalkStage {
    /// The links of all seals before the last part are verified.
    Linking(LinkWalk),
    /// Entries before the part are read again, after this one.
    Restoring(Option<ChainHash>),
    /// Events at this position and above are verified.
    Walking(i64),
}

/// The result of a beginning.
pub(crate) enum WalkBeginning {
    /// Steps follow.
    Begun(Box<SteppedWalk>),
    /// The signed checkpoints or the stated positions decide already, or all events of the part
    /// have left.
    Ended(VerificationOutcome),
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WalkStep {
    /// More steps follow.
    On,
    /// The walk has ended.
    Ended(VerificationOutcome),
    /// A range has left or come back, so the walk must begin again at its position.
    RangesChanged,
}

/// The files that a walk reads beside the database.
#[derive(Clone, Copy)]
pub(crate) struct ProofFiles<'a> {
    /// Keys and signed checkpoints.
    pub(crate) notary: &'a Notary,
    /// The archive, if this process has it.
    pub(crate) archive: Option<&'a LogArchive>,
}

impl SteppedWalk {
    /// Begins a walk over a part: after the last whole block before it, or at the first event.
    /// Events that have left are skipped without an archive.
    pub(crate) async fn begin(
        pool: &PgPool,
        files: ProofFiles<'_>,
        part: LogPart,
    ) -> Result<WalkBeginning, AuditError> {
        match Self::try_begin(pool, files, part).await {
            Ok(Some(walk)) => Ok(WalkBeginning::Begun(Box::new(walk))),
            Ok(None) => Ok(WalkBeginning::Ended(VerificationOutcome::Intact)),
            Err(stop) => Ok(WalkBeginning::Ended(outcome_of(stop)?)),
        }
    }

    async fn try_begin(
        pool: &PgPool,
        ProofFiles { notary, archive }: ProofFiles<'_>,
        LogPart { after, through }: LogPart,
    ) -> Result<Option<Self>, VerifyStop> {
        let trusted = notary.known_keys()?.keys;
        require_keys(notary, &trusted)?;
        // Read before the first snapshot: the database must hold all that a checkpoint signs.
        let installation_id = installation::id_seen_by(&mut *pool.acquire().await?).await?;
        let mut witnesses =
            TrustedCheckpoints::read(&notary.checkpoints, &trusted, installation_id)?;
        let mut transaction = snapshot::begin(pool).await?;
        let unwitnessed = witnesses.incomplete_reason(&mut transaction).await?;
        let stated = stated_positions(&mut transaction).await?;
        let dropped = ranges::dropped_ranges(&mut transaction).await?;
        let begin_at = after.min(stated.sealed_to) - 1;
        let begin_at = match dropped.last() {
            Some(last) if archive.is_none() => begin_at.max(last.range.last_position),
            _ => begin_at,
        };
        let seal = seals::last_seal(&mut transaction, begin_at).await?;
        transaction.rollback().await?;
        if through.is_some_and(|through| through <= begin_at) {
            return Ok(None);
        }
        let (walk, stage) = match seal {
            Some(seal) => {
                let earlier = witnesses.take_through(seal.last_position);
                let stage = match through {
                    Some(_) => WalkStage::Restoring(None),
                    None => WalkStage::Linking(LinkWalk::up_to(&seal, earlier)),
                };
                (AuditWalk::after_seal(witnesses, &seal), stage)
            }
            None => (AuditWalk::new(witnesses, stated), WalkStage::Walking(i64::MIN)),
        };
        let source = LogSource::by_segment(dropped.clone(), archive.cloned(), trusted);
        let walk = walk.reading(source);
        Ok(Some(Self { walk, stage, through, dropped, unwitnessed }))
    }

    /// The last verified position.
    pub(crate) const fn position(&self) -> i64 {
        self.walk.last_position()
    }

    /// The last position of the part; `None` for the part that ends with the log.
    pub(crate) const fn last_position(&self) -> Option<i64> {
        self.through
    }

    /// Whether events came from the archive.
    pub(crate) const fn has_read_archive(&self) -> bool {
        self.walk.has_read_archive()
    }

    /// Why the walk could not read all events; `None` if it could.
    pub(crate) fn unread_reason(&self) -> Option<String> {
        self.walk.unread.as_deref().map(other_build_reason)
    }

    /// Does one step.
    pub(crate) async fn step(&mut self, pool: &PgPool) -> Result<WalkStep, AuditError> {
        match self.try_step(pool).await {
            Ok(step) => Ok(step),
            Err(VerifyStop::Broken(_)) if self.have_ranges_changed(pool).await? => {
                Ok(WalkStep::RangesChanged)
            }
            Err(stop) => Ok(WalkStep::Ended(outcome_of(stop)?)),
        }
    }

    /// Whether events have left or come back since the beginning. Their absence is no flaw then.
    async fn have_ranges_changed(&self, pool: &PgPool) -> Result<bool, AuditError> {
        Ok(ranges::dropped_ranges(&mut *pool.acquire().await?).await? != self.dropped)
    }

    async fn try_step(&mut self, pool: &PgPool) -> Result<WalkStep, VerifyStop> {
        if let WalkStage::Walking(from) = self.stage {
            self.walk.open_archive_at(from.max(1)).await?;
        }
        let mut transaction = snapshot::begin(pool).await?;
        let step = match &mut self.stage {
            WalkStage::Linking(links) => {
                if !links.verify_page(&mut transaction).await? {
                    self.stage = WalkStage::Restoring(None);
                }
                WalkStep::On
            }
            WalkStage::Restoring(after) => {
                let after = *after;
                self.restore_page(&mut transaction, after).await?
            }
            WalkStage::Walking(from) => {
                let from = *from;
                self.walk_from(&mut transaction, from).await?
            }
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
        let stated = stated_positions(connection).await?;
        self.walk.reopen(stated);
        let settled = stated.followed_to.min(stated.sealed_to);
        if let Some(through) = self.through.filter(|through| *through <= settled) {
            return self.walk_part(connection, from, through).await;
        }
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

    /// Verifies a page of a part that ends before the log does.
    async fn walk_part(
        &mut self,
        connection: &mut PgConnection,
        from: i64,
        through: i64,
    ) -> Result<WalkStep, VerifyStop> {
        let next = self.walk.verify_page(connection, from, through).await?;
        if let Some(next) = next.filter(|next| *next <= through) {
            self.stage = WalkStage::Walking(next);
            return Ok(WalkStep::On);
        }
        self.walk.end_at(connection, through).await?;
        let unread = self.walk.unread.as_deref();
        Ok(WalkStep::Ended(unread.map_or(VerificationOutcome::Intact, of_other_build)))
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
        let outcome = match (self.walk.unread.take(), self.unwitnessed.take()) {
            (Some(why), _) => of_other_build(&why),
            (None, Some(why)) => VerificationOutcome::Incomplete(why),
            (None, None) => VerificationOutcome::Intact,
        };
        Ok(WalkStep::Ended(outcome))
    }
}

fn of_other_build(why: &str) -> VerificationOutcome {
    VerificationOutcome::Incomplete(other_build_reason(why))
}

fn other_build_reason(why: &str) -> String {
    format!("an event of another build: {why}")
}

/// The outcome of a walk that stopped.
fn outcome_of(stop: VerifyStop) -> Result<VerificationOutcome, AuditError> {
    match stop {
        VerifyStop::Broken(flaw) => Ok(VerificationOutcome::Broken(flaw.to_string())),
        VerifyStop::Unknown(why) => Ok(VerificationOutcome::Incomplete(why)),
        VerifyStop::Failed(error) => Err(error),
    }
}
