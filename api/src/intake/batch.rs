//! What of a batch must be known before it is decided: whose data it holds, which reports it may
//! repeat, which rows it changes, which streams it decides about and what it only names.

use std::collections::{BTreeMap, BTreeSet};

use cqrs_es::Aggregate;
use domain::activity::Activity;
use domain::firm::Firm;
use domain::form::Form;
use domain::person::Person;
use domain::trigger::{FirmPlan, Trigger};
use eventstore::StreamName;
use projector::reports::ReportId;
use projector::subjects::{SubjectId, SubjectLinks};
use uuid::Uuid;
use vault::{IdentityKey, KeySubject};

use super::calls::IntakeBatch;
use super::cloudevents::CloudEvent;
use super::facts::fact_of;

/// The firms, and the members of firms, whose rows a batch changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedFirms {
    pub(super) firms: BTreeSet<Uuid>,
    pub(super) members: BTreeSet<(Uuid, Uuid)>,
}

impl ChangedFirms {
    /// A member is in its firm's stream: the firm changes too.
    pub(super) fn by(batch: &IntakeBatch) -> Self {
        let mut changing = Self::default();
        for event in batch.events() {
            match &event.activity {
                Activity::Firm { .. } => {
                    changing.firms.insert(event.firm_id);
                }
                Activity::Member { member_id, .. } => {
                    changing.firms.insert(event.firm_id);
                    changing.members.insert((event.firm_id, *member_id));
                }
                _ => {}
            }
        }
        changing
    }
}

/// The streams whose next events a batch decides: those of what it reports the state of. A response
/// needs none, so that it costs the same however long its firm's stream is.
pub(super) fn streams(batch: &IntakeBatch, identity: &IdentityKey) -> Vec<StreamName> {
    let streams: BTreeSet<_> = batch
        .events()
        .filter_map(|event| match &event.activity {
            Activity::Firm { .. } | Activity::Member { .. } => Some(stream::<Firm>(event.firm_id)),
            Activity::Form { form_id, .. } => Some(stream::<Form>(*form_id)),
            Activity::Address { email, .. } => {
                let person = identity.person(event.firm_id, email.as_ref()?);
                Some(stream::<Person>(person))
            }
            Activity::PersonErased { email } => {
                Some(stream::<Person>(identity.person_named(event.firm_id, email)))
            }
            _ => None,
        })
        .collect();
    streams.into_iter().collect()
}

/// Firms, and forms of firms, that a batch names without deciding about them: they must be there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BatchReferences {
    pub(super) firms: BTreeSet<Uuid>,
    pub(super) forms: BTreeSet<(Uuid, Uuid)>,
}

impl BatchReferences {
    pub(super) fn by(batch: &IntakeBatch) -> Self {
        let mut named = Self::default();
        for event in batch.events() {
            match &event.activity {
                Activity::Firm { .. } | Activity::Member { .. } => {}
                Activity::ResponseSaved(report) | Activity::ResponseSubmitted(report) => {
                    named.firms.insert(event.firm_id);
                    named.forms.insert((event.firm_id, report.form_id));
                }
                _ => {
                    named.firms.insert(event.firm_id);
                }
            }
        }
        named
    }
}

/// The firms whose state a batch reports: what is read of them may not be what they come to.
pub(super) fn firms_of_state(batch: &IntakeBatch) -> BTreeSet<Uuid> {
    let of_state = |event: &&CloudEvent| {
        matches!(
            event.activity,
            Activity::Firm { .. } | Activity::Member { .. } | Activity::Form { .. }
        )
    };
    batch.events().filter(of_state).map(|event| event.firm_id).collect()
}

fn stream<A: Aggregate>(id: Uuid) -> StreamName {
    StreamName { aggregate_type: A::TYPE, aggregate_id: id.to_string() }
}

/// Whose data the batch holds.
pub(super) fn subjects_of(batch: &IntakeBatch) -> Vec<KeySubject> {
    batch
        .events()
        .filter_map(|event| match &event.activity {
            Activity::ResponseSaved(_)
            | Activity::ResponseSubmitted(_)
            | Activity::Report { .. }
            | Activity::BookingMade { .. } => {
                let subject_id = event.activity.response_id()?;
                Some(KeySubject { firm_id: event.firm_id, subject_id })
            }
            _ => None,
        })
        .collect()
}

/// What the batch reports things of: responses, reports and calls; each with where it belongs, by the
/// first report that says so.
pub(super) fn reported_of(batch: &IntakeBatch) -> BTreeMap<SubjectId, SubjectLinks> {
    let mut reported: BTreeMap<SubjectId, SubjectLinks> = BTreeMap::new();
    for CloudEvent { firm_id, activity, .. } in batch.events() {
        let response_id = activity.response_id();
        if let Some(response_id) = response_id {
            let response = reported.entry((*firm_id, response_id)).or_default();
            response.form_id = response.form_id.or(activity.form_id());
        }
        if let Some(part_id) = activity.part_id() {
            let part = reported.entry((*firm_id, part_id)).or_default();
            part.response_id = part.response_id.or(response_id);
        }
    }
    reported
}

/// The firms whose plan decides about a lead.
pub(super) fn firms_of_leads(batch: &IntakeBatch) -> Vec<Uuid> {
    let of_leads = batch.events().filter(|e| matches!(e.activity, Activity::LeadScored(_)));
    of_leads.map(|event| event.firm_id).collect::<BTreeSet<_>>().into_iter().collect()
}

/// What the hot leads of a batch become.
pub(super) fn hot_leads(batch: &IntakeBatch, identity: &IdentityKey) -> Vec<Uuid> {
    batch
        .events()
        .filter_map(|event| Some((event.firm_id, fact_of(event, identity, FirmPlan::default())?)))
        .filter(|(_, fact)| fact.trigger == Trigger::LeadHot)
        .map(|(firm_id, fact)| fact.occurrence_id(firm_id))
        .collect()
}

/// The people whose data is to be erased.
pub(super) fn erased_people(batch: &IntakeBatch, identity: &IdentityKey) -> Vec<(Uuid, Uuid)> {
    batch
        .events()
        .filter_map(|event| match &event.activity {
            Activity::PersonErased { email } => {
                Some((event.firm_id, identity.person_named(event.firm_id, email)))
            }
            _ => None,
        })
        .collect()
}

/// How the batch's reports of state are told apart.
pub(super) fn report_ids(batch: &IntakeBatch) -> Vec<ReportId> {
    batch.events().filter_map(report_id).collect()
}

/// Reports of state are told apart by their ids; reports of what happened, by what happened.
pub(super) fn report_id(event: &CloudEvent) -> Option<ReportId> {
    event.activity.is_told_by_id().then(|| ReportId {
        firm_id: event.firm_id,
        source: event.source.clone(),
        id: event.id.clone(),
    })
}
