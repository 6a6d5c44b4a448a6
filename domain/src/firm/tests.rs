//! Given, when, then.

use super::*;
use crate::subscription::FirmPlan;
use crate::values::Lang;
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

/// The data are dropped once.
#[test]
fn h8_only_closed_firms_data_are_dropped() {
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
fn the_newest_report_wins() {
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

/// A product with times in whole seconds reported both in one second, and the second report was
/// dropped for good.
#[test]
fn of_equal_times_the_later_report_counts() {
    let changed = FirmChange::Changed {
        name: Some("New".into()),
        plan: None,
        brand: None,
        invites_enabled: None,
        notices: NoticeChange::default(),
    };
    let firm = Firm::default().decide(&report(5, changed.clone()));
    assert_eq!(firm, Err(FirmRejection::Unknown));
    let known = vec![opened(), firm_event(at(5), changed.clone())];
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

/// The secret of a closed firm is still shown.
#[test]
fn a_closed_firms_secret_is_not_rotated() {
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
    given(vec![opened(), joined])
        .when(member(2, MemberChange::Disabled))
        .then_expect_events(vec![]);
}

#[test]
fn active_owners_and_admins_manage() {
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

fn settings(name: Option<&str>, leads_in_full: Option<bool>) -> FirmChange {
    FirmChange::Changed {
        name: name.map(Into::into),
        plan: leads_in_full.map(|leads_in_full| FirmPlan { leads_in_full }),
        brand: None,
        invites_enabled: None,
        notices: NoticeChange::default(),
    }
}

/// The only event of a change.
fn firm_event(time: Timestamp, change: FirmChange) -> FirmEvent {
    firm_events(time, change).remove(0)
}

#[test]
fn notices_have_their_own_event_and_clock() {
    let french = NoticeChange { lang: Some(Lang::Fr), mail: None };
    let off = NoticeChange { lang: None, mail: Some(false) };
    let change = |name: Option<&str>, notices| {
        let FirmChange::Changed { name, plan, brand, invites_enabled, .. } = settings(name, None)
        else {
            panic!("settings change")
        };
        FirmChange::Changed { name, plan, brand, invites_enabled, notices }
    };
    let changed = |second, notices| FirmEvent::FirmNoticesChanged { notices, time: at(second) };
    given(vec![opened()])
        .when(report(5, change(None, french)))
        .then_expect_events(vec![changed(5, french)]);
    let named = firm_event(at(5), settings(Some("New"), None));
    given(vec![opened()])
        .when(report(5, change(Some("New"), off)))
        .then_expect_events(vec![named.clone(), changed(5, off)]);
    let both = NoticeChange { mail: Some(true), ..french };
    given(vec![opened(), named, changed(9, off)])
        .when(report(6, change(Some("Newer"), both)))
        .then_expect_events(vec![
            firm_event(at(6), settings(Some("Newer"), None)),
            changed(6, french),
        ]);
}

fn outdates(firm: &Firm, command: &FirmCommand) -> bool {
    firm.effect_of(command) == ReportEffect::Stale
}

fn after(events: &[FirmEvent]) -> Firm {
    let mut firm = Firm::default();
    events.iter().for_each(|event| firm.absorb(event));
    firm
}

/// A name of 22:01 dropped the suspension of 22:00, and the keys went on.
#[test]
fn a_late_suspension_beats_a_newer_name() {
    let named = firm_event(at(9), settings(Some("New"), None));
    let suspended = FirmEvent::FirmSuspended { time: at(5) };
    given(vec![opened(), named.clone()])
        .when(report(5, FirmChange::Suspended))
        .then_expect_events(vec![suspended.clone()]);
    given(vec![opened(), named, suspended])
        .when(report(4, FirmChange::Resumed))
        .then_expect_events(vec![]);
}

#[test]
fn a_late_disabling_beats_a_newer_role() {
    let joined = FirmEvent::MemberJoined { member_id: ANN, role: MemberRole::Admin, time: at(2) };
    let owner =
        FirmEvent::MemberRoleChanged { member_id: ANN, role: MemberRole::Owner, time: at(9) };
    let history = vec![opened(), joined, owner];
    let disabled = FirmEvent::MemberDisabled { member_id: ANN, time: at(5) };
    given(history.clone())
        .when(member(5, MemberChange::Disabled))
        .then_expect_events(vec![disabled.clone()]);
    let firm = after(&[history, vec![disabled]].concat());
    assert!(!firm.is_manager(ANN));
    assert!(outdates(&firm, &member(4, MemberChange::Enabled)));
    assert!(!outdates(&firm, &member(5, MemberChange::Disabled)), "a repeat");
}

#[test]
fn a_far_date_keeps_no_firm_open() {
    let far = "9999-12-31T23:59:59.000Z".parse().unwrap();
    let history = [
        opened(),
        firm_event(far, settings(Some("New"), None)),
        FirmEvent::FirmSuspended { time: far },
    ];
    given(history.to_vec())
        .when(report(5, FirmChange::Closed))
        .then_expect_events(vec![FirmEvent::FirmClosed { time: at(5) }]);
    let left = FirmEvent::MemberLeft { member_id: ANN, time: at(5) };
    let enabled = FirmEvent::MemberEnabled { member_id: ANN, time: far };
    given(vec![opened(), enabled.clone()])
        .when(member(5, MemberChange::Left))
        .then_expect_events(vec![left.clone()]);
    let again =
        FirmCommand::ReportMember { member_id: ANN, time: far, change: MemberChange::Enabled };
    let firm = after(&[opened(), enabled, left]);
    assert_eq!(firm.decide(&again), Ok(vec![]), "a repeat of an older report");
    assert!(outdates(&firm, &again));
    assert!(!outdates(&firm, &member(5, MemberChange::Left)), "a repeat");
}

#[test]
fn each_setting_has_its_own_newest_report() {
    let named = firm_event(at(9), settings(Some("New"), None));
    let history = vec![opened(), named];
    given(history.clone())
        .when(report(5, settings(Some("Old"), Some(false))))
        .then_expect_events(vec![firm_event(at(5), settings(None, Some(false)))]);
    let firm = after(&history);
    assert!(outdates(&firm, &report(5, settings(Some("Old"), None))));
    assert!(!outdates(&firm, &report(9, settings(Some("New"), None))), "a repeat");
    assert!(!outdates(&firm, &report(9, settings(None, None))), "it says nothing");
    assert!(firm.takes_brand_of(at(1)) && !firm.takes_brand_of(at(0)));
}

#[test]
fn joining_counts_apart_for_activity_and_role() {
    let role =
        FirmEvent::MemberRoleChanged { member_id: ANN, role: MemberRole::Member, time: at(9) };
    let enabled = FirmEvent::MemberEnabled { member_id: ANN, time: at(5) };
    let joins = MemberChange::Joined(MemberRole::Admin);
    given(vec![opened(), role.clone()])
        .when(member(5, joins))
        .then_expect_events(vec![enabled.clone()]);
    let firm = after(&[opened(), role, enabled]);
    assert!(!firm.is_manager(ANN), "the newer role counts");
    let disabled = FirmEvent::MemberDisabled { member_id: ANN, time: at(9) };
    given(vec![opened(), disabled]).when(member(5, joins)).then_expect_events(vec![
        FirmEvent::MemberRoleChanged { member_id: ANN, role: MemberRole::Admin, time: at(5) },
    ]);
}

#[test]
fn after_closing_all_but_closings_is_stale() {
    let firm = after(&[opened(), FirmEvent::FirmClosed { time: at(2) }]);
    assert!(outdates(&firm, &report(9, FirmChange::Resumed)));
    assert!(outdates(&firm, &report(9, settings(Some("New"), None))));
    assert!(!outdates(&firm, &report(1, FirmChange::Closed)));
    assert!(!firm.takes_brand_of(at(9)));
}

/// The suspension after these events, each at the moment of its place.
fn suspension(events: &[FirmEvent]) -> Option<SuspensionChange<usize>> {
    (1..)
        .zip(events)
        .fold(None, |known, (place, event)| SuspensionChange::after_event(known, event, place))
}

/// A suspension after a resumption begins anew.
#[test]
fn a_suspension_reported_again_keeps_its_begin() {
    use SuspensionChange::{Resumed, Suspended, SuspendedAnew};
    let suspended = |second| FirmEvent::FirmSuspended { time: at(second) };
    let resumed = |second| FirmEvent::FirmResumed { time: at(second) };
    for (events, after) in [
        (vec![opened()], None),
        (vec![suspended(2), suspended(3)], Some(Suspended(1))),
        (vec![suspended(2), resumed(3)], Some(Resumed(2))),
        (vec![resumed(2), suspended(3), suspended(4)], Some(SuspendedAnew(2))),
        (vec![suspended(2), FirmEvent::FirmClosed { time: at(3) }], Some(Suspended(1))),
    ] {
        assert_eq!(suspension(&events), after, "{events:?}");
    }
}

/// Ruling 35: the report of second 9 is the newest of the status, and repeats the known status.
#[test]
fn a_repeated_suspension_outdates_an_older_resumption() {
    let suspended = |second| FirmEvent::FirmSuspended { time: at(second) };
    given(vec![opened(), suspended(2)])
        .when(report(9, FirmChange::Suspended))
        .then_expect_events(vec![suspended(9)]);
    given(vec![opened(), suspended(2), suspended(9)])
        .when(report(5, FirmChange::Resumed))
        .then_expect_events(vec![]);
}
