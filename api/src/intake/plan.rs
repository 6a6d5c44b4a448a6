//! The plan of a batch. Planning is pure: it decides activity by activity, on streams in memory.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use chrono::{DateTime, Utc};
use domain::activity::{Activity, BookingMove, ResponseReport};
use domain::aggregate::{ReportEffect, is_too_far_ahead};
use domain::event::{Event, EventContext};
use domain::firm::{FirmChange, FirmCommand, FirmEvent, MemberChange};
use domain::form::{FormChange, FormCommand};
use domain::invite::{AddressChange, PersonCommand};
use domain::values::Timestamp;
use eventstore::NewEvent;
use projector::activity_ids::ActivityId;
use projector::subjects::SubjectId;
use uuid::Uuid;
use vault::bookings::StoredBooking;
use vault::people::NamedOn;
use vault::reports::StoredReport;
use vault::{IdentityKey, KeySubject};

use super::batch::id_of_state;
use super::calls::{IntakeBatch, UnchangedPlaces};
use super::cloudevents::CloudEvent;
use super::error::BadEvent;
use super::facts::BatchFacts;
use super::known::KnownState;
use super::reported::{ReportedResponse, submission_event};

/// Effects of a batch, decided and not yet carried out.
#[derive(Debug, Default, PartialEq)]
pub(super) struct BatchPlan {
    /// Events to append, in the order of the activities.
    pub(super) events: Vec<NewEvent>,
    /// Responses for the vault, each once.
    pub(super) responses: BTreeMap<KeySubject, ReportedResponse>,
    /// Reports for the vault. Each is in its last state, with the places of the activities that led
    /// there.
    pub(super) reports: BTreeMap<SubjectId, (StoredReport, Vec<usize>)>,
    /// People named on responses.
    pub(super) named: BTreeSet<NamedOn>,
    /// Approved reports: firm, report and time of approval.
    pub(super) approved: Vec<(Uuid, Uuid, DateTime<Utc>)>,
    /// Bookings for the vault. Each is as it was booked last, with the places of the activities
    /// that led there.
    pub(super) bookings: BTreeMap<SubjectId, (StoredBooking, Vec<usize>)>,
    /// New times of bookings.
    pub(super) moves: Vec<(Uuid, BookingMove)>,
    /// Cancelled bookings.
    pub(super) cancelled: Vec<SubjectId>,
    /// Facts of the batch.
    pub(super) facts: BatchFacts,
    /// Firms that need a webhook secret.
    pub(super) opened: Vec<Uuid>,
    /// The newest reply address of firms, if the batch reports one.
    pub(super) contacts: BTreeMap<Uuid, Option<String>>,
    /// Members who may not make keys, with the event that took the right away.
    pub(super) unmanaging: BTreeMap<(Uuid, Uuid), Uuid>,
    /// Closed firms, with the event that closed them.
    pub(super) closed: BTreeMap<Uuid, Uuid>,
    /// Responses that had expired and are reported again.
    pub(super) back: BTreeSet<KeySubject>,
    /// Places of activities that are known to change nothing.
    pub(super) unchanged: UnchangedPlaces,
}

impl BatchPlan {
    /// Responses whose submission the batch reports.
    pub(super) fn submitted_responses(&self) -> Vec<SubjectId> {
        let submitted = self.responses.iter().filter(|(_, reported)| reported.submission.is_some());
        submitted.map(|(subject, _)| (subject.firm_id, subject.subject_id)).collect()
    }
}

/// Whether an activity changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActivityVerdict {
    News,
    Duplicate,
    /// A newer or final report outdates the activity.
    Stale,
}

impl From<ReportEffect> for ActivityVerdict {
    fn from(effect: ReportEffect) -> Self {
        match effect {
            ReportEffect::News => Self::News,
            ReportEffect::Repeat => Self::Duplicate,
            ReportEffect::Stale => Self::Stale,
        }
    }
}

/// Decides the plan of a batch. `fresh` holds the ids of activities of state that no batch had
/// before. The firm in a call's context is replaced by the firm of each activity.
///
/// # Errors
/// The first refused activity, with its place.
pub(super) fn plan_batch(
    batch: &IntakeBatch,
    fresh: Vec<ActivityId>,
    known: KnownState,
    identity: &IdentityKey,
) -> Result<(BatchPlan, KnownState), BadEvent> {
    let fresh = fresh.into_iter().collect();
    let context = batch.context_of(0);
    let plan = BatchPlan::default();
    let mut planner = Planner { fresh, known, identity, context, place: 0, plan };
    for (place, (event, context)) in batch.in_context().enumerate() {
        planner.place = place;
        planner.context = context;
        match planner.plan_activity(event) {
            Ok(ActivityVerdict::News) => {}
            Ok(ActivityVerdict::Duplicate) => planner.plan.unchanged.duplicates.push(place),
            Ok(ActivityVerdict::Stale) => planner.plan.unchanged.stale.push(place),
            Err(why) => {
                return Err(BadEvent { index: place, line: event.line, why });
            }
        }
    }
    planner.drop_of_erased();
    Ok((planner.plan, planner.known))
}

/// Decides one activity after another. The module `parts` adds reports, bookings and erasure.
pub(super) struct Planner<'a> {
    fresh: HashSet<ActivityId>,
    pub(super) known: KnownState,
    pub(super) identity: &'a IdentityKey,
    /// Context of the current call.
    pub(super) context: &'a EventContext,
    /// Place of the current activity.
    pub(super) place: usize,
    pub(super) plan: BatchPlan,
}

impl Planner<'_> {
    fn plan_activity(&mut self, event: &CloudEvent) -> Result<ActivityVerdict, String> {
        if let Some(id) = id_of_state(event)
            && !self.fresh.remove(&id)
        {
            return Ok(ActivityVerdict::Duplicate);
        }
        if is_too_far_ahead(event.time, self.context.recorded_at) {
            return Err("time: more than an hour ahead of the service's clock".to_owned());
        }
        if self.known.is_dropped(event.firm_id) {
            return Ok(ActivityVerdict::Duplicate);
        }
        self.require_one_kind(event)?;
        self.learn_part(event);
        if self.is_of_erased(event) || self.is_save_of_expired_submission(event) {
            return Ok(ActivityVerdict::Duplicate);
        }
        self.require_unexpired(event)?;
        self.learn_person(event);
        match &event.activity {
            Activity::Firm { change, reply_to } => self.plan_firm(event, change, reply_to.as_ref()),
            Activity::Member { member_id, change } => self.plan_member(event, *member_id, *change),
            Activity::Form { form_id, change } => self.plan_form(event, *form_id, change),
            Activity::Address { email, change } => {
                self.plan_address(event, self.identity.person_id(event.firm_id, email), *change)
            }
            Activity::ResponseSaved(report) => self.plan_response(event, report, None),
            Activity::ResponseSubmitted(report) => {
                self.plan_response(event, report, Some(report.at))
            }
            part => self.plan_part(event, part),
        }
    }

    fn plan_firm(
        &mut self,
        event: &CloudEvent,
        change: &FirmChange,
        reply_to: Option<&Option<String>>,
    ) -> Result<ActivityVerdict, String> {
        let command = FirmCommand::ReportFirm { time: event.time, change: change.clone() };
        let new = self.decide_firm(event.firm_id, &command)?;
        // The vault holds the reply address, and no event carries it. A repeated activity must
        // therefore write the address again.
        let firm = &self.known.firm(event.firm_id).aggregate;
        let opens_again = new.is_empty() && matches!(change, FirmChange::Opened { .. });
        let takes_reply_to = !opens_again && firm.takes_brand_of(event.time);
        if let Some(reply_to) = reply_to.filter(|_| takes_reply_to) {
            self.plan.contacts.insert(event.firm_id, reply_to.clone());
        }
        let Some(first) = new.first() else {
            return Ok(firm.effect_of(&command).into());
        };
        match &first.event {
            Event::Firm(FirmEvent::FirmOpened { plan, .. }) => {
                self.plan.opened.push(event.firm_id);
                self.known.learn_plan(event.firm_id, *plan);
            }
            Event::Firm(FirmEvent::FirmChanged { plan: Some(plan), .. }) => {
                self.known.learn_plan(event.firm_id, *plan);
            }
            Event::Firm(FirmEvent::FirmClosed { .. }) => {
                self.plan.closed.insert(event.firm_id, first.id());
            }
            _ => {}
        }
        Ok(self.add_events(new))
    }

    /// A member who does not manage after any activity of the batch loses the keys. A later
    /// activity that gives the right back does not undo the loss (rulings, section Occurrences).
    fn plan_member(
        &mut self,
        event: &CloudEvent,
        member_id: Uuid,
        change: MemberChange,
    ) -> Result<ActivityVerdict, String> {
        let command = FirmCommand::ReportMember { member_id, time: event.time, change };
        let new = self.decide_firm(event.firm_id, &command)?;
        let firm = &self.known.firm(event.firm_id).aggregate;
        let Some(first) = new.first() else {
            return Ok(firm.effect_of(&command).into());
        };
        if !firm.is_manager(member_id) {
            let member = (event.firm_id, member_id);
            self.plan.unmanaging.entry(member).or_insert_with(|| first.id());
        }
        Ok(self.add_events(new))
    }

    fn decide_firm(
        &mut self,
        firm_id: Uuid,
        command: &FirmCommand,
    ) -> Result<Vec<NewEvent>, String> {
        let context = self.context_of(firm_id);
        let firm = self.known.firm(firm_id);
        let decided: Vec<FirmEvent> =
            firm.aggregate.decide(command).map_err(|why| why.to_string())?;
        Ok(firm.apply_decided(firm_id, &context, decided))
    }

    fn plan_form(
        &mut self,
        event: &CloudEvent,
        form_id: Uuid,
        change: &FormChange,
    ) -> Result<ActivityVerdict, String> {
        let firm_id = event.firm_id;
        let time = event.time;
        self.known.require_firm(firm_id).map_err(|why| why.to_string())?;
        let command = FormCommand::Report { firm_id, time, change: change.clone() };
        let context = self.context_of(firm_id);
        let form = self.known.form(form_id);
        let decided = form.aggregate.decide(&command).map_err(|why| why.to_string())?;
        if decided.is_empty() {
            return Ok(form.aggregate.effect_of(&command).into());
        }
        let new = form.apply_decided(form_id, &context, decided);
        Ok(self.add_events(new))
    }

    fn plan_address(
        &mut self,
        event: &CloudEvent,
        person_id: Uuid,
        change: AddressChange,
    ) -> Result<ActivityVerdict, String> {
        let firm_id = event.firm_id;
        self.known.require_firm(firm_id).map_err(|why| why.to_string())?;
        let context = self.context_of(firm_id);
        let person = self.known.person(person_id);
        let command = PersonCommand::Report { time: event.time, change };
        let Ok(decided) = person.aggregate.decide(&command);
        if decided.is_empty() {
            return Ok(person.aggregate.effect_of(&command).into());
        }
        let new = person.apply_decided(person_id, &context, decided);
        Ok(self.add_events(new))
    }

    fn plan_response(
        &mut self,
        event: &CloudEvent,
        report: &ResponseReport,
        submitted_at: Option<Timestamp>,
    ) -> Result<ActivityVerdict, String> {
        let firm_id = event.firm_id;
        self.known.require_firm(firm_id).map_err(|why| why.to_string())?;
        self.known.require_form(firm_id, report.form_id).map_err(|why| why.to_string())?;
        let response = (firm_id, report.response_id);
        if self.known.expired_as(response).is_some() {
            self.bring_back(response);
        }
        let form_id = self.known.learn_form(response, report.form_id, self.place);
        let reported = ReportedResponse::new(firm_id, form_id, report, submitted_at, self.place);
        let news = match self.plan.responses.entry(reported.response.subject()) {
            Entry::Vacant(vacant) => Some(vacant.insert(reported)),
            Entry::Occupied(known) => known.into_mut().followed_by(reported),
        };
        let Some(news) = news else {
            return Ok(ActivityVerdict::Duplicate);
        };
        if let Some(at) = submitted_at {
            let recorded = submission_event(self.context, &news.response, at);
            news.submission = Some(recorded.id());
            self.plan.events.push(recorded);
        }
        Ok(ActivityVerdict::News)
    }

    pub(super) fn add_events(&mut self, new: Vec<NewEvent>) -> ActivityVerdict {
        let verdict =
            if new.is_empty() { ActivityVerdict::Duplicate } else { ActivityVerdict::News };
        self.plan.events.extend(new);
        verdict
    }

    pub(super) fn context_of(&self, firm_id: Uuid) -> EventContext {
        EventContext { firm_id, ..self.context.clone() }
    }
}

#[cfg(test)]
mod tests;
