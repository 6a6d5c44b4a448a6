//! Races for the last place, for one stream, and between a command and a revocation.

use std::collections::BTreeSet;
use std::time::Duration;

use api::commands::keys;
use domain::event::{Actor, EventContext, Quota};
use domain::firm::{Firm as FirmAggregate, FirmCommand, MemberChange, MemberRole};
use domain::subscription::{
    RemovalReason, Subscription, SubscriptionCommand, SubscriptionRejection, Trigger,
};
use eventstore::{AppendError, CommandError, Store};
use futures::future::join_all;
use serde_json::json;
use tests::{Firm, Handicap, Receiver, World, activity};
use uuid::Uuid;

async fn create_hook(
    store: &Store,
    hook_id: Uuid,
    context: EventContext,
) -> Result<(), CommandError<SubscriptionRejection>> {
    let Actor::Key(key_id) = context.actor else { panic!("a key creates hooks") };
    let create = SubscriptionCommand::Create {
        key_id,
        trigger: Trigger::FormSubmitted,
        target_url: "https://example.com/hook".into(),
        form_id: None,
    };
    store.execute::<Subscription>(&hook_id.to_string(), create, &context).await
}

fn by_key(world: &World, firm: &Firm, key_id: Uuid) -> EventContext {
    world.service().context(firm.id, Actor::Key(key_id))
}

/// The other commands see its event, and are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_racing_command_wins_on_a_stream() {
    let world = World::new().await;
    let firm = world.firm().await;
    let store = &world.service().store;
    let hook_id = world.id();
    create_hook(store, hook_id, by_key(&world, &firm, firm.key_id)).await.unwrap();
    let remove = SubscriptionCommand::Remove { reason: RemovalReason::DeletedByKey };
    let context = by_key(&world, &firm, firm.key_id);
    let id = hook_id.to_string();
    let removals =
        join_all((0..20).map(|_| store.execute::<Subscription>(&id, remove.clone(), &context)))
            .await;
    assert_eq!(removals.iter().filter(|removal| removal.is_ok()).count(), 1);
    for removal in removals.into_iter().filter_map(Result::err) {
        let lost = matches!(removal, CommandError::Rejected(SubscriptionRejection::NotLive));
        assert!(lost, "{removal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compatible_racing_commands_all_happen() {
    let world = World::new().await;
    let firm = world.firm().await;
    let store = &world.service().store;
    let id = firm.id.to_string();
    let joins = join_all((1..=6).map(|n| {
        let context = world.service().context(firm.id, Actor::System);
        let join = FirmCommand::ReportMember {
            member_id: Uuid::from_u128(n),
            time: world.clock.now(),
            change: MemberChange::Joined(MemberRole::Member),
        };
        let id = &id;
        async move { store.execute::<FirmAggregate>(id, join, &context).await }
    }))
    .await;
    assert!(joins.iter().all(Result::is_ok), "{joins:?}");
}

/// B9: of 150 racing creates with two keys, exactly 100 get a place. A removal gives its place
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_racing_creates_stop_at_100_hooks() {
    let world = World::new().await;
    let firm = world.firm().await;
    let other = world.new_key(&firm, "Other").await;
    let store = &world.service().store;
    let creates = join_all((0..150).map(|n| {
        let key_id = if n % 2 == 0 { firm.key_id } else { other.id };
        create_hook(store, world.id(), by_key(&world, &firm, key_id))
    }))
    .await;
    assert_eq!(creates.iter().filter(|create| create.is_ok()).count(), 100);
    for create in creates.into_iter().filter_map(Result::err) {
        let full = matches!(create, CommandError::Append(AppendError::QuotaFull(Quota::Hooks)));
        assert!(full, "{create}");
    }
    assert_eq!(world.count("hooks where removed_at is null").await, 100);

    let hooks = world.get(&firm, "/hooks").await;
    let one = hooks.body[0]["id"].as_str().unwrap();
    world.remove_hook(&firm, one).await.ok();
    create_hook(store, world.id(), by_key(&world, &firm, other.id)).await.unwrap();
}

/// B10: a revoked key gives its place back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b10_racing_keys_stop_at_25() {
    let world = World::new().await;
    let firm = world.firm().await;
    let made =
        join_all((0..30).map(|_| keys::create(world.service(), firm.id, firm.owner, "k"))).await;
    assert_eq!(made.iter().filter(|key| key.is_ok()).count(), 24, "the firm had one");
    for refused in made.into_iter().filter_map(Result::err) {
        assert!(matches!(refused, api::Error::TooManyKeys), "{refused:?}");
    }
    world.revoke_key(&firm, firm.key_id).await;
    world.new_key(&firm, "one more").await;
}

/// B4: 1,000 seeds
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_no_hook_outlives_its_revoked_key() {
    let world = World::new().await;
    let (mut created_first, mut revoked_first) = (0, 0);
    for round in 0..50_u64 {
        let firm = world.firm().await;
        let races = (0..20_u64).map(|place| {
            let (world, firm, seed) = (&world, &firm, round * 20 + place);
            async move {
                let key = world.new_key(firm, "racer").await;
                let store = &world.service().store;
                let delay = |by: u64| tokio::time::sleep(Duration::from_micros(by));
                let create = async {
                    delay(seed * 37 % 3_000).await;
                    create_hook(store, world.id(), by_key(world, firm, key.id)).await
                };
                let revoke = async {
                    delay(seed * 53 % 3_000).await;
                    keys::revoke(world.service(), firm.id, key.id, Actor::System).await
                };
                let (created, revoked) = tokio::join!(create, revoke);
                revoked.unwrap();
                created.is_ok()
            }
        });
        let created: Vec<bool> = join_all(races).await;
        let won = created.iter().filter(|created| **created).count();
        created_first += won;
        revoked_first += created.len() - won;
    }
    let alive =
        "hooks join key_auth using (key_id) where removed_at is null and revoked_at is not null";
    assert_eq!(
        world.count(alive).await,
        0,
        "{created_first} creates came first, {revoked_first} revocations"
    );
    assert!(created_first > 0 && revoked_first > 0, "{created_first}:{revoked_first} is no race");
}

/// The ends of a response's deliveries, by trigger: state and cause.
async fn ends(world: &World, response_id: Uuid) -> Vec<(String, String, Option<String>)> {
    sqlx::query_as(
        "select trigger, state, cause from deliveries where response_id = $1 order by trigger",
    )
    .bind(response_id)
    .fetch_all(world.pool())
    .await
    .unwrap()
}

/// A person finishes while the partial submission is claimed, 200 seeds. Claimed first, the partial
/// is sent as it was then. Submitted first, the partial is cancelled. The submission is always
/// sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_racing_submission_cancels_an_unclaimed_partial() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    for trigger in ["partial_submission", "form_submitted"] {
        let body = json!({"trigger": trigger, "target_url": receiver.url("/")});
        world.create_hook(&firm, body).await.ok();
    }
    let (mut sent, seeds, mut handicap) = (0, 200_u64, Handicap::default());
    for seed in 0..seeds {
        let response_id = world.id();
        let begun = json!({
            "response_id": response_id, "form_id": firm.form, "saved_at": "2026-11-01T11:50:00Z",
            "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "one"}],
        });
        let finished = json!({"response_id": response_id, "form_id": firm.form,
                              "submitted_at": "2026-11-01T11:55:00Z"});
        world.report(&[activity(firm.id, "response.saved", begun)]).await;
        world.pass(Duration::from_secs(3_600));
        world.time_out().await;
        let before = receiver.received().len();
        let claim = async {
            handicap.first().await;
            deliverer::send::deliver_once(world.deliverer()).await.unwrap();
        };
        let submission = async {
            handicap.second().await;
            world.report_one(activity(firm.id, "response.submitted", finished)).await;
        };
        tokio::join!(claim, submission);
        world.deliver().await;
        let told = receiver.received().split_off(before);
        let partials: Vec<_> = told
            .iter()
            .filter(|one| one.header("x-service-event") == "partial_submission")
            .collect();
        assert_eq!(told.len() - partials.len(), 1, "seed {seed}: form_submitted once");
        let (state, cause) = match partials[..] {
            [] => ("cancelled", Some("finished_later".to_owned())),
            [partial] => {
                assert_eq!(partial.json()["partial"]["answered"], 1, "seed {seed}: as it was");
                ("delivered", None)
            }
            _ => panic!("seed {seed}: {} times", partials.len()),
        };
        let expected = [
            ("form_submitted".to_owned(), "delivered".to_owned(), None),
            ("partial_submission".to_owned(), state.to_owned(), cause),
        ];
        assert_eq!(ends(&world, response_id).await, expected, "seed {seed}");
        sent += partials.len();
        handicap.after(!partials.is_empty());
    }
    assert!(0 < sent && sent < usize::try_from(seeds).unwrap(), "{sent} sent is no race");
}

/// E20, in one process: four claimers on one outbox
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e20_racing_claimers_send_each_delivery_once() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    for place in 0..10 {
        world.subscribe(&firm, &receiver.url(&format!("/{place}"))).await;
    }
    for _ in 0..30 {
        world.submit(&firm).await;
    }
    let claimer = || async {
        let mut sent = 0;
        loop {
            match deliverer::send::deliver_once(world.deliverer()).await.unwrap() {
                0 => return sent,
                now => sent += now,
            }
        }
    };
    let sent = join_all((0..4).map(|_| claimer())).await;
    // A claimer that found every lane held by the others ends early. The rest is sent now.
    let total: usize = sent.iter().sum::<usize>() + world.deliver().await;
    assert_eq!(total, 300);
    let ids: BTreeSet<String> = receiver
        .received()
        .iter()
        .map(|request| request.header("x-service-delivery").to_owned())
        .collect();
    assert_eq!((receiver.received().len(), ids.len()), (300, 300));
}

#[tokio::test]
async fn an_append_wakes_followers_of_other_processes() {
    let here = World::new().await;
    let firm = here.firm().await;
    let there = eventstore::connect(here.database.main.clone(), 2);
    let heard = eventstore::Nudge::default();
    let _hearing = tokio::spawn(eventstore::relay_nudges(there, heard.clone()));
    let nudge = here.service().store.nudge().clone();
    let _telling = tokio::spawn(eventstore::relay_nudges(here.pool().clone(), nudge));
    let mut woken = heard.subscribe();
    // Until the other side listens, nobody hears: append until it does.
    while !woken.has_changed().unwrap() {
        here.submit(&firm).await;
    }
    woken.changed().await.unwrap();
}

/// Makes the next inserts into the log fail so often, as a lost race does. A rollback does not
/// reset the sequence that counts them.
async fn lose_races(world: &World, times: i64, sqlstate: &str) {
    let statements = format!(
        "drop sequence if exists lost cascade; create sequence lost;
         create or replace function lose() returns trigger language plpgsql as $$ begin
             if nextval('lost') <= {times} then
                 raise exception using errcode = '{sqlstate}', constraint = 'events_pkey';
             end if;
             return null;
         end $$;
         create or replace trigger lose before insert on events
             for each statement execute function lose()"
    );
    world.change_database(&statements).await;
}

/// A lost race runs again five times.
#[tokio::test]
async fn e24_a_sixth_lost_race_gets_503() {
    let world = World::new().await;
    let firm = world.firm().await;
    let body = serde_json::json!({"target_url": "https://93.184.216.34/",
                                  "trigger": "form_submitted"});
    for sqlstate in ["40001", "40P01", "23505"] {
        for (lost, status, tries) in [(5, 201, 6), (6, 503, 6)] {
            lose_races(&world, lost, sqlstate).await;
            let answer = world.create_hook(&firm, body.clone()).await;
            assert_eq!(answer.status, status, "{sqlstate} {}", answer.text());
            assert_eq!(world.ask_number("select last_value from lost").await, tries, "{sqlstate}");
            if status == 503 {
                assert_eq!(answer.code().1, "unavailable");
                assert_eq!(answer.headers["retry-after"], "1");
            }
        }
    }
}

/// A revocation appends to several streams, and runs again as often. A defect does not run again.
#[tokio::test]
async fn e24_a_revocation_reruns_after_lost_races() {
    let world = World::new().await;
    let firm = world.firm().await;
    lose_races(&world, 1, "42P01").await;
    let defect = keys::revoke(world.service(), firm.id, firm.key_id, Actor::System).await;
    assert!(matches!(defect, Err(api::Error::Internal(_))), "{defect:?}");
    lose_races(&world, 5, "40001").await;
    world.revoke_key(&firm, firm.key_id).await;
}
