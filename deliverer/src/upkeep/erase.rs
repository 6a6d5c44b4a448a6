//! The erase worker: carries out the erasures of the log (docs/explanation/personal-data.md;
//! ruling 27, cancelled). It deletes the data keys first, from a database of their own. Then it
//! deletes the rows and cancels queued deliveries.
//!
//! A claim or a record that looked before the erasure may still write a body or an answer. So the
//! rows are deleted once all transactions have ended that ran when the erasure was read.
//!
//! An expiry (ruling 59) is carried out in the same way, but a report may bring the response back
//! meanwhile. So its key is deleted under the lock of its subject. Only a report about a response
//! that nobody reported for long can wait for that.
//!
//! The keyring keeps a mark of the last erasure, and the main database a checkpoint. Each commits
//! with the deletions beside it, so [`super::redo_erasures()`] sees which database was restored.

use std::collections::HashSet;
use std::time::Duration;

use domain::activity::ResponseEvent;
use domain::delivery::CancelCause;
use domain::event::Event;
use eventstore::checkpoint;
use eventstore::tail::{self, LogRange};
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{AppendTransaction, CaughtUp, Fence, RecordedEvent, RunningWriters, SettledUpTo};
use projector::subjects::{self, SubjectId};
use projector::{expiry, partials, replays};
use sqlx::PgConnection;
use uuid::Uuid;
use vault::{ErasedUpTo, KeySubject, erasure};

use crate::error::DeliveryError;
use crate::outbox::row::{OutboxRow, outbox_columns};
use crate::outbox::{lanes, withdraw};
use crate::settings::DelivererContext;

/// Events of one step.
const EVENTS_PER_STEP: i64 = 100;

/// Responses of one step, if its first event has no more.
const RESPONSES_PER_STEP: usize = 1_000;

/// The wait for appends that have not committed.
const UNSETTLED_RETRY_AFTER: Duration = Duration::from_millis(5);

/// The wait for transactions that may not have seen an erasure. A record ends within milliseconds.
const UNAWARE_RETRY_AFTER: Duration = Duration::from_millis(5);

/// The longest wait between two looks at such transactions.
const UNAWARE_RETRY_AFTER_MAX: Duration = Duration::from_millis(200);

/// The wait for such transactions that an operator should know of.
const UNAWARE_WARNING_AFTER: Duration = Duration::from_secs(30);

/// The wait between two steps. An erased response is not sent meanwhile.
const STEP_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Claims, records and appends with deliveries all write this table.
const AWAITED_TABLE: &str = "outbox";

/// The worker.
pub struct EraseWorker {
    deliverer: DelivererContext,
    fence: Fence,
    done: CaughtUp,
    /// Erasures whose keys are gone, and whose rows wait for older transactions.
    begun: Option<BegunErasures>,
}

/// Erasures that were read, and the transactions that may not have seen them.
struct BegunErasures {
    batch: ErasureBatch,
    unaware: RunningWriters,
    look: SettledUpTo,
    waited: Duration,
}

impl BegunErasures {
    /// The wait before the next look: as long as all waits before it.
    fn next_wait(&mut self) -> Duration {
        let wait = self.waited.clamp(UNAWARE_RETRY_AFTER, UNAWARE_RETRY_AFTER_MAX);
        let was_short = self.waited < UNAWARE_WARNING_AFTER;
        self.waited += wait;
        if was_short && self.waited >= UNAWARE_WARNING_AFTER {
            tracing::warn!("erased rows stay until an older transaction on `outbox` ends");
        }
        wait
    }
}

impl EraseWorker {
    /// An erase worker of this log.
    #[must_use]
    pub fn new(deliverer: DelivererContext, fence: Fence) -> Self {
        Self { deliverer, fence, done: CaughtUp::default(), begun: None }
    }
}

impl Worker for EraseWorker {
    const NAME: &'static str = "erase";
    const WAKES: WakeOn = WakeOn::OtherEvents;
    const STEP_INTERVAL_MIN: Duration = STEP_INTERVAL_MIN;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        match &mut self.begun {
            // Ids of transactions mean nothing in another life of the server.
            Some(begun) if !self.fence.still_holds(begun.look) => self.begin_erasures().await,
            Some(begun) if are_all_aware(&self.deliverer, begun).await? => {
                self.end_erasures().await
            }
            Some(begun) => Ok(NextStep::IdleFor(begun.next_wait())),
            None => self.begin_erasures().await,
        }
    }
}

impl EraseWorker {
    /// Reads the next erasures, and deletes their keys. The keyring is a database of its own, and
    /// no lock should wait for it, so this is before the transaction.
    async fn begin_erasures(&mut self) -> Result<NextStep, DeliveryError> {
        self.begun = None;
        let look = self.fence.look().await?;
        let idle =
            if look.more { NextStep::IdleFor(UNSETTLED_RETRY_AFTER) } else { NextStep::IDLE };
        if self.done.covers(look) {
            return Ok(idle);
        }
        let read = self.read_erasures(look.settled).await?;
        if !self.fence.still_holds(look) {
            return Ok(NextStep::Busy);
        }
        let Some((batch, unaware)) = read else {
            self.done.up_to(look);
            return Ok(idle);
        };
        self.deliverer.keyring.forget_keys(&batch.erased).await?;
        self.begun = Some(BegunErasures { batch, unaware, look, waited: Duration::ZERO });
        Ok(NextStep::Busy)
    }

    /// Deletes the rows of the erasures that were begun.
    async fn end_erasures(&mut self) -> Result<NextStep, DeliveryError> {
        let Some(BegunErasures { batch, .. }) = self.begun.take() else {
            return Ok(NextStep::Busy);
        };
        let mut appending = self.deliverer.store.begin().await?;
        let Some(position) = checkpoint::lock_position(appending.connection(), Self::NAME).await?
        else {
            return Ok(NextStep::HELD_UP);
        };
        if position >= batch.last.position {
            // Another process has carried them out meanwhile.
            return Ok(NextStep::Busy);
        }
        batch.carry_out(&self.deliverer, &mut appending, ErasureMarking::InKeyring).await?;
        checkpoint::move_to(appending.connection(), Self::NAME, batch.last.position).await?;
        appending.commit().await?;
        Ok(NextStep::Busy)
    }
}

async fn are_all_aware(
    deliverer: &DelivererContext,
    begun: &BegunErasures,
) -> Result<bool, DeliveryError> {
    let connections = deliverer.store.connections();
    let mut connection = connections.take().await?;
    let have_left = begun.unaware.have_left(&mut connection, AWAITED_TABLE).await?;
    connections.give_back(connection);
    Ok(have_left)
}

impl EraseWorker {
    /// The next erasures up to the settled position, and the transactions that run after the read.
    async fn read_erasures(
        &self,
        settled: i64,
    ) -> Result<Option<(ErasureBatch, RunningWriters)>, DeliveryError> {
        let connections = self.deliverer.store.connections();
        let mut connection = connections.take().await?;
        let after = checkpoint::position(&mut connection, Self::NAME).await?;
        if after.is_none() {
            checkpoint::make(&mut connection, Self::NAME).await?;
        }
        let after = after.unwrap_or_default();
        let batch =
            ErasureBatch::read_after(&self.deliverer, &mut connection, after, settled).await?;
        let read = match batch {
            Some(batch) => {
                Some((batch, RunningWriters::now(&mut connection, AWAITED_TABLE).await?))
            }
            None => None,
        };
        connections.give_back(connection);
        Ok(read)
    }
}

/// Erased and expired responses, with the last event that was read.
pub(super) struct ErasureBatch {
    pub(super) erased: Vec<KeySubject>,
    expired: Vec<SubjectId>,
    pub(super) last: ErasedUpTo,
}

impl ErasureBatch {
    /// The next erasures of the log. `None` if there are none.
    pub(super) async fn read_after(
        deliverer: &DelivererContext,
        connection: &mut PgConnection,
        after: i64,
        settled: i64,
    ) -> Result<Option<Self>, DeliveryError> {
        let upcasters = deliverer.store.upcasters();
        let range = LogRange { after, settled, limit: EVENTS_PER_STEP };
        let mut events = tail::read_erasures(connection, &upcasters, range).await?;
        events.truncate(events_of_step(&events));
        let Some(position) = events.last().map(|event| event.position) else {
            return Ok(None);
        };
        let digest = tail::digest_at(connection, position).await?.unwrap_or_default();
        let erased: HashSet<KeySubject> = events.iter().filter_map(erased_subject).collect();
        let erased = erased.into_iter().collect();
        let expired = events.iter().flat_map(expired_subjects).collect();
        Ok(Some(Self { erased, expired, last: ErasedUpTo { position, digest } }))
    }

    /// Returns the erasures of this batch without its expiries.
    pub(super) fn without_expired(self) -> Self {
        Self { expired: Vec::new(), ..self }
    }

    /// The number of responses.
    pub(super) const fn len(&self) -> usize {
        self.erased.len() + self.expired.len()
    }

    /// Deletes the keys and the data of the erased responses, and of those that are still expired.
    pub(super) async fn carry_out(
        &self,
        deliverer: &DelivererContext,
        appending: &mut AppendTransaction<'_>,
        marking: ErasureMarking,
    ) -> Result<(), DeliveryError> {
        let expired = expiry::lock_expired(appending.connection(), &self.expired).await?;
        let expired = expired.into_iter().map(KeySubject::from);
        let gone: Vec<KeySubject> = self.erased.iter().copied().chain(expired).collect();
        match marking {
            ErasureMarking::InKeyring => deliverer.keyring.forget_up_to(&gone, &self.last).await?,
            ErasureMarking::None => deliverer.keyring.forget_keys(&gone).await?,
        }
        erase_responses(deliverer, appending, &gone).await
    }
}

/// Whether the keyring marks an erasure as carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErasureMarking {
    /// The mark commits with the last deletions, so a backup of the keyring has both or neither.
    InKeyring,
    /// The worker has not come to the erasure yet, and will mark it.
    None,
}

/// The number of events, from the first, that one step carries out.
fn events_of_step(events: &[RecordedEvent]) -> usize {
    let mut responses = 0;
    let fits = |recorded: &&RecordedEvent| {
        let is_first = responses == 0;
        responses += expired_subjects(recorded).len().max(1);
        is_first || responses <= RESPONSES_PER_STEP
    };
    events.iter().take_while(fits).count()
}

/// Cancels queued deliveries of these responses, and deletes their data. Claim and record lock the
/// same lanes, so their earlier writes are seen here.
async fn erase_responses(
    deliverer: &DelivererContext,
    appending: &mut AppendTransaction<'_>,
    erased: &[KeySubject],
) -> Result<(), DeliveryError> {
    let now = deliverer.clock.now();
    let connection = appending.connection();
    let lane_ids = lock_lanes(connection, erased).await?;
    let queued = take_queued(connection, erased).await?;
    lanes::reschedule(connection, &lane_ids, now.get()).await?;
    drop_rows(connection, erased).await?;
    let cancelled = withdraw::cancelled_events(&queued, CancelCause::SourceErased, now);
    appending.append(cancelled).await?;
    let dropped: Vec<_> = queued
        .iter()
        .filter_map(|row| Some((row.replay_id?, row.delivery_id, "dropped")))
        .collect();
    replays::write_outcomes(appending.connection(), &dropped).await?;
    Ok(())
}

/// Deletes the data of these responses, and facts that waited for them.
async fn drop_rows(
    connection: &mut PgConnection,
    erased: &[KeySubject],
) -> Result<(), sqlx::Error> {
    let responses: Vec<_> = erased.iter().map(KeySubject::ids).collect();
    let parts = subjects::parts_of(connection, &responses).await?;
    subjects::drop_waiting(connection, &[responses.as_slice(), &parts].concat()).await?;
    erasure::erase_responses(connection, erased).await?;
    erasure::erase_parts(connection, &parts).await?;
    partials::drop_of(connection, &responses).await
}

fn erased_subject(recorded: &RecordedEvent) -> Option<KeySubject> {
    match recorded.event {
        Event::Response(ResponseEvent::ResponseErased { response_id }) => {
            Some(KeySubject { firm_id: recorded.context.firm_id, subject_id: response_id })
        }
        _ => None,
    }
}

/// The responses that expired by this event.
fn expired_subjects(recorded: &RecordedEvent) -> Vec<SubjectId> {
    match &recorded.event {
        Event::Response(ResponseEvent::ResponsesExpired { response_ids, .. }) => {
            response_ids.iter().map(|id| (recorded.context.firm_id, *id)).collect()
        }
        _ => Vec::new(),
    }
}

/// Locks the lanes of queued deliveries of these responses, in order.
async fn lock_lanes(
    connection: &mut PgConnection,
    erased: &[KeySubject],
) -> Result<Vec<Uuid>, sqlx::Error> {
    let (firm_ids, response_ids) = subject_columns(erased);
    sqlx::query_scalar(
        "select lane_id from lanes
          where lane_id in (
                select lane_id from outbox
                 where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))
                   and leased_at is null)
          order by lane_id for no key update",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .fetch_all(connection)
    .await
}

/// Deletes waiting rows from the outbox. An attempt in flight ends with its answer, and its record
/// finds the response erased.
async fn take_queued(
    connection: &mut PgConnection,
    erased: &[KeySubject],
) -> Result<Vec<OutboxRow>, sqlx::Error> {
    let (firm_ids, response_ids) = subject_columns(erased);
    sqlx::query_as(concat!(
        "delete from outbox
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))
            and leased_at is null
         returning ",
        outbox_columns!("")
    ))
    .bind(firm_ids)
    .bind(response_ids)
    .fetch_all(connection)
    .await
}

fn subject_columns(erased: &[KeySubject]) -> (Vec<Uuid>, Vec<Uuid>) {
    erased.iter().map(|subject| (subject.firm_id, subject.subject_id)).unzip()
}
