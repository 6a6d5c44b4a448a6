//! Facts of a batch: placed as occurrences where their response is known, waiting where it is not.

use std::collections::HashSet;

use domain::context::Context;
use domain::fact::Fact;
use domain::occurrence::OccurrenceEvent;
use eventstore::NewEvent;
use projector::subjects::{SubjectId, Waiting};
use uuid::Uuid;

use super::known::Known;

/// The facts a batch reports, in order, each once.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Facts {
    reported: Vec<Waiting>,
    /// By occurrence, and by what it happened to.
    known: HashSet<(Uuid, Uuid)>,
}

/// What becomes of facts.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Placed {
    /// To append.
    pub(super) events: Vec<NewEvent>,
    /// The events of those that the batch reports and that did not wait before.
    pub(super) news: Vec<Uuid>,
    /// How many facts the batch reports that are placed.
    pub(super) reported: usize,
    /// To wait.
    pub(super) waiting: Vec<Waiting>,
}

impl Facts {
    /// Takes a fact in; whether the batch reports it for the first time.
    pub(super) fn take(&mut self, firm_id: Uuid, fact: Fact) -> bool {
        let occurrence_id = fact.occurrence_id(firm_id);
        let news = self.known.insert((occurrence_id, fact.subject_id));
        if news {
            self.reported.push(Waiting { firm_id, occurrence_id, fact });
        }
        news
    }

    /// Places those that waited until now, and these.
    pub(super) fn place(
        self,
        known: &Known,
        waited: &[(SubjectId, Fact)],
        context: &Context,
    ) -> Placed {
        let mut placed = Placed::default();
        let mut once = HashSet::new();
        for (response, fact) in waited {
            if let Some(event) = event(known, *response, fact, context)
                && once.insert(event.id())
            {
                placed.events.push(event);
            }
        }
        for waiting in self.reported {
            let subject = (waiting.firm_id, waiting.fact.subject_id);
            if known.is_erased(subject) {
                continue;
            }
            let Some(event) = event(known, subject, &waiting.fact, context) else {
                placed.waiting.push(waiting);
                continue;
            };
            placed.reported += 1;
            if once.insert(event.id()) {
                placed.news.push(event.id());
                placed.events.push(event);
            }
        }
        placed
    }
}

impl Placed {
    /// How many of the batch's facts were known: recorded, or waiting.
    pub(super) fn duplicates(&self, recorded: &HashSet<Uuid>, now_waiting: usize) -> usize {
        let news = self.news.iter().filter(|event| recorded.contains(event)).count();
        self.reported - news + self.waiting.len() - now_waiting
    }
}

fn event(known: &Known, subject: SubjectId, fact: &Fact, context: &Context) -> Option<NewEvent> {
    let response = known.response_of(subject)?;
    let firm_id = response.firm_id;
    let happening = fact.happening(response.form_id?, response.subject_id);
    Some(NewEvent {
        aggregate_id: fact.occurrence_id(firm_id).to_string(),
        sequence: 1,
        event: OccurrenceEvent::OccurrenceRecorded(happening).into(),
        context: Context { firm_id, ..context.clone() },
    })
}
