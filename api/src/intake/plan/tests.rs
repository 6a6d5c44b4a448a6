use super::*;
use crate::intake::batch::{BatchReferences, decided_streams, ids_of_state};
use crate::intake::calls::tests::calls;
use crate::intake::known::FoundReferences;
use domain::activity::{Happening, OccurrenceEvent, occurrence_id};
use domain::delivery::FormPart;
use domain::event::Event;
use domain::firm::{FirmBrand, MemberRole, NoticeChange};
use domain::form::{FormDetails, FormStatus};
use domain::subscription::{FirmPlan, Trigger};
use eventstore::{RecordedEvent, StreamName};

const FIRM: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);
const FORM: Uuid = Uuid::from_u128(3);
const ANN: Uuid = Uuid::from_u128(4);
const RESPONSE: Uuid = Uuid::from_u128(5);

fn at(second: u32) -> Timestamp {
    format!("2026-11-01T00:00:{second:02}.000Z").parse().unwrap()
}

fn identity() -> IdentityKey {
    IdentityKey::new(&[1; 32])
}

fn report(firm_id: Uuid, second: u32, activity: Activity) -> CloudEvent {
    let id = format!("{firm_id}-{second}-{activity:?}");
    CloudEvent { firm_id, source: "urn:test".into(), id, time: at(second), activity, line: None }
}

fn opened(firm_id: Uuid) -> CloudEvent {
    let change = FirmChange::Opened {
        name: "Firm".into(),
        plan: FirmPlan { leads_in_full: true },
        brand: FirmBrand::default(),
    };
    let reply_to = Some(Some("hello@example.com".into()));
    report(firm_id, 1, Activity::Firm { change, reply_to })
}

fn firm(second: u32, change: FirmChange) -> CloudEvent {
    report(FIRM, second, Activity::Firm { change, reply_to: None })
}

fn member(second: u32, change: MemberChange) -> CloudEvent {
    report(FIRM, second, Activity::Member { member_id: ANN, change })
}

fn form(firm_id: Uuid) -> CloudEvent {
    let details = FormDetails {
        title: "Intake".into(),
        slug: "intake".into(),
        url: "https://forms.example.com/intake".into(),
        status: FormStatus::Draft,
        hidden_fields: vec![],
        created_at: at(0),
    };
    report(firm_id, 2, Activity::Form { form_id: FORM, change: FormChange::Created(details) })
}

fn response_report(second: u32) -> ResponseReport {
    let document = domain::activity::ResponseDocument::default();
    ResponseReport { response_id: RESPONSE, form_id: FORM, at: at(second), document }
}

fn saved(second: u32) -> CloudEvent {
    report(FIRM, second, Activity::ResponseSaved(response_report(second)))
}

fn submitted(second: u32) -> CloudEvent {
    report(FIRM, second, Activity::ResponseSubmitted(response_report(second)))
}

/// A batch on an empty log, all ids new.
fn given(batch: &[CloudEvent]) -> Result<BatchPlan, BadEvent> {
    let batch = calls([batch]);
    plan_batch(&batch, ids_of_state(&batch), KnownState::default(), &identity())
        .map(|(plan, _)| plan)
}

/// A batch on a log that took in another before, and on the tables that go with it.
fn given_after(before: &[CloudEvent], batch: &[CloudEvent]) -> Result<BatchPlan, BadEvent> {
    let log = given(before).unwrap().events;
    let batch = calls([batch]);
    let there = there(&log, BatchReferences::named_by(&batch));
    let known =
        KnownState::new(loaded(log, &decided_streams(&batch, &identity())), there, Vec::new());
    plan_batch(&batch, ids_of_state(&batch), known, &identity()).map(|(plan, _)| plan)
}

fn loaded(log: Vec<NewEvent>, streams: &[StreamName]) -> Vec<RecordedEvent> {
    let recorded = (1..).zip(log).map(|(position, new)| RecordedEvent {
        position,
        digest: [0; 32],
        aggregate_id: new.aggregate_id,
        sequence: new.sequence,
        event: new.event,
        context: new.context,
    });
    recorded
        .filter(|recorded| {
            streams.contains(&StreamName {
                aggregate_type: recorded.event.aggregate_type(),
                aggregate_id: recorded.aggregate_id.clone(),
            })
        })
        .collect()
}

fn there(log: &[NewEvent], mut named: BatchReferences) -> FoundReferences {
    let has = |kind: &str, firm_id, id: Uuid| {
        log.iter().any(|new| {
            new.event.event_type() == kind
                && new.context.firm_id == firm_id
                && new.aggregate_id == id.to_string()
        })
    };
    named.firms.retain(|firm_id| has("FirmOpened", *firm_id, *firm_id));
    named.forms.retain(|(firm_id, form_id)| has("FormCreated", *firm_id, *form_id));
    let part = |(firm_id, form_id): (Uuid, Uuid)| {
        let (title, url) = ("Intake".into(), "https://forms.example.com/intake".into());
        ((firm_id, form_id), FormPart { id: form_id.into(), title, url })
    };
    FoundReferences {
        firms: named.firms,
        forms: named.forms.into_iter().map(part).collect(),
        ..FoundReferences::default()
    }
}

fn names(plan: &BatchPlan) -> Vec<(&'static str, i64)> {
    plan.events.iter().map(|new| (new.event.event_type(), new.sequence)).collect()
}

fn refusal(result: Result<BatchPlan, BadEvent>) -> (usize, String) {
    let bad = result.unwrap_err();
    (bad.index, bad.why)
}

#[test]
fn a_report_builds_on_its_batch() {
    let batch = [
        opened(FIRM),
        member(2, MemberChange::Joined(MemberRole::Owner)),
        form(FIRM),
        submitted(9),
    ];
    let plan = given(&batch).unwrap();
    let expected =
        [("FirmOpened", 1), ("MemberJoined", 2), ("FormCreated", 1), ("OccurrenceRecorded", 1)];
    assert_eq!(names(&plan), expected);
    assert_eq!(plan.opened, [FIRM]);
    assert_eq!(plan.contacts[&FIRM].as_deref(), Some("hello@example.com"));
    assert!(plan.unchanged.duplicates.is_empty());
    assert!(plan.events.iter().all(|new| new.context.firm_id == FIRM));
    assert!(plan.events.iter().all(|new| new.context.correlation_id == Uuid::from_u128(9)));
}

#[test]
fn a_report_builds_on_the_log() {
    let plan =
        given_after(&[opened(FIRM), form(FIRM)], &[firm(5, FirmChange::Suspended), submitted(9)]);
    assert_eq!(names(&plan.unwrap()), [("FirmSuspended", 2), ("OccurrenceRecorded", 1)]);
}

#[test]
fn only_reports_of_state_need_streams() {
    let of = |batch: &[CloudEvent]| decided_streams(&calls([batch]), &identity()).len();
    assert_eq!(of(&[saved(3), submitted(9)]), 0);
    assert_eq!(of(&[form(FIRM), submitted(9)]), 1, "the form's");
    let change = MemberChange::Left;
    assert_eq!(of(&[opened(FIRM), member(2, change), submitted(9)]), 1, "the firm's");
}

#[test]
fn a_deleted_form_still_takes_responses() {
    let deleted = report(FIRM, 5, Activity::Form { form_id: FORM, change: FormChange::Deleted });
    let before = [opened(FIRM), form(FIRM), deleted.clone()];
    let plan = given_after(&before, &[submitted(9)]).unwrap();
    assert_eq!(names(&plan), [("OccurrenceRecorded", 1)]);
    let plan = given_after(&before[..2], &[deleted, submitted(9)]).unwrap();
    assert_eq!(names(&plan), [("FormDeleted", 2), ("OccurrenceRecorded", 1)]);
}

#[test]
fn an_unknown_object_is_refused_by_index() {
    let unknown_firm = "the firm is not known: report firm.opened first";
    let unknown_form = "the form is not known: report form.created first";
    for first in
        [firm(1, FirmChange::Closed), member(1, MemberChange::Left), form(FIRM), submitted(1)]
    {
        assert_eq!(
            refusal(given(std::slice::from_ref(&first))),
            (0, unknown_firm.to_owned()),
            "{first:?}"
        );
    }
    for second in [saved(2), submitted(2)] {
        let refused = refusal(given(&[opened(FIRM), second]));
        assert_eq!(refused, (1, unknown_form.to_owned()));
    }
    let change = FormChange::Published;
    let published = report(FIRM, 3, Activity::Form { form_id: FORM, change });
    assert_eq!(refusal(given(&[opened(FIRM), published])), (1, unknown_form.to_owned()));
}

#[test]
fn another_firms_form_is_refused() {
    let before = [opened(FIRM), opened(OTHER), form(OTHER)];
    let refused = |event| refusal(given_after(&before, &[opened(FIRM), event]));
    assert_eq!(refused(form(FIRM)), (1, "the form belongs to another firm".to_owned()));
    let unknown_form = "the form is not known: report form.created first";
    assert_eq!(refused(submitted(3)), (1, unknown_form.to_owned()));
}

#[test]
fn a_refused_reports_line_is_told() {
    let event = CloudEvent { line: Some(7), ..saved(1) };
    assert_eq!(given(&[event]).unwrap_err().line, Some(7));
}

#[test]
fn a_known_id_makes_a_duplicate() {
    let batch = [opened(FIRM), opened(FIRM), firm(3, FirmChange::Suspended)];
    let fresh = ids_of_state(&calls([&[opened(FIRM)]]));
    let (plan, _) =
        plan_batch(&calls([&batch]), fresh, KnownState::default(), &identity()).unwrap();
    assert_eq!(names(&plan), [("FirmOpened", 1)]);
    assert_eq!(plan.unchanged.duplicates, [1, 2]);
}

/// The first activity is a duplicate.
fn known() -> UnchangedPlaces {
    UnchangedPlaces { duplicates: vec![0], stale: vec![] }
}

#[test]
fn older_reports_are_stale_repeats_are_duplicates() {
    let again = CloudEvent { id: "another".into(), ..firm(2, FirmChange::Suspended) };
    let batch = [firm(2, FirmChange::Suspended), firm(1, FirmChange::Resumed), again];
    let plan = given_after(&[opened(FIRM)], &batch).unwrap();
    assert_eq!(names(&plan), [("FirmSuspended", 2)]);
    assert_eq!(plan.unchanged, UnchangedPlaces { duplicates: vec![2], stale: vec![1] });
}

#[test]
fn a_time_of_9999_is_refused() {
    let far = CloudEvent {
        time: "9999-12-31T23:59:59.000Z".parse().unwrap(),
        ..firm(1, FirmChange::Suspended)
    };
    let why = "time: more than an hour ahead of the service's clock".to_owned();
    assert_eq!(refusal(given(&[opened(FIRM), far.clone()])), (1, why));
    let batch = calls([&[opened(FIRM), far]]);
    let fresh = ids_of_state(&calls([&[opened(FIRM)]]));
    let (plan, _) = plan_batch(&batch, fresh, KnownState::default(), &identity()).unwrap();
    assert_eq!(plan.unchanged.duplicates, [1], "an older build took it in");
}

fn branded(second: u32, reply_to: &str) -> CloudEvent {
    let brand = Some(FirmBrand::default());
    let notices = NoticeChange::default();
    let change =
        FirmChange::Changed { name: None, plan: None, brand, invites_enabled: None, notices };
    report(FIRM, second, Activity::Firm { change, reply_to: Some(Some(reply_to.into())) })
}

#[test]
fn the_newest_brand_brings_the_reply_address() {
    let before = [opened(FIRM), branded(5, "new@example.com"), firm(9, FirmChange::Suspended)];
    let contact = |event| given_after(&before, &[event]).unwrap().contacts.remove(&FIRM).flatten();
    assert_eq!(contact(branded(4, "old@example.com")), None, "stale");
    assert_eq!(contact(branded(5, "again@example.com")).as_deref(), Some("again@example.com"));
    assert_eq!(contact(branded(6, "later@example.com")).as_deref(), Some("later@example.com"));
}

#[test]
fn a_duplicate_changes_no_contact() {
    let plan = given_after(&[opened(FIRM)], &[opened(FIRM)]).unwrap();
    assert_eq!(plan, BatchPlan { unchanged: known(), ..BatchPlan::default() });
}

#[test]
fn a_submissions_id_follows_the_rule() {
    let plan = given(&[opened(FIRM), form(FIRM), submitted(9)]).unwrap();
    let recorded = &plan.events[2];
    let id = occurrence_id(FIRM, Trigger::FormSubmitted, &RESPONSE.to_string());
    assert_eq!(recorded.aggregate_id, id.to_string());
    let happening = Happening {
        trigger: Trigger::FormSubmitted,
        form_id: FORM,
        response_id: RESPONSE,
        report_id: None,
        booking_id: None,
        hooks: Vec::new(),
        seen: 0,
        silent: false,
        happened_at: at(9),
    };
    assert_eq!(recorded.event, Event::from(OccurrenceEvent::OccurrenceRecorded(happening)));
    let reported = &plan.responses[&KeySubject { firm_id: FIRM, subject_id: RESPONSE }];
    assert_eq!(reported.submission, Some(recorded.id()));
    assert_eq!(reported.response.submitted_at, Some(at(9).get()));
}

/// The plan of a batch of activities about one response: the number that led to its last state,
/// whether it is submitted, the time of its save, and the number of duplicates.
fn collapsed(reports: &[CloudEvent]) -> (usize, bool, Timestamp, usize) {
    let plan = given(&[&[opened(FIRM), form(FIRM)], reports].concat()).unwrap();
    let reported = &plan.responses[&KeySubject { firm_id: FIRM, subject_id: RESPONSE }];
    assert_eq!(plan.events.len() - 2, usize::from(reported.submission.is_some()));
    let saved_at = reported.response.saved_at.into();
    (
        reported.places.len(),
        reported.submission.is_some(),
        saved_at,
        plan.unchanged.duplicates.len(),
    )
}

#[test]
fn a_response_is_put_once_per_batch() {
    assert_eq!(collapsed(&[saved(3)]), (1, false, at(3), 0));
    assert_eq!(collapsed(&[saved(3), saved(4)]), (2, false, at(4), 0));
    assert_eq!(collapsed(&[saved(4), saved(3), saved(4)]), (1, false, at(4), 2));
    assert_eq!(collapsed(&[saved(3), submitted(9)]), (2, true, at(9), 0));
    assert_eq!(collapsed(&[submitted(9), saved(20)]), (1, true, at(9), 1));
    assert_eq!(collapsed(&[submitted(9), submitted(10)]), (1, true, at(9), 1));
}

#[test]
fn a_former_manager_loses_keys_for_good() {
    use MemberChange::{Disabled, Enabled, Joined, Left, RoleChanged};
    let causes = |changes: &[MemberChange]| {
        let reports = (2..).zip(changes).map(|(second, change)| member(second, *change));
        let batch: Vec<_> = std::iter::once(opened(FIRM)).chain(reports).collect();
        let plan = given(&batch).unwrap();
        let cause = plan.unmanaging.get(&(FIRM, ANN)).copied();
        cause.map(|id| plan.events.iter().position(|new| new.id() == id).unwrap())
    };
    assert_eq!(causes(&[Joined(MemberRole::Owner)]), None);
    assert_eq!(causes(&[Joined(MemberRole::Owner), RoleChanged(MemberRole::Admin)]), None);
    assert_eq!(causes(&[Joined(MemberRole::Owner), Left]), Some(2));
    assert_eq!(causes(&[Joined(MemberRole::Owner), RoleChanged(MemberRole::Member)]), Some(2));
    assert_eq!(causes(&[Joined(MemberRole::Owner), Disabled, Enabled]), Some(2));
    assert_eq!(causes(&[Joined(MemberRole::Owner), Disabled, Left]), Some(2));
}

#[test]
fn a_closed_firm_names_its_closing_event() {
    let plan = given_after(&[opened(FIRM)], &[firm(5, FirmChange::Closed)]).unwrap();
    assert_eq!(plan.closed, BTreeMap::from([(FIRM, plan.events[0].id())]));
    let again =
        given_after(&[opened(FIRM), firm(5, FirmChange::Closed)], &[firm(6, FirmChange::Closed)]);
    assert_eq!(again.unwrap(), BatchPlan { unchanged: known(), ..BatchPlan::default() });
}
