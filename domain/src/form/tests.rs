//! Given, when, then.

use super::*;
use cqrs_es::test::{AggregateTestExecutor, TestFramework};

const FIRM: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);

fn at(second: u32) -> Timestamp {
    format!("2026-11-01T00:00:{second:02}.000Z").parse().unwrap()
}

fn details() -> FormDetails {
    FormDetails {
        title: "Intake".into(),
        slug: "intake".into(),
        url: "https://forms.example.com/intake".into(),
        status: FormStatus::Draft,
        hidden_fields: vec![],
        created_at: at(0),
    }
}

fn created() -> FormEvent {
    FormEvent::FormCreated { firm_id: FIRM, details: details(), time: at(1) }
}

fn report(firm_id: Uuid, second: u32, change: FormChange) -> FormCommand {
    FormCommand::Report { firm_id, time: at(second), change }
}

fn given(events: Vec<FormEvent>) -> AggregateTestExecutor<Form> {
    TestFramework::with(()).given(events)
}

#[test]
fn a_form_is_created_once() {
    let create = FormChange::Created(details());
    given(vec![]).when(report(FIRM, 1, create.clone())).then_expect_events(vec![created()]);
    given(vec![created()]).when(report(FIRM, 2, create)).then_expect_events(vec![]);
}

#[test]
fn the_newest_report_wins() {
    let published = FormEvent::FormPublished { time: at(5) };
    given(vec![created()])
        .when(report(FIRM, 5, FormChange::Published))
        .then_expect_events(vec![published.clone()]);
    given(vec![created(), published])
        .when(report(FIRM, 4, FormChange::Unpublished))
        .then_expect_events(vec![]);
}

#[test]
fn deleting_is_final() {
    given(vec![created(), FormEvent::FormDeleted { time: at(2) }])
        .when(report(FIRM, 3, FormChange::Published))
        .then_expect_events(vec![]);
}

/// A form that was made and published within a second stayed a draft.
#[test]
fn of_equal_times_the_later_report_counts() {
    let published = FormEvent::FormPublished { time: at(1) };
    given(vec![created()])
        .when(report(FIRM, 1, FormChange::Published))
        .then_expect_events(vec![published.clone()]);
    given(vec![created(), published])
        .when(report(FIRM, 1, FormChange::Published))
        .then_expect_events(vec![]);
}

#[test]
fn foreign_and_unknown_forms_are_refused() {
    given(vec![created()])
        .when(report(OTHER, 2, FormChange::Deleted))
        .then_expect_error(FormRejection::OtherFirm);
    given(vec![created()])
        .when(report(OTHER, 2, FormChange::Created(details())))
        .then_expect_error(FormRejection::OtherFirm);
    given(vec![])
        .when(report(FIRM, 2, FormChange::Published))
        .then_expect_error(FormRejection::Unknown);
}

fn titled(title: &str) -> FormEdit {
    FormEdit { title: Some(title.into()), ..FormEdit::default() }
}

fn outdates(form: &Form, command: &FormCommand) -> bool {
    form.effect_of(command) == ReportEffect::Stale
}

fn after(events: &[FormEvent]) -> Form {
    let mut form = Form::default();
    events.iter().for_each(|event| form.absorb(event));
    form
}

/// The form stayed published, and its invites went out.
#[test]
fn a_late_unpublishing_counts() {
    let published = FormEvent::FormPublished { time: at(2) };
    let changed = FormEvent::FormChanged { edit: titled("New"), time: at(9) };
    let unpublished = FormEvent::FormUnpublished { time: at(5) };
    given(vec![created(), published, changed])
        .when(report(FIRM, 5, FormChange::Unpublished))
        .then_expect_events(vec![unpublished]);
}

#[test]
fn each_detail_has_its_own_newest_report() {
    let history = vec![created(), FormEvent::FormChanged { edit: titled("New"), time: at(9) }];
    let both = FormEdit { slug: Some("other".into()), ..titled("Old") };
    let slug = FormEdit { slug: Some("other".into()), ..FormEdit::default() };
    given(history.clone())
        .when(report(FIRM, 5, FormChange::Changed(both)))
        .then_expect_events(vec![FormEvent::FormChanged { edit: slug, time: at(5) }]);
    let form = after(&history);
    assert!(outdates(&form, &report(FIRM, 5, FormChange::Changed(titled("Old")))));
    assert!(!outdates(&form, &report(FIRM, 9, FormChange::Changed(titled("New")))), "a repeat");
}

#[test]
fn a_deletion_takes_effect_however_late() {
    let far = "9999-12-31T23:59:59.000Z".parse().unwrap();
    let deleted = FormEvent::FormDeleted { time: at(5) };
    let history = vec![created(), FormEvent::FormPublished { time: far }];
    given(history.clone())
        .when(report(FIRM, 5, FormChange::Deleted))
        .then_expect_events(vec![deleted.clone()]);
    let form = after(&[history, vec![deleted]].concat());
    assert!(outdates(&form, &report(FIRM, 6, FormChange::Published)));
    assert!(!outdates(&form, &report(FIRM, 6, FormChange::Deleted)), "a repeat");
    assert!(!outdates(&form, &report(FIRM, 6, FormChange::Created(details()))), "a repeat");
}
