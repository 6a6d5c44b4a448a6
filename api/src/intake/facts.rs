//! Facts of a batch. A fact becomes an occurrence if its response is known; otherwise the fact
//! waits.

use std::collections::HashSet;

use domain::activity::Activity;
use domain::context::EventContext;
use domain::fact::Fact;
use domain::occurrence::OccurrenceEvent;
use domain::trigger::{FirmPlan, Trigger};
use eventstore::NewEvent;
use projector::subjects::{SubjectId, WaitingFact};
use uuid::Uuid;
use vault::IdentityKey;

use super::calls::IntakeBatch;
use super::cloudevents::CloudEvent;
use super::known::KnownState;

/// The fact that an event reports to a firm with this plan, if the event reports a fact.
pub(super) fn fact_of(event: &CloudEvent, identity: &IdentityKey, plan: FirmPlan) -> Option<Fact> {
    let person_id = match &event.activity {
        Activity::LeadScored(lead) => identity.person_named(event.firm_id, &lead.person),
        _ => Uuid::nil(),
    };
    Fact::of(&event.activity, event.time, plan, person_id)
}

/// Facts that a batch reports, in order. Each fact is there once, with the place of its report.
#[derive(Debug, Default, PartialEq)]
pub(super) struct BatchFacts {
    reported: Vec<(WaitingFact, usize)>,
    /// Facts by occurrence and subject.
    known: HashSet<(Uuid, Uuid)>,
}

/// Outcome for the facts of a batch.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PlacedFacts {
    /// Occurrences to append.
    pub(super) events: Vec<NewEvent>,
    /// Places of the batch's placed facts, if the fact makes its report news. A fact that waited
    /// before has no event here.
    reported: Vec<(usize, Option<Uuid>)>,
    /// Facts that must wait.
    pub(super) waiting: Vec<WaitingFact>,
    /// Places of the waiting facts.
    waiting_from: Vec<usize>,
}

impl BatchFacts {
    /// Takes a fact in, and answers whether the batch reports the fact for the first time.
    pub(super) fn take(&mut self, firm_id: Uuid, fact: Fact, place: usize) -> bool {
        let occurrence_id = fact.occurrence_id(firm_id);
        let news = self.known.insert((occurrence_id, fact.subject_id));
        if news {
            self.reported.push((WaitingFact { firm_id, occurrence_id, fact }, place));
        }
        news
    }

    /// Places the facts that waited until now, then the facts of this batch.
    pub(super) fn into_occurrences(
        self,
        known: &KnownState,
        waited: &[(SubjectId, Fact)],
        batch: &IntakeBatch,
    ) -> PlacedFacts {
        let mut placed = PlacedFacts::default();
        let mut once = HashSet::new();
        // Facts that waited for a part of an erased response are dropped.
        for (response, fact) in waited.iter().filter(|(response, _)| !known.is_erased(*response)) {
            let context = batch.context_of(known.told_by(*response, fact));
            if let Some(event) = event(known, *response, fact, context)
                && once.insert(event.id())
            {
                placed.events.push(event);
            }
        }
        for (waiting, place) in self.reported {
            let subject = (waiting.firm_id, waiting.fact.subject_id);
            if known.is_erased(subject) {
                continue;
            }
            let context = batch.context_of(place);
            let Some(event) = event(known, subject, &waiting.fact, context) else {
                placed.waiting.push(waiting);
                placed.waiting_from.push(place);
                continue;
            };
            let news = once.insert(event.id());
            if is_told_by(&waiting.fact) {
                placed.reported.push((place, news.then(|| event.id())));
            }
            placed.events.extend(news.then_some(event));
        }
        placed
    }
}

impl PlacedFacts {
    /// Places of the batch's facts that were recorded or waiting before.
    pub(super) fn duplicates(
        &self,
        recorded: &HashSet<Uuid>,
        now_waiting: &HashSet<(Uuid, Uuid)>,
    ) -> Vec<usize> {
        let is_news = |event: &Uuid| recorded.contains(event);
        let placed = self.reported.iter().filter(|(_, event)| !event.as_ref().is_some_and(is_news));
        let waited = self.waiting.iter().zip(&self.waiting_from).filter(|(waiting, _)| {
            let fact = (waiting.occurrence_id, waiting.fact.subject_id);
            is_told_by(&waiting.fact) && !now_waiting.contains(&fact)
        });
        placed.map(|(place, _)| *place).chain(waited.map(|(_, place)| *place)).collect()
    }
}

/// Whether the fact decides that its report is news. For a booked call the vault decides by the
/// call's own id. A call is news even if it is not the first of its response.
fn is_told_by(fact: &Fact) -> bool {
    fact.trigger != Trigger::BookingMade
}

fn event(
    known: &KnownState,
    subject: SubjectId,
    fact: &Fact,
    context: &EventContext,
) -> Option<NewEvent> {
    let response = known.response_of(subject)?;
    let firm_id = response.firm_id;
    let happening = fact.happening(response.form_id?, response.subject_id);
    Some(NewEvent {
        aggregate_id: fact.occurrence_id(firm_id).to_string(),
        sequence: 1,
        event: OccurrenceEvent::OccurrenceRecorded(happening).into(),
        context: EventContext { firm_id, ..context.clone() },
    })
}
