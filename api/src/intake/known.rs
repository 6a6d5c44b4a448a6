//! The streams a batch speaks of, as aggregates in memory: loaded once, then carried forward by
//! each decision, so that a report can build on one before it in the same batch.

use std::collections::HashMap;

use cqrs_es::Aggregate;
use domain::context::Context;
use domain::event::Event;
use domain::firm::{Firm, FirmRejection};
use domain::form::{Form, FormRejection};
use eventstore::{NewEvent, RecordedEvent};
use uuid::Uuid;

/// The firms and forms a batch speaks of.
#[derive(Default)]
pub(super) struct Known {
    firms: HashMap<Uuid, Stream<Firm>>,
    forms: HashMap<Uuid, Stream<Form>>,
}

/// One stream in memory.
#[derive(Default)]
pub(super) struct Stream<A> {
    pub(super) aggregate: A,
    last_sequence: i64,
    firm_id: Option<Uuid>,
}

impl Known {
    /// What these events, each stream's in order, come to.
    pub(super) fn of(events: Vec<RecordedEvent>) -> Self {
        let mut known = Self::default();
        for recorded in events {
            let (sequence, firm_id) = (recorded.sequence, recorded.context.firm_id);
            let Ok(id) = recorded.aggregate_id.parse() else {
                continue;
            };
            match recorded.event {
                Event::Firm(event) => known.firm(id).take(sequence, firm_id, event),
                Event::Form(event) => known.form(id).take(sequence, firm_id, event),
                Event::Key(_)
                | Event::Subscription(_)
                | Event::Occurrence(_)
                | Event::Delivery(_) => {}
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

    /// Refuses what is reported of a firm that is not known.
    pub(super) fn require_firm(&mut self, firm_id: Uuid) -> Result<(), FirmRejection> {
        match self.firm(firm_id).firm_id {
            Some(_) => Ok(()),
            None => Err(FirmRejection::Unknown),
        }
    }

    /// Refuses what is reported of a form that is not this firm's.
    pub(super) fn require_form(
        &mut self,
        firm_id: Uuid,
        form_id: Uuid,
    ) -> Result<(), FormRejection> {
        match self.form(form_id).firm_id {
            Some(owner) if owner == firm_id => Ok(()),
            Some(_) | None => Err(FormRejection::Unknown),
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
        let new = NewEvent::after(
            self.last_sequence,
            &id.to_string(),
            context,
            decided.clone(),
        );
        for (event, new) in decided.into_iter().zip(&new) {
            self.take(new.sequence, context.firm_id, event);
        }
        new
    }
}
