//! State of the firms and forms that a batch names. The streams under decision are aggregates in
//! memory. Each is loaded once and carried forward by each decision, so an activity can build on
//! an earlier one. The tables answer for firms and forms that the batch only names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use cqrs_es::Aggregate;
use domain::activity::{Fact, PartRejection};
use domain::delivery::FormPart;
use domain::event::{Event, EventContext};
use domain::firm::{Firm, FirmRejection};
use domain::form::{Form, FormRejection};
use domain::invite::Person;
use domain::subscription::FirmPlan;
use eventstore::{NewEvent, RecordedEvent};
use projector::firms::KnownFirm;
use projector::subjects::{ExpiredAs, LockedSubject, SubjectId, SubjectRow};
use uuid::Uuid;
use vault::people::NamedOn;

/// Firms, forms, people and subjects that a batch names.
#[derive(Default)]
pub(super) struct KnownState {
    references: FoundReferences,
    firms: HashMap<Uuid, StreamState<Firm>>,
    forms: HashMap<Uuid, StreamState<Form>>,
    people: HashMap<Uuid, StreamState<Person>>,
    subjects: HashMap<SubjectId, SubjectRow>,
    /// Plans of firms.
    plans: HashMap<Uuid, FirmPlan>,
    /// Whether a waiting fact is silent, by the occurrence it will become. A silent fact is used up
    /// without a delivery.
    silent: HashMap<Uuid, bool>,
    /// Responses that name people whom the batch erases.
    pub(super) named: Vec<NamedOn>,
    /// Rows of the table, as they were locked.
    in_table: HashMap<SubjectId, SubjectRow>,
    /// Subjects that no batch had reported before.
    new: HashSet<SubjectId>,
    /// Subjects with new links, by the place of the activity that gave the link.
    learned: BTreeMap<SubjectId, usize>,
}

/// One stream in memory.
#[derive(Default)]
pub(super) struct StreamState<A> {
    pub(super) aggregate: A,
    last_sequence: i64,
    firm_id: Option<Uuid>,
}

impl KnownState {
    /// The state after these events, each stream's in order, with the rows of the tables.
    pub(super) fn new(
        events: Vec<RecordedEvent>,
        there: FoundReferences,
        locked: Vec<LockedSubject>,
    ) -> Self {
        let mut known = Self { references: there, ..Self::default() };
        for LockedSubject { row, is_new } in locked {
            let id = (row.firm_id, row.subject_id);
            known.in_table.insert(id, row);
            if is_new {
                known.new.insert(id);
                known.subject(id);
            } else {
                known.subjects.insert(id, row);
            }
        }
        for recorded in events {
            let sequence = recorded.sequence;
            let firm_id = recorded.context.firm_id;
            let Ok(id) = recorded.aggregate_id.parse() else {
                continue;
            };
            match recorded.event {
                Event::Firm(event) => known.firm(id).apply_event(sequence, firm_id, event),
                Event::Form(event) => known.form(id).apply_event(sequence, firm_id, event),
                Event::Person(event) => known.person(id).apply_event(sequence, firm_id, event),
                Event::Key(_)
                | Event::Subscription(_)
                | Event::Occurrence(_)
                | Event::Delivery(_)
                | Event::Invite(_)
                | Event::Response(_)
                | Event::Reading(_)
                | Event::Replay(_)
                | Event::Pause(_)
                | Event::Repair(_)
                | Event::LateEntry(_)
                | Event::CheckpointSeries(_)
                | Event::AccessToken(_)
                | Event::Maintenance(_)
                | Event::TargetTest(_)
                | Event::SignIn(_)
                | Event::NoticeSending(_) => {}
            }
        }
        known
    }

    pub(super) fn firm(&mut self, firm_id: Uuid) -> &mut StreamState<Firm> {
        self.firms.entry(firm_id).or_default()
    }

    pub(super) fn form(&mut self, form_id: Uuid) -> &mut StreamState<Form> {
        self.forms.entry(form_id).or_default()
    }

    pub(super) fn person(&mut self, person_id: Uuid) -> &mut StreamState<Person> {
        self.people.entry(person_id).or_default()
    }

    /// Adds plans, silent facts and named people from the tables.
    pub(super) fn with_rows(
        self,
        plans: Vec<(Uuid, FirmPlan)>,
        silent: Vec<(Uuid, bool)>,
        named: Vec<NamedOn>,
    ) -> Self {
        let plans = plans.into_iter().collect();
        let silent = silent.into_iter().collect();
        Self { plans, silent, named, ..self }
    }

    /// A fact with the silence of its first activity. A waiting fact keeps the plan of the time of
    /// its activity; the plan at the time of its response does not count.
    pub(super) fn as_first_reported(&mut self, firm_id: Uuid, fact: Fact) -> Fact {
        let first = self.silent.entry(fact.occurrence_id(firm_id)).or_insert(fact.silent);
        Fact { silent: *first, ..fact }
    }

    /// Learns the plan of a firm.
    pub(super) fn learn_plan(&mut self, firm_id: Uuid, plan: FirmPlan) {
        self.plans.insert(firm_id, plan);
    }

    /// The plan of a firm.
    pub(super) fn plan_of(&self, firm_id: Uuid) -> FirmPlan {
        self.plans.get(&firm_id).copied().unwrap_or_default()
    }

    fn subject(&mut self, id: SubjectId) -> &mut SubjectRow {
        self.subjects.entry(id).or_insert(SubjectRow::without_links(id))
    }

    /// Learns the form of a response, and returns it. The first activity counts.
    pub(super) fn learn_form(&mut self, response: SubjectId, form_id: Uuid, place: usize) -> Uuid {
        let known = self.subject(response).form_id;
        if known.is_none() {
            self.subject(response).form_id = Some(form_id);
            self.learned.insert(response, place);
        }
        known.unwrap_or(form_id)
    }

    /// Learns the response of a report or booking. The first activity counts.
    pub(super) fn learn_response(&mut self, part: SubjectId, response_id: Uuid, place: usize) {
        if self.subject(part).response_id.is_none() {
            self.subject(part).response_id = Some(response_id);
            self.learned.insert(part, place);
        }
    }

    /// Learns that a response is erased, and returns whether this is news.
    pub(super) fn learn_erased(&mut self, response: SubjectId, place: usize) -> bool {
        let subject = self.subject(response);
        let was_erased = std::mem::replace(&mut subject.erased, true);
        let had_expired = subject.expired_as.take().is_some();
        let news = !was_erased || had_expired;
        if news {
            self.learned.insert(response, place);
        }
        news
    }

    /// Learns that a response that had expired is reported again. Its reports and bookings are
    /// gone, so they are not known until they are reported again, too.
    pub(super) fn learn_back(&mut self, response: SubjectId, place: usize) {
        let (firm_id, response_id) = response;
        for row in self.subjects.values_mut() {
            if row.firm_id == firm_id && row.response_id == Some(response_id) {
                row.response_id = None;
            }
        }
        let subject = self.subject(response);
        subject.erased = false;
        subject.expired_as = None;
        self.learned.insert(response, place);
    }

    /// The subjects that the batch has locked.
    pub(super) fn locked_subjects(&self) -> Vec<SubjectId> {
        self.in_table.keys().copied().collect()
    }

    /// How the response stood when it expired, if the subject is or belongs to an expired response.
    pub(super) fn expired_as(&self, subject: SubjectId) -> Option<ExpiredAs> {
        self.response_of(subject)?.expired_as
    }

    /// The response that a subject is or belongs to, if it is known.
    pub(super) fn response_of(&self, id: SubjectId) -> Option<SubjectRow> {
        let subject = self.subjects.get(&id)?;
        match subject.response_id {
            Some(response_id) => self.subjects.get(&(id.0, response_id)).copied(),
            None => Some(*subject),
        }
    }

    /// Whether a subject is an erased response or belongs to one. An expired response is not, since
    /// it can be reported again.
    pub(super) fn is_erased(&self, subject: SubjectId) -> bool {
        let erased = |row: SubjectRow| row.erased && row.expired_as.is_none();
        self.response_of(subject).is_some_and(erased)
    }

    /// Reports and bookings that turned out to belong to an erased response.
    pub(super) fn parts_of_erased(&self) -> Vec<SubjectId> {
        let is_part =
            |id: &&SubjectId| self.subjects.get(id).is_some_and(|row| row.response_id.is_some());
        self.learned.keys().filter(is_part).filter(|id| self.is_erased(**id)).copied().collect()
    }

    /// Subjects among these that an earlier batch reported.
    pub(super) fn reported_before(&self, mut subjects: Vec<SubjectId>) -> Vec<SubjectId> {
        subjects.retain(|id| !self.new.contains(id));
        subjects
    }

    /// Whether no earlier batch reported the subject.
    pub(super) fn is_new(&self, subject: SubjectId) -> bool {
        self.new.contains(&subject)
    }

    /// Rows that differ from the table, and responses for which facts may have waited. No fact
    /// waits for a new subject.
    pub(super) fn learned_rows(&self) -> (Vec<SubjectRow>, Vec<SubjectId>) {
        let is_news = |(id, row): &(&SubjectId, &SubjectRow)| self.in_table.get(id) != Some(*row);
        let rows = self.subjects.iter().filter(is_news).map(|(_, row)| *row).collect();
        let responses: BTreeSet<SubjectId> = self
            .learned
            .keys()
            .filter(|id| !self.new.contains(id))
            .filter_map(|id| self.response_of(*id))
            .filter(|response| response.form_id.is_some())
            .map(|response| (response.firm_id, response.subject_id))
            .collect();
        (rows, responses.into_iter().collect())
    }

    /// Place of the activity that released a waiting fact: the last link that the fact waited for.
    pub(super) fn released_by(&self, response: SubjectId, fact: &Fact) -> usize {
        let (firm_id, _) = response;
        let place = |id| self.learned.get(&id).copied();
        place(response).max(place((firm_id, fact.subject_id))).unwrap_or_default()
    }

    /// A form that the batch names and does not report.
    pub(super) fn form_part(&self, firm_id: Uuid, form_id: Uuid) -> Option<&FormPart> {
        self.references.forms.get(&(firm_id, form_id))
    }

    /// Whether the firm was closed and its data are dropped. Activities about it are ignored.
    pub(super) fn is_dropped(&self, firm_id: Uuid) -> bool {
        self.references.dropped.contains(&firm_id)
            || self.firms.get(&firm_id).is_some_and(|firm| firm.aggregate.is_dropped())
    }

    /// Refuses an activity of an unknown firm.
    pub(super) fn require_firm(&self, firm_id: Uuid) -> Result<(), FirmRejection> {
        let opened = self.firms.get(&firm_id).is_some_and(|firm| firm.firm_id.is_some());
        if opened || self.references.firms.contains(&firm_id) {
            Ok(())
        } else {
            Err(FirmRejection::Unknown)
        }
    }

    /// Refuses a report or booking under another response than the first one.
    pub(super) fn require_response(
        &self,
        part: SubjectId,
        response_id: Uuid,
        elsewhere: PartRejection,
    ) -> Result<(), PartRejection> {
        let known = self.subjects.get(&part).and_then(|row| row.response_id);
        if known.is_none_or(|known| known == response_id) { Ok(()) } else { Err(elsewhere) }
    }

    /// Refuses a part's id as a response's id, and a response's id as the id of another response's
    /// part.
    pub(super) fn require_one_kind(
        &self,
        firm_id: Uuid,
        part_id: Option<Uuid>,
        response_id: Option<Uuid>,
    ) -> Result<(), PartRejection> {
        let Some(response_id) = response_id else {
            return Ok(());
        };
        let known = |id| self.subjects.get(&(firm_id, id));
        let of_another = |row: &SubjectRow| row.response_id.is_some_and(|of| of != row.subject_id);
        if known(response_id).is_some_and(of_another) {
            return Err(PartRejection::ResponseIsPart);
        }
        let is_response = |row: &SubjectRow| row.form_id.is_some() && row.subject_id != response_id;
        if part_id.and_then(known).is_some_and(is_response) {
            return Err(PartRejection::PartIsResponse);
        }
        Ok(())
    }

    /// Refuses an activity of a form that is unknown or another firm's. A deleted form still takes
    /// responses.
    pub(super) fn require_form(&self, firm_id: Uuid, form_id: Uuid) -> Result<(), FormRejection> {
        let created = self.forms.get(&form_id).is_some_and(|form| form.firm_id == Some(firm_id));
        if created || self.references.forms.contains_key(&(firm_id, form_id)) {
            Ok(())
        } else {
            Err(FormRejection::Unknown)
        }
    }
}

/// Firms and forms that a batch names and that exist. A form carries its part of a payload.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FoundReferences {
    pub(super) firms: BTreeSet<Uuid>,
    pub(super) forms: BTreeMap<(Uuid, Uuid), FormPart>,
    /// Firms whose data are dropped.
    pub(super) dropped: BTreeSet<Uuid>,
}

impl FoundReferences {
    pub(super) fn add_firm(&mut self, KnownFirm { firm_id, is_dropped }: KnownFirm) {
        self.firms.insert(firm_id);
        if is_dropped {
            self.dropped.insert(firm_id);
        }
    }
}

impl<A: Aggregate> StreamState<A> {
    fn apply_event(&mut self, sequence: i64, firm_id: Uuid, event: A::Event) {
        self.aggregate.apply(event);
        self.last_sequence = sequence;
        self.firm_id.get_or_insert(firm_id);
    }

    /// Applies the decided events, and answers them for the append.
    pub(super) fn apply_decided(
        &mut self,
        id: Uuid,
        context: &EventContext,
        decided: Vec<A::Event>,
    ) -> Vec<NewEvent>
    where
        Event: From<A::Event>,
    {
        let new =
            NewEvent::number_after(self.last_sequence, &id.to_string(), context, decided.clone());
        for (event, new) in decided.into_iter().zip(&new) {
            self.apply_event(new.sequence, context.firm_id, event);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRM: Uuid = Uuid::from_u128(1);
    const FORM: Uuid = Uuid::from_u128(3);
    const RESPONSE: SubjectId = (FIRM, Uuid::from_u128(5));
    const PART: SubjectId = (FIRM, Uuid::from_u128(6));

    fn row(id: SubjectId) -> SubjectRow {
        SubjectRow::without_links(id)
    }

    fn known(locked: impl IntoIterator<Item = (SubjectRow, bool)>) -> KnownState {
        let locked =
            locked.into_iter().map(|(row, is_new)| LockedSubject { row, is_new }).collect();
        KnownState::new(Vec::new(), FoundReferences::default(), locked)
    }

    /// A new subject is written again only if more was decided than was reported.
    #[test]
    fn a_new_subject_is_rewritten_for_news() {
        let reported = SubjectRow { form_id: Some(FORM), ..row(RESPONSE) };
        let mut same = known([(reported, true)]);
        assert_eq!(same.learn_form(RESPONSE, FORM, 0), FORM);
        assert_eq!(same.learned_rows(), (Vec::new(), Vec::new()), "nothing waited for it");
        same.learn_erased(RESPONSE, 1);
        assert_eq!(same.learned_rows().0, [SubjectRow { erased: true, ..reported }]);
        let ignored = known([(reported, true)]);
        assert_eq!(ignored.learned_rows().0, [row(RESPONSE)], "what was not taken in is not known");
    }

    #[test]
    fn news_of_a_subject_wakes_waiting_facts() {
        let mut heard = known([(row(RESPONSE), false)]);
        heard.learn_form(RESPONSE, FORM, 0);
        let written = SubjectRow { form_id: Some(FORM), ..row(RESPONSE) };
        assert_eq!(heard.learned_rows(), (vec![written], vec![RESPONSE]));
        assert_eq!(heard.reported_before(vec![RESPONSE, PART]), [RESPONSE, PART]);

        let of_part = SubjectRow { form_id: Some(FORM), ..row(RESPONSE) };
        let mut part = known([(of_part, true), (row(PART), false)]);
        part.learn_form(RESPONSE, FORM, 0);
        part.learn_response(PART, RESPONSE.1, 1);
        assert_eq!(part.learned_rows().1, [RESPONSE], "for the part, before its response came");
        assert_eq!(part.reported_before(vec![RESPONSE, PART]), [PART]);
    }

    #[test]
    fn the_last_awaited_report_releases_a_fact() {
        let fact = |subject_id| Fact {
            trigger: domain::subscription::Trigger::ReportSent,
            subject_id,
            key: String::new(),
            happened_at: "2026-11-01T00:00:00.000Z".parse().unwrap(),
            report_id: None,
            booking_id: None,
            silent: false,
        };
        let mut known = known([(row(RESPONSE), false), (row(PART), false)]);
        known.learn_response(PART, RESPONSE.1, 3);
        assert_eq!(known.released_by(RESPONSE, &fact(PART.1)), 3);
        known.learn_form(RESPONSE, FORM, 7);
        assert_eq!(known.released_by(RESPONSE, &fact(PART.1)), 7);
    }
}
