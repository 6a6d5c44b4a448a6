use super::*;
use std::collections::BTreeMap;

use domain::event::{Actor, Event};
use domain::firm::FirmEvent;
use domain::subscription::SubscriptionEvent;

const FIRM: Uuid = Uuid::from_u128(1);
const ANN: Uuid = Uuid::from_u128(2);
const KEY: Uuid = Uuid::from_u128(3);

fn context() -> EventContext {
    EventContext {
        firm_id: Uuid::nil(),
        recorded_at: "2026-11-01T00:00:00.000Z".parse().unwrap(),
        actor: Actor::Product(Uuid::nil()),
        correlation_id: Uuid::from_u128(9),
        causation_id: None,
        traceparent: None,
        terminal: None,
    }
}

fn event(sequence: i64, event: FirmEvent) -> NewEvent {
    let context = EventContext { firm_id: FIRM, ..context() };
    NewEvent { aggregate_id: FIRM.to_string(), sequence, event: event.into(), context }
}

fn hook(n: u128, key_id: Uuid) -> LiveHook {
    LiveHook { hook_id: Uuid::from_u128(n), firm_id: FIRM, key_id, sequence: 1 }
}

/// A member left, then the firm closed.
fn plan() -> BatchPlan {
    let time = context().recorded_at;
    let left = event(2, FirmEvent::MemberLeft { member_id: ANN, time });
    let closed = event(3, FirmEvent::FirmClosed { time });
    BatchPlan {
        unmanaging: BTreeMap::from([((FIRM, ANN), left.id())]),
        closed: BTreeMap::from([(FIRM, closed.id())]),
        events: vec![left, closed],
        ..BatchPlan::default()
    }
}

#[test]
fn consequences_follow_their_event() {
    let (mine, other) = (hook(4, KEY), hook(5, Uuid::from_u128(8)));
    let condemned = EndedAccess {
        keys: vec![ActiveKey { key_id: KEY, firm_id: FIRM, member_id: ANN }],
        hooks_of_keys: vec![mine],
        hooks_of_firms: vec![mine, other],
    };
    let events = with_consequences(&mut plan(), &condemned);
    let [left, revoked, removed, closed, removed_too] = &events[..] else { panic!("{events:?}") };
    assert_eq!(left.event.event_type(), "MemberLeft");
    assert_eq!(closed.event.event_type(), "FirmClosed");
    let reason = RevocationReason::MemberNotManager;
    assert_eq!(revoked.event, Event::from(domain::access::KeyEvent::KeyRevoked { reason }));
    assert_eq!(revoked.context.causation_id, Some(left.id()));
    let removal = |reason| SubscriptionEvent::SubscriptionRemoved { reason, evidence: vec![] };
    assert_eq!(removed.event, removal(RemovalReason::KeyRevoked).into());
    assert_eq!(removed.aggregate_id, mine.hook_id.to_string());
    assert_eq!(removed.context.causation_id, Some(revoked.id()));
    assert_eq!(removed_too.event, removal(RemovalReason::FirmClosed).into());
    assert_eq!(removed_too.aggregate_id, other.hook_id.to_string());
    assert_eq!(removed_too.context.causation_id, Some(closed.id()));
    assert!(events.iter().all(|new| new.context.firm_id == FIRM));
}

/// A subscription that goes with its firm does not go again with its key.
#[test]
fn a_subscription_is_removed_only_once() {
    let mut plan = plan();
    plan.events.reverse();
    let condemned = EndedAccess {
        keys: vec![ActiveKey { key_id: KEY, firm_id: FIRM, member_id: ANN }],
        hooks_of_keys: vec![hook(4, KEY)],
        hooks_of_firms: vec![hook(4, KEY)],
    };
    let events = with_consequences(&mut plan, &condemned);
    let kinds: Vec<_> = events.iter().map(|new| new.event.event_type()).collect();
    assert_eq!(kinds, ["FirmClosed", "SubscriptionRemoved", "MemberLeft", "KeyRevoked"]);
}

#[test]
fn without_keys_and_subscriptions_nothing_follows() {
    let events = with_consequences(&mut plan(), &EndedAccess::default());
    assert_eq!(events, plan().events);
}
