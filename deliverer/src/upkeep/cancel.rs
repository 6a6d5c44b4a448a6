//! The cancel worker: cancels the rows of removed subscriptions, and of firms that stay suspended
//! (ruling 27, cancelled; ruling 28, suspended firm).
//!
//! A removal closes the lane and makes it due here. Rows that wait are cancelled at once. An
//! attempt in flight ends with its answer, or with its lease.

use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::delivery::{CancelCause, DeliveryEvent, SUSPENDED_WAIT_MAX};
use domain::values::Timestamp;
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{AppendError, NewEvent};
use projector::replays;
use sqlx::{FromRow, PgConnection};
use tokio::time::Instant;
use uuid::Uuid;

use crate::claim::ScanFloors;
use crate::error::DeliveryError;
use crate::outbox::lanes::{self, waiting_from};
use crate::outbox::row::{OutboxRow, outbox_columns};
use crate::outbox::wakes::{self, WakesLeft};
use crate::settings::DelivererContext;

/// Lanes of one step.
const LANES_PER_STEP: i64 = 50;

/// The wait between two looks for wakes and long suspensions, by a clock that never goes back.
/// Closed lanes are looked for at every step.
const LATE_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Deliveries of one step, so that its transaction stays well under 100 ms.
const DELIVERIES_PER_STEP: i64 = 1_000;

/// The wait between two steps. Nothing of a closed lane is claimed meanwhile.
const STEP_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// The worker.
pub struct CancelWorker {
    deliverer: DelivererContext,
    next_look: Option<Instant>,
    floors: ScanFloors,
}

impl CancelWorker {
    /// A cancel worker of this outbox.
    #[must_use]
    pub fn new(deliverer: DelivererContext) -> Self {
        Self { deliverer, next_look: None, floors: ScanFloors::default() }
    }
}

impl Worker for CancelWorker {
    const NAME: &'static str = "cancel";
    const WAKES: WakeOn = WakeOn::OtherEvents;
    const FIRST_DUE: Option<&'static str> =
        Some("select min(due_at) from lanes where due_at is not null and cancel_cause is not null");
    const STEP_INTERVAL_MIN: Duration = STEP_INTERVAL_MIN;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        // A clock that cannot be trusted ends no delivery (case E19).
        if self.deliverer.clock.fault().is_some() {
            return Ok(NextStep::HELD_UP);
        }
        let now = self.deliverer.clock.now();
        let mut appending = self.deliverer.store.begin().await?;
        let connection = appending.connection();
        let mut lane_ids = lock_closed_lanes(connection, now.get()).await?;
        let mut wakes = None;
        if lane_ids.is_empty() {
            let wait = self.next_look.map(|next| next.saturating_duration_since(Instant::now()));
            if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
                appending.rollback().await?;
                return Ok(NextStep::IdleFor(wait));
            }
            self.next_look = Some(Instant::now() + LATE_LOOK_INTERVAL);
            // Rows that came into a lane while it was being closed have only a wake.
            let life = self.deliverer.store.life().life_number();
            let start = self.floors.start_scan(now.get(), Instant::now(), life);
            wakes = Some(wakes::absorb_wakes(connection, now.get(), start.wakes_from_xid).await?);
            lane_ids = lock_closed_lanes(connection, now.get()).await?;
        }
        if lane_ids.is_empty() {
            let waited = self.deliverer.settings.scale.scaled_wait(SUSPENDED_WAIT_MAX);
            lane_ids = lock_suspended_lanes(connection, now.get(), waited).await?;
        }
        if lane_ids.is_empty() {
            appending.commit().await?;
            self.note_wakes(wakes, now);
            return Ok(NextStep::IDLE);
        }
        let mut left = take_left(connection, &lane_ids).await?;
        // In the order of the log (ruling 26, 410).
        left.sort_unstable_by_key(|row| row.row.position);
        lanes::reschedule(connection, &lane_ids, now.get()).await?;
        let events: Result<Vec<_>, _> =
            left.iter().filter_map(|row| row.cancel_event(now).transpose()).collect();
        appending.append(events?).await?;
        let dropped: Vec<_> = left
            .iter()
            .filter_map(|LeftoverRow { row, .. }| {
                Some((row.replay_id?, row.delivery_id, "dropped"))
            })
            .collect();
        replays::write_outcomes(appending.connection(), &dropped).await?;
        appending.commit().await?;
        self.note_wakes(wakes, now);
        Ok(NextStep::Busy)
    }
}

impl CancelWorker {
    /// Notes the wakes that a committed step left.
    fn note_wakes(&mut self, wakes: Option<WakesLeft>, now: Timestamp) {
        if let Some(wakes) = wakes {
            self.floors.note_scan(wakes.from_xid, None, now.get());
        }
    }
}

async fn lock_closed_lanes(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select lane_id from lanes where due_at <= $1 and cancel_cause is not null
          order by due_at limit $2 for no key update skip locked",
    )
    .bind(now)
    .bind(LANES_PER_STEP)
    .fetch_all(connection)
    .await
}

/// Lanes with rows to cancel, of firms that have been suspended for this long.
async fn lock_suspended_lanes(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    waited: Duration,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(concat!(
        "select lane_id from lanes l
          where due_at is not null and cancel_cause is null and paused_at <= $1
            and exists (select from outbox o
                         where o.lane_id = l.lane_id and o.leased_at is null
                           and o.due_at >= ",
        waiting_from!("l."),
        "                order by o.due_at limit 1)
          order by paused_at limit $2 for no key update skip locked"
    ))
    .bind(now - waited)
    .bind(LANES_PER_STEP)
    .fetch_all(connection)
    .await
}

/// A row that waited in a closed lane, with the cause of the closing.
#[derive(FromRow)]
struct LeftoverRow {
    #[sqlx(flatten)]
    row: OutboxRow,
    cancel_cause: String,
}

/// Deletes the waiting rows of these locked lanes. Attempts in flight end with their answer or
/// their lease.
async fn take_left(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
) -> Result<Vec<LeftoverRow>, sqlx::Error> {
    sqlx::query_as(concat!(
        "with over as materialized (
             select o.delivery_id, coalesce(l.cancel_cause, $3) as cancel_cause
               from lanes l
              cross join lateral (
                    select delivery_id from outbox
                     where lane_id = l.lane_id and leased_at is null
                       and due_at >= ",
        waiting_from!("l."),
        "            order by due_at, position limit $2) o
              where l.lane_id = any($1) limit $2)
         delete from outbox o using over
          where o.delivery_id = over.delivery_id
         returning ",
        outbox_columns!("o."),
        ", over.cancel_cause"
    ))
    .bind(lane_ids)
    .bind(DELIVERIES_PER_STEP)
    .bind(CancelCause::FirmSuspended.name())
    .fetch_all(connection)
    .await
}

impl LeftoverRow {
    /// The cancellation of the delivery. `None` for a replayed delivery, which had ended before.
    fn cancel_event(&self, now: Timestamp) -> Result<Option<NewEvent>, AppendError> {
        let cause = lanes::parse_cause(&self.cancel_cause)?;
        if self.row.replay_id.is_some() {
            return Ok(None);
        }
        let of = self.row.delivery_of();
        Ok(Some(self.row.next(DeliveryEvent::DeliveryCancelled { cause, of }, now)))
    }
}
