//! The content, bytes and hash of an entry, held as they are: a chain that was written once must
//! verify for good.

use super::merkle::Hash;
use super::*;
use crate::event::{Actor, Event, EventContext, Terminal};
use crate::firm::FirmEvent;
use crate::invite::PersonEvent;
use crate::operations::{ReadAs, ReadingDetails, ReadingEvent, ReadingSubject};
use crate::subscription::{
    GoneAnswer, OrderedTest, RemovalReason, SubscriptionEvent, TargetShown, TargetTestEvent,
    Trigger,
};
use crate::values::Timestamp;
use rstest::rstest;
use uuid::Uuid;

const HOOK: &str = "00000000-0000-0000-0000-000000000007";

fn at(second: u32) -> Timestamp {
    format!("2026-11-01T12:00:{second:02}.000Z").parse().unwrap()
}

fn context(actor: Actor) -> EventContext {
    EventContext {
        firm_id: Uuid::from_u128(1),
        recorded_at: at(5),
        actor,
        correlation_id: Uuid::from_u128(2),
        causation_id: Some(Uuid::from_u128(3)),
        traceparent: None,
        terminal: None,
    }
}

fn stored<'a>(event: &'a Event, context: &'a EventContext) -> EntrySource<'a> {
    let digest = [0xab; 32];
    EntrySource { position: 42, digest, aggregate_id: HOOK, sequence: 2, event, context }
}

fn created() -> Event {
    Event::from(SubscriptionEvent::SubscriptionCreated {
        key_id: Uuid::from_u128(4),
        trigger: Trigger::FormSubmitted,
        target_url: "https://hooks.example.com/in/box?token=secret#x".into(),
        form_id: None,
        target_shown: TargetShown::WithPath,
    })
}

fn gone(n: u128) -> GoneAnswer {
    GoneAnswer { delivery_id: Uuid::from_u128(n), status: 410, finished_at: at(1) }
}

fn removed(reason: RemovalReason, evidence: Vec<GoneAnswer>) -> Event {
    Event::from(SubscriptionEvent::SubscriptionRemoved { reason, evidence })
}

/// The entry also names key, trigger and target.
#[test]
fn g5_a_removal_names_its_deciding_deliveries() {
    let (removal, of) = (removed(RemovalReason::TargetGone, vec![gone(5), gone(6)]), created());
    let context = context(Actor::Receiver(Uuid::from_u128(7)));
    assert_eq!(subscription_in(HOOK, &removal), Some(HOOK));
    assert_eq!(subscription_in(HOOK, &of), None);
    let entry =
        AuditEntry::new(stored(&removal, &context), SubscriptionOrigin::from_event(&of).as_ref())
            .unwrap();
    let text = String::from_utf8(entry.canonical_json(3)).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"action":"hook_removed","#,
            r#""actor":{"id":"00000000-0000-0000-0000-000000000007","kind":"receiver"},"#,
            r#""at":"2026-11-01T12:00:05.000Z","#,
            r#""caused_by":"00000000-0000-0000-0000-000000000003","#,
            r#""digest":"abababababababababababababababababababababababababababababababab","#,
            r#""event_id":"0361f759-7f24-58ee-ba63-73ac2c405f1e","#,
            r#""evidence":{"deliveries":["#,
            r#"{"delivery_id":"00000000-0000-0000-0000-000000000005","#,
            r#""finished_at":"2026-11-01T12:00:01.000Z","status":410},"#,
            r#"{"delivery_id":"00000000-0000-0000-0000-000000000006","#,
            r#""finished_at":"2026-11-01T12:00:01.000Z","status":410}],"#,
            r#""form_id":null,"key_id":"00000000-0000-0000-0000-000000000004","#,
            r#""target":"https://hooks.example.com/in/box?…","trigger":"form_submitted"},"#,
            r#""firm_id":"00000000-0000-0000-0000-000000000001","position":42,"#,
            r#""reason":"target_gone","sequence":3,"#,
            r#""subject":{"id":"00000000-0000-0000-0000-000000000007","kind":"hook"},"v":1}"#,
        )
    );
    assert_eq!(
        hex::encode(linked_hash(&GENESIS_HASH, text.as_bytes())),
        "6be644ea77f5d37b57b23e17b170880edf15b27ec1db68a939fea823db2c6c28"
    );
}

/// This subscription began with [`TargetShown::Origin`]. Older ones show the path (ruling 44).
#[test]
fn a_subscriptions_entries_hide_its_targets_path() {
    let mut created = created();
    if let Event::Subscription(SubscriptionEvent::SubscriptionCreated { target_shown, .. }) =
        &mut created
    {
        *target_shown = TargetShown::Origin;
    }
    let (origin, context) = (SubscriptionOrigin::from_event(&created), context(Actor::System));
    for event in [removed(RemovalReason::DeletedByKey, Vec::new()), created] {
        let entry = AuditEntry::new(stored(&event, &context), origin.as_ref()).unwrap();
        assert_eq!(entry.deed.evidence["target"], "https://hooks.example.com/…");
    }
}

#[test]
fn g5_each_removal_reason_has_its_word() {
    let context = context(Actor::System);
    for (reason, word) in [
        (RemovalReason::DeletedByKey, "deleted_by_key"),
        (RemovalReason::KeyRevoked, "key_revoked"),
        (RemovalReason::TargetGone, "target_gone"),
        (RemovalReason::FirmClosed, "firm_closed"),
    ] {
        let event = removed(reason, Vec::new());
        let entry = AuditEntry::new(stored(&event, &context), None).unwrap();
        assert_eq!(entry.deed.action, Action::HookRemoved);
        assert_eq!(entry.deed.reason.as_deref(), Some(word));
        assert_eq!(entry.actor, EntryParty { kind: "system", id: None });
    }
}

/// A bundle leaves the service.
#[test]
fn a_page_is_read_a_bundle_exported() {
    let context = context(Actor::Auditor(Uuid::nil()));
    for (how, action) in
        [(ReadAs::Page, Action::AuditRead), (ReadAs::Bundle, Action::AuditExported)]
    {
        let look = ReadingDetails::at(ReadingSubject::Audit, how);
        let event = Event::from(ReadingEvent::AuditRead(look));
        assert_eq!(AuditEntry::new(stored(&event, &context), None).unwrap().deed.action, action);
    }
}

#[test]
fn a_revealed_targets_entry_has_the_reason() {
    let (context, hook_id) = (context(Actor::Operator(Uuid::nil())), Uuid::from_u128(7));
    let look = ReadingDetails {
        hook_id: Some(hook_id),
        reason: Some("the receiver asked".into()),
        ..ReadingDetails::at(ReadingSubject::Target, ReadAs::Page)
    };
    let event = Event::from(ReadingEvent::AuditRead(look));
    let deed = AuditEntry::new(stored(&event, &context), None).unwrap().deed;
    assert_eq!(deed.action, Action::TargetRevealed);
    assert_eq!(deed.reason.as_deref(), Some("the receiver asked"));
    let evidence = serde_json::json!({"what": "target", "how": "page", "hook_id": hook_id});
    assert_eq!(deed.evidence, evidence);
}

#[test]
fn a_target_tests_entry_names_its_subscription() {
    let (context, hook_id) = (context(Actor::Operator(Uuid::nil())), Uuid::from_u128(7));
    let test = OrderedTest { hook_id, trigger: Trigger::LeadHot, reason: "a claim".into() };
    let event = Event::from(TargetTestEvent::TargetTestOrdered(test));
    let deed = AuditEntry::new(stored(&event, &context), None).unwrap().deed;
    assert_eq!((deed.action, deed.reason.as_deref()), (Action::HookTested, Some("a claim")));
    assert_eq!(deed.subject, EntryParty { kind: "hook", id: Some(hook_id.to_string()) });
}

#[test]
fn an_entry_names_operator_and_terminal() {
    let event = Event::from(FirmEvent::SecretRevealed {});
    let terminal = Terminal { host: "ops-1".into(), login: "ann_db".into(), user: "root".into() };
    let context = EventContext {
        terminal: Some(std::sync::Arc::new(terminal)),
        ..context(Actor::NamedOperator("ann.lee".parse().unwrap()))
    };
    let entry = AuditEntry::new(stored(&event, &context), None).unwrap();
    let text = String::from_utf8(entry.canonical_json(1)).unwrap();
    assert!(text.contains(r#""actor":{"id":"ann.lee","kind":"operator"}"#), "{text}");
    let place = r#""evidence":{"terminal":{"host":"ops-1","login":"ann_db","user":"root"}}"#;
    assert!(text.contains(place), "{text}");
}

#[test]
fn an_entry_of_an_older_build_stays() {
    let event = Event::from(FirmEvent::SecretRevealed {});
    let context = context(Actor::Operator(Uuid::nil()));
    let entry = AuditEntry::new(stored(&event, &context), None).unwrap();
    let text = String::from_utf8(entry.canonical_json(1)).unwrap();
    let actor = r#""actor":{"id":"00000000-0000-0000-0000-000000000000","kind":"operator"}"#;
    assert!(text.contains(actor) && text.contains(r#""evidence":{}"#), "{text}");
}

/// Each entry links to the one before, and the chain's tree holds all entries.
#[test]
fn g4_a_chain_links_all_its_entries() {
    let context = context(Actor::System);
    let event = Event::from(PersonEvent::PersonErased { time: at(1) });
    let entry = AuditEntry::new(stored(&event, &context), None).unwrap();
    let mut chain = AuditChain::default();
    let links: Vec<LinkedEntry> = (0..5).map(|_| chain.add_entry(&entry)).collect();
    for (place, linked) in (1..).zip(&links) {
        assert_eq!(linked.sequence, place);
        assert_eq!(linked.hash, linked_hash(&linked.previous, &linked.canonical));
    }
    for pair in links.windows(2) {
        assert_eq!(pair[1].previous, pair[0].hash);
    }
    let head = chain.head(context.firm_id);
    assert_eq!((head.sequence, head.hash), (5, links[4].hash));
    let leaves: Vec<Hash> = links.iter().map(|linked| merkle::leaf_hash(&linked.hash)).collect();
    let path = merkle::sibling_path(&leaves, 2);
    assert_eq!(merkle::root_by_path(2, 5, leaves[2], &path), Some(head.root));
    assert_eq!(AuditChain::restored(5, *chain.last_hash(), &chain.frontier_bytes()), Some(chain));
}

#[test]
fn an_action_is_read_by_its_word() {
    for action in Action::ALL {
        assert_eq!(action.name().parse(), Ok(*action));
    }
    assert_eq!("hook_painted".parse::<Action>(), Err(UnknownAction));
}

/// An entry is read from its bytes at no other sequence and in no other version.
#[test]
fn an_entry_needs_its_sequence_and_version() {
    let event = Event::from(PersonEvent::PersonErased { time: at(1) });
    let context = context(Actor::System);
    let entry = AuditEntry::new(stored(&event, &context), None).unwrap();
    let bytes = entry.canonical_json(3);
    let said = StoredEntry::read(&bytes, 3).unwrap();
    assert_eq!((said.firm_id, said.position), (Uuid::from_u128(1), 42));
    assert_eq!((said.event_id, said.digest), (entry.event_id, hex::encode([0xab; 32])));
    assert_eq!((said.action.as_str(), said.actor.id), ("person_erased", None));
    assert_eq!(StoredEntry::read(&bytes, 4), None);
    let newer = String::from_utf8(bytes).unwrap().replace("\"v\":1", "\"v\":2");
    assert_eq!(StoredEntry::read(newer.as_bytes(), 3), None);
}

/// Readings can be left out.
#[rstest]
#[case(&[], false, None)]
#[case(&[Action::HookCreated, Action::AuditRead], false, Some(&["hook_created", "audit_read"][..]))]
#[case(&[Action::HookCreated, Action::AuditRead], true, Some(&["hook_created"][..]))]
#[case(&[Action::AuditExported], true, Some(&[][..]))]
fn a_list_has_the_named_actions(
    #[case] named: &[Action],
    #[case] without_reads: bool,
    #[case] wanted: Option<&[&str]>,
) {
    assert_eq!(Action::action_words(named, without_reads).as_deref(), wanted);
}

#[test]
fn a_list_without_readings_has_all_others() {
    let wanted = Action::action_words(&[], true).unwrap();
    assert_eq!(wanted.len(), Action::ALL.len() - Action::READS.len());
    assert!(!wanted.contains(&"audit_read") && !wanted.contains(&"audit_exported"));
}
