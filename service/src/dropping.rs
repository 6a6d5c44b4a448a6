//! Lets old ranges of the log leave the database, once the archive has them.
//!
//! A range leaves in four steps: the archive must have all of it, as the seals of the log say, and
//! its deliveries are proven; an event says that it is to leave; a signed checkpoint covers this
//! event; then the database drops it, if its own checks find nothing that needs it. A process that
//! ends in between begins anew.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use auditor::Notary;
use auditor::archive::{ArchivedRange, LogArchive, compare_range};
use deliverer::inspect::proof::{LogFilter, ProofScope, verify};
use domain::delivery::INSTALLATION_FIRM_ID;
use domain::event::{Actor, EventContext};
use domain::operations::MaintenanceEvent;
use domain::values::Timestamp;
use eventstore::ranges::{self, StoredRange};
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{Clock, NewEvent, Store, crash, outage, proof};
use projector::signatures;
use vault::Entropy;

/// The wait between two looks. A range is days old at least, so an hour more does not matter.
const LOOK_SECONDS: i64 = 3_600;

/// The wait for a signature, and after an outage. Each look reads the range's segments again.
const RETRY_SECONDS: i64 = 600;

/// Why the oldest range stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeKept {
    /// Positions of the range are still drawn.
    #[error("the log is still in it")]
    NotFull,
    /// The range is not old enough.
    #[error("its last event is younger than {0} days")]
    TooYoung(u64),
    /// The archive does not have all of it, or has something else.
    #[error("the archive: {0}")]
    NotArchived(String),
    /// The deliveries are not as the rules allow.
    #[error("{0} faults of deliveries: `firmforms verify deliveries` names them")]
    Unproven(u64),
    /// No signed checkpoint covers the event that orders the drop.
    #[error("no signed checkpoint covers the order yet: try again in a minute")]
    Unsigned,
    /// An operator has brought it back from the archive.
    #[error("it came back from the archive: `firmforms archive drop` lets it leave again")]
    Attached,
    /// The database needs it.
    #[error("{0}")]
    Needed(String),
}

impl RangeKept {
    /// Whether somebody must do something about it.
    #[must_use]
    pub const fn is_fault(&self) -> bool {
        match self {
            Self::NotFull | Self::TooYoung(_) | Self::Attached => false,
            Self::NotArchived(_) | Self::Unproven(_) | Self::Unsigned | Self::Needed(_) => true,
        }
    }
}

/// The result of a look at the oldest range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropLook {
    /// No range has an occurrence or a delivery.
    Empty,
    /// The range stays, for this reason.
    Kept(StoredRange, RangeKept),
    /// The range could leave. This look was a dry run.
    Droppable(StoredRange),
    /// The range has left.
    Dropped(StoredRange),
}

/// Drops ranges of one log.
#[derive(Clone)]
pub struct RangeDropper {
    /// The log.
    pub store: Store,
    /// The archive that has the ranges.
    pub archive: LogArchive,
    /// The notary that has signed the log.
    pub notary: Notary,
    /// The age at which a range leaves.
    pub keep_for: Duration,
    /// The actor of the event that orders a drop.
    pub actor: Actor,
    /// Whether a range leaves again that an operator has brought back.
    pub takes_attached: bool,
}

impl RangeDropper {
    /// Looks whether the oldest range can leave, and lets it leave unless this is a dry run.
    ///
    /// # Errors
    /// If the database does not answer, or a file cannot be read.
    pub async fn drop_next(
        &self,
        entropy: &dyn Entropy,
        now: Timestamp,
        is_dry_run: bool,
    ) -> anyhow::Result<DropLook> {
        let mut connection = self.store.pool().acquire().await?;
        let Some(range) = ranges::oldest_range(&mut connection).await? else {
            return Ok(DropLook::Empty);
        };
        let drawn = proof::drawn_height(&mut connection).await?;
        let recorded_at = proof::last_recorded_at(&mut connection, range.last_position).await?;
        let is_attached = ranges::is_attached(&mut connection, range).await?;
        drop(connection);
        if is_attached && !self.takes_attached {
            return Ok(DropLook::Kept(range, RangeKept::Attached));
        }
        if drawn <= range.last_position {
            return Ok(DropLook::Kept(range, RangeKept::NotFull));
        }
        if recorded_at.is_some_and(|at| at > now.get() - self.keep_for) {
            let days = self.keep_for.as_secs() / 86_400;
            return Ok(DropLook::Kept(range, RangeKept::TooYoung(days)));
        }
        let manifest =
            match compare_range(self.store.pool(), &self.archive, &self.notary, range).await? {
                ArchivedRange::Whole { manifest } => manifest,
                ArchivedRange::Lacking(why) => {
                    return Ok(DropLook::Kept(range, RangeKept::NotArchived(why)));
                }
            };
        let faults = self.count_faults(range).await?;
        if faults > 0 {
            return Ok(DropLook::Kept(range, RangeKept::Unproven(faults)));
        }
        if is_dry_run {
            return Ok(DropLook::Droppable(range));
        }
        crash::point("dropping");
        let ordered_at = self.order(entropy, now, range, manifest).await?;
        crash::point("dropping");
        if !self.is_signed(entropy, now, ordered_at).await? {
            return Ok(DropLook::Kept(range, RangeKept::Unsigned));
        }
        crash::point("dropping");
        let mut connection = self.store.pool().acquire().await?;
        let dropped = ranges::drop_range(&mut connection, range.number).await?;
        crash::point("dropping");
        Ok(match dropped {
            Ok(()) => DropLook::Dropped(range),
            Err(why) => DropLook::Kept(range, RangeKept::Needed(why)),
        })
    }

    /// Proves the deliveries of a range, and counts what is wrong.
    async fn count_faults(&self, range: StoredRange) -> anyhow::Result<u64> {
        let scope = ProofScope {
            from: range.first_position,
            to: range.last_position,
            part: LogFilter::default(),
            examples: 0,
        };
        let report = verify(self.store.pool(), scope, |_, _| ()).await?;
        Ok(report.wrong.values().sum::<u64>() + report.unsent.len() as u64 + report.unspread)
    }

    /// Writes the event that the range is to leave, unless one is there.
    async fn order(
        &self,
        entropy: &dyn Entropy,
        now: Timestamp,
        range: StoredRange,
        manifest: String,
    ) -> anyhow::Result<i64> {
        let mut connection = self.store.pool().acquire().await?;
        if let Some(position) = ranges::drop_order(&mut connection, range.number).await? {
            return Ok(position);
        }
        drop(connection);
        let StoredRange { number, last_position, .. } = range;
        let ordered = MaintenanceEvent::LogRangeDropOrdered { number, last_position, manifest };
        let context = EventContext {
            firm_id: INSTALLATION_FIRM_ID,
            recorded_at: now,
            actor: self.actor,
            correlation_id: entropy.new_id(),
            causation_id: None,
            traceparent: None,
            terminal: None,
        };
        let stream = entropy.new_id().to_string();
        let events = NewEvent::number_after(0, &stream, &context, [ordered]);
        let recorded = self.store.append(events).await?;
        Ok(recorded.first().map_or(i64::MAX, |event| event.position))
    }

    /// Whether a signed checkpoint covers the order. Signs one, if the audit log has followed.
    async fn is_signed(
        &self,
        entropy: &dyn Entropy,
        now: Timestamp,
        ordered_at: i64,
    ) -> anyhow::Result<bool> {
        let pool = self.store.pool();
        let covers = async || -> Result<bool, sqlx::Error> {
            let last = signatures::last(&mut *pool.acquire().await?).await?;
            Ok(last.is_some_and(|last| last.position >= ordered_at))
        };
        if covers().await? {
            return Ok(true);
        }
        self.notary.take_checkpoint(pool, entropy, now).await?;
        Ok(covers().await?)
    }
}

/// The worker that lets ranges leave. It does nothing without the key that signs.
pub struct RangeDropWorker {
    dropper: RangeDropper,
    entropy: Arc<dyn Entropy>,
    clock: Clock,
    next: i64,
}

impl RangeDropWorker {
    /// A worker for this log and this clock.
    #[must_use]
    pub fn new(dropper: RangeDropper, entropy: Arc<dyn Entropy>, clock: Clock) -> Self {
        Self { dropper, entropy, clock, next: 0 }
    }
}

impl Worker for RangeDropWorker {
    const NAME: &'static str = "log_drop";
    const WAKES: WakeOn = WakeOn::Timer;
    /// A look reads sixteen segments of the archive, and proves their deliveries.
    const STEP_TIME_MAX: Duration = Duration::from_secs(6 * 3_600);
    type Error = Infallible;

    async fn step(&mut self) -> Result<NextStep, Infallible> {
        let now = self.clock.now();
        let second = now.get().timestamp();
        // Another process may have the key.
        let signs = self.dropper.notary.can_sign();
        if self.clock.fault().is_some() || second < self.next || !signs {
            return Ok(NextStep::IDLE);
        }
        match self.dropper.drop_next(&*self.entropy, now, false).await {
            Ok(DropLook::Dropped(range)) => {
                let last_position = range.last_position;
                tracing::info!(last_position, "a range of the log has left for the archive");
                return Ok(NextStep::Busy);
            }
            Ok(DropLook::Kept(_, RangeKept::Unsigned)) => {
                self.next = second + RETRY_SECONDS;
                return Ok(NextStep::IDLE);
            }
            Ok(DropLook::Kept(range, why)) if why.is_fault() => {
                let last_position = range.last_position;
                tracing::warn!(last_position, %why, "an old range of the log stays");
            }
            Ok(DropLook::Kept(..) | DropLook::Empty | DropLook::Droppable(_)) => {}
            Err(error) if outage::explains(&*error) => {
                self.next = second + RETRY_SECONDS;
                return Ok(NextStep::IDLE);
            }
            Err(error) => tracing::error!(%error, "no range of the log could leave"),
        }
        self.next = second + LOOK_SECONDS;
        Ok(NextStep::IDLE)
    }
}
