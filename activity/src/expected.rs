//! The deliveries that must follow from activity, computed from `domain` alone. The demo and the
//! benchmarks compare the service with it. It keeps ids and asks no service. It does not know
//! erasure: only the service knows which activities came before an erasure.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::activity::{Activity, Fact, ResponseReport, occurrence_id};
use domain::firm::{FirmChange, MemberChange, MemberRole};
use domain::subscription::{FirmPlan, Trigger};
use domain::values::{EmailAddress, Timestamp};
use uuid::Uuid;

/// The activities noted so far, and the occurrences that follow.
#[derive(Debug, Default)]
pub struct ExpectedState {
    /// The firms that opened.
    pub firms: BTreeMap<Uuid, ExpectedFirm>,
    responses: HashSet<Uuid>,
    /// The response of each report and booking.
    responses_of: HashMap<Uuid, Uuid>,
    /// Occurrences by their id.
    happened: HashMap<Uuid, ExpectedOccurrence>,
}

/// A firm of the activities.
#[derive(Debug, Default)]
pub struct ExpectedFirm {
    /// Its name when it opened.
    pub name: String,
    /// The owner's id. It is nil until the owner is reported.
    pub owner: Uuid,
    /// The firm's plan.
    pub plan: FirmPlan,
}

/// An occurrence that must be recorded.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedOccurrence {
    /// The firm of the occurrence.
    pub firm_id: Uuid,
    /// The trigger of the occurrence.
    pub trigger: Trigger,
    /// Whether the occurrence gets no delivery, because the plan lacks the trigger.
    pub silent: bool,
    /// The response, the report or the booking.
    subject_id: Uuid,
}

/// Whether the activity is about a firm, its members or its forms. Such activities must come first.
#[must_use]
pub const fn is_founding(activity: &Activity) -> bool {
    matches!(activity, Activity::Firm { .. } | Activity::Member { .. } | Activity::Form { .. })
}

impl ExpectedState {
    /// Notes one more activity of the firm, at the time that the product reports.
    pub fn note_activity(&mut self, firm_id: Uuid, time: Timestamp, activity: &Activity) {
        match activity {
            Activity::Firm { change, .. } => self.note_firm(firm_id, change),
            Activity::Member { member_id, change: MemberChange::Joined(MemberRole::Owner) } => {
                self.firms.entry(firm_id).or_default().owner = *member_id;
            }
            Activity::ResponseSaved(report) => _ = self.responses.insert(report.response_id),
            Activity::ResponseSubmitted(report) => self.note_submission(firm_id, report),
            Activity::Report { .. } | Activity::BookingMade { .. } => {
                self.responses_of.extend(activity.part_id().zip(activity.response_id()));
            }
            Activity::Member { .. }
            | Activity::Form { .. }
            | Activity::Address { .. }
            | Activity::ReportMoved { .. }
            | Activity::PaymentReceived(_)
            | Activity::BookingMoved(_)
            | Activity::BookingCancelled { .. }
            | Activity::LeadScored(_)
            | Activity::ResponseErased { .. }
            | Activity::PersonErased { .. } => {}
        }
        self.note_fact(firm_id, time, activity);
    }

    /// Each occurrence once, if its response is known.
    pub fn known_occurrences(&self) -> impl Iterator<Item = &ExpectedOccurrence> {
        self.happened.values().filter(|happened| {
            let subject_id = &happened.subject_id;
            self.responses.contains(self.responses_of.get(subject_id).unwrap_or(subject_id))
        })
    }

    fn note_firm(&mut self, firm_id: Uuid, change: &FirmChange) {
        let firm = self.firms.entry(firm_id).or_default();
        match change {
            FirmChange::Opened { name, plan, .. } => {
                firm.name.clone_from(name);
                firm.plan = *plan;
            }
            FirmChange::Changed { plan: Some(plan), .. } => firm.plan = *plan,
            FirmChange::Changed { .. }
            | FirmChange::Suspended
            | FirmChange::Resumed
            | FirmChange::Closed => {}
        }
    }

    fn note_submission(&mut self, firm_id: Uuid, report: &ResponseReport) {
        let trigger = Trigger::FormSubmitted;
        let subject_id = report.response_id;
        self.responses.insert(subject_id);
        let id = occurrence_id(firm_id, trigger, &subject_id.to_string());
        self.happened.entry(id).or_insert(ExpectedOccurrence {
            firm_id,
            trigger,
            silent: false,
            subject_id,
        });
    }

    fn note_fact(&mut self, firm_id: Uuid, time: Timestamp, activity: &Activity) {
        let plan = self.firms.get(&firm_id).map_or_else(FirmPlan::default, |firm| firm.plan);
        let person_id = person_id(activity);
        if let Some(fact) = Fact::from_activity(activity, time, plan, person_id) {
            let Fact { trigger, silent, subject_id, .. } = fact;
            let happened = ExpectedOccurrence { firm_id, trigger, silent, subject_id };
            self.happened.entry(fact.occurrence_id(firm_id)).or_insert(happened);
        }
    }
}

/// The person of a lead, or nil. Every spelling of an address gives one id.
fn person_id(activity: &Activity) -> Uuid {
    let Activity::LeadScored(lead) = activity else {
        return Uuid::nil();
    };
    let address = lead.person.parse::<EmailAddress>();
    let person =
        address.map_or_else(|_| lead.person.to_lowercase(), |address| address.person_key());
    Uuid::new_v5(&Uuid::nil(), person.as_bytes())
}

#[cfg(test)]
mod tests {
    use api::intake::{EventFormat, parse_events};

    use super::*;
    use crate::{EventLine, MadeUpActivity};

    fn expected(lines: impl Iterator<Item = EventLine>) -> ExpectedState {
        let mut expected = ExpectedState::default();
        for line in lines {
            let mut text = Vec::new();
            line.write(&mut text).unwrap();
            parse_events(EventFormat::Single, &text).unwrap().iter().for_each(|event| {
                expected.note_activity(event.firm_id, event.time, &event.activity);
            });
        }
        expected
    }

    #[test]
    fn a_repeated_report_happens_once() {
        let activity = || MadeUpActivity::new(2, 60, 1).all_lines();
        let (once, twice) = (expected(activity()), expected(activity().chain(activity())));
        assert!(once.known_occurrences().count() > 60);
        assert_eq!(once.known_occurrences().count(), twice.known_occurrences().count());
    }

    /// Every firm has a name and an owner.
    #[test]
    fn only_leads_are_silent() {
        let made_up = MadeUpActivity::new(4, 400, 1);
        let expected = expected(made_up.founding_lines().chain(made_up.response_lines()));
        assert_eq!(expected.firms.len(), 4);
        assert!(expected.firms.values().all(|firm| !firm.name.is_empty() && !firm.owner.is_nil()));
        let silent: Vec<_> =
            expected.known_occurrences().filter(|happened| happened.silent).collect();
        assert!(!silent.is_empty());
        assert!(silent.iter().all(|happened| happened.trigger == Trigger::LeadHot));
    }

    #[test]
    fn without_its_response_nothing_happens() {
        let made_up = MadeUpActivity::new(2, 60, 1);
        let parts = |line: &EventLine| !line.is_about("response.");
        assert_eq!(expected(made_up.all_lines().filter(parts)).known_occurrences().count(), 0);
    }
}
