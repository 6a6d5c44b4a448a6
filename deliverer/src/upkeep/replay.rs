//! The replay worker: queues ended deliveries again, in their order and at the replay's rate. They
//! use their own lanes and the same locks (ruling 31, replay).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use domain::delivery::replay::{
    ReplayConditions, ReplayEvent, ReplaySkip, forced_skip_reason, skip_reason,
};
use domain::delivery::{
    Delivery, DeliveryEvent, DeliveryState, ReplayedDelivery, RetrySchedule, SentBody,
};
use domain::values::Timestamp;
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{AppendTransaction, NewEvent, Upcasters, load_all};
use projector::replays::{self, ReplayTurn, ReplayableRow};
use projector::subjects;
use sqlx::PgConnection;
use tokio::time::Instant;
use uuid::Uuid;
use vault::bodies;

use crate::attempt::system_context;
use crate::error::DeliveryError;
use crate::outbox::lanes;
use crate::outbox::row::{NewOutboxRow, OutboxRow, drop_rows, insert_rows};
use crate::settings::DelivererContext;

/// Deliveries of one step, so that its transaction stays well under 100 ms.
const DELIVERIES_PER_STEP: i32 = 500;

/// Delay that a replay makes up for at once, at most.
const CATCH_UP_MAX: TimeDelta = TimeDelta::seconds(1);

/// Deliveries of one replay that are queued in a lane, at most. A replay with a lower rate queues
/// one second's deliveries.
const QUEUED_PER_LANE_MAX: i64 = 1_000;

/// The wait of a replay whose lanes are full. Other replays have their turn meanwhile.
const HELD_UP_FOR: Duration = Duration::from_millis(250);

/// The wait between two steps.
const STEP_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// The worker.
pub struct ReplayWorker {
    deliverer: DelivererContext,
    /// Replays whose lanes were full, and the end of their wait.
    held_up: HashMap<Uuid, Instant>,
}

impl ReplayWorker {
    /// A replay worker of this outbox.
    #[must_use]
    pub fn new(deliverer: DelivererContext) -> Self {
        Self { deliverer, held_up: HashMap::new() }
    }

    /// The replays that wait.
    fn held_up(&mut self) -> Vec<Uuid> {
        self.held_up.retain(|_, until| *until > Instant::now());
        self.held_up.keys().copied().collect()
    }
}

impl Worker for ReplayWorker {
    const NAME: &'static str = "replay";
    const WAKES: WakeOn = WakeOn::OtherEvents;
    const STEP_INTERVAL_MIN: Duration = STEP_INTERVAL_MIN;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        let now = self.deliverer.clock.now();
        let held_up = self.held_up();
        let mut appending = self.deliverer.store.begin().await?;
        let Some(turn) = replays::take_turn(appending.connection(), &held_up).await? else {
            appending.rollback().await?;
            return Ok(if held_up.is_empty() {
                NextStep::IDLE
            } else {
                NextStep::IdleFor(HELD_UP_FOR)
            });
        };
        let (count, until) = queue_allowance(&turn, now.get());
        if count == 0 {
            appending.rollback().await?;
            let wait = until.signed_duration_since(now.get()).to_std().unwrap_or_default();
            return Ok(NextStep::IdleFor(wait.max(Duration::from_millis(10))));
        }
        let connection = appending.connection();
        let queued = queued_of(connection, turn.replay_id).await?;
        let per_lane = i64::from(turn.rate_per_second).min(QUEUED_PER_LANE_MAX);
        let items = replays::next_items(connection, &turn, &queued, per_lane, count.into()).await?;
        if items.is_empty() && replays::has_waiting(connection, turn.replay_id).await? {
            appending.rollback().await?;
            self.held_up.insert(turn.replay_id, Instant::now() + HELD_UP_FOR);
            return Ok(NextStep::Busy);
        }
        if items.is_empty() {
            finish_replay(&mut appending, &turn, now).await?;
        } else {
            replays::set_fed_until(appending.connection(), turn.replay_id, until).await?;
            queue_items(&mut appending, &turn, &items, now).await?;
        }
        appending.commit().await?;
        Ok(NextStep::Busy)
    }
}

/// Queued deliveries of a replay, by lane. Deliveries to a slow receiver wait in the replay, where
/// an operator can hold them. In the queue all of them would be due at once when the receiver is
/// back.
async fn queued_of(
    connection: &mut PgConnection,
    replay_id: Uuid,
) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
    sqlx::query_as("select lane_id, count(*) from outbox where replay_id = $1 group by lane_id")
        .bind(replay_id)
        .fetch_all(connection)
        .await
}

/// Number of deliveries that the replay may queue now, and the time until which they use up its
/// rate.
fn queue_allowance(turn: &ReplayTurn, now: DateTime<Utc>) -> (i32, DateTime<Utc>) {
    let from = turn.fed_until.unwrap_or(now - CATCH_UP_MAX).max(now - CATCH_UP_MAX);
    let micros = (now - from).num_microseconds().unwrap_or_default().max(0);
    let rate = i64::from(turn.rate_per_second);
    let allowed = i32::try_from(micros * rate / 1_000_000)
        .unwrap_or(DELIVERIES_PER_STEP)
        .min(DELIVERIES_PER_STEP);
    let used = i64::from(allowed.max(1)) * 1_000_000 / rate;
    (allowed, from + TimeDelta::microseconds(used))
}

async fn finish_replay(
    appending: &mut AppendTransaction<'_>,
    turn: &ReplayTurn,
    now: Timestamp,
) -> Result<(), DeliveryError> {
    let (queued, skipped) = replays::count_totals(appending.connection(), turn.replay_id).await?;
    let finished = ReplayEvent::ReplayFinished {
        queued: queued.cast_unsigned(),
        skipped: skipped.cast_unsigned(),
    };
    let context = system_context(turn.firm_id, turn.replay_id, now);
    let stream = turn.replay_id.to_string();
    appending.append(NewEvent::number_after(turn.sequence, &stream, &context, [finished])).await?;
    Ok(())
}

/// Queues the deliveries that can be sent again, and records the reason for each of the others. The
/// lanes and bodies are locked first, so nothing of that can change before the commit.
async fn queue_items(
    appending: &mut AppendTransaction<'_>,
    turn: &ReplayTurn,
    items: &[Uuid],
    now: Timestamp,
) -> Result<(), DeliveryError> {
    let connection = appending.connection();
    let found = replays::find_replayable(connection, items).await?;
    let lane_ids: Vec<Uuid> = found.iter().map(|one| one.hook_id).collect();
    let open = lanes::lock_open(connection, &lane_ids).await?;
    let sent: Vec<Uuid> = found.iter().filter_map(|one| one.body_id).collect();
    let kept = bodies::hold_kept(connection, &sent).await?;
    let mut batch = ReplayBatch::default();
    let under_way = under_way(connection, items, &mut batch).await?;
    let erased = erased_responses(connection, turn.firm_id, &found).await?;
    let mut streams = load_all::<Delivery>(connection, &Upcasters::current(), items).await?;
    for one in found {
        let Some((delivery, last)) = streams.remove(&one.delivery_id) else {
            continue;
        };
        let standing = ReplayConditions {
            state: delivery.state().unwrap_or(DeliveryState::Pending),
            under_way: under_way.contains(&one.delivery_id),
            hook_lives: open.contains(&one.hook_id),
            erased: erased.contains(&one.response_id),
            ..one.replay_conditions(&kept)
        };
        let skip = if turn.force { forced_skip_reason(standing) } else { skip_reason(standing) };
        match (skip, delivery.body()) {
            (None, Some(body)) => {
                let body = body.clone();
                let tries = delivery.tries();
                let item = QueuedReplay { row: one, body, sequence: last + 1, tries };
                batch.add_queued(turn, item, now);
            }
            (why, _) => batch.add_skipped(turn, &one, why.unwrap_or(ReplaySkip::BodyPurged)),
        }
    }
    batch.write_batch(appending, turn, now).await
}

/// The deliveries among these that are in the outbox. Rows of a replay that was stopped are deleted
/// instead.
async fn under_way(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
    batch: &mut ReplayBatch,
) -> Result<HashSet<Uuid>, sqlx::Error> {
    let rows: Vec<(Uuid, Option<Uuid>, bool)> = sqlx::query_as(
        "select delivery_id, replay_id, leased_at is null from outbox where delivery_id = any($1)",
    )
    .bind(delivery_ids)
    .fetch_all(connection.as_mut())
    .await?;
    let of = rows.iter().filter_map(|(_, replay_id, _)| *replay_id).collect();
    let stopped = replays::stopped_of(connection, &of).await?;
    let mut under_way = HashSet::new();
    for (delivery_id, replay_id, waits) in rows {
        match replay_id.filter(|replay_id| waits && stopped.contains(replay_id)) {
            Some(replay_id) => batch.outcomes.push((replay_id, delivery_id, "dropped")),
            None => _ = under_way.insert(delivery_id),
        }
    }
    let dropped: Vec<Uuid> =
        batch.outcomes.iter().map(|(_, delivery_id, _)| *delivery_id).collect();
    drop_rows(connection, &dropped).await?;
    Ok(under_way)
}

async fn erased_responses(
    connection: &mut PgConnection,
    firm_id: Uuid,
    found: &[ReplayableRow],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    let responses: Vec<(Uuid, Uuid)> = found.iter().map(|one| (firm_id, one.response_id)).collect();
    let erased = subjects::erased_among(connection, &responses).await?;
    Ok(erased.into_iter().map(|(_, response_id)| response_id).collect())
}

/// The deliveries and outcomes of one step.
#[derive(Default)]
struct ReplayBatch {
    events: Vec<NewEvent>,
    rows: Vec<QueuedReplay>,
    outcomes: Vec<(Uuid, Uuid, &'static str)>,
}

/// A delivery that is queued again.
struct QueuedReplay {
    row: ReplayableRow,
    body: SentBody,
    /// The sequence of its `DeliveryReplayed`.
    sequence: i64,
    /// Attempts so far.
    tries: u32,
}

impl QueuedReplay {
    fn outbox_row(self, replay_id: Uuid, position: i64) -> OutboxRow {
        let Self { row, body, sequence, tries } = self;
        OutboxRow {
            delivery_id: row.delivery_id,
            lane_id: row.hook_id,
            firm_id: row.firm_id,
            occurrence_id: row.occurrence_id,
            trigger: row.trigger,
            form_id: row.form_id,
            response_id: row.response_id,
            report_id: None,
            booking_id: None,
            position,
            sequence,
            tries: tries.cast_signed(),
            tries_max: (tries + RetrySchedule::Replay.tries()).cast_signed(),
            step: None,
            replay_id: Some(replay_id),
            traceparent: None,
            body_sha256: hex::decode(&body.sha256).ok(),
            notice: None,
            body_id: Some(body.id),
        }
    }
}

impl ReplayBatch {
    fn add_queued(&mut self, turn: &ReplayTurn, item: QueuedReplay, now: Timestamp) {
        let QueuedReplay { row, body, sequence, tries } = &item;
        let replayed =
            ReplayedDelivery { replay_id: turn.replay_id, tries: *tries, body: body.clone() };
        let context = system_context(row.firm_id, turn.replay_id, now);
        let event = DeliveryEvent::DeliveryReplayed(replayed);
        let stream = row.delivery_id.to_string();
        self.events.extend(NewEvent::number_after(sequence - 1, &stream, &context, [event]));
        self.outcomes.push((turn.replay_id, row.delivery_id, "queued"));
        self.rows.push(item);
    }

    fn add_skipped(&mut self, turn: &ReplayTurn, one: &ReplayableRow, why: ReplaySkip) {
        self.outcomes.push((turn.replay_id, one.delivery_id, why.name()));
    }

    async fn write_batch(
        self,
        appending: &mut AppendTransaction<'_>,
        turn: &ReplayTurn,
        now: Timestamp,
    ) -> Result<(), DeliveryError> {
        let positions: Vec<i64> =
            appending.append(self.events).await?.iter().map(|event| event.position).collect();
        let replay_id = turn.replay_id;
        let rows: Vec<NewOutboxRow> = self
            .rows
            .into_iter()
            .zip(positions)
            .map(|(item, position)| NewOutboxRow {
                row: item.outbox_row(replay_id, position),
                due_at: now.get(),
                lease: None,
            })
            .collect();
        let connection = appending.connection();
        insert_rows(connection, &rows).await?;
        Ok(replays::write_outcomes(connection, &self.outcomes).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(rate_per_second: i32, fed_until: Option<DateTime<Utc>>) -> ReplayTurn {
        ReplayTurn {
            replay_id: Uuid::nil(),
            firm_id: Uuid::nil(),
            force: false,
            rate_per_second,
            fed_until,
            sequence: 1,
        }
    }

    #[test]
    fn a_replay_is_fed_at_its_rate() {
        let start = "2026-11-01T00:00:00.000Z".parse::<Timestamp>().unwrap().get();
        for rate in [1, 7, 50, 400, 5_000] {
            let (mut fed_until, mut queued) = (None, 0);
            for step in 0..1_000 {
                let now = start + TimeDelta::milliseconds(step * 37 % 11 + step * 20);
                let (count, until) = queue_allowance(&turn(rate, fed_until), now);
                if count > 0 {
                    (fed_until, queued) = (Some(until), queued + count);
                }
            }
            let most = rate * 21;
            assert!(queued <= most, "{rate}: {queued} in 20 s");
            assert!(
                queued >= (rate * 19).min(DELIVERIES_PER_STEP * 900),
                "{rate}: {queued} in 20 s"
            );
        }
    }

    #[test]
    fn a_late_replay_catches_up_one_second() {
        let now = "2026-11-01T00:00:00.000Z".parse::<Timestamp>().unwrap().get();
        let long_ago = Some(now - TimeDelta::hours(1));
        assert_eq!(queue_allowance(&turn(50, long_ago), now).0, 50);
        assert_eq!(queue_allowance(&turn(50, None), now).0, 50);
        assert_eq!(
            queue_allowance(&turn(50, Some(now)), now),
            (0, now + TimeDelta::milliseconds(20))
        );
    }
}
