//! The match finds the subscriptions that get an occurrence (contract, section Events).
//!
//! The match runs in the transaction that records the occurrence. The snapshot of its one statement
//! decides (ruling 30a, the list). The occurrence's event lists the result, with the
//! position of the last change that the match saw.
//!
//! The match takes no lock. A removal that commits between the match and the occurrence closes the
//! lane, and the cancel worker then cancels the deliveries queued there.
//!
//! An append of submissions in one statement matches before ([`match_submissions`]). Its statement
//! has the condition that a match would still find the same ([`require_matches`]).

use std::collections::{BTreeMap, BTreeSet};

use domain::activity::{Happening, OccurrenceEvent};
use domain::event::Event;
use domain::subscription::{SubscriptionEvent, Trigger};
use eventstore::{JoinedWrites, NewEvent};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::subjects::SubjectId;

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

/// SQL expression: the position of the last change to the subscriptions of a table's firm.
macro_rules! changed_position {
    ($table:literal) => {
        concat!(
            "coalesce((select changed_position from quotas q where q.firm_id = ",
            $table,
            ".firm_id and q.kind = 'hooks' and q.period = '-infinity'), 0)"
        )
    };
}

/// Finds the live subscriptions of the firm and trigger, for all forms or for this form.
async fn find_hooks(
    connection: &mut PgConnection,
    subjects: Vec<MatchSubject>,
) -> Result<BTreeMap<MatchSubject, MatchedHooks>, sqlx::Error> {
    let rows: Vec<(i64, Vec<Uuid>)> = sqlx::query_as(concat!(
        "select ",
        changed_position!("s"),
        ",      array(select hook_id from hooks h
                       where h.firm_id = s.firm_id and h.trigger = s.trigger
                         and h.removed_at is null
                         and (h.form_id is null or h.form_id = s.form_id)
                       order by hook_id)
           from unnest($1::uuid[], $2::text[], $3::uuid[]) with ordinality
                as s(firm_id, trigger, form_id, place)
          order by s.place"
    ))
    .bind(subjects.iter().map(|(firm_id, ..)| *firm_id).collect::<Vec<_>>())
    .bind(subjects.iter().map(|(_, trigger, _)| trigger.key()).collect::<Vec<_>>())
    .bind(subjects.iter().map(|(.., form_id)| *form_id).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    let found = rows.into_iter().map(|(seen, hooks)| MatchedHooks { hooks, seen });
    Ok(subjects.into_iter().zip(found).collect())
}

/// A form of new submissions, with the subscriptions that get them.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct SubmissionMatch {
    /// The firm, whose data are not dropped.
    pub firm_id: Uuid,
    /// The form.
    pub form_id: Uuid,
    /// The title of the form.
    pub title: String,
    /// The URL of the form.
    pub url: String,
    /// The live subscriptions, in the order of their ids.
    hooks: Vec<Uuid>,
    /// The position of the last change to the firm's subscriptions.
    seen: i64,
}

/// Finds these forms and the subscriptions that get submissions of these responses. Leaves out
/// unknown forms, and firms whose data are dropped. Finds nothing if one of the responses is known.
pub async fn match_submissions(
    connection: &mut PgConnection,
    forms: &BTreeSet<(Uuid, Uuid)>,
    responses: impl Iterator<Item = SubjectId>,
) -> Result<Vec<SubmissionMatch>, sqlx::Error> {
    let (firm_ids, form_ids): (Vec<Uuid>, Vec<Uuid>) = forms.iter().copied().unzip();
    let (firms_of, response_ids): (Vec<Uuid>, Vec<Uuid>) = responses.unzip();
    sqlx::query_as(concat!(
        "select m.firm_id, m.form_id, m.title, m.url,
                array(select hook_id from hooks h
                       where h.firm_id = m.firm_id and h.trigger = $3 and h.removed_at is null
                         and (h.form_id is null or h.form_id = m.form_id)
                       order by hook_id) as hooks, ",
        changed_position!("m"),
        " as seen
           from forms m join firms f on f.firm_id = m.firm_id and f.dropped_at is null
          where (m.firm_id, m.form_id) in (select * from unnest($1::uuid[], $2::uuid[]))
            and not exists (select from subjects
                             where (firm_id, subject_id) in (
                                   select * from unnest($4::uuid[], $5::uuid[])))"
    ))
    .bind(firm_ids)
    .bind(form_ids)
    .bind(Trigger::FormSubmitted.key())
    .bind(firms_of)
    .bind(response_ids)
    .fetch_all(connection)
    .await
}

/// Fills in the lists of these submissions from a match.
pub fn list_matched(events: &mut [NewEvent], matched: &[SubmissionMatch]) {
    let found = matched.iter().map(|one| {
        let subject = (one.firm_id, Trigger::FormSubmitted, one.form_id);
        (subject, MatchedHooks { hooks: one.hooks.clone(), seen: one.seen })
    });
    fill_in(events, &found.collect());
}

/// Adds the condition that the forms are still the same, and the firms' subscriptions too.
pub fn require_matches(writes: &mut JoinedWrites, matched: &[SubmissionMatch]) {
    writes
        .require(concat!(
            "(select count(*)
                from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[])
                     as t(firm_id, form_id, title, url, seen)
                join forms m on m.firm_id = t.firm_id and m.form_id = t.form_id
                join firms f on f.firm_id = t.firm_id and f.dropped_at is null
               where m.title = t.title and m.url = t.url and ",
            changed_position!("t"),
            " = t.seen) = $6"
        ))
        .bind(matched.iter().map(|one| one.firm_id).collect::<Vec<_>>())
        .bind(matched.iter().map(|one| one.form_id).collect::<Vec<_>>())
        .bind(matched.iter().map(|one| one.title.clone()).collect::<Vec<_>>())
        .bind(matched.iter().map(|one| one.url.clone()).collect::<Vec<_>>())
        .bind(matched.iter().map(|one| one.seen).collect::<Vec<_>>())
        .bind(i64::try_from(matched.len()).unwrap_or(i64::MAX));
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
