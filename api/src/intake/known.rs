//! What is known of the firms and forms a batch speaks of. The streams it decides about are
//! aggregates in memory: loaded once, then carried forward by each decision, so that a report can
//! build on one before it in the same batch. Of what it only names, the tables told what is there.

use std::collections::HashMap;

use cqrs_es::Aggregate;
use domain::context::Context;
use domain::event::Event;
use domain::firm::{Firm, FirmRejection};
use domain::form::{Form, FormRejection};
use domain::person::Person;
use eventstore::{NewEvent, RecordedEvent};
use uuid::Uuid;

use super::batch::Named;

/// The firms and forms a batch speaks of.
#[derive(Default)]
pub(super) struct Known {
    there: Named,
    firms: HashMap<Uuid, Stream<Firm>>,
    forms: HashMap<Uuid, Stream<Form>>,
    people: HashMap<Uuid, Stream<Person>>,
}

/// One stream in memory.
#[derive(Default)]
pub(super) struct Stream<A> {
    pub(super) aggregate: A,
    last_sequence: i64,
    firm_id: Option<Uuid>,
}

impl Known {
    /// What these events, each stream's in order, come to, and what else is there.
    pub(super) fn of(events: Vec<RecordedEvent>, there: Named) -> Self {
        let mut known = Self { there, ..Self::default() };
        for recorded in events {
            let (sequence, firm_id) = (recorded.sequence, recorded.context.firm_id);
            let Ok(id) = recorded.aggregate_id.parse() else {
                continue;
            };
            match recorded.event {
                Event::Firm(event) => known.firm(id).take(sequence, firm_id, event),
                Event::Form(event) => known.form(id).take(sequence, firm_id, event),
                Event::Person(event) => known.person(id).take(sequence, firm_id, event),
                Event::Key(_)
                | Event::Subscription(_)
                | Event::Occurrence(_)
                | Event::Delivery(_)
                | Event::Invite(_) => {}
            }
        }
        known
    }

    pub(super) fn firm(&mut self, firm_id: Uuid) -> &mut Stream<Firm> {
        self.firms.entry(firm_id).or_default()
    }

    pub(super) fn form(&mut self, form_id: Uuid) -> &mut Stream<Form> {
        self.forms.entry(form_id).or_default()
    }

    pub(super) fn person(&mut self, person_id: Uuid) -> &mut Stream<Person> {
        self.people.entry(person_id).or_default()
    }

    /// Refuses what is reported of a firm that is not known.
    pub(super) fn require_firm(&self, firm_id: Uuid) -> Result<(), FirmRejection> {
        let opened = self.firms.get(&firm_id).is_some_and(|firm| firm.firm_id.is_some());
        if opened || self.there.firms.contains(&firm_id) {
            Ok(())
        } else {
            Err(FirmRejection::Unknown)
        }
    }

    /// Refuses what is reported of a form that is not this firm's. A deleted form still takes
    /// responses.
    pub(super) fn require_form(&self, firm_id: Uuid, form_id: Uuid) -> Result<(), FormRejection> {
        let created = self.forms.get(&form_id).is_some_and(|form| form.firm_id == Some(firm_id));
        if created || self.there.forms.contains(&(firm_id, form_id)) {
            Ok(())
        } else {
            Err(FormRejection::Unknown)
        }
    }
}

impl<A: Aggregate> Stream<A> {
    fn take(&mut self, sequence: i64, firm_id: Uuid, event: A::Event) {
        self.aggregate.apply(event);
        self.last_sequence = sequence;
        self.firm_id.get_or_insert(firm_id);
    }

    /// Goes on by what was decided; answers the events to append.
    pub(super) fn extend(
        &mut self,
        id: Uuid,
        context: &Context,
        decided: Vec<A::Event>,
    ) -> Vec<NewEvent>
    where
        Event: From<A::Event>,
    {
        let new = NewEvent::after(self.last_sequence, &id.to_string(), context, decided.clone());
        for (event, new) in decided.into_iter().zip(&new) {
            self.take(new.sequence, context.firm_id, event);
        }
        new
    }
}
