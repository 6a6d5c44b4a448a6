//! Plans reports, bookings, payments, leads and erasure. Each belongs to a response: the plan keeps
//! it with the response and turns it into a fact.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use domain::activity::{
    Activity, Booking as Call, PartRejection, ReportDocument, ReportMoment, ResponseEvent,
    response_stream,
};
use domain::aggregate::ReportEffect;
use domain::invite::PersonCommand;
use eventstore::NewEvent;
use projector::subjects::{ExpiredAs, SubjectId};
use uuid::Uuid;
use vault::KeySubject;
use vault::bookings::StoredBooking;
use vault::people::NamedOn;
use vault::reports::StoredReport;

use super::batch::ids_of_person;
use super::cloudevents::CloudEvent;
use super::facts::fact_of;
use super::plan::{ActivityVerdict, Planner};

impl Planner<'_> {
    /// Learns the response that a part belongs to, even if the activity is not taken in. Otherwise
    /// a part of an erased response would pass as unknown.
    pub(super) fn learn_part(&mut self, event: &CloudEvent) {
        let part_id = event.activity.part_id();
        let response_id = event.activity.response_id();
        if let (Some(part_id), Some(response_id)) = (part_id, response_id) {
            self.known.learn_response((event.firm_id, part_id), response_id, self.place);
        }
    }

    /// Refuses an id that already names another kind of thing. An erasure may name any id, because
    /// only a response has data to erase.
    pub(super) fn require_one_kind(&self, event: &CloudEvent) -> Result<(), String> {
        if matches!(event.activity, Activity::ResponseErased { .. }) {
            return Ok(());
        }
        let part_id = event.activity.part_id();
        let response_id = event.activity.response_id();
        let required = self.known.require_one_kind(event.firm_id, part_id, response_id);
        required.map_err(|why| why.to_string())
    }

    /// Drops approvals, moves and cancellations of responses that the batch itself erases.
    pub(super) fn drop_of_erased(&mut self) {
        let plan = &mut self.plan;
        let known = &self.known;
        plan.approved.retain(|(firm_id, report_id, _)| !known.is_erased((*firm_id, *report_id)));
        plan.moves.retain(|(firm_id, moved)| !known.is_erased((*firm_id, moved.booking_id)));
        plan.cancelled.retain(|booking| !known.is_erased(*booking));
    }

    /// Activities about an erased response are accepted and ignored (rulings, section Occurrences).
    pub(super) fn is_of_erased(&self, event: &CloudEvent) -> bool {
        if matches!(event.activity, Activity::ResponseErased { .. }) {
            return false;
        }
        let ids = [event.activity.response_id(), event.activity.part_id()];
        ids.into_iter().flatten().any(|id| self.known.is_erased((event.firm_id, id)))
    }

    /// Refuses a report about a response that has expired (ruling 59). A report of the response
    /// itself brings it back, and an erasure ends it.
    pub(super) fn require_unexpired(&self, event: &CloudEvent) -> Result<(), String> {
        let is_of_response = matches!(
            event.activity,
            Activity::ResponseSaved(_)
                | Activity::ResponseSubmitted(_)
                | Activity::ResponseErased { .. }
        );
        let ids = [event.activity.response_id(), event.activity.part_id()];
        let has_expired = |id| self.known.expired_as((event.firm_id, id)).is_some();
        if !is_of_response && ids.into_iter().flatten().any(has_expired) {
            return Err(PartRejection::ResponseExpired.to_string());
        }
        Ok(())
    }

    /// A submission is final, also one that has expired.
    pub(super) fn is_save_of_expired_submission(&self, event: &CloudEvent) -> bool {
        let Activity::ResponseSaved(report) = &event.activity else { return false };
        let response = (event.firm_id, report.response_id);
        self.known.expired_as(response) == Some(ExpiredAs::Submitted)
    }

    /// Takes an expired response for one that is stored anew.
    pub(super) fn bring_back(&mut self, (firm_id, response_id): SubjectId) {
        self.known.learn_back((firm_id, response_id), self.place);
        self.plan.back.insert(KeySubject { firm_id, subject_id: response_id });
    }

    /// Learns the person that an activity names, even if the activity is a duplicate.
    pub(super) fn learn_person(&mut self, event: &CloudEvent) {
        if let (Some(email), Some(response_id)) =
            (event.activity.named_address(), event.activity.response_id())
        {
            let firm_id = event.firm_id;
            let person_id = self.identity.person_named(firm_id, email);
            self.plan.named.insert(NamedOn { firm_id, person_id, response_id });
        }
    }

    pub(super) fn plan_part(
        &mut self,
        event: &CloudEvent,
        activity: &Activity,
    ) -> Result<ActivityVerdict, String> {
        let firm_id = event.firm_id;
        self.known.require_firm(firm_id).map_err(|why| why.to_string())?;
        match activity {
            Activity::Report { response_id, report } => {
                return self.plan_report(event, *response_id, report);
            }
            Activity::ReportMoved { report_id, moment: ReportMoment::Approved, at } => {
                self.plan.approved.push((firm_id, *report_id, at.get()));
            }
            Activity::BookingMade { response_id, booking } => {
                let verdict = self.plan_booking(event, *response_id, booking)?;
                self.plan_fact(event);
                return Ok(verdict);
            }
            Activity::BookingMoved(moved) => self.plan.moves.push((firm_id, moved.clone())),
            Activity::BookingCancelled { booking_id } => {
                self.plan.cancelled.push((firm_id, *booking_id));
            }
            Activity::ResponseErased { response_id } => {
                return Ok(self.plan_erasure(event, &[*response_id]));
            }
            Activity::PersonErased { email } => return Ok(self.erase_person(event, email)),
            _ => {}
        }
        Ok(self.plan_fact(event))
    }

    fn plan_fact(&mut self, event: &CloudEvent) -> ActivityVerdict {
        let firm_id = event.firm_id;
        let Some(fact) = fact_of(event, self.identity, self.known.plan_of(firm_id)) else {
            // A lead that is not hot has no fact, and is no duplicate either.
            return ActivityVerdict::News;
        };
        let fact = self.known.as_first_reported(firm_id, fact);
        if self.plan.facts.add_fact(firm_id, fact, self.place) {
            ActivityVerdict::News
        } else {
            ActivityVerdict::Duplicate
        }
    }

    fn plan_report(
        &mut self,
        event: &CloudEvent,
        response_id: Uuid,
        report: &ReportDocument,
    ) -> Result<ActivityVerdict, String> {
        let id: SubjectId = (event.firm_id, report.id.into());
        let elsewhere = PartRejection::ReportElsewhere;
        self.known.require_response(id, response_id, elsewhere).map_err(|why| why.to_string())?;
        let subject = KeySubject { firm_id: event.firm_id, subject_id: response_id };
        let new = StoredReport { subject, reported_at: event.time.get(), document: report.clone() };
        let effect =
            |new: &StoredReport, old: &StoredReport| match new.reported_at.cmp(&old.reported_at) {
                Ordering::Less => ReportEffect::Stale,
                Ordering::Equal if new == old => ReportEffect::Repeat,
                Ordering::Equal | Ordering::Greater => ReportEffect::News,
            };
        Ok(keep_newest(&mut self.plan.reports, id, self.place, new, effect))
    }

    /// Keeps every booking of a response. Only the first booking becomes an occurrence, which the
    /// fact decides.
    fn plan_booking(
        &mut self,
        event: &CloudEvent,
        response_id: Uuid,
        booking: &Call,
    ) -> Result<ActivityVerdict, String> {
        let id: SubjectId = (event.firm_id, booking.id.into());
        let elsewhere = PartRejection::BookingElsewhere;
        self.known.require_response(id, response_id, elsewhere).map_err(|why| why.to_string())?;
        let subject = KeySubject { firm_id: event.firm_id, subject_id: response_id };
        let new = StoredBooking { subject, made_at: event.time.get(), document: booking.clone() };
        let effect = |new: &StoredBooking, old: &StoredBooking| match new.made_at.cmp(&old.made_at)
        {
            _ if new.document == old.document => ReportEffect::Repeat,
            Ordering::Less => ReportEffect::Stale,
            Ordering::Equal => ReportEffect::Repeat,
            Ordering::Greater => ReportEffect::News,
        };
        Ok(keep_newest(&mut self.plan.bookings, id, self.place, new, effect))
    }

    /// Erases each response once, and drops everything that the batch itself reported of it.
    fn plan_erasure(&mut self, event: &CloudEvent, response_ids: &[Uuid]) -> ActivityVerdict {
        let firm_id = event.firm_id;
        let place = self.place;
        let news: Vec<Uuid> = response_ids
            .iter()
            .copied()
            .filter(|response_id| self.known.learn_erased((firm_id, *response_id), place))
            .collect();
        let context = self.context_of(firm_id);
        let events = news.iter().flat_map(|response_id| {
            let stream = response_stream(firm_id, *response_id).to_string();
            let erased = ResponseEvent::ResponseErased { response_id: *response_id };
            NewEvent::number_after(0, &stream, &context, [erased])
        });
        let events = events.collect();
        self.drop_of(firm_id, &news);
        self.add_events(events)
    }

    fn drop_of(&mut self, firm_id: Uuid, response_ids: &[Uuid]) {
        let kept = |subject: &KeySubject| {
            subject.firm_id != firm_id || !response_ids.contains(&subject.subject_id)
        };
        self.plan.responses.retain(|subject, _| kept(subject));
        self.plan.back.retain(kept);
        self.plan.reports.retain(|_, (report, _)| kept(&report.subject));
        self.plan.bookings.retain(|_, (booking, _)| kept(&booking.subject));
        self.plan.named.retain(|named| kept(&named.subject()));
    }

    /// Erases all responses that name a person, including those of this batch. A person who was
    /// erased before is erased again: an open invite ends by the newest erasure.
    fn erase_person(&mut self, event: &CloudEvent, email: &str) -> ActivityVerdict {
        let firm_id = event.firm_id;
        let person_id = self.identity.person_named(firm_id, email);
        let ids: Vec<Uuid> = ids_of_person(self.identity, firm_id, email).collect();
        let naming = self.plan.named.iter().chain(&self.known.named);
        let response_ids: Vec<Uuid> = naming
            .filter(|named| named.firm_id == firm_id && ids.contains(&named.person_id))
            .map(|named| named.response_id)
            .collect();
        self.plan_erasure(event, &response_ids);
        let context = self.context_of(firm_id);
        let person = self.known.person(person_id);
        let erase = PersonCommand::Erase { time: context.recorded_at };
        let Ok(decided) = person.aggregate.decide(&erase);
        let new = person.apply_decided(person_id, &context, decided);
        self.add_events(new)
    }
}

/// Keeps the newest state of a part within the batch. The vault compares it with its own state.
fn keep_newest<P>(
    parts: &mut BTreeMap<SubjectId, (P, Vec<usize>)>,
    id: SubjectId,
    place: usize,
    new: P,
    effect: impl Fn(&P, &P) -> ReportEffect,
) -> ActivityVerdict {
    let Some((known, places)) = parts.get_mut(&id) else {
        parts.insert(id, (new, vec![place]));
        return ActivityVerdict::News;
    };
    let effect = effect(&new, known);
    if effect == ReportEffect::News {
        *known = new;
        places.push(place);
    }
    effect.into()
}
