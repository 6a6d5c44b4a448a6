//! The worker of ended leases: takes over attempts whose process went away before their answer was
//! recorded.
//!
//! Two minutes after its claim such an attempt is recorded as interrupted. Its delivery is due
//! again. After the last attempt it has failed, and in a closed lane it is cancelled (ruling 23,
//! attempts; ruling 29, in flight at removal).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::delivery::{Attempt, CancelCause, attempt_event};
use domain::operations::CLOCK_SKEW_MAX;
use domain::values::Timestamp;
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{AppendError, NewEvent, crash};
use projector::replays;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection};
use tokio::time::Instant;
use uuid::Uuid;

use crate::claim::ScanFloors;
use crate::error::DeliveryError;
use crate::outbox::lanes;
use crate::outbox::notices::note_given_up;
use crate::outbox::row::{OutboxRow, drop_rows, outbox_columns};
use crate::settings::DelivererContext;
use crate::tally;

/// Leases of one step, so that its transaction stays well under 100 ms.
const LEASES_PER_STEP: i64 = 500;

/// The longest wait between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// The worker.
pub struct EndedLeaseWorker {
    deliverer: DelivererContext,
    floors: ScanFloors,
    /// No lease ends before.
    next_look: Option<Instant>,
}

impl EndedLeaseWorker {
    /// A worker of this outbox.
    #[must_use]
    pub fn new(deliverer: DelivererContext) -> Self {
        Self { deliverer, floors: ScanFloors::default(), next_look: None }
    }
}

impl Worker for EndedLeaseWorker {
    const NAME: &'static str = "ended_leases";
    const WAKES: WakeOn = WakeOn::Timer;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        // A clock that cannot be trusted ends no lease (case E19).
        let waits = self.next_look.is_some_and(|next| Instant::now() < next);
        if waits || self.deliverer.clock.fault().is_some() {
            return Ok(NextStep::IDLE);
        }
        let now = self.deliverer.clock.now();
        let mut appending = self.deliverer.store.begin().await?;
        let connection = appending.connection();
        let life = self.deliverer.store.life().life_number();
        let start = self.floors.start_scan(now.get(), Instant::now(), life);
        let ended = EndedBetween { from: start.due_from, now: now.get() };
        let lane_ids = lanes_of_ended(connection, ended).await?;
        if lane_ids.is_empty() {
            let restarted = restart_overlong(&self.deliverer, connection, now.get()).await?;
            let first_end = first_end_after(connection, now.get()).await?;
            appending.commit().await?;
            self.floors.note_scan(start.wakes_from_xid, None, now.get());
            if restarted {
                return Ok(NextStep::Busy);
            }
            self.next_look = Some(Instant::now() + self.wait_until(first_end, now));
            return Ok(NextStep::IDLE);
        }
        let causes = lock_lanes(connection, &lane_ids).await?;
        let ended = ended_rows(connection, &lane_ids, ended).await?;
        let outcome = EndedLeaseOutcome::new(&ended, &causes, now);
        drop_rows(connection, &outcome.over).await?;
        put_due_again(connection, &outcome.again, now.get()).await?;
        lanes::due_by(connection, &outcome.due, now.get()).await?;
        replays::write_outcomes(connection, &outcome.replayed).await?;
        appending.append(outcome.events).await?;
        appending.deliveries_wait();
        crash::point("interrupting");
        appending.commit().await?;
        tally::count_interrupted(ended.len());
        Ok(NextStep::Busy)
    }
}

impl EndedLeaseWorker {
    /// The wait for the first end of a lease. A lease that begins meanwhile ends later than the
    /// longest wait.
    fn wait_until(&self, first_end: Option<DateTime<Utc>>, now: Timestamp) -> Duration {
        let longest = LOOK_INTERVAL.min(self.deliverer.settings.scale.scaled_lease());
        let until_end = first_end.map(|end| (end - now.get()).to_std().unwrap_or_default());
        until_end.unwrap_or(longest).min(longest)
    }
}

/// The ends of leases that a step looks for.
#[derive(Debug, Clone, Copy)]
struct EndedBetween {
    from: DateTime<Utc>,
    now: DateTime<Utc>,
}

/// The lanes of leases that have ended.
async fn lanes_of_ended(
    connection: &mut PgConnection,
    EndedBetween { from, now }: EndedBetween,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select distinct lane_id from (
             select lane_id from outbox
              where leased_at is not null and due_at >= $1 and due_at <= $2
              order by due_at limit $3) ended",
    )
    .bind(from)
    .bind(now)
    .bind(LEASES_PER_STEP)
    .fetch_all(connection)
    .await
}

/// The first end of a lease after this time.
async fn first_end_after(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar(
        "select due_at from outbox where leased_at is not null and due_at > $1
          order by due_at limit 1",
    )
    .bind(now)
    .fetch_optional(connection)
    .await
}

/// Locks these lanes. Returns the causes of the closed ones.
async fn lock_lanes(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
) -> Result<HashMap<Uuid, CancelCause>, AppendError> {
    let rows: Vec<(Uuid, Option<String>)> = sqlx::query_as(
        "select lane_id, cancel_cause from lanes
          where lane_id = any($1) order by lane_id for no key update",
    )
    .bind(lane_ids)
    .fetch_all(connection)
    .await?;
    let mut causes = HashMap::new();
    for (lane_id, cause) in rows {
        if let Some(cause) = cause {
            let unreadable = |_| AppendError::Unreadable(format!("cancel cause `{cause}`"));
            causes.insert(lane_id, cause.parse().map_err(unreadable)?);
        }
    }
    Ok(causes)
}

/// A row whose lease has ended.
#[derive(FromRow)]
struct EndedLeaseRow {
    #[sqlx(flatten)]
    row: OutboxRow,
    leased_at: DateTime<Utc>,
}

/// The rows of these locked lanes whose leases have ended. The rows are locked too, because an
/// answer may be recorded without its lane's lock.
async fn ended_rows(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    EndedBetween { from, now }: EndedBetween,
) -> Result<Vec<EndedLeaseRow>, sqlx::Error> {
    sqlx::query_as(concat!(
        "select ",
        outbox_columns!(""),
        ", leased_at
           from outbox
          where leased_at is not null and due_at >= $2 and due_at <= $3 and lane_id = any($1)
          order by due_at limit $4 for update skip locked"
    ))
    .bind(lane_ids)
    .bind(from)
    .bind(now)
    .bind(LEASES_PER_STEP)
    .fetch_all(connection)
    .await
}

/// The effects of ended leases.
#[derive(Default)]
struct EndedLeaseOutcome {
    events: Vec<NewEvent>,
    /// Deliveries that have ended.
    over: Vec<Uuid>,
    /// Deliveries that are due again.
    again: Vec<Uuid>,
    /// Due times of their lanes.
    due: BTreeMap<Uuid, DateTime<Utc>>,
    replayed: Vec<(Uuid, Uuid, &'static str)>,
}

impl EndedLeaseOutcome {
    fn new(ended: &[EndedLeaseRow], causes: &HashMap<Uuid, CancelCause>, now: Timestamp) -> Self {
        let mut outcome = Self::default();
        for EndedLeaseRow { row, leased_at } in ended {
            let cause = causes.get(&row.lane_id).copied().filter(|_| row.replay_id.is_none());
            let tries_remain = row.tries < row.tries_max;
            let again = tries_remain && cause.is_none();
            let number = u32::try_from(row.tries).unwrap_or_default();
            let attempt = Attempt {
                next_try_at: again.then_some(now),
                body_id: row.body_id,
                body_sha256: row.body_sha256.as_ref().map(hex::encode),
                of: row.delivery_of(),
                replay_id: row.replay_id,
                ..Attempt::interrupted(number, (*leased_at).into(), now)
            };
            match &row.notice {
                None => outcome.events.push(row.next(attempt_event(attempt, cause), now)),
                // A notice has no history.
                Some(Json(notice)) if !again => note_given_up(&notice.sent, None),
                Some(_) => {}
            }
            if again {
                outcome.again.push(row.delivery_id);
                outcome.due.insert(row.lane_id, now.get());
            } else {
                outcome.over.push(row.delivery_id);
            }
            if let Some(replay_id) = row.replay_id {
                outcome.replayed.push((replay_id, row.delivery_id, "interrupted"));
            }
        }
        outcome
    }
}

async fn put_due_again(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    if delivery_ids.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update outbox
            set lease = null, leased_at = null, due_at = $2, sequence = sequence + 1
          where delivery_id = any($1)",
    )
    .bind(delivery_ids)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Restarts leases that begin in the future. They are from before the database's clock went back,
/// and would otherwise last as long as the clock went back (case E19). Returns whether there was
/// one.
async fn restart_overlong(
    deliverer: &DelivererContext,
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<bool, sqlx::Error> {
    let skew = CLOCK_SKEW_MAX.to_std().unwrap_or(Duration::ZERO);
    let lease = deliverer.settings.scale.scaled_lease();
    let restarted = sqlx::query(
        "update outbox set leased_at = $1, due_at = $2
          where leased_at is not null
            and due_at > statement_timestamp() + make_interval(secs => $3)
            and leased_at > statement_timestamp() + make_interval(secs => $4)",
    )
    .bind(now)
    .bind(now + lease)
    .bind((lease + skew).as_secs_f64())
    .bind(skew.as_secs_f64())
    .execute(connection)
    .await?;
    Ok(restarted.rows_affected() > 0)
}
