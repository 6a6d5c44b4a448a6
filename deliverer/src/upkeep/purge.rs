//! The purge worker: deletes sent bodies and receivers' answers after their retention, in batches
//! (ruling 21, body; case H2). Digests, statuses and times stay in history.
//!
//! It walks over what the vault has, and asks history what is still needed. A delivery may have
//! left the queue just now, and history does not know yet how it ended. So a step first notes which
//! rows nobody has queued, and a later step asks history, once that has all events of the first.

use chrono::{DateTime, Utc};
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{SweepTimer, proof};
use projector::deliveries::{self, ENDED_LATER_MIN, EndedBefore};
use sqlx::PgConnection;
use uuid::Uuid;
use vault::bodies::FrozenBody;
use vault::{answers, bodies, step_headers};

use crate::error::DeliveryError;
use crate::settings::{DelivererContext, Retention};

/// Rows of one step, so that its transaction stays well under 100 ms.
const ROWS_PER_STEP: u32 = 1_000;

// `offset 0` makes the planner look up each row. A join reads the whole queue if the planner takes
// the queue for short.

/// The bodies among these that no queued row will send. History knows a body only after an attempt
/// was recorded, so history alone cannot tell.
async fn not_queued(
    connection: &mut PgConnection,
    body_ids: &[Uuid],
) -> Result<Vec<Uuid>, sqlx::Error> {
    if body_ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_scalar(
        "select b.body_id from bodies b
          where b.body_id = any($1)
            and b.body_id <> all(array(select body_id from outbox
                                        where leased_at is not null and body_id is not null))
            and not exists (select 1 from outbox o
                             where o.firm_id = b.firm_id and o.response_id = b.response_id
                               and o.leased_at is null and o.body_id = b.body_id offset 0)",
    )
    .bind(body_ids)
    .fetch_all(connection)
    .await
}

/// The deliveries among these that are not in the outbox.
async fn not_under_way(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select delivery_id from unnest($1::uuid[]) as t(delivery_id)
          where not exists (select 1 from outbox o where o.delivery_id = t.delivery_id offset 0)",
    )
    .bind(delivery_ids)
    .fetch_all(connection)
    .await
}

/// Whether this transaction may delete bodies. A build that marks purged deliveries holds the same
/// lock.
pub(super) async fn is_only_purger(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select pg_try_advisory_xact_lock(hashtext('firmforms purge'))")
        .fetch_one(connection)
        .await
}

/// Whether a statement has found as much as it may.
fn is_full(rows: usize) -> bool {
    rows == ROWS_PER_STEP as usize
}

/// The times before which a delivery must have ended. A body that a failed and a delivered delivery
/// share is kept for both, so no failed one is kept for a shorter time.
fn ended_before(kept: Retention, now: DateTime<Utc>) -> EndedBefore {
    EndedBefore { delivered: now - kept.delivered, failed: now - kept.failed.max(kept.delivered) }
}

/// The place of a sweep. A scan from the beginning would walk over the index entries of all that
/// was deleted, and over all that is kept.
#[derive(Debug, Clone, Copy)]
enum SweepPlace {
    /// At the steps after this one. Their headers go before their bodies: a step without headers is
    /// not retried.
    Steps(Uuid),
    /// At the bodies after this one.
    Bodies(FrozenBody),
    /// At the answers that were received at this time or later.
    Answers(DateTime<Utc>),
}

impl SweepPlace {
    const START: Self = Self::Steps(Uuid::nil());
}

/// Rows that nobody had queued, and that history may still need.
enum Candidates {
    Steps(Vec<Uuid>),
    Bodies(Vec<Uuid>),
}

impl Candidates {
    /// Drops those that no delivery needs. History has all events from before they were found.
    async fn drop_unneeded(
        &self,
        connection: &mut PgConnection,
        ended: EndedBefore,
    ) -> Result<(), sqlx::Error> {
        match self {
            Self::Steps(steps) => {
                let over = deliveries::steps_over(connection, steps, ended).await?;
                let gone = not_under_way(connection, &over).await?;
                step_headers::drop_all(connection, &gone).await
            }
            Self::Bodies(ids) => {
                let locked = bodies::lock_kept(connection, ids).await?;
                let needed = deliveries::bodies_needed(connection, ids, ended).await?;
                let over: Vec<Uuid> = locked.difference(&needed).copied().collect();
                let unused = not_queued(connection, &over).await?;
                bodies::drop_all(connection, &unused).await
            }
        }
    }
}

/// The worker. One process sweeps at a time.
pub struct PurgeWorker {
    deliverer: DelivererContext,
    timer: SweepTimer,
    place: SweepPlace,
    /// Rows to drop once history has this position.
    noted: Option<(Candidates, i64)>,
}

impl PurgeWorker {
    /// A purge worker of this vault. Its first step sweeps.
    #[must_use]
    pub const fn new(deliverer: DelivererContext) -> Self {
        Self { deliverer, timer: SweepTimer::new(), place: SweepPlace::START, noted: None }
    }

    /// Notes the next candidates, or drops the next answers. Returns the next place, if the sweep
    /// goes on.
    async fn sweep_on(
        &mut self,
        connection: &mut PgConnection,
        ended: EndedBefore,
        answered_before: DateTime<Utc>,
    ) -> Result<Option<SweepPlace>, sqlx::Error> {
        let limit = i64::from(ROWS_PER_STEP);
        let (candidates, next) = match self.place {
            SweepPlace::Steps(after) => {
                let steps = step_headers::list_after(connection, after, limit).await?;
                let more = steps.last().filter(|_| is_full(steps.len())).copied();
                let free = not_under_way(connection, &steps).await?;
                let next = more.map_or(SweepPlace::Bodies(FrozenBody::NONE), SweepPlace::Steps);
                (Candidates::Steps(free), next)
            }
            SweepPlace::Bodies(after) => {
                let before = ended.delivered - ENDED_LATER_MIN;
                let frozen = bodies::frozen_before(connection, after, before, limit).await?;
                let ids: Vec<Uuid> = frozen.iter().map(|body| body.body_id).collect();
                let more = frozen.last().filter(|_| is_full(frozen.len())).copied();
                let free = not_queued(connection, &ids).await?;
                let answers = SweepPlace::Answers(DateTime::UNIX_EPOCH);
                (Candidates::Bodies(free), more.map_or(answers, SweepPlace::Bodies))
            }
            SweepPlace::Answers(after) => {
                let gone = answers::forget(connection, after..answered_before, limit).await?;
                let more = gone.latest.filter(|_| gone.count == limit);
                return Ok(more.map(SweepPlace::Answers));
            }
        };
        self.noted = Some((candidates, proof::height(connection).await?));
        Ok(Some(next))
    }
}

impl Worker for PurgeWorker {
    const NAME: &'static str = "purge";
    const WAKES: WakeOn = WakeOn::Timer;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        let Some(now) = self.timer.now_if_due(&self.deliverer.clock) else {
            return Ok(NextStep::IDLE);
        };
        let kept = self.deliverer.settings.retention;
        let ended = ended_before(kept, now);
        let mut transaction = self.deliverer.store.pool().begin().await?;
        if !is_only_purger(&mut transaction).await? {
            return Ok(NextStep::IDLE);
        }
        if let Some((candidates, height)) = &self.noted {
            if !deliveries::has_followed(&mut transaction, *height).await? {
                return Ok(NextStep::HELD_UP);
            }
            candidates.drop_unneeded(&mut transaction, ended).await?;
            transaction.commit().await?;
            self.noted = None;
            return Ok(NextStep::Busy);
        }
        let next = self.sweep_on(&mut transaction, ended, now - kept.answers).await?;
        transaction.commit().await?;
        if next.is_none() {
            self.timer.end_sweep(now);
        }
        self.place = next.unwrap_or(SweepPlace::START);
        Ok(if next.is_some() { NextStep::Busy } else { NextStep::IDLE })
    }
}
