//! Locks and look-ups before the decision. Each kind of row is locked in the order of its ids.

use std::collections::{BTreeMap, HashSet};

use chrono::NaiveDate;
use domain::delivery::FormPart;
use domain::subscription::Trigger;
use eventstore::{AppendError, NewEvent};
use projector::firms::KnownFirm;
use projector::forms::NamedForm;
use projector::subjects::{self, LockedSubject, SubjectId, SubjectLinks};
use projector::{firms, forms, hooks, keys, members};
use sqlx::PgConnection;

use super::batch::{BatchReferences, ChangedFirms};
use super::consequences::EndedAccess;
use super::known::FoundReferences;
use super::plan::BatchPlan;

/// Locks the subjects of a batch and the responses that they belong to, in one order. Ids of
/// responses and of parts are locked alike, because the table may know an id as the other kind.
pub(super) async fn lock_subjects(
    connection: &mut PgConnection,
    reported_of: &BTreeMap<SubjectId, SubjectLinks>,
    today: NaiveDate,
) -> Result<Vec<LockedSubject>, AppendError> {
    let locked = subjects::lock(connection, reported_of, today).await?;
    let ids: HashSet<SubjectId> =
        locked.iter().map(|LockedSubject { row, .. }| (row.firm_id, row.subject_id)).collect();
    let is_whole = |LockedSubject { row, .. }: &LockedSubject| {
        !reported_of.contains_key(&(row.firm_id, row.subject_id))
            || row.response_id.is_none_or(|response_id| ids.contains(&(row.firm_id, response_id)))
    };
    // Another batch linked the part to a response between the statement's snapshot and its lock.
    if locked.iter().all(is_whole) { Ok(locked) } else { Err(AppendError::Conflict) }
}

/// Finds the named firms and forms that exist, closed and deleted ones included.
pub(super) async fn find_references(
    connection: &mut PgConnection,
    named: BatchReferences,
) -> Result<FoundReferences, sqlx::Error> {
    let BatchReferences { firms, forms } = named;
    let forms: Vec<_> = forms.into_iter().collect();
    let forms =
        if forms.is_empty() { vec![] } else { forms::find_named(connection, &forms).await? };
    let mut found = FoundReferences::default();
    for NamedForm { form, is_dropped } in forms {
        // An existing form proves that its firm exists.
        found.add_firm(KnownFirm { firm_id: form.firm_id, is_dropped });
        let id = (form.firm_id, form.form_id);
        let part = FormPart { id: form.form_id.into(), title: form.title, url: form.url };
        found.forms.insert(id, part);
    }
    let others: Vec<_> = firms.difference(&found.firms).copied().collect();
    for firm in firms::known_firms(connection, &others).await? {
        found.add_firm(firm);
    }
    Ok(found)
}

/// Locks firms, then members.
pub(super) async fn lock_changed(
    connection: &mut PgConnection,
    changing: ChangedFirms,
) -> Result<(), sqlx::Error> {
    if !changing.firms.is_empty() {
        firms::lock(connection, &changing.firms.into_iter().collect::<Vec<_>>()).await?;
    }
    if !changing.members.is_empty() {
        members::lock(connection, &changing.members.into_iter().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// Locks the keys to revoke, then lists their subscriptions. No subscription can be added in
/// between.
pub(super) async fn lock_ended_access(
    connection: &mut PgConnection,
    plan: &BatchPlan,
) -> Result<EndedAccess, sqlx::Error> {
    let mut ended = EndedAccess::default();
    if !plan.unmanaging.is_empty() {
        let members: Vec<_> = plan.unmanaging.keys().copied().collect();
        ended.keys = keys::lock_active_of(connection, &members).await?;
    }
    if !ended.keys.is_empty() {
        let key_ids: Vec<_> = ended.keys.iter().map(|key| key.key_id).collect();
        ended.hooks_of_keys = hooks::live_of_keys(connection, &key_ids).await?;
    }
    if !plan.closed.is_empty() {
        let firm_ids: Vec<_> = plan.closed.keys().copied().collect();
        ended.hooks_of_firms = hooks::live_of_firms(connection, &firm_ids).await?;
    }
    Ok(ended)
}

/// Puts hot leads last, in one order. A person becomes hot on any response, so no lock of a subject
/// keeps two batches apart. Each waits for sequences that the other took, and one order prevents a
/// deadlock.
pub(super) fn leads_last(events: Vec<NewEvent>) -> Vec<NewEvent> {
    let is_lead = |new: &NewEvent| {
        new.event.happening().is_some_and(|happening| happening.trigger == Trigger::LeadHot)
    };
    let (mut leads, mut events): (Vec<_>, Vec<_>) = events.into_iter().partition(is_lead);
    leads.sort_by(|one, other| one.aggregate_id.cmp(&other.aggregate_id));
    events.append(&mut leads);
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::activity::{Happening, OccurrenceEvent};
    use domain::event::{Actor, EventContext};
    use uuid::Uuid;

    fn occurrence(id: u128, trigger: Trigger) -> NewEvent {
        let happened_at = "2026-11-01T00:00:00.000Z".parse().unwrap();
        let happening = Happening {
            trigger,
            form_id: Uuid::nil(),
            response_id: Uuid::nil(),
            report_id: None,
            booking_id: None,
            hooks: Vec::new(),
            seen: 0,
            silent: false,
            happened_at,
        };
        let context = EventContext {
            firm_id: Uuid::nil(),
            recorded_at: happened_at,
            actor: Actor::System,
            correlation_id: Uuid::nil(),
            causation_id: None,
            traceparent: None,
            terminal: None,
        };
        NewEvent {
            aggregate_id: Uuid::from_u128(id).to_string(),
            sequence: 1,
            event: OccurrenceEvent::OccurrenceRecorded(happening).into(),
            context,
        }
    }

    /// Two batches with the same people in other orders waited for each other.
    #[test]
    fn leads_are_locked_last_in_order() {
        let lead = |id| occurrence(id, Trigger::LeadHot);
        let (paid, sent) =
            (occurrence(9, Trigger::PaymentReceived), occurrence(1, Trigger::ReportSent));
        let one = leads_last(vec![lead(7), paid.clone(), lead(5), sent.clone()]);
        assert_eq!(one, [paid, sent, lead(5), lead(7)], "the rest in the order it came in");
    }
}
