//! What of a batch must be known before it is decided: whose data it holds, which reports it may
//! repeat, which rows it changes, which streams it decides about and what it only names.

use std::collections::BTreeSet;

use cqrs_es::Aggregate;
use domain::activity::Activity;
use domain::firm::Firm;
use domain::form::Form;
use domain::person::Person;
use eventstore::StreamName;
use projector::reports::ReportId;
use uuid::Uuid;
use vault::{Identity, Subject};

use super::cloudevents::CloudEvent;

/// The firms, and the members of firms, whose rows a batch changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changing {
    pub(super) firms: BTreeSet<Uuid>,
    pub(super) members: BTreeSet<(Uuid, Uuid)>,
}

impl Changing {
    /// A member is in its firm's stream: the firm changes too.
    pub(super) fn by(batch: &[CloudEvent]) -> Self {
        let mut changing = Self::default();
        for event in batch {
            match &event.activity {
                Activity::Firm { .. } => {
                    changing.firms.insert(event.firm_id);
                }
                Activity::Member { member_id, .. } => {
                    changing.firms.insert(event.firm_id);
                    changing.members.insert((event.firm_id, *member_id));
                }
                Activity::Form { .. }
                | Activity::Address { .. }
                | Activity::ResponseSaved(_)
                | Activity::ResponseSubmitted(_) => {}
            }
        }
        changing
    }
}

/// The streams whose next events a batch decides: those of what it reports the state of. A response
/// needs none, so that it costs the same however long its firm's stream is.
pub(super) fn streams(batch: &[CloudEvent], identity: &Identity) -> Vec<StreamName> {
    let streams: BTreeSet<_> = batch
        .iter()
        .filter_map(|event| match &event.activity {
            Activity::Firm { .. } | Activity::Member { .. } => Some(stream::<Firm>(event.firm_id)),
            Activity::Form { form_id, .. } => Some(stream::<Form>(*form_id)),
            Activity::Address { email, .. } => {
                let person = identity.person(event.firm_id, email.as_ref()?);
                Some(stream::<Person>(person))
            }
            Activity::ResponseSaved(_) | Activity::ResponseSubmitted(_) => None,
        })
        .collect();
    streams.into_iter().collect()
}

/// Firms, and forms of firms, that a batch names without deciding about them: they must be there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) firms: BTreeSet<Uuid>,
    pub(super) forms: BTreeSet<(Uuid, Uuid)>,
}

impl Named {
    pub(super) fn by(batch: &[CloudEvent]) -> Self {
        let mut named = Self::default();
        for event in batch {
            match &event.activity {
                Activity::Firm { .. } | Activity::Member { .. } => {}
                Activity::Form { .. } | Activity::Address { .. } => {
                    named.firms.insert(event.firm_id);
                }
                Activity::ResponseSaved(report) | Activity::ResponseSubmitted(report) => {
                    named.firms.insert(event.firm_id);
                    named.forms.insert((event.firm_id, report.form_id));
                }
            }
        }
        named
    }
}

fn stream<A: Aggregate>(id: Uuid) -> StreamName {
    StreamName { aggregate_type: A::TYPE, aggregate_id: id.to_string() }
}

/// Whose data the batch holds.
pub(super) fn subjects(batch: &[CloudEvent]) -> Vec<Subject> {
    batch
        .iter()
        .filter_map(|event| match &event.activity {
            Activity::ResponseSaved(report) | Activity::ResponseSubmitted(report) => {
                Some(Subject { firm_id: event.firm_id, subject_id: report.response_id })
            }
            Activity::Firm { .. }
            | Activity::Member { .. }
            | Activity::Form { .. }
            | Activity::Address { .. } => None,
        })
        .collect()
}

/// How the batch's reports of state are told apart.
pub(super) fn report_ids(batch: &[CloudEvent]) -> Vec<ReportId> {
    batch.iter().filter_map(report_id).collect()
}

/// Reports of state are told apart by their ids; reports of what happened, by what happened.
pub(super) fn report_id(event: &CloudEvent) -> Option<ReportId> {
    match &event.activity {
        Activity::Firm { .. }
        | Activity::Member { .. }
        | Activity::Form { .. }
        | Activity::Address { .. } => Some(ReportId {
            firm_id: event.firm_id,
            source: event.source.clone(),
            id: event.id.clone(),
        }),
        Activity::ResponseSaved(_) | Activity::ResponseSubmitted(_) => None,
    }
}
