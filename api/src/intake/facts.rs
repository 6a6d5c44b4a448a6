//! Facts of a batch: placed as occurrences where their response is known, waiting where it is not.

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

/// The fact that an event reports, if it reports one, to a firm with this plan.
pub(super) fn fact_of(event: &CloudEvent, identity: &IdentityKey, plan: FirmPlan) -> Option<Fact> {
    let person_id = match &event.activity {
        Activity::LeadScored(lead) => identity.person_named(event.firm_id, &lead.person),
        _ => Uuid::nil(),
    };
    Fact::of(&event.activity, event.time, plan, person_id)
}

/// The facts a batch reports, in order, each once, with the place of its report.
#[derive(Debug, Default, PartialEq)]
pub(super) struct BatchFacts {
    reported: Vec<(WaitingFact, usize)>,
    /// By occurrence, and by what it happened to.
    known: HashSet<(Uuid, Uuid)>,
}

/// What becomes of facts.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PlacedFacts {
    /// To append.
    pub(super) events: Vec<NewEvent>,
    /// The places of the batch's facts that count and are placed, each with its event, if it did not
    /// wait before.
    reported: Vec<(usize, Option<Uuid>)>,
    /// To wait.
    pub(super) waiting: Vec<WaitingFact>,
    /// The places of those.
    waiting_from: Vec<usize>,
}

impl BatchFacts {
    /// Takes a fact in; whether the batch reports it for the first time.
    pub(super) fn take(&mut self, firm_id: Uuid, fact: Fact, place: usize) -> bool {
        let occurrence_id = fact.occurrence_id(firm_id);
        let news = self.known.insert((occurrence_id, fact.subject_id));
        if news {
            self.reported.push((WaitingFact { firm_id, occurrence_id, fact }, place));
        }
        news
    }

    /// Places those that waited until now, and these.
    pub(super) fn into_occurrences(
        self,
        known: &KnownState,
        waited: &[(SubjectId, Fact)],
        batch: &IntakeBatch,
    ) -> PlacedFacts {
        let mut placed = PlacedFacts::default();
        let mut once = HashSet::new();
        // What waited for a part of an erased response is dropped.
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
    /// The places of the batch's facts that were known: recorded, or waiting.
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

/// Whether the fact says that its report is news. A call is kept under an id of its own, and is news
/// to the vault also where it is not the first on its response.
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
