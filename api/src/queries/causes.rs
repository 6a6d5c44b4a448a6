//! Chains of causes, from the log: how a subscription, a key or a delivery came to its state. Each
//! step is one event, told as a sentence with the names that people gave.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::TimeDelta;
use domain::activity::{occurrence_id, response_stream};
use domain::delivery::{CancelCause, DeliveryEvent};
use domain::event::{Actor, Event, EventWords, KeyName, NameBook};
use domain::firm::{FirmEvent, SuspensionChange};
use domain::subscription::{SubscriptionEvent, Trigger};
use domain::values::{AsOf, Timestamp};
use eventstore::{RecordedEvent, StreamName, Upcasters, load_many, related};
use projector::{audit, keys, sign_ins, tokens};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::as_of::unread_error;
use crate::error::Error;
use crate::service::Service;

/// One step of an explanation: an event of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CauseStep {
    /// The event.
    pub event_id: Uuid,
    /// Its position in the log.
    pub position: i64,
    /// The time at which it was recorded.
    pub at: Timestamp,
    /// The time that the product reported for it, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported_for: Option<Timestamp>,
    /// The sequence of its entry in the audit log. Absent outside of explanations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_entry: Option<i64>,
    /// Its name.
    pub event: &'static str,
    /// The kind of its stream.
    pub kind: &'static str,
    /// The id of its stream.
    pub id: String,
    /// The actor, in the notation of the log.
    pub actor: String,
    /// The actor, with the name that people gave.
    pub by: String,
    /// The event that caused this one, if any.
    pub caused_by: Option<Uuid>,
    /// The event in words.
    pub sentence: String,
}

/// Number of cancelled deliveries of one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CancelledCount {
    /// The cause.
    pub cause: String,
    /// The number.
    pub deliveries: i64,
}

/// Events that explain something, each once, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct Chain(BTreeMap<i64, RecordedEvent>);

impl Chain {
    pub(super) fn add_events(&mut self, events: impl IntoIterator<Item = RecordedEvent>) {
        self.0.extend(events.into_iter().map(|event| (event.position, event)));
    }

    /// The events, in the order of the log.
    pub(super) fn events(&self) -> impl Iterator<Item = &RecordedEvent> {
        self.0.values()
    }

    /// The events as steps, each with its entry of the audit log.
    pub(super) async fn tell_steps(&self, service: &Service) -> Result<Vec<CauseStep>, Error> {
        let names = find_names(service, self.0.values()).await?;
        let positions: Vec<i64> = self.0.keys().copied().collect();
        let entries = audit::sequences_at(service.store.pool(), &positions).await?;
        let step = |event| {
            let step = CauseStep::new(event, &names, service.words);
            CauseStep { audit_entry: entries.get(&step.position).copied(), ..step }
        };
        let mut steps: Vec<CauseStep> = self.0.values().map(step).collect();
        self.count_gone_answers(&mut steps, service.words);
        Ok(steps)
    }

    /// Tells of the second 410 in a row as such. One event alone does not know which it is.
    fn count_gone_answers(&self, steps: &mut [CauseStep], words: &dyn EventWords) {
        let mut gone: HashSet<&str> = HashSet::new();
        for (step, recorded) in steps.iter_mut().zip(self.0.values()) {
            let Event::Subscription(event) = &recorded.event else { continue };
            match event {
                SubscriptionEvent::TargetGone(answer) if !gone.insert(&recorded.aggregate_id) => {
                    step.sentence = words.second_gone(answer);
                }
                SubscriptionEvent::TargetAnswered { .. } => {
                    gone.remove(recorded.aggregate_id.as_str());
                }
                _ => {}
            }
        }
    }
}

impl CauseStep {
    /// The step of an event.
    pub(super) fn new(recorded: &RecordedEvent, names: &NameBook, words: &dyn EventWords) -> Self {
        let actor = recorded.context.actor;
        let at = recorded.context.recorded_at;
        let reported_for = reported_for(&recorded.event, at);
        let mut sentence = words.event_sentence(names, &recorded.aggregate_id, &recorded.event);
        if let Some(time) = reported_for {
            sentence.push_str(&format!(", reported for {time}"));
        }
        Self {
            event_id: recorded.id(),
            position: recorded.position,
            at,
            reported_for,
            audit_entry: None,
            event: recorded.event.event_type(),
            kind: recorded.event.aggregate_type(),
            id: recorded.aggregate_id.clone(),
            actor: actor.to_string(),
            by: words.actor_noun(names, actor),
            caused_by: recorded.context.causation_id,
            sentence,
        }
    }
}

/// Longest way of a report that is not told.
const REPORT_DELAY_MAX: TimeDelta = TimeDelta::minutes(1);

/// The time that the product reported for an event of a firm or member, if it is more than a minute
/// before or after the recording.
fn reported_for(event: &Event, recorded_at: Timestamp) -> Option<Timestamp> {
    let Event::Firm(event) = event else { return None };
    let time = match event {
        FirmEvent::FirmOpened { time, .. }
        | FirmEvent::FirmChanged { time, .. }
        | FirmEvent::FirmNoticesChanged { time, .. }
        | FirmEvent::FirmSuspended { time, .. }
        | FirmEvent::FirmResumed { time, .. }
        | FirmEvent::FirmClosed { time, .. }
        | FirmEvent::MemberJoined { time, .. }
        | FirmEvent::MemberRoleChanged { time, .. }
        | FirmEvent::MemberDisabled { time, .. }
        | FirmEvent::MemberEnabled { time, .. }
        | FirmEvent::MemberLeft { time, .. } => *time,
        FirmEvent::SecretRevealed {}
        | FirmEvent::SecretRotated { .. }
        | FirmEvent::FirmDataDropped {} => return None,
    };
    let apart = (recorded_at.get() - time.get()).abs();
    (apart > REPORT_DELAY_MAX).then_some(time)
}

/// The names of the keys, tokens and users in these events.
pub(super) async fn find_names<'a>(
    service: &Service,
    events: impl Iterator<Item = &'a RecordedEvent>,
) -> Result<NameBook, Error> {
    let events: Vec<&RecordedEvent> = events.collect();
    let key_ids: HashSet<Uuid> = events.iter().copied().flat_map(keys_in).collect();
    let key_ids: Vec<Uuid> = key_ids.into_iter().collect();
    let user_ids: HashSet<Uuid> = events.iter().copied().filter_map(user_in).collect();
    let user_ids: Vec<Uuid> = user_ids.into_iter().collect();
    let mut connection = service.store.pool().acquire().await?;
    let keys = keys::named(&mut connection, &key_ids).await?;
    let users = sign_ins::user_names(&mut connection, &user_ids).await.map_err(unread_error)?;
    drop(connection);
    let keys =
        keys.into_iter().map(|key| (key.key_id, KeyName { name: key.name, prefix: key.prefix }));
    let tokens = tokens::list(service.store.pool()).await?;
    let tokens: HashMap<Uuid, String> =
        tokens.into_iter().map(|token| (token.token_id, token.name)).collect();
    Ok(NameBook { keys: keys.collect(), tokens, users: users.into_iter().collect() })
}

/// The holder of a token or the user of the provider who acted, if one did.
const fn user_in(recorded: &RecordedEvent) -> Option<Uuid> {
    match recorded.context.actor {
        Actor::Operator(id) | Actor::Auditor(id) => Some(id),
        _ => None,
    }
}

/// The keys that the sentence of an event names.
fn keys_in(recorded: &RecordedEvent) -> impl Iterator<Item = Uuid> {
    let stream = match &recorded.event {
        Event::Key(_) => recorded.aggregate_id.parse().ok(),
        Event::Subscription(SubscriptionEvent::SubscriptionCreated { key_id, .. }) => Some(*key_id),
        _ => None,
    };
    let actor = match recorded.context.actor {
        Actor::Key(key_id) => Some(key_id),
        _ => None,
    };
    stream.into_iter().chain(actor)
}

/// All events of these streams.
pub(super) async fn read_streams(
    connection: &mut PgConnection,
    names: impl IntoIterator<Item = (&'static str, Uuid)>,
) -> Result<Vec<RecordedEvent>, Error> {
    let name = |(aggregate_type, id): (&'static str, Uuid)| StreamName {
        aggregate_type,
        aggregate_id: id.to_string(),
    };
    let names: Vec<StreamName> = names.into_iter().map(name).collect();
    load_many(connection, &Upcasters::current(), &names).await.map_err(unread_error)
}

/// The life of a subscription, and the events that led to its end: the attempts that were answered
/// 410, the revocation of its key, the member who left. Later events are left out.
pub(super) async fn of_hook(
    connection: &mut PgConnection,
    hook_id: Uuid,
    as_of: AsOf,
) -> Result<Chain, Error> {
    let mut chain = Chain::default();
    let mut life = read_streams(connection, [("Subscription", hook_id)]).await?;
    life.retain(|event| as_of.includes(event.position, event.context.recorded_at));
    for event in &life {
        add_causes(&mut chain, connection, event).await?;
    }
    chain.add_events(life);
    Ok(chain)
}

/// Adds the causes of an event. The evidence of a removal is a cause, too.
async fn add_causes(
    chain: &mut Chain,
    connection: &mut PgConnection,
    event: &RecordedEvent,
) -> Result<(), Error> {
    let Event::Subscription(SubscriptionEvent::SubscriptionRemoved { evidence, .. }) = &event.event
    else {
        return Ok(());
    };
    let deciding = evidence.iter().map(|gone| ("Delivery", gone.delivery_id));
    chain.add_events(read_streams(connection, deciding).await?);
    let upcasters = Upcasters::current();
    chain
        .add_events(related::causes_of(connection, &upcasters, event).await.map_err(unread_error)?);
    Ok(())
}

/// The life of a key, the events that led to its revocation, and the subscriptions that went with
/// it.
pub(super) async fn of_key(connection: &mut PgConnection, key_id: Uuid) -> Result<Chain, Error> {
    let mut chain = Chain::default();
    let upcasters = Upcasters::current();
    let life = read_streams(connection, [("Key", key_id)]).await?;
    for event in life.iter().skip(1) {
        chain.add_events(
            related::causes_of(connection, &upcasters, event).await.map_err(unread_error)?,
        );
        chain.add_events(
            related::effects_of(connection, &upcasters, event).await.map_err(unread_error)?,
        );
    }
    chain.add_events(life);
    Ok(chain)
}

/// A delivery in the terms of its chain.
pub(super) struct DeliveryFacts {
    pub(super) firm_id: Uuid,
    pub(super) delivery_id: Uuid,
    /// The occurrence, as the read model knows it.
    pub(super) occurrence_id: Option<Uuid>,
    pub(super) hook_id: Option<Uuid>,
    pub(super) response_id: Uuid,
    pub(super) cause: Option<CancelCause>,
}

/// The occurrence of a delivery, its stream, the replays that sent it, and the events that led to
/// its cancellation. Those of its events that have left come from the archive.
pub(super) async fn of_delivery(
    connection: &mut PgConnection,
    facts: &DeliveryFacts,
    archived: Vec<RecordedEvent>,
) -> Result<Chain, Error> {
    let mut chain = Chain::default();
    let mut life = archived;
    life.extend(read_streams(connection, [("Delivery", facts.delivery_id)]).await?);
    let mut begins: Vec<(&'static str, Uuid)> = life.iter().filter_map(named_occurrence).collect();
    begins.extend(life.iter().filter_map(named_replay));
    begins.extend(facts.occurrence_id.map(|id| ("Occurrence", id)));
    chain.add_events(first_events(read_streams(connection, begins).await?));
    chain.add_events(life);
    if let Some(cause) = facts.cause {
        add_cancellation(&mut chain, connection, facts, cause).await?;
    }
    Ok(chain)
}

/// The occurrence that an event of a delivery names.
fn named_occurrence(recorded: &RecordedEvent) -> Option<(&'static str, Uuid)> {
    let Event::Delivery(event) = &recorded.event else { return None };
    let of = match event {
        DeliveryEvent::DeliveryAttempted(attempt) => attempt.of,
        DeliveryEvent::DeliveryCancelled { of, .. } => *of,
        DeliveryEvent::DeliveryQueued(consignment) => Some(consignment.delivery_of()),
        DeliveryEvent::DeliveryReissued(reissued) => Some(reissued.consignment.delivery_of()),
        DeliveryEvent::StepQueued(_)
        | DeliveryEvent::StepRetried(_)
        | DeliveryEvent::DeliveryReplayed(_) => None,
    };
    of.map(|of| ("Occurrence", of.occurrence_id))
}

fn named_replay(recorded: &RecordedEvent) -> Option<(&'static str, Uuid)> {
    match &recorded.event {
        Event::Delivery(DeliveryEvent::DeliveryReplayed(of)) => Some(("Replay", of.replay_id)),
        _ => None,
    }
}

/// The event that began the suspension after these events of a firm.
fn begin_of_suspension<'a>(life: impl Iterator<Item = &'a RecordedEvent>) -> Option<RecordedEvent> {
    let change = life.fold(None, |known, recorded| match &recorded.event {
        Event::Firm(event) => SuspensionChange::after_event(known, event, recorded),
        _ => known,
    });
    change.and_then(SuspensionChange::suspended_at).cloned()
}

fn first_events(events: Vec<RecordedEvent>) -> impl Iterator<Item = RecordedEvent> {
    events.into_iter().filter(|event| event.sequence == 1)
}

async fn add_cancellation(
    chain: &mut Chain,
    connection: &mut PgConnection,
    facts: &DeliveryFacts,
    cause: CancelCause,
) -> Result<(), Error> {
    match cause {
        CancelCause::SubscriptionDeleted
        | CancelCause::KeyRevoked
        | CancelCause::TargetGone
        | CancelCause::FirmClosed => {
            if let Some(hook_id) = facts.hook_id {
                chain.0.extend(of_hook(connection, hook_id, AsOf::NOW).await?.0);
            } else {
                let firm = read_streams(connection, [("Firm", facts.firm_id)]).await?;
                chain.add_events(
                    firm.into_iter().filter(|event| event.event.event_type() == "FirmClosed"),
                );
            }
        }
        CancelCause::FirmSuspended => {
            let firm = read_streams(connection, [("Firm", facts.firm_id)]).await?;
            let before = chain.0.keys().next_back().copied().unwrap_or(i64::MAX);
            chain.add_events(begin_of_suspension(
                firm.iter().filter(|event| event.position < before),
            ));
        }
        CancelCause::SourceErased => {
            let stream = response_stream(facts.firm_id, facts.response_id);
            chain.add_events(read_streams(connection, [("Response", stream)]).await?);
        }
        CancelCause::FinishedLater => {
            let key = facts.response_id.to_string();
            let submitted = occurrence_id(facts.firm_id, Trigger::FormSubmitted, &key);
            chain.add_events(read_streams(connection, [("Occurrence", submitted)]).await?);
        }
    }
    Ok(())
}
