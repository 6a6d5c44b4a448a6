//! Cancel: takes back what is left of a removed subscription, and what waits for a firm that stays
//! suspended (rulings 27 and 28).
//!
//! A removal closes the lane and makes its work due here. What is queued is cancelled at once; what
//! is in flight, when its lease ends (its answer, if it comes, is recorded before that).

use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::clock::CLOCK_SKEW_MAX;
use domain::delivery::{Attempt, CancelCause, DeliveryEvent, SUSPENDED_WAIT, UnknownCause, record};
use domain::time::Timestamp;
use eventstore::worker::{Step, Worker};
use eventstore::{AppendError, Appending, NewEvent};
use projector::replays;
use sqlx::{FromRow, PgConnection};
use tokio::time::Instant;
use uuid::Uuid;

use crate::claim::system;
use crate::lanes;
use crate::settings::{Courier, DeliveryError};

/// Lanes taken at a time.
const LANES: i64 = 50;

/// From one look for what is late by hours to the next, by a clock that never goes back: a removal is
/// looked for at every nudge.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Deliveries cancelled at a time: a transaction stays well under 100 ms.
const DELIVERIES: i64 = 1_000;

/// From one look to the next: nothing of a closed lane is claimed meanwhile.
const PACE: Duration = Duration::from_millis(20);

/// The worker.
pub struct Cancel {
    courier: Courier,
    next_look: Option<Instant>,
}

impl Cancel {
    /// A canceller of this outbox.
    #[must_use]
    pub const fn new(courier: Courier) -> Self {
        Self { courier, next_look: None }
    }
}

impl Worker for Cancel {
    const NAME: &'static str = "cancel";
    const PACE: Duration = PACE;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<Step, DeliveryError> {
        // Nothing ends by a clock that cannot be trusted (case E19).
        if self.courier.clock.fault().is_some() {
            return Ok(Step::IDLE);
        }
        let now = self.courier.clock.now();
        let mut appending = self.courier.store.begin().await?;
        let connection = appending.connection();
        let mut lane_ids = lock_closed_lanes(connection, now.get()).await?;
        if lane_ids.is_empty() {
            if self.next_look.is_some_and(|next| Instant::now() < next) {
                appending.leave().await?;
                return Ok(Step::IDLE);
            }
            let waited = self.courier.settings.scale.wait(SUSPENDED_WAIT);
            lane_ids = lock_suspended_lanes(connection, now.get(), waited).await?;
        }
        if lane_ids.is_empty() {
            self.next_look = Some(Instant::now() + BETWEEN_LOOKS);
            return restart_overlong_leases(&self.courier, appending, now.get()).await;
        }
        let mut left = take_left(connection, &lane_ids, now.get()).await?;
        // In the order of the log (ruling 26).
        left.sort_unstable_by_key(|row| row.position);
        lanes::reschedule(connection, &lane_ids, now.get()).await?;
        let events: Result<Vec<_>, _> =
            left.iter().filter_map(|row| row.ended(now).transpose()).collect();
        appending.append(events?).await?;
        let dropped: Vec<_> = left
            .iter()
            .filter_map(|row| Some((row.replay_id?, row.delivery_id, "dropped")))
            .collect();
        replays::conclude(appending.connection(), &dropped).await?;
        appending.commit().await?;
        Ok(Step::Busy)
    }
}

/// A lease that began in the future, by the database's own clock, is of before that went back: it
/// begins anew, or nobody would try again for as long as the clock went back (case E19).
async fn restart_overlong_leases(
    courier: &Courier,
    mut appending: Appending<'_>,
    now: DateTime<Utc>,
) -> Result<Step, DeliveryError> {
    let skew = CLOCK_SKEW_MAX.to_std().unwrap_or_default();
    let connection = appending.connection();
    let lane_ids: Vec<Uuid> = sqlx::query_scalar(
        "select lane_id from lanes
          where running > 0 and running_until > clock_timestamp() + make_interval(secs => $1)",
    )
    .bind((courier.settings.scale.lease() + skew).as_secs_f64())
    .fetch_all(&mut *connection)
    .await?;
    if lane_ids.is_empty() {
        appending.leave().await?;
        return Ok(Step::IDLE);
    }
    lanes::lock(connection, &lane_ids).await?;
    let restarted = sqlx::query(
        "update outbox set leased_at = $2, due_at = $3
          where lane_id = any($1) and leased_at is not null
            and leased_at > clock_timestamp() + make_interval(secs => $4)",
    )
    .bind(&lane_ids)
    .bind(now)
    .bind(now + courier.settings.scale.lease())
    .bind(skew.as_secs_f64())
    .execute(&mut *connection)
    .await?;
    // Longer leases of a process with another scale are no leases from the future.
    if restarted.rows_affected() == 0 {
        appending.leave().await?;
        return Ok(Step::IDLE);
    }
    lanes::reschedule(connection, &lane_ids, now).await?;
    appending.commit().await?;
    Ok(Step::Busy)
}

async fn lock_closed_lanes(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select lane_id from lanes where due_at <= $1 and cancel_cause is not null
          order by due_at limit $2 for update skip locked",
    )
    .bind(now)
    .bind(LANES)
    .fetch_all(connection)
    .await
}

/// Those of firms that have been suspended for so long, with something to cancel.
async fn lock_suspended_lanes(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    waited: Duration,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select lane_id from lanes l
          where due_at is not null and cancel_cause is null and paused_at <= $2
            and exists (select 1 from outbox o where o.lane_id = l.lane_id
                           and (o.leased_at is null or o.due_at <= $1))
          order by paused_at limit $3 for update skip locked",
    )
    .bind(now)
    .bind(now - waited)
    .bind(LANES)
    .fetch_all(connection)
    .await
}

#[derive(FromRow)]
struct Left {
    delivery_id: Uuid,
    firm_id: Uuid,
    sequence: i64,
    tries: i32,
    leased_at: Option<DateTime<Utc>>,
    body_id: Option<Uuid>,
    body_sha256: Option<Vec<u8>>,
    cancel_cause: String,
    replay_id: Option<Uuid>,
    position: i64,
}

async fn take_left(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<Vec<Left>, sqlx::Error> {
    sqlx::query_as(
        "with over as (
             select delivery_id from outbox
              where lane_id = any($1) and (leased_at is null or due_at <= $2)
              order by lane_id, position limit $3)
         delete from outbox o using over, lanes l
          where o.delivery_id = over.delivery_id and l.lane_id = o.lane_id
         returning o.delivery_id, o.firm_id, o.sequence, o.tries, o.leased_at, o.body_id,
                   o.body_sha256, coalesce(l.cancel_cause, $4) as cancel_cause, o.replay_id,
                   o.position",
    )
    .bind(lane_ids)
    .bind(now)
    .bind(DELIVERIES)
    .bind(CancelCause::FirmSuspended.name())
    .fetch_all(connection)
    .await
}

impl Left {
    /// What its end looks like: cancelled; with the try that nobody recorded, if there was one. What
    /// was to be sent once more had ended before: only the try is told.
    fn ended(&self, now: Timestamp) -> Result<Option<NewEvent>, AppendError> {
        let cause: CancelCause = self
            .cancel_cause
            .parse()
            .map_err(|error: UnknownCause| AppendError::Unreadable(error.to_string()))?;
        let cause = Some(cause).filter(|_| self.replay_id.is_none());
        let event = match (self.leased_at, cause) {
            (None, None) => return Ok(None),
            (None, Some(cause)) => DeliveryEvent::DeliveryCancelled { cause },
            (Some(started_at), cause) => record(self.interrupted(started_at, now), cause),
        };
        Ok(Some(NewEvent {
            aggregate_id: self.delivery_id.to_string(),
            sequence: self.sequence + 1,
            event: event.into(),
            context: system(self.firm_id, self.delivery_id, now),
        }))
    }

    fn interrupted(&self, started_at: DateTime<Utc>, now: Timestamp) -> Attempt {
        let number = u32::try_from(self.tries).unwrap_or_default();
        Attempt {
            body_id: self.body_id,
            body_sha256: self.body_sha256.as_ref().map(hex::encode),
            replay_id: self.replay_id,
            ..Attempt::interrupted(number, started_at.into(), now)
        }
    }
}
