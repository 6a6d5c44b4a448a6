//! Reads from a batch the ids that must be loaded or locked before the decision. They are subjects,
//! activities of state, changed rows, decided streams and mere references.

use std::collections::{BTreeMap, BTreeSet};

use cqrs_es::Aggregate;
use domain::activity::Activity;
use domain::firm::Firm;
use domain::form::Form;
use domain::invite::Person;
use domain::subscription::{FirmPlan, Trigger};
use eventstore::StreamName;
use projector::activity_ids::ActivityId;
use projector::subjects::{SubjectId, SubjectLinks};
use uuid::Uuid;
use vault::{IdentityKey, KeySubject};

use super::calls::IntakeBatch;
use super::cloudevents::CloudEvent;
use super::facts::fact_of;

/// Firms and members whose rows a batch changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedFirms {
    pub(super) firms: BTreeSet<Uuid>,
    pub(super) members: BTreeSet<(Uuid, Uuid)>,
}

impl ChangedFirms {
    /// A member belongs to the stream of its firm, so the firm changes too.
    pub(super) fn changed_by(batch: &IntakeBatch) -> Self {
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

/// Streams whose next events the batch decides. A response has no such stream, so its cost does not
/// grow with the stream of its firm.
pub(super) fn decided_streams(batch: &IntakeBatch, identity: &IdentityKey) -> Vec<StreamName> {
    let streams: BTreeSet<_> = batch
        .events()
        .filter_map(|event| match &event.activity {
            Activity::Firm { .. } | Activity::Member { .. } => {
                Some(stream_name::<Firm>(event.firm_id))
            }
            Activity::Form { form_id, .. } => Some(stream_name::<Form>(*form_id)),
            Activity::Address { email, .. } => {
                Some(stream_name::<Person>(identity.person_id(event.firm_id, email)))
            }
            Activity::PersonErased { email } => {
                Some(stream_name::<Person>(identity.person_named(event.firm_id, email)))
            }
            _ => None,
        })
        .collect();
    streams.into_iter().collect()
}

/// Firms and forms that a batch names without a decision about them. They must exist.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BatchReferences {
    pub(super) firms: BTreeSet<Uuid>,
    pub(super) forms: BTreeSet<(Uuid, Uuid)>,
}

impl BatchReferences {
    pub(super) fn named_by(batch: &IntakeBatch) -> Self {
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

/// Firms whose state a batch reports. Their rows, as read before the decision, may differ from
/// their rows after it.
pub(super) fn firms_of_state(batch: &IntakeBatch) -> BTreeSet<Uuid> {
    let of_state = |event: &&CloudEvent| {
        matches!(
            event.activity,
            Activity::Firm { .. } | Activity::Member { .. } | Activity::Form { .. }
        )
    };
    batch.events().filter(of_state).map(|event| event.firm_id).collect()
}

fn stream_name<A: Aggregate>(id: Uuid) -> StreamName {
    StreamName { aggregate_type: A::TYPE, aggregate_id: id.to_string() }
}

/// Subjects whose personal data the batch holds.
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

/// Responses, reports and bookings in the batch, each with its form or response. The first activity
/// about a subject decides.
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

/// Firms whose plan decides about a lead.
pub(super) fn firms_of_leads(batch: &IntakeBatch) -> Vec<Uuid> {
    let of_leads = batch.events().filter(|e| matches!(e.activity, Activity::LeadScored(_)));
    of_leads.map(|event| event.firm_id).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Ids of the occurrences that the batch's hot leads become.
pub(super) fn hot_leads(batch: &IntakeBatch, identity: &IdentityKey) -> Vec<Uuid> {
    batch
        .events()
        .filter_map(|event| Some((event.firm_id, fact_of(event, identity, FirmPlan::default())?)))
        .filter(|(_, fact)| fact.trigger == Trigger::LeadHot)
        .map(|(firm_id, fact)| fact.occurrence_id(firm_id))
        .collect()
}

/// People whose data the batch erases.
pub(super) fn erased_people(batch: &IntakeBatch, identity: &IdentityKey) -> Vec<(Uuid, Uuid)> {
    let ids = batch.events().filter_map(|event| match &event.activity {
        Activity::PersonErased { email } => Some(
            ids_of_person(identity, event.firm_id, email).map(|person| (event.firm_id, person)),
        ),
        _ => None,
    });
    ids.flatten().collect()
}

/// Ids of a person to erase: the person's, and one of older builds.
pub(super) fn ids_of_person(
    identity: &IdentityKey,
    firm_id: Uuid,
    email: &str,
) -> impl Iterator<Item = Uuid> {
    let once = identity.person_once_named(firm_id, email);
    std::iter::once(identity.person_named(firm_id, email)).chain(once)
}

/// Ids of the batch's activities of state.
pub(super) fn ids_of_state(batch: &IntakeBatch) -> Vec<ActivityId> {
    batch.events().filter_map(id_of_state).collect()
}

/// The id of an activity of state. Other activities are known by their content, not by their id.
pub(super) fn id_of_state(event: &CloudEvent) -> Option<ActivityId> {
    event.activity.is_told_by_id().then(|| ActivityId {
        firm_id: event.firm_id,
        source: event.source.clone(),
        id: event.id.clone(),
    })
}
