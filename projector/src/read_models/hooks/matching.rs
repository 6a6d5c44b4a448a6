//! The match finds the subscriptions that get an occurrence (contract, section Events).
//!
//! The match runs in the transaction that records the occurrence. The snapshot of its one statement
//! decides (ruling 30a, the list). The occurrence's event lists the result, with the
//! position of the last change that the match saw.
//!
//! The match takes no lock. A removal that commits between the match and the occurrence closes the
//! lane, and the cancel worker then cancels the deliveries queued there.

use std::collections::{BTreeMap, BTreeSet};

use domain::activity::{Happening, OccurrenceEvent};
use domain::event::Event;
use domain::subscription::{SubscriptionEvent, Trigger};
use eventstore::NewEvent;
use sqlx::PgConnection;
use uuid::Uuid;

/// The key of a match: the firm, the trigger and the form.
type MatchSubject = (Uuid, Trigger, Uuid);

/// The result of a match: the live subscriptions, in the order of their ids, and the position of
/// the last change to the firm's subscriptions.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct MatchedHooks {
    hooks: Vec<Uuid>,
    seen: i64,
}

/// Fills in the lists of all occurrences among these events. An earlier event of the append that
/// removes a subscription takes it off the later lists.
pub(super) async fn list_subscriptions(
    connection: &mut PgConnection,
    events: &mut [NewEvent],
) -> Result<(), sqlx::Error> {
    let subjects: BTreeSet<MatchSubject> = events.iter().filter_map(match_subject).collect();
    if subjects.is_empty() {
        return Ok(());
    }
    let found = find_hooks(connection, subjects.into_iter().collect()).await?;
    fill_in(events, &found);
    Ok(())
}

fn match_subject(event: &NewEvent) -> Option<MatchSubject> {
    let happening = event.event.happening()?;
    Some((event.context.firm_id, happening.trigger, happening.form_id))
}

fn fill_in(events: &mut [NewEvent], found: &BTreeMap<MatchSubject, MatchedHooks>) {
    let mut removed = BTreeSet::new();
    for event in events {
        let subject = match_subject(event);
        match &mut event.event {
            Event::Subscription(SubscriptionEvent::SubscriptionRemoved { .. }) => {
                removed.extend(event.aggregate_id.parse::<Uuid>());
            }
            Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(happening)) => {
                let found = subject.and_then(|subject| found.get(&subject));
                let MatchedHooks { hooks, seen } = found.cloned().unwrap_or_default();
                *happening = Happening { hooks, seen, ..happening.clone() };
                let silent = happening.silent;
                happening.hooks.retain(|hook_id| !silent && !removed.contains(hook_id));
            }
            _ => {}
        }
    }
}

/// Finds the live subscriptions of the firm and trigger, for all forms or for this form.
async fn find_hooks(
    connection: &mut PgConnection,
    subjects: Vec<MatchSubject>,
) -> Result<BTreeMap<MatchSubject, MatchedHooks>, sqlx::Error> {
    let rows: Vec<(i64, Vec<Uuid>)> = sqlx::query_as(
        "select coalesce((select changed_position from quotas q
                           where q.firm_id = s.firm_id and q.kind = 'hooks'
                             and q.period = '-infinity'), 0),
                array(select hook_id from hooks h
                       where h.firm_id = s.firm_id and h.trigger = s.trigger
                         and h.removed_at is null
                         and (h.form_id is null or h.form_id = s.form_id)
                       order by hook_id)
           from unnest($1::uuid[], $2::text[], $3::uuid[]) with ordinality
                as s(firm_id, trigger, form_id, place)
          order by s.place",
    )
    .bind(subjects.iter().map(|(firm_id, ..)| *firm_id).collect::<Vec<_>>())
    .bind(subjects.iter().map(|(_, trigger, _)| trigger.key()).collect::<Vec<_>>())
    .bind(subjects.iter().map(|(.., form_id)| *form_id).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    let found = rows.into_iter().map(|(seen, hooks)| MatchedHooks { hooks, seen });
    Ok(subjects.into_iter().zip(found).collect())
}

#[cfg(test)]
mod tests {
    use domain::event::{Actor, EventContext};
    use domain::subscription::RemovalReason;

    use super::*;

    const FIRM: Uuid = Uuid::from_u128(1);
    const FORM: Uuid = Uuid::from_u128(2);

    fn event(id: u128, event: impl Into<Event>) -> NewEvent {
        let context = EventContext {
            firm_id: FIRM,
            recorded_at: "2026-11-01T00:00:00.000Z".parse().unwrap(),
            actor: Actor::System,
            correlation_id: FIRM,
            causation_id: None,
            traceparent: None,
            terminal: None,
        };
        let aggregate_id = Uuid::from_u128(id).to_string();
        NewEvent { aggregate_id, sequence: 1, event: event.into(), context }
    }

    fn occurrence(silent: bool) -> NewEvent {
        let happening = Happening {
            booking_id: None,
            form_id: FORM,
            happened_at: "2026-11-01T00:00:00.000Z".parse().unwrap(),
            hooks: Vec::new(),
            report_id: None,
            response_id: FORM,
            seen: 0,
            silent,
            trigger: Trigger::FormSubmitted,
        };
        event(9, OccurrenceEvent::OccurrenceRecorded(happening))
    }

    fn removal(hook: u128) -> NewEvent {
        let (reason, evidence) = (RemovalReason::FirmClosed, Vec::new());
        event(hook, SubscriptionEvent::SubscriptionRemoved { reason, evidence })
    }

    fn lists(events: &[NewEvent]) -> Vec<(usize, i64)> {
        let list = |new: &NewEvent| match &new.event {
            Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(of)) => {
                Some((of.hooks.len(), of.seen))
            }
            _ => None,
        };
        events.iter().filter_map(list).collect()
    }

    /// The removal is in the batch of the occurrences.
    #[test]
    fn a_removed_subscription_leaves_later_lists() {
        let found = MatchedHooks { hooks: [3, 4].map(Uuid::from_u128).to_vec(), seen: 7 };
        let found = BTreeMap::from([((FIRM, Trigger::FormSubmitted, FORM), found)]);
        let mut events = vec![occurrence(false), removal(3), occurrence(false), occurrence(true)];
        fill_in(&mut events, &found);
        assert_eq!(lists(&events), [(2, 7), (1, 7), (0, 7)]);
        fill_in(&mut events, &BTreeMap::new());
        assert_eq!(lists(&events), [(0, 0); 3]);
    }
}
