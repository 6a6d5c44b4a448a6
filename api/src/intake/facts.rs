//! Facts of a batch. A fact becomes an occurrence if its response is known. Otherwise the fact
//! waits.

use std::collections::HashSet;

use domain::activity::{Activity, Fact, OccurrenceEvent};
use domain::event::EventContext;
use domain::subscription::{FirmPlan, Trigger};
use eventstore::NewEvent;
use projector::subjects::{SubjectId, WaitingFact};
use uuid::Uuid;
use vault::IdentityKey;

use super::calls::IntakeBatch;
use super::cloudevents::CloudEvent;
use super::known::KnownState;

/// The fact that an activity is for a firm with this plan, if it is one.
pub(super) fn fact_of(event: &CloudEvent, identity: &IdentityKey, plan: FirmPlan) -> Option<Fact> {
    let person_id = match &event.activity {
        Activity::LeadScored(lead) => identity.person_named(event.firm_id, &lead.person),
        _ => Uuid::nil(),
    };
    Fact::from_activity(&event.activity, event.time, plan, person_id)
}

/// Facts of a batch, in order. Each fact is there once, with the place of its activity.
#[derive(Debug, Default, PartialEq)]
pub(super) struct BatchFacts {
    reported: Vec<(WaitingFact, usize)>,
    /// Occurrence and subject of each fact.
    known: HashSet<(Uuid, Uuid)>,
}

/// Outcome for the facts of a batch.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PlacedFacts {
    /// Occurrences to append.
    pub(super) events: Vec<NewEvent>,
    /// Places of the batch's facts that became occurrences, each with its event if the batch
    /// appends the event. A fact that waited may already append it.
    reported: Vec<(usize, Option<Uuid>)>,
    /// Facts that must wait.
    pub(super) waiting: Vec<WaitingFact>,
    /// Places of the waiting facts.
    waiting_from: Vec<usize>,
}

impl BatchFacts {
    /// Takes a fact in, and returns whether it is new in this batch.
    pub(super) fn add_fact(&mut self, firm_id: Uuid, fact: Fact, place: usize) -> bool {
        let occurrence_id = fact.occurrence_id(firm_id);
        let news = self.known.insert((occurrence_id, fact.subject_id));
        if news {
            self.reported.push((WaitingFact { firm_id, occurrence_id, fact }, place));
        }
        news
    }

    /// Makes occurrences of the facts that waited until now, then of this batch's facts.
    pub(super) fn into_occurrences(
        self,
        known: &KnownState,
        waited: &[(SubjectId, Fact)],
        batch: &IntakeBatch,
    ) -> PlacedFacts {
        let mut placed = PlacedFacts::default();
        let mut appended = HashSet::new();
        // Facts that waited for a part of an erased response are dropped.
        for (response, fact) in waited.iter().filter(|(response, _)| !known.is_erased(*response)) {
            let context = batch.context_of(known.released_by(*response, fact));
            if let Some(event) = fact_event(known, *response, fact, context)
                && appended.insert(event.id())
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
            let Some(event) = fact_event(known, subject, &waiting.fact, context) else {
                placed.waiting.push(waiting);
                placed.waiting_from.push(place);
                continue;
            };
            let news = appended.insert(event.id());
            if decides_news(&waiting.fact) {
                placed.reported.push((place, news.then(|| event.id())));
            }
            placed.events.extend(news.then_some(event));
        }
        placed
    }
}

impl PlacedFacts {
    /// Places of the batch's facts that were recorded or waiting before.
    pub(super) fn duplicate_places(
        &self,
        recorded: &HashSet<Uuid>,
        now_waiting: &HashSet<(Uuid, Uuid)>,
    ) -> Vec<usize> {
        let is_news = |event: &Uuid| recorded.contains(event);
        let placed = self.reported.iter().filter(|(_, event)| !event.as_ref().is_some_and(is_news));
        let waited = self.waiting.iter().zip(&self.waiting_from).filter(|(waiting, _)| {
            let fact = (waiting.occurrence_id, waiting.fact.subject_id);
            decides_news(&waiting.fact) && !now_waiting.contains(&fact)
        });
        placed.map(|(place, _)| *place).chain(waited.map(|(_, place)| *place)).collect()
    }
}

/// Whether the fact decides that its activity is news. For a booking the vault decides by the
/// booking's own id: a second booking of a response is news, and no occurrence.
fn decides_news(fact: &Fact) -> bool {
    fact.trigger != Trigger::BookingMade
}

fn fact_event(
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
