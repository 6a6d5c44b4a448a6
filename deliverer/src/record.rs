//! Record: writes down what tries came to, in batches: the attempt events, the outbox row gone or
//! due again, the 410 count, in one transaction.

mod after;
mod attempt;
mod lane;
mod rows;

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use domain::answer::AnswerVerdict;
use domain::context::{Actor, EventContext};
use domain::delivery::{
    CancelCause, Delivery, DeliveryEvent, LateEffect, OutboxPresence, Outcome, record as after_try,
};
use domain::subscription::{GoneAnswer, SubscriptionCommand, SubscriptionEvent};
use domain::time::Timestamp;
use eventstore::{AppendTransaction, NewEvent, crash, load};
use projector::replays;
use sqlx::PgConnection;
use telemetry::metrics::RECORD_SECONDS;
use tokio::time::Instant;
use uuid::Uuid;
use vault::KeySubject;
use vault::answers::{self, ReceiverAnswer};

use self::after::{answer_later_warnings, drop_what_was_erased};
use self::attempt::{attempt, context, kept_answer};
use self::lane::{GONE_STATUS, LaneState, lanes_of, lock_lanes};
use self::rows::may_come_again;
use crate::claim::ClaimedAttempt;
use crate::lanes;
use crate::outbox::drop_rows;
use crate::outgoing::OutgoingExchange;
use crate::settings::{DelivererContext, DeliveryError};
use crate::tally::AttemptTally;
use crate::withdrawn;

/// A try that was sent.
#[derive(Clone)]
pub struct FinishedAttempt {
    /// The try.
    pub claimed: ClaimedAttempt,
    /// What came back.
    pub exchange: OutgoingExchange,
    /// When.
    pub finished_at: Timestamp,
}

/// Writes down a batch of tries; one that comes too late changes what it still can.
///
/// # Errors
/// [`DeliveryError`]; the batch can be given again then: what was written already is found.
pub async fn record(
    courier: &DelivererContext,
    batch: &[FinishedAttempt],
) -> Result<(), DeliveryError> {
    let began = Instant::now();
    let mut batch: Vec<&FinishedAttempt> = batch.iter().collect();
    batch.sort_by_key(|finished| finished.finished_at);
    for late in record_in_time(courier, &batch).await? {
        record_late(courier, late).await?;
    }
    RECORD_SECONDS.observe(&[], began.elapsed());
    Ok(())
}

/// Writes down the tries that hold their leases, and answers the others.
async fn record_in_time<'a>(
    courier: &DelivererContext,
    batch: &[&'a FinishedAttempt],
) -> Result<Vec<&'a FinishedAttempt>, DeliveryError> {
    let mut appending = courier.store.begin().await?;
    let connection = appending.connection();
    lock_quotas(connection, batch).await?;
    let mut lanes = lanes_of(connection, batch).await?;
    let known: Vec<&FinishedAttempt> =
        batch.iter().copied().filter(|one| lanes.contains_key(&one.claimed.lane_id)).collect();
    let held = rows::held(connection, &known).await?;
    let erased = erased(connection, &known).await?;
    let (mut ledger, mut late) = (RecordEffects { erased, ..RecordEffects::default() }, Vec::new());
    for finished in known {
        let claimed = &finished.claimed;
        let held = held.get(&(claimed.delivery_id, claimed.lease));
        match (held, lanes.get_mut(&claimed.lane_id)) {
            (Some(sequence), Some(lane)) => ledger.enter(courier, finished, *sequence, lane),
            _ => late.push(finished),
        }
    }
    let tally = std::mem::take(&mut ledger.tally);
    ledger.write(courier, &mut appending).await?;
    crash::point("recording");
    appending.commit().await?;
    crash::point("recorded");
    tally.count();
    answer_later_warnings(courier, batch, &lanes).await?;
    drop_what_was_erased(courier, batch).await?;
    Ok(late)
}

/// Writes down a try whose lease was taken over, or whose delivery has ended: a success may still
/// count, the rest is kept in history (case E21). What was recorded already is left out (case E14), and
/// so is an answer whose delivery is neither queued nor in the log: the database lost it.
async fn record_late(
    courier: &DelivererContext,
    finished: &FinishedAttempt,
) -> Result<(), DeliveryError> {
    let claimed = &finished.claimed;
    let mut appending = courier.store.begin().await?;
    let connection = appending.connection();
    let mut lanes = lock_lanes(connection, &[claimed.lane_id], true).await?;
    let (stream, upcasters) = (claimed.delivery_id.to_string(), courier.store.upcasters());
    let (delivery, last) = load::<Delivery>(connection, &upcasters, &stream).await?;
    let is_queued = rows::is_queued(connection, claimed.delivery_id).await?;
    if last == 0 && !is_queued {
        appending.rollback().await?;
        let delivery_id = claimed.delivery_id;
        tracing::error!(%delivery_id, "an answer was dropped: its delivery is not in the database");
        return Ok(());
    }
    let erased = erased(connection, &[finished]).await?;
    let mut ledger = RecordEffects { erased, ..RecordEffects::default() };
    if let Some(lane) = lanes.get_mut(&claimed.lane_id) {
        let told = LateDelivery { delivery: &delivery, last, is_queued };
        ledger.enter_late(courier, finished, &told, lane);
    }
    let tally = std::mem::take(&mut ledger.tally);
    ledger.write(courier, &mut appending).await?;
    appending.commit().await?;
    tally.count();
    Ok(())
}

/// What is known of a delivery whose answer comes late.
struct LateDelivery<'a> {
    delivery: &'a Delivery,
    /// The last event of its stream.
    last: i64,
    /// Whether the outbox has it for its own tries.
    is_queued: bool,
}

/// Which responses of the batch were erased, as far as it matters: where it arrived and nothing was said,
/// nothing is kept.
async fn erased(
    connection: &mut PgConnection,
    batch: &[&FinishedAttempt],
) -> Result<HashSet<KeySubject>, sqlx::Error> {
    let matters = |one: &&&FinishedAttempt| {
        let OutgoingExchange { answer, snippet, .. } = &one.exchange;
        answer.verdict() != AnswerVerdict::Delivered || !snippet.is_empty()
    };
    let subjects = batch.iter().filter(matters).map(|one| one.claimed.subject);
    withdrawn::erased_of(connection, subjects).await
}

/// A removal gives a place back, and quotas are locked before lanes: so they are locked first when
/// a removal may come.
async fn lock_quotas(
    connection: &mut PgConnection,
    batch: &[&FinishedAttempt],
) -> Result<(), sqlx::Error> {
    let firm_ids: Vec<Uuid> = batch
        .iter()
        .filter(|finished| finished.exchange.answer.status() == Some(GONE_STATUS))
        .map(|finished| finished.claimed.firm_id)
        .collect();
    if firm_ids.is_empty() {
        return Ok(());
    }
    projector::quotas::lock_hooks(connection, &firm_ids).await
}

/// What a batch leads to.
#[derive(Default)]
struct RecordEffects<'a> {
    /// Responses of the batch that were erased while the tries were under way: what was said to them
    /// is not kept, and they are not tried again.
    erased: HashSet<KeySubject>,
    events: Vec<NewEvent>,
    /// Those that might have come again, and do not.
    ended: Vec<Uuid>,
    due_again: Vec<(Uuid, DateTime<Utc>, i64)>,
    /// When the lanes of those are due.
    due: BTreeMap<Uuid, DateTime<Utc>>,
    /// Those whose stream goes on though nothing else changes.
    noted: Vec<(Uuid, i64)>,
    tally: AttemptTally,
    /// What came of what was sent once more.
    replayed: Vec<(Uuid, Uuid, &'static str)>,
    answers: Vec<ReceiverAnswer<'a>>,
}

impl<'a> RecordEffects<'a> {
    fn enter(
        &mut self,
        courier: &DelivererContext,
        finished: &'a FinishedAttempt,
        sequence: i64,
        lane: &mut LaneState,
    ) {
        let claimed = &finished.claimed;
        let erased = self.erased.contains(&claimed.subject);
        let withdrawn = lane.withdrawn.or(erased.then_some(CancelCause::SourceErased));
        // What had ended before cannot be taken back.
        let withdrawn = withdrawn.filter(|_| claimed.replay_id.is_none());
        let answer = kept_answer(finished).filter(|_| !erased);
        let mut attempt = attempt(courier, finished, answer.as_deref());
        attempt.of = claimed.delivery_of().filter(|_| sequence == 0);
        let next_try_at = attempt.next_try_at.filter(|_| withdrawn.is_none());
        match next_try_at {
            Some(at) => {
                self.due_again.push((claimed.delivery_id, at.get(), sequence + 1));
                let due = self.due.entry(claimed.lane_id).or_insert(at.get());
                *due = at.get().min(*due);
            }
            None if may_come_again(finished) => self.ended.push(claimed.delivery_id),
            // It was taken out when it was looked for.
            None => {}
        }
        let outcome = attempt.outcome;
        self.tally.note(finished, outcome);
        if let Some(replay_id) = claimed.replay_id {
            self.replayed.push((replay_id, claimed.delivery_id, outcome.name()));
        }
        self.put(finished, sequence + 1, after_try(attempt, withdrawn), answer);
        self.count_gone(finished, outcome, lane);
    }

    fn enter_late(
        &mut self,
        courier: &DelivererContext,
        finished: &'a FinishedAttempt,
        LateDelivery { delivery, last, is_queued }: &LateDelivery<'_>,
        lane: &mut LaneState,
    ) {
        let delivery_id = finished.claimed.delivery_id;
        let erased = self.erased.contains(&finished.claimed.subject);
        let answer = kept_answer(finished).filter(|_| !erased);
        let mut attempt = attempt(courier, finished, answer.as_deref());
        attempt.of = finished.claimed.delivery_of().filter(|_| *last == 0);
        let outcome = attempt.outcome;
        let outbox = if *is_queued { OutboxPresence::Queued } else { OutboxPresence::Absent };
        let Some((late, event)) = delivery.record_late(attempt, outbox) else {
            return;
        };
        self.tally.note(finished, outcome);
        match late {
            LateEffect::Arrived => {
                self.ended.push(delivery_id);
                self.count_gone(finished, Outcome::Delivered, lane);
            }
            LateEffect::Noted => self.noted.push((delivery_id, last + 1)),
        }
        self.put(finished, last + 1, event, answer);
    }

    fn put(
        &mut self,
        finished: &'a FinishedAttempt,
        sequence: i64,
        event: DeliveryEvent,
        answer: Option<String>,
    ) {
        let claimed = &finished.claimed;
        if let (Some(text), Some(key)) = (answer, &claimed.key) {
            let number = i32::try_from(claimed.number).unwrap_or(i32::MAX);
            let (delivery_id, subject) = (claimed.delivery_id, claimed.subject);
            self.answers.push(ReceiverAnswer { delivery_id, number, subject, key, text });
        }
        self.events.push(NewEvent {
            aggregate_id: claimed.delivery_id.to_string(),
            sequence,
            event: event.into(),
            context: context(finished),
        });
    }

    /// Two deliveries in a row that end with 410 remove the subscription; a success in between
    /// resets the count (contract, section Retries; ruling 26).
    fn count_gone(&mut self, finished: &FinishedAttempt, outcome: Outcome, lane: &mut LaneState) {
        let claimed = &finished.claimed;
        let command = match (outcome, finished.exchange.answer.status()) {
            (Outcome::Delivered, _) => {
                SubscriptionCommand::RecordAnswered { delivery_id: claimed.delivery_id }
            }
            (Outcome::Failed, Some(GONE_STATUS)) if claimed.replay_id.is_none() => {
                SubscriptionCommand::RecordGone(GoneAnswer {
                    delivery_id: claimed.delivery_id,
                    status: GONE_STATUS,
                    finished_at: finished.finished_at,
                })
            }
            (Outcome::Failed | Outcome::Retry | Outcome::Interrupted, _) => return,
        };
        let Some(subscription) = &mut lane.subscription else {
            return;
        };
        for event in subscription.decide(&command).unwrap_or_default() {
            lane.sequence += 1;
            if let SubscriptionEvent::SubscriptionRemoved { reason, .. } = &event {
                lane.withdrawn = Some((*reason).into());
            }
            cqrs_es::Aggregate::apply(subscription, event.clone());
            self.events.push(NewEvent {
                aggregate_id: claimed.lane_id.to_string(),
                sequence: lane.sequence,
                event: event.into(),
                context: EventContext {
                    actor: Actor::Receiver(claimed.lane_id),
                    ..context(finished)
                },
            });
        }
        if lane.withdrawn.is_some() {
            lane.subscription = None;
        }
    }

    async fn write(
        self,
        courier: &DelivererContext,
        appending: &mut AppendTransaction<'_>,
    ) -> Result<(), DeliveryError> {
        appending.append(self.events).await?;
        let connection = appending.connection();
        drop_rows(connection, &self.ended).await?;
        rows::put_due_again(connection, &self.due_again).await?;
        rows::move_streams(connection, &self.noted).await?;
        replays::conclude(connection, &self.replayed).await?;
        let now = courier.clock.now().get();
        answers::put(connection, &self.answers, now, &*courier.entropy).await?;
        lanes::due_by(connection, &self.due).await?;
        Ok(())
    }
}
