//! Given, when, then.

use super::*;
use cqrs_es::test::{AggregateTestExecutor, TestFramework};

const ANN: Uuid = Uuid::from_u128(7);

fn at(second: u32) -> Timestamp {
    format!("2026-11-01T00:00:{second:02}.000Z").parse().unwrap()
}

fn opened() -> FirmEvent {
    FirmEvent::FirmOpened {
        name: "Firm".into(),
        plan: FirmPlan { leads_in_full: true },
        brand: FirmBrand::default(),
        time: at(1),
    }
}

fn report(second: u32, change: FirmChange) -> FirmCommand {
    FirmCommand::ReportFirm { time: at(second), change }
}

fn member(second: u32, change: MemberChange) -> FirmCommand {
    FirmCommand::ReportMember { member_id: ANN, time: at(second), change }
}

fn given(events: Vec<FirmEvent>) -> AggregateTestExecutor<Firm> {
    TestFramework::with(()).given(events)
}

#[test]
fn h8_the_data_of_a_closed_firm_are_dropped_once_and_never_an_open_firms() {
    let closed = FirmEvent::FirmClosed { time: at(2) };
    given(vec![opened()]).when(FirmCommand::DropData).then_expect_error(FirmRejection::NotClosed);
    given(vec![]).when(FirmCommand::DropData).then_expect_error(FirmRejection::Unknown);
    given(vec![opened(), closed.clone()])
        .when(FirmCommand::DropData)
        .then_expect_events(vec![FirmEvent::FirmDataDropped {}]);
    let dropped = vec![opened(), closed, FirmEvent::FirmDataDropped {}];
    given(dropped.clone()).when(FirmCommand::DropData).then_expect_events(vec![]);
    given(dropped).when(FirmCommand::RevealSecret).then_expect_error(FirmRejection::Closed);
}

#[test]
fn a_firm_opens_once() {
    let open = FirmChange::Opened {
        name: "Firm".into(),
        plan: FirmPlan { leads_in_full: true },
        brand: FirmBrand::default(),
    };
    given(vec![]).when(report(1, open.clone())).then_expect_events(vec![opened()]);
    given(vec![opened()]).when(report(2, open)).then_expect_events(vec![]);
}

#[test]
fn the_newest_report_wins_and_an_older_one_changes_nothing() {
    let suspended = FirmEvent::FirmSuspended { time: at(5) };
    given(vec![opened()])
        .when(report(5, FirmChange::Suspended))
        .then_expect_events(vec![suspended.clone()]);
    given(vec![opened(), suspended.clone()])
        .when(report(4, FirmChange::Resumed))
        .then_expect_events(vec![]);
    given(vec![opened(), suspended])
        .when(report(5, FirmChange::Suspended))
        .then_expect_events(vec![]);
}

/// A product whose times are whole seconds reported both in one, and the second was dropped for good.
#[test]
fn of_two_reports_with_the_same_time_the_later_one_was_lost() {
    let changed = FirmChange::Changed {
        name: Some("New".into()),
        plan: None,
        brand: None,
        invites_enabled: None,
    };
    let firm = Firm::default().decide(&report(5, changed.clone()));
    assert_eq!(firm, Err(FirmRejection::Unknown));
    let known = vec![opened(), firm_event(at(5), &changed)];
    given(known.clone())
        .when(report(5, FirmChange::Suspended))
        .then_expect_events(vec![FirmEvent::FirmSuspended { time: at(5) }]);
    given(known).when(report(5, changed)).then_expect_events(vec![]);
    let joined = FirmEvent::MemberJoined { member_id: ANN, role: MemberRole::Admin, time: at(3) };
    let disabled = FirmEvent::MemberDisabled { member_id: ANN, time: at(3) };
    given(vec![opened(), joined.clone()])
        .when(member(3, MemberChange::Disabled))
        .then_expect_events(vec![disabled.clone()]);
    given(vec![opened(), joined, disabled])
        .when(member(3, MemberChange::Disabled))
        .then_expect_events(vec![]);
}

#[test]
fn closing_is_final() {
    given(vec![opened(), FirmEvent::FirmClosed { time: at(2) }])
        .when(report(9, FirmChange::Resumed))
        .then_expect_events(vec![]);
}

#[test]
fn nothing_is_reported_of_an_unknown_firm() {
    for command in [
        report(1, FirmChange::Suspended),
        member(1, MemberChange::Left),
        FirmCommand::RevealSecret,
        FirmCommand::RotateSecret { reason: None },
    ] {
        given(vec![]).when(command).then_expect_error(FirmRejection::Unknown);
    }
}

#[test]
fn a_secret_is_rotated_until_the_firm_is_closed_and_shown_even_then() {
    let reason = Some("a laptop was stolen".to_owned());
    let rotate = FirmCommand::RotateSecret { reason: reason.clone() };
    let rotated = FirmEvent::SecretRotated { reason };
    let suspended = FirmEvent::FirmSuspended { time: at(2) };
    for history in
        [vec![opened()], vec![opened(), rotated.clone()], vec![opened(), suspended.clone()]]
    {
        given(history).when(rotate.clone()).then_expect_events(vec![rotated.clone()]);
    }
    let closed = vec![opened(), FirmEvent::FirmClosed { time: at(2) }];
    given(closed.clone()).when(rotate).then_expect_error(FirmRejection::Closed);
    let reveal = FirmCommand::RevealSecret;
    given(closed).when(reveal).then_expect_events(vec![FirmEvent::SecretRevealed {}]);
}

#[test]
fn each_member_has_its_own_newest_report() {
    let joined = FirmEvent::MemberJoined { member_id: ANN, role: MemberRole::Admin, time: at(3) };
    given(vec![opened(), FirmEvent::FirmSuspended { time: at(9) }])
        .when(member(3, MemberChange::Joined(MemberRole::Admin)))
        .then_expect_events(vec![joined.clone()]);
    given(vec![opened(), joined]).when(member(2, MemberChange::Left)).then_expect_events(vec![]);
}

#[test]
fn owners_and_admins_who_are_active_manage() {
    let after = |changes: &[MemberChange]| {
        let mut firm = Firm::default();
        firm.absorb(&opened());
        for (second, change) in (2..).zip(changes) {
            for event in firm.decide(&member(second, *change)).unwrap() {
                firm.absorb(&event);
            }
        }
        firm.is_manager(ANN)
    };
    use MemberChange::{Disabled, Enabled, Joined, Left, RoleChanged};
    assert!(!after(&[]));
    assert!(after(&[Joined(MemberRole::Owner)]));
    assert!(after(&[Joined(MemberRole::Admin)]));
    assert!(!after(&[Joined(MemberRole::Member)]));
    assert!(after(&[Joined(MemberRole::Member), RoleChanged(MemberRole::Admin)]));
    assert!(!after(&[Joined(MemberRole::Admin), RoleChanged(MemberRole::Member)]));
    assert!(!after(&[Joined(MemberRole::Admin), Disabled]));
    assert!(after(&[Joined(MemberRole::Admin), Disabled, Enabled]));
    assert!(!after(&[Joined(MemberRole::Admin), Left]));
    assert!(!after(&[Joined(MemberRole::Admin), Left, Enabled]));
}
