//! The purge worker: deletes sent bodies and receivers' answers after their retention, in batches
//! (ruling 21, body; case H2). Digests, statuses and times stay in history.

use std::time::Duration;

use chrono::{DateTime, Utc};
use eventstore::SweepTimer;
use eventstore::worker::{NextStep, WakeOn, Worker};
use projector::deliveries;
use sqlx::PgConnection;
use uuid::Uuid;
use vault::{answers, bodies, step_headers};

use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Rows of one step, so that its transaction stays well under 100 ms.
const ROWS_PER_STEP: u32 = 1_000;

/// The longest time from the first attempt of a delivery to its end, with suspensions of its firm.
const UNSENT_FOR_MAX: Duration = Duration::from_secs(30 * 86_400);

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

/// Whether a statement has found as much as it may.
fn is_full(rows: u64) -> bool {
    rows == u64::from(ROWS_PER_STEP)
}

/// The worker. One process sweeps at a time.
pub struct PurgeWorker {
    deliverer: DelivererContext,
    timer: SweepTimer,
    progress: SweepProgress,
}

/// How far a sweep has come. A scan from the beginning would walk over the index entries of all
/// that was deleted.
#[derive(Debug, Clone, Copy)]
struct SweepProgress {
    /// The latest time at which a deleted answer was received.
    answers: DateTime<Utc>,
    /// The latest time at which a body that history does not know was frozen.
    bodies: DateTime<Utc>,
}

impl SweepProgress {
    const NONE: Self = Self { answers: DateTime::UNIX_EPOCH, bodies: DateTime::UNIX_EPOCH };
}

impl PurgeWorker {
    /// A purge worker of this vault. Its first step sweeps.
    #[must_use]
    pub const fn new(deliverer: DelivererContext) -> Self {
        Self { deliverer, timer: SweepTimer::new(), progress: SweepProgress::NONE }
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
        let mut transaction = self.deliverer.store.pool().begin().await?;
        if !deliveries::is_only_purger(&mut transaction).await? {
            return Ok(NextStep::IDLE);
        }
        let delivered_before = now - kept.delivered;
        let failed_before = now - kept.failed;
        let limit = ROWS_PER_STEP.into();
        let purged =
            deliveries::purge_bodies(&mut transaction, delivered_before, failed_before, limit)
                .await?;
        let unused = not_queued(&mut transaction, &purged.body_ids).await?;
        bodies::drop_all(&mut transaction, &unused).await?;
        let gone = not_under_way(&mut transaction, &purged.delivery_ids).await?;
        step_headers::drop_all(&mut transaction, &gone).await?;
        // A body that was frozen and never sent is not in history.
        let before = now - kept.failed.max(kept.delivered) - UNSENT_FOR_MAX;
        let old = bodies::frozen_in(&mut transaction, self.progress.bodies..before, limit).await?;
        let old_ids: Vec<Uuid> = old.iter().map(|body| body.body_id).collect();
        let old_ids = not_queued(&mut transaction, &old_ids).await?;
        bodies::drop_all(&mut transaction, &old_ids).await?;
        let time = self.progress.answers..now - kept.answers;
        let answers = answers::forget(&mut transaction, time, limit).await?;
        transaction.commit().await?;
        let bodies_up_to = old.last().map_or(self.progress.bodies, |body| body.created_at);
        // Bodies that are still queued stay, and must not hold the sweep.
        let more_bodies = is_full(old.len() as u64) && bodies_up_to > self.progress.bodies;
        if is_full(purged.delivery_ids.len() as u64)
            || is_full(answers.count.unsigned_abs())
            || more_bodies
        {
            self.progress.answers = answers.latest.unwrap_or(self.progress.answers);
            self.progress.bodies = bodies_up_to;
            return Ok(NextStep::Busy);
        }
        self.progress = SweepProgress::NONE;
        self.timer.end_sweep(now);
        Ok(NextStep::IDLE)
    }
}
