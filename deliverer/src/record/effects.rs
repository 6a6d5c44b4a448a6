//! The effects of a batch of answers: events, outbox rows and lanes. They are collected first, and
//! written in one transaction. Rows of final answers are already deleted by then, in this
//! transaction (`rows::held`).

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use domain::delivery::{
    AnswerVerdict, CancelCause, DeliveryEvent, Outcome, attempt_event as after_attempt,
};
use domain::event::{Actor, EventContext};
use domain::subscription::{GoneAnswer, SubscriptionCommand, SubscriptionEvent};
use domain::values::Timestamp;
use eventstore::{AppendTransaction, JoinedWrites, NewEvent};
use projector::replays;
use sqlx::PgConnection;
use uuid::Uuid;
use vault::KeySubject;
use vault::answers::{self, ReceiverAnswer};

use super::event::{event_context, kept_answer, recorded_attempt};
use super::lane::{GONE_STATUS, LaneState, RecordedSuccess};
use super::rows::{self, row_is_kept};
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::outbox::row::drop_rows;
use crate::outbox::{lanes, withdraw};
use crate::outgoing::OutgoingExchange;
use crate::settings::DelivererContext;
use crate::tally::AttemptTally;

/// The effects of a batch.
#[derive(Default)]
pub(super) struct RecordEffects<'a> {
    /// Responses of the batch that were erased while their attempts were in flight. Their answers
    /// are not kept, and their deliveries are not retried.
    pub(super) erased_responses: HashSet<KeySubject>,
    events: Vec<NewEvent>,
    /// Ended deliveries whose rows are still in the outbox.
    pub(super) ended: Vec<Uuid>,
    due_again: Vec<(Uuid, DateTime<Utc>, i64)>,
    /// The earliest of these retries, by lane.
    due: BTreeMap<Uuid, DateTime<Utc>>,
    /// Deliveries with a late answer in history only, and the new ends of their streams.
    pub(super) noted: Vec<(Uuid, i64)>,
    pub(super) tally: AttemptTally,
    /// Outcomes of replayed deliveries.
    replayed: Vec<(Uuid, Uuid, &'static str)>,
    answers: Vec<ReceiverAnswer<'a>>,
}

/// A subscription, and the context of the answer that its events follow from.
pub(super) struct SubscriptionOf {
    pub(super) lane_id: Uuid,
    pub(super) context: EventContext,
}

impl SubscriptionOf {
    /// The subscription of an attempt.
    pub(super) fn new(finished: &FinishedAttempt) -> Self {
        Self { lane_id: finished.claimed.lane_id, context: event_context(finished) }
    }
}

impl<'a> RecordEffects<'a> {
    /// No effects yet. `erased_responses` are the erased responses of the batch.
    pub(super) fn for_batch(erased_responses: HashSet<KeySubject>) -> Self {
        Self { erased_responses, ..Self::default() }
    }

    /// Adds the effects of an attempt that held its lease. `sequence` is the last one of the
    /// delivery's stream.
    pub(super) fn add_attempt(
        &mut self,
        deliverer: &DelivererContext,
        finished: &'a FinishedAttempt,
        sequence: i64,
        lane: &mut LaneState,
    ) {
        let claimed = &finished.claimed;
        let is_erased = self.erased_responses.contains(&claimed.subject);
        let withdrawn = lane.withdrawn.or(is_erased.then_some(CancelCause::SourceErased));
        // A replayed delivery had ended before, so it cannot be cancelled.
        let withdrawn = withdrawn.filter(|_| claimed.replay_id.is_none());
        let answer = kept_answer(finished).filter(|_| !is_erased);
        let mut attempt = recorded_attempt(deliverer, finished, answer.as_deref());
        attempt.of = claimed.delivery_of().filter(|_| sequence == 0);
        let next_try_at = attempt.next_try_at.filter(|_| withdrawn.is_none());
        match next_try_at {
            Some(at) => {
                self.due_again.push((claimed.delivery_id, at.get(), sequence + 1));
                let due = self.due.entry(claimed.lane_id).or_insert(at.get());
                *due = at.get().min(*due);
            }
            // The answer asked for a retry and none follows: its row must still be deleted.
            None if row_is_kept(finished) => self.ended.push(claimed.delivery_id),
            // `rows::held` deleted its row.
            None => {}
        }
        let outcome = attempt.outcome;
        self.tally.note_attempt(finished, outcome);
        if let Some(replay_id) = claimed.replay_id {
            self.replayed.push((replay_id, claimed.delivery_id, outcome.name()));
        }
        self.add_event(finished, sequence + 1, after_attempt(attempt, withdrawn), answer);
        self.count_or_reset_gone(finished, outcome, lane);
    }

    pub(super) fn add_event(
        &mut self,
        finished: &'a FinishedAttempt,
        sequence: i64,
        event: DeliveryEvent,
        answer: Option<String>,
    ) {
        let claimed = &finished.claimed;
        if let (Some(text), Some(key)) = (answer, &claimed.key) {
            let number = i32::try_from(claimed.number).unwrap_or(i32::MAX);
            self.answers.push(ReceiverAnswer {
                delivery_id: claimed.delivery_id,
                number,
                subject: claimed.subject,
                key,
                text,
            });
        }
        self.events.push(NewEvent {
            aggregate_id: claimed.delivery_id.to_string(),
            sequence,
            event: event.into(),
            context: event_context(finished),
        });
    }

    /// Counts 410s. The second delivery that ends with 410 since the last success removes the
    /// subscription. Other failures, late 410s and 410s of replays do not count (contract, section
    /// Retries; ruling 26, 410).
    pub(super) fn count_or_reset_gone(
        &mut self,
        finished: &FinishedAttempt,
        outcome: Outcome,
        lane: &mut LaneState,
    ) {
        let FinishedAttempt { claimed, finished_at, .. } = finished;
        let of = SubscriptionOf::new(finished);
        match (outcome, finished.exchange.answer.status()) {
            (Outcome::Delivered, _) => {
                let success = SubscriptionCommand::RecordAnswered {
                    delivery_id: claimed.delivery_id,
                    finished_at: *finished_at,
                };
                self.apply_command(&of, &success, lane);
            }
            (Outcome::Failed, Some(GONE_STATUS)) if claimed.replay_id.is_none() => {
                self.count_beside(&of, Some(*finished_at), lane);
                let gone = SubscriptionCommand::RecordGone(GoneAnswer {
                    delivery_id: claimed.delivery_id,
                    status: GONE_STATUS,
                    finished_at: *finished_at,
                });
                self.apply_command(&of, &gone, lane);
                // An answer that is recorded late may come before 410s that are known.
                let last = lane.subscription.as_ref().and_then(|one| one.gone_answers().last());
                self.count_beside(&of, last.map(|gone| gone.finished_at), lane);
                self.remove_if_gone(&of, lane);
            }
            (Outcome::Failed | Outcome::Retry | Outcome::Interrupted, _) => {}
        }
    }

    /// Counts the successes that other transactions recorded and that ended by this time.
    pub(super) fn count_beside(
        &mut self,
        of: &SubscriptionOf,
        until: Option<Timestamp>,
        lane: &mut LaneState,
    ) {
        for RecordedSuccess { delivery_id, finished_at } in lane.beside.take_until(until) {
            let success = SubscriptionCommand::RecordAnswered { delivery_id, finished_at };
            self.apply_command(of, &success, lane);
        }
    }

    /// Removes the subscription if two 410s in a row are certain.
    pub(super) fn remove_if_gone(&mut self, of: &SubscriptionOf, lane: &mut LaneState) {
        let open_since = lane.beside.open_since;
        self.apply_command(of, &SubscriptionCommand::JudgeGone { open_since }, lane);
    }

    fn apply_command(
        &mut self,
        SubscriptionOf { lane_id, context }: &SubscriptionOf,
        command: &SubscriptionCommand,
        lane: &mut LaneState,
    ) {
        let Some(subscription) = &mut lane.subscription else {
            return;
        };
        for event in subscription.decide(command).unwrap_or_default() {
            lane.subscription_sequence += 1;
            if let SubscriptionEvent::SubscriptionRemoved { reason, .. } = &event {
                lane.withdrawn = Some((*reason).into());
            }
            cqrs_es::Aggregate::apply(subscription, event.clone());
            self.events.push(NewEvent {
                aggregate_id: lane_id.to_string(),
                sequence: lane.subscription_sequence,
                event: event.into(),
                context: EventContext { actor: Actor::Receiver(*lane_id), ..context.clone() },
            });
        }
        if lane.withdrawn.is_some() {
            lane.subscription = None;
        }
    }

    /// The events and the joined writes of successes. They have no other effects.
    pub(super) fn into_events_and_writes(
        self,
        deliverer: &DelivererContext,
    ) -> Result<(Vec<NewEvent>, JoinedWrites), DeliveryError> {
        let mut writes = JoinedWrites::default();
        let now = deliverer.clock.now().get();
        answers::write(&mut writes, &self.answers, now, &*deliverer.entropy)?;
        Ok((self.events, writes))
    }

    pub(super) async fn write_all(
        self,
        deliverer: &DelivererContext,
        appending: &mut AppendTransaction<'_>,
    ) -> Result<(), DeliveryError> {
        let now = deliverer.clock.now().get();
        rows::write_due_again(appending.writes(), &self.due_again);
        answers::write(appending.writes(), &self.answers, now, &*deliverer.entropy)?;
        appending.append(self.events).await?;
        let connection = appending.connection();
        drop_rows(connection, &self.ended).await?;
        rows::move_streams(connection, &self.noted).await?;
        replays::write_outcomes(connection, &self.replayed).await?;
        lanes::due_by(connection, &self.due, now).await?;
        if !self.due.is_empty() {
            appending.deliveries_wait();
        }
        Ok(())
    }
}

/// The erased responses of the batch whose erasure matters. It does not matter for a delivered
/// attempt with an empty answer, because nothing is kept of it.
pub(super) async fn erasures_that_matter(
    connection: &mut PgConnection,
    batch: &[&FinishedAttempt],
) -> Result<HashSet<KeySubject>, sqlx::Error> {
    let matters = |one: &&&FinishedAttempt| {
        let OutgoingExchange { answer, snippet, .. } = &one.exchange;
        answer.verdict() != AnswerVerdict::Delivered || !snippet.is_empty()
    };
    let subjects = batch.iter().filter(matters).map(|one| one.claimed.subject);
    withdraw::erased_of(connection, subjects).await
}
