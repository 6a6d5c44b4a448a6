//! Explains why a subscription ended. The answer comes from the log itself, so it waits for no read
//! model. It also carries the subscription's entries of the audit log, which can be proved.
//! [`of_key`] and [`of_delivery`] explain keys and deliveries.

mod deliveries;
mod keys;

use auditor::lines;
use domain::delivery::{Attempt, DeliveryEvent};
use domain::event::Event;
use domain::subscription::{GoneAnswer, RemovalReason, SubscriptionEvent, shown_target};
use domain::values::{AsOf, Timestamp};
use eventstore::{RecordedEvent, StreamName, load_many};
use projector::{audit, deliveries as rows};
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

pub use self::deliveries::{DeliveryHistory, of_delivery};
pub use self::keys::{KeyHistory, of_key};
use super::as_of::unread_error;
use super::causes::{self, CancelledCount, CauseStep};
use crate::error::Error;
use crate::service::Service;

/// A subscription's life and end.
#[derive(Debug, Serialize)]
pub struct HookHistory {
    id: Uuid,
    /// The firm. A reader of the history knows it already.
    #[serde(skip)]
    pub firm_id: Uuid,
    key_id: Option<Uuid>,
    /// The key's label and first characters.
    key: Option<HookKey>,
    trigger: Option<&'static str>,
    target: Option<String>,
    form_id: Option<Uuid>,
    /// `live`, `warned` (the next 410 removes it) or `removed`.
    state: &'static str,
    created_at: Option<Timestamp>,
    removal: Option<HookRemoval>,
    /// The events that led here, oldest first.
    steps: Vec<CauseStep>,
    /// Entries of the audit log about the subscription, oldest first.
    entries: Vec<Value>,
}

/// The key that made a subscription.
#[derive(Debug, Serialize)]
struct HookKey {
    name: String,
    prefix: String,
    member_id: Uuid,
}

/// The end of a subscription.
#[derive(Debug, Serialize)]
struct HookRemoval {
    at: Timestamp,
    reason: RemovalReason,
    actor: String,
    /// The event that caused the removal: the key's revocation or the firm's closing.
    caused_by: Option<Uuid>,
    /// Position of the removal in the log.
    position: i64,
    /// Deliveries that decided the removal; only for `target_gone`.
    deciding: Vec<DecidingDelivery>,
    /// Number of deliveries that arrived between the deciding ones. It is always zero. Absent if
    /// some may have left.
    delivered_between: Option<i64>,
    /// Number of deliveries cancelled so far. Absent if the history is asked for as of an earlier
    /// time.
    cancelled: Option<i64>,
    /// Deliveries before this time have left, and the subscription is older. They are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_before: Option<Timestamp>,
    /// Number of deliveries cancelled so far, by cause.
    cancelled_by_cause: Vec<CancelledCount>,
}

/// A delivery that ended with 410.
#[derive(Debug, Serialize)]
struct DecidingDelivery {
    delivery_id: Uuid,
    status: u16,
    finished_at: Timestamp,
    attempts: Vec<DecidingAttempt>,
}

#[derive(Debug, Serialize)]
struct DecidingAttempt {
    number: u32,
    started_at: Timestamp,
    finished_at: Timestamp,
    outcome: &'static str,
    status: Option<u16>,
    error: Option<String>,
    answer_sha256: Option<String>,
}

/// The history of any subscription, removed or not, as it is or as it was.
///
/// # Errors
/// `not_found`.
pub async fn of_hook(
    service: &Service,
    hook_id: Uuid,
    as_of: Option<AsOf>,
) -> Result<HookHistory, Error> {
    let had = |position, at: Timestamp| as_of.is_none_or(|as_of| as_of.includes(position, at));
    let mut life = read_streams(service, &[("Subscription", hook_id)]).await?;
    let later = |event: &RecordedEvent| !had(event.position, event.context.recorded_at);
    life.truncate(life.iter().position(later).unwrap_or(life.len()));
    let first = life.first().ok_or(Error::NotFound)?;
    let mut entries = audit::of_subject(service.store.pool(), hook_id).await?;
    entries.retain(|entry| had(entry.position, entry.at.into()));
    let mut history = HookHistory {
        id: hook_id,
        firm_id: first.context.firm_id,
        key_id: None,
        key: None,
        trigger: None,
        target: None,
        form_id: None,
        state: "live",
        created_at: None,
        removal: None,
        steps: Vec::new(),
        entries: entries.iter().map(lines::entry_json).collect(),
    };
    for recorded in &life {
        history.apply_event(recorded);
    }
    if let Some(removed) = life.iter().find_map(RecordedRemoval::new) {
        let mut end = describe_end(service, hook_id, removed).await?;
        end.archived_before = end.archived_before.filter(|time| history.created_at < Some(*time));
        if as_of.is_some() {
            (end.cancelled, end.cancelled_by_cause) = (None, Vec::new());
        }
        history.removal = Some(end);
    }
    let mut connection = service.store.pool().acquire().await?;
    history.key = find_key(&mut connection, history.key_id).await?;
    let chain = causes::of_hook(&mut connection, hook_id, as_of.unwrap_or(AsOf::NOW)).await?;
    drop(connection);
    history.steps = chain.tell_steps(service).await?;
    Ok(history)
}

async fn find_key(
    connection: &mut PgConnection,
    key_id: Option<Uuid>,
) -> Result<Option<HookKey>, Error> {
    let found = projector::keys::named(connection, key_id.as_slice()).await?.pop();
    Ok(found.map(|key| HookKey { name: key.name, prefix: key.prefix, member_id: key.member_id }))
}

fn by_cause(counts: Vec<(String, i64)>) -> Vec<CancelledCount> {
    let mut sum = Vec::new();
    add_counts(&mut sum, counts);
    sum
}

/// Adds counts by cause to a sum.
fn add_counts(sum: &mut Vec<CancelledCount>, counts: Vec<(String, i64)>) {
    for (cause, deliveries) in counts {
        match sum.iter_mut().find(|known| known.cause == cause) {
            Some(known) => known.deliveries += deliveries,
            None => sum.push(CancelledCount { cause, deliveries }),
        }
    }
}

impl HookHistory {
    /// Shows this text as the target.
    pub fn show_target(&mut self, shown: String) {
        self.target = Some(shown);
    }

    fn apply_event(&mut self, recorded: &RecordedEvent) {
        let Event::Subscription(event) = &recorded.event else {
            return;
        };
        match event {
            SubscriptionEvent::SubscriptionCreated {
                key_id, trigger, target_url, form_id, ..
            } => {
                self.key_id = Some(*key_id);
                self.trigger = Some(trigger.key());
                self.target = Some(shown_target(target_url));
                self.form_id = *form_id;
                self.created_at = Some(recorded.context.recorded_at);
            }
            SubscriptionEvent::TargetGone(_) => self.state = "warned",
            SubscriptionEvent::TargetAnswered { .. } => self.state = "live",
            SubscriptionEvent::SubscriptionRemoved { .. } => self.state = "removed",
        }
    }
}

/// The event of a removal, read apart.
struct RecordedRemoval<'a> {
    recorded: &'a RecordedEvent,
    reason: RemovalReason,
    evidence: &'a [GoneAnswer],
}

impl<'a> RecordedRemoval<'a> {
    fn new(recorded: &'a RecordedEvent) -> Option<Self> {
        match &recorded.event {
            Event::Subscription(SubscriptionEvent::SubscriptionRemoved { reason, evidence }) => {
                Some(Self { recorded, reason: *reason, evidence })
            }
            _ => None,
        }
    }
}

async fn describe_end(
    service: &Service,
    hook_id: Uuid,
    RecordedRemoval { recorded: removed, reason, evidence }: RecordedRemoval<'_>,
) -> Result<HookRemoval, Error> {
    let pool = service.store.pool();
    let border = rows::history_border(pool).await?;
    let between = match evidence {
        [first, .., last] => {
            let after = first.finished_at.get();
            let through = last.finished_at.get();
            let misses_some = border.is_some_and(|border| border.bounds_attempts(Some(after)));
            let count = rows::count_delivered(pool, hook_id, after, through).await?;
            Some(count).filter(|_| !misses_some)
        }
        [] | [_] => None,
    };
    let cancelled = rows::count_cancelled(pool, hook_id).await?;
    Ok(HookRemoval {
        at: removed.context.recorded_at,
        reason,
        actor: removed.context.actor.to_string(),
        caused_by: removed.context.causation_id,
        position: removed.position,
        deciding: deciding_deliveries(service, evidence).await?,
        delivered_between: between,
        cancelled: Some(cancelled.iter().map(|(_, count)| count).sum()),
        cancelled_by_cause: by_cause(cancelled),
        archived_before: border.map(|border| border.kept_since.into()),
    })
}

async fn deciding_deliveries(
    service: &Service,
    evidence: &[GoneAnswer],
) -> Result<Vec<DecidingDelivery>, Error> {
    let names: Vec<_> = evidence.iter().map(|gone| ("Delivery", gone.delivery_id)).collect();
    let events = read_streams(service, &names).await?;
    let of = |gone: &GoneAnswer| DecidingDelivery {
        delivery_id: gone.delivery_id,
        status: gone.status,
        finished_at: gone.finished_at,
        attempts: events
            .iter()
            .filter_map(|event| deciding_attempt(event, gone.delivery_id))
            .collect(),
    };
    Ok(evidence.iter().map(of).collect())
}

fn deciding_attempt(recorded: &RecordedEvent, delivery_id: Uuid) -> Option<DecidingAttempt> {
    let Event::Delivery(DeliveryEvent::DeliveryAttempted(attempt)) = &recorded.event else {
        return None;
    };
    (recorded.aggregate_id == delivery_id.to_string()).then(|| attempt.into())
}

impl From<&Attempt> for DecidingAttempt {
    fn from(attempt: &Attempt) -> Self {
        Self {
            number: attempt.number,
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            outcome: attempt.outcome.name(),
            status: attempt.status,
            error: attempt.error.clone(),
            answer_sha256: attempt.answer_sha256.clone(),
        }
    }
}

/// All events of the named streams.
async fn read_streams(
    service: &Service,
    names: &[(&'static str, Uuid)],
) -> Result<Vec<RecordedEvent>, Error> {
    let name = |(aggregate_type, id): &(&'static str, Uuid)| StreamName {
        aggregate_type,
        aggregate_id: id.to_string(),
    };
    let streams: Vec<StreamName> = names.iter().map(name).collect();
    let mut connection = service.store.pool().acquire().await?;
    let events = load_many(&mut connection, &service.store.upcasters(), &streams).await;
    events.map_err(unread_error)
}
