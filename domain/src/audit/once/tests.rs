//! The rules, and the lives held against a naive model.

use proptest::prelude::*;

use super::*;
use crate::delivery::workflow::{StepMethod, StepName, StepOrder, StepTarget};
use crate::delivery::{
    Attempt, CancelCause, DeliveryEvent, LateEffect, Outcome, ReplayedDelivery, RetriedStep,
    SentBody,
};
use crate::subscription::{RemovalReason, TargetShown};

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn made(trigger: Trigger, form_id: Option<Uuid>) -> SubscriptionEvent {
    let target_url = "https://hooks.example.com/".to_owned();
    SubscriptionEvent::SubscriptionCreated {
        key_id: id(9),
        trigger,
        target_url,
        form_id,
        target_shown: TargetShown::Origin,
    }
}

fn removed() -> SubscriptionEvent {
    SubscriptionEvent::SubscriptionRemoved {
        reason: RemovalReason::DeletedByKey,
        evidence: Vec::new(),
    }
}

fn happening(seen: i64, hooks: &[u128]) -> Happening {
    Happening {
        booking_id: None,
        form_id: id(3),
        happened_at: noon(),
        hooks: hooks.iter().map(|hook| id(*hook)).collect(),
        report_id: None,
        response_id: id(4),
        seen,
        silent: false,
        trigger: Trigger::FormSubmitted,
    }
}

fn noon() -> Timestamp {
    "2026-11-01T12:00:00.000Z".parse().unwrap()
}

/// At position 100.
fn happened(happening: &Happening) -> RecordedOccurrence<'_> {
    let (occurrence_id, firm_id) = (id(50), id(1));
    RecordedOccurrence { occurrence_id, position: 100, recorded_at: noon(), firm_id, happening }
}

fn change(hook: u128, firm: u128, position: i64, event: &SubscriptionEvent) -> RecordedChange<'_> {
    RecordedChange { hook_id: id(hook), firm_id: id(firm), position, recorded_at: noon(), event }
}

/// One subscription that lives from 10 to 20.
fn lives() -> SubscriptionLives {
    let mut lives = SubscriptionLives::default();
    lives.take_change(change(2, 1, 10, &made(Trigger::FormSubmitted, None)));
    lives.take_change(change(2, 1, 20, &removed()));
    lives
}

fn consignment() -> Consignment {
    Consignment {
        occurrence_id: id(50),
        hook_id: id(2),
        trigger: Trigger::FormSubmitted,
        form_id: id(3),
        response_id: id(4),
    }
}

fn missing(lives: &SubscriptionLives, happening: &Happening) -> Vec<Uuid> {
    lives.missing_hooks(&happened(happening)).collect()
}

#[test]
fn an_occurrence_lists_subscriptions_live_at_match() {
    let lives = lives();
    let strangers = |seen, hooks: &[u128]| {
        lives.unexpected_hooks(&happened(&happening(seen, hooks))).collect::<Vec<_>>()
    };
    for seen in [10, 15, 19] {
        assert!(strangers(seen, &[2]).is_empty());
    }
    for seen in [0, 9, 20, 21] {
        assert_eq!(strangers(seen, &[2]), [id(2)], "it did not live at {seen}");
    }
    assert_eq!(strangers(15, &[7]), [id(7)], "no such subscription");
    let silent = Happening { silent: true, ..happening(15, &[2]) };
    assert_eq!(lives.unexpected_hooks(&happened(&silent)).count(), 1);

    let mut live = SubscriptionLives::default();
    live.take_change(change(2, 1, 10, &made(Trigger::FormSubmitted, None)));
    assert_eq!(missing(&live, &happening(10, &[])), [id(2)]);
    for (lives, fine, why) in [
        (&live, happening(10, &[2]), "it is listed"),
        (&live, happening(9, &[]), "the match did not see it"),
        (&lives, happening(15, &[]), "it was removed before the occurrence"),
    ] {
        assert!(missing(lives, &fine).is_empty(), "{why}");
    }
}

#[test]
fn a_match_misses_only_overlapping_changes() {
    let lives = lives();
    let overlap = |seen, seconds| {
        let recorded_at = (noon().get() + chrono::TimeDelta::seconds(seconds)).into();
        lives.match_overlap(&RecordedOccurrence { recorded_at, ..happened(&happening(seen, &[])) })
    };
    assert_eq!(overlap(20, 999), MatchOverlap::None);
    assert_eq!(overlap(15, 60), MatchOverlap::Some);
    assert_eq!(overlap(15, 61), MatchOverlap::TooOld);
    assert_eq!(overlap(0, -5), MatchOverlap::Some, "the database's clock may go back");
}

#[test]
fn a_delivery_needs_a_listing_occurrence() {
    let lives = lives();
    let (listed, unlisted) = (happening(15, &[2]), happening(15, &[]));
    let by_rule = happened(&listed).delivery_id(id(2));
    let of = consignment().delivery_of();
    let begun = |delivery, begun, of: Option<&Happening>| {
        lives.fault_of_beginning(delivery, begun, of.map(happened).as_ref())
    };
    assert_eq!(begun(by_rule, DeliveryBeginning::Listed(of), Some(&listed)), None);
    assert_eq!(
        begun(by_rule, DeliveryBeginning::Listed(of), Some(&unlisted)),
        Some(DeliveryFault::ToNobody)
    );
    assert_eq!(begun(by_rule, DeliveryBeginning::Listed(of), None), Some(DeliveryFault::OfNothing));
    assert_eq!(
        begun(by_rule, DeliveryBeginning::Unsaid, Some(&listed)),
        Some(DeliveryFault::OfNothing)
    );
    assert_eq!(
        begun(id(77), DeliveryBeginning::Listed(of), Some(&listed)),
        Some(DeliveryFault::Second)
    );
    let consignment = consignment();
    let repaired = DeliveryBeginning::Repaired(&consignment);
    assert_eq!(begun(by_rule, repaired, Some(&unlisted)), None, "the match saw it live");
    assert_eq!(begun(by_rule, repaired, Some(&happening(25, &[]))), Some(DeliveryFault::ToNobody));
    let unsaid = tried(1, Outcome::Retry);
    assert_eq!(DeliveryBeginning::new(&unsaid), Some(DeliveryBeginning::Unsaid));
}

#[test]
fn a_request_reissues_a_delivery_once() {
    let (lives, listed, request_id) = (lives(), happening(15, &[2]), id(6));
    let original = happened(&listed).delivery_id(id(2));
    let reissued = ReissuedDelivery {
        reissue_of: original,
        request_id,
        reason: "drill".into(),
        consignment: consignment(),
        report_id: None,
        booking_id: None,
    };
    let anew = DeliveryEvent::DeliveryReissued(reissued);
    let beginning = |delivery, happening| {
        lives.fault_of_beginning(
            delivery,
            DeliveryBeginning::new(&anew).unwrap(),
            Some(&happened(happening)),
        )
    };
    assert_eq!(beginning(reissue_id(original, request_id), &listed), None);
    assert_eq!(beginning(reissue_id(original, id(7)), &listed), Some(DeliveryFault::Second));
    let later = happening(20, &[]);
    assert_eq!(beginning(reissue_id(original, request_id), &later), Some(DeliveryFault::ToNobody));
    assert_eq!(first_fault([&anew], QueuedFor::ForItself), None);
    assert_eq!(first_fault([&anew], QueuedFor::No), Some(DeliveryFault::Lost));
}

fn attempt(number: u32, outcome: Outcome) -> Attempt {
    let at = "2026-11-01T00:00:00.000Z".parse().unwrap();
    let next_try_at = (outcome == Outcome::Retry).then_some(at);
    Attempt { outcome, error: None, next_try_at, ..Attempt::interrupted(number, at, at) }
}

fn tried(number: u32, outcome: Outcome) -> DeliveryEvent {
    DeliveryEvent::DeliveryAttempted(attempt(number, outcome))
}

fn late(number: u32, late: LateEffect) -> DeliveryEvent {
    let late = Some(late);
    DeliveryEvent::DeliveryAttempted(Attempt { late, ..attempt(number, Outcome::Delivered) })
}

fn replayed(number: u32, outcome: Outcome) -> DeliveryEvent {
    let replay_id = Some(id(7));
    DeliveryEvent::DeliveryAttempted(Attempt { replay_id, ..attempt(number, outcome) })
}

fn ordered() -> DeliveryEvent {
    let body = SentBody { id: id(8), sha256: String::new() };
    DeliveryEvent::DeliveryReplayed(ReplayedDelivery { replay_id: id(7), tries: 1, body })
}

fn queued() -> DeliveryEvent {
    DeliveryEvent::DeliveryQueued(consignment())
}

fn judged(events: &[DeliveryEvent], is_queued: QueuedFor) -> Option<DeliveryFault> {
    first_fault(std::iter::once(&queued()).chain(events), is_queued)
}

#[test]
fn only_a_waiting_delivery_is_queued() {
    let retry = tried(1, Outcome::Retry);
    let cancelled = DeliveryEvent::DeliveryCancelled { cause: CancelCause::SourceErased, of: None };
    for waiting in [&[][..], std::slice::from_ref(&retry)] {
        assert_eq!(judged(waiting, QueuedFor::ForItself), None);
        assert_eq!(judged(waiting, QueuedFor::No), Some(DeliveryFault::Lost));
    }
    for end in [tried(1, Outcome::Delivered), tried(1, Outcome::Failed), cancelled] {
        let ended = [end];
        assert_eq!(judged(&ended, QueuedFor::No), None);
        assert_eq!(judged(&ended, QueuedFor::ForItself), Some(DeliveryFault::StillQueued));
    }
}

#[test]
fn deliveries_have_eight_tries_and_one_end() {
    let eight: Vec<_> = (1..=7).map(|number| tried(number, Outcome::Retry)).collect();
    let with = |more: &[DeliveryEvent]| judged(&[&eight[..], more].concat(), QueuedFor::No);
    assert_eq!(with(&[tried(8, Outcome::Failed)]), None);
    assert_eq!(
        with(&[tried(8, Outcome::Retry), tried(9, Outcome::Failed)]),
        Some(DeliveryFault::Tries(9, 8))
    );
    let (delivered, failed) = (tried(1, Outcome::Delivered), tried(1, Outcome::Failed));
    let twice = [delivered.clone(), tried(2, Outcome::Delivered)];
    assert_eq!(judged(&twice, QueuedFor::No), Some(DeliveryFault::Successes(2)));
    let on = [failed.clone(), tried(2, Outcome::Retry)];
    assert_eq!(judged(&on, QueuedFor::No), Some(DeliveryFault::AfterTheEnd));
    let cancelled = DeliveryEvent::DeliveryCancelled { cause: CancelCause::KeyRevoked, of: None };
    assert_eq!(judged(&[failed, cancelled], QueuedFor::No), Some(DeliveryFault::AfterTheEnd));
}

#[test]
fn e21_a_late_answer_never_counts_twice() {
    let cut = DeliveryEvent::DeliveryAttempted(Attempt {
        next_try_at: Some("2026-11-01T00:00:00.000Z".parse().unwrap()),
        ..attempt(1, Outcome::Interrupted)
    });
    assert_eq!(judged(&[cut.clone(), late(1, LateEffect::Arrived)], QueuedFor::No), None);
    let delivered = tried(2, Outcome::Delivered);
    let noted = [cut.clone(), delivered.clone(), late(1, LateEffect::Noted)];
    assert_eq!(judged(&noted, QueuedFor::No), None);
    let twice = [cut, delivered, late(1, LateEffect::Arrived)];
    assert_eq!(judged(&twice, QueuedFor::No), Some(DeliveryFault::Successes(2)));
}

/// Only an ordered replay is queued.
#[test]
fn a_replay_is_queued_until_its_try() {
    let (for_it, for_another) = (QueuedFor::ForReplay(id(7)), QueuedFor::ForReplay(id(9)));
    let ended = [tried(1, Outcome::Failed)];
    assert_eq!(judged(&ended, for_it), Some(DeliveryFault::StillQueued), "nobody ordered it");
    let ordered = [&ended[..], &[ordered()]].concat();
    assert_eq!(judged(&ordered, for_it), None);
    assert_eq!(judged(&ordered, for_another), Some(DeliveryFault::StillQueued));
    let had = [&ordered[..], &[replayed(2, Outcome::Failed)]].concat();
    assert_eq!(judged(&had, QueuedFor::No), None);
    assert_eq!(judged(&had, for_it), Some(DeliveryFault::StillQueued), "it has had its try");
}

/// Such a delivery must be queued for itself.
#[test]
fn waiting_deliveries_queued_for_replay_are_lost() {
    let waiting = [tried(1, Outcome::Retry)];
    assert_eq!(judged(&waiting, QueuedFor::ForReplay(id(7))), Some(DeliveryFault::Lost));
}

#[test]
fn only_an_ordered_replay_has_one_try() {
    let delivered = tried(1, Outcome::Delivered);
    let again = [delivered.clone(), ordered(), replayed(2, Outcome::Delivered)];
    assert_eq!(judged(&again, QueuedFor::No), None);
    let twice = [&again[..], &[replayed(3, Outcome::Failed)]].concat();
    assert_eq!(judged(&twice, QueuedFor::No), Some(DeliveryFault::Replay(id(7))));
    let unasked = [delivered, replayed(2, Outcome::Delivered)];
    assert_eq!(judged(&unasked, QueuedFor::No), Some(DeliveryFault::Replay(id(7))));
}

#[test]
fn each_retry_gives_a_step_five_tries() {
    let order = StepOrder {
        step: StepName { run_id: id(1), step_id: id(2) },
        trigger: Trigger::FormSubmitted,
        form_id: id(3),
        response_id: id(4),
        method: StepMethod::Post,
        target: StepTarget::InLog { url: "https://hooks.example.com/".into() },
        extra_headers: 0,
        test: false,
    };
    let tries = |from: u32| {
        let retries = (from..from + 4).map(|number| tried(number, Outcome::Retry));
        retries.chain([tried(from + 4, Outcome::Failed)]).collect::<Vec<_>>()
    };
    let retried = RetriedStep { order: order.clone(), tries: 5, body: None };
    let mut events = vec![DeliveryEvent::StepQueued(order)];
    events.extend(tries(1));
    assert_eq!(first_fault(&events, QueuedFor::No), None);
    events.push(DeliveryEvent::StepRetried(retried));
    assert_eq!(first_fault(&events, QueuedFor::No), Some(DeliveryFault::Lost));
    events.extend(tries(6));
    assert_eq!(first_fault(&events, QueuedFor::No), None);
    events.pop();
    events.extend([tried(10, Outcome::Retry), tried(11, Outcome::Failed)]);
    assert_eq!(first_fault(&events, QueuedFor::No), Some(DeliveryFault::Tries(11, 10)));
}

/// One entry of a made-up log, about one of a few firms, forms and subscriptions.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Made { hook: u128, firm: u128, trigger: usize, form: Option<u128> },
    Removed { hook: u128 },
    Occurred { firm: u128, trigger: usize, form: u128, silent: bool },
}

fn entry() -> impl Strategy<Value = Entry> {
    let (firm, trigger) = (0..3_u128, 0..2_usize);
    prop_oneof![
        (0..8_u128, firm.clone(), trigger.clone(), proptest::option::of(0..2_u128))
            .prop_map(|(hook, firm, trigger, form)| Entry::Made { hook, firm, trigger, form }),
        (0..8_u128).prop_map(|hook| Entry::Removed { hook }),
        (firm, trigger, 0..2_u128, any::<bool>()).prop_map(|(firm, trigger, form, silent)| {
            Entry::Occurred { firm, trigger, form, silent }
        }),
    ]
}

/// A log in which every subscription is made once, and removed at most once and after that.
fn sound(log: Vec<Entry>) -> Vec<Entry> {
    let mut seen: HashMap<u128, bool> = HashMap::new();
    log.into_iter()
        .filter(|entry| match entry {
            Entry::Made { hook, .. } => {
                let new = !seen.contains_key(hook);
                seen.entry(*hook).or_insert(true);
                new
            }
            Entry::Removed { hook } => seen.insert(*hook, false) == Some(true),
            Entry::Occurred { .. } => true,
        })
        .collect()
}

/// Plays the log from its beginning, and lists the subscriptions that each occurrence reaches.
/// This model has no positions and no table.
fn naive(log: &[Entry]) -> Vec<(usize, Vec<Uuid>)> {
    let mut live: Vec<(u128, u128, usize, Option<u128>)> = Vec::new();
    let mut heard = Vec::new();
    for (place, entry) in log.iter().enumerate() {
        match *entry {
            Entry::Made { hook, firm, trigger, form } => live.push((hook, firm, trigger, form)),
            Entry::Removed { hook } => live.retain(|(of, ..)| *of != hook),
            Entry::Occurred { firm, trigger, form, silent } => {
                let hears =
                    |(_, of_firm, of_trigger, of_form): &&(u128, u128, usize, Option<u128>)| {
                        !silent
                            && *of_firm == firm
                            && *of_trigger == trigger
                            && of_form.is_none_or(|of_form| of_form == form)
                    };
                let mut hooks: Vec<_> = live.iter().filter(hears).map(|(of, ..)| id(*of)).collect();
                hooks.sort_unstable();
                heard.push((place, hooks));
            }
        }
    }
    heard
}

fn position(place: usize) -> i64 {
    i64::try_from(place).unwrap() + 1
}

proptest! {
    #[test]
    fn i1_a_played_log_lists_live_subscriptions(log in proptest::collection::vec(entry(), 0..60)) {
        let log = sound(log);
        let mut lives = SubscriptionLives::default();
        let mut seen: HashMap<u128, i64> = HashMap::new();
        let mut firm_of: HashMap<u128, u128> = HashMap::new();
        let mut seen_by = Vec::new();
        for (place, entry) in log.iter().enumerate() {
            match *entry {
                Entry::Made { hook, firm, trigger, form } => {
                    firm_of.insert(hook, firm);
                    seen.insert(firm, position(place));
                    let event = made(Trigger::ALL[trigger], form.map(id));
                    lives.take_change(change(hook, firm, position(place), &event));
                }
                Entry::Removed { hook } => {
                    let firm = firm_of[&hook];
                    seen.insert(firm, position(place));
                    lives.take_change(change(hook, firm, position(place), &removed()));
                }
                Entry::Occurred { firm, .. } => {
                    seen_by.push(seen.get(&firm).copied().unwrap_or_default());
                }
            }
        }
        for ((place, expected), seen) in naive(&log).into_iter().zip(seen_by) {
            let Entry::Occurred { firm, trigger, form, silent } = log[place] else {
                unreachable!("only occurrences are heard");
            };
            let listed = Happening {
                form_id: id(form), hooks: expected.clone(), silent, trigger: Trigger::ALL[trigger],
                ..happening(seen, &[])
            };
            let all = |happening| RecordedOccurrence {
                firm_id: id(firm), position: position(place), ..happened(happening)
            };
            prop_assert_eq!(lives.missing_hooks(&all(&listed)).count(), 0);
            prop_assert_eq!(lives.unexpected_hooks(&all(&listed)).count(), 0);
            prop_assert_eq!(lives.match_overlap(&all(&listed)), MatchOverlap::None);
            let nobody = Happening { hooks: Vec::new(), ..listed.clone() };
            let mut hooks: Vec<_> = lives.missing_hooks(&all(&nobody)).collect();
            hooks.sort_unstable();
            prop_assert_eq!(&hooks, &expected);
        }
    }
}
