//! E15: the disk of the log and of the outbox is full. Triggers make PostgreSQL's refusal (SQLSTATE
//! 53100), and a sequence that no rollback puts back counts the refusals.

use std::time::Duration;

use deliverer::attempt::ClaimedAttempt;
use deliverer::attempt::FinishedAttempt;
use deliverer::claim::claim_due;
use deliverer::outgoing::OutgoingExchange;
use deliverer::record::record_batch;
use deliverer::send::deliver;
use deliverer::{Dispatcher, SenderCount};
use domain::delivery::AttemptAnswer;
use serde_json::json;
use sqlx::Executor;
use tests::{Receiver, TestDatabase, World, activity, raw};
use tokio_util::sync::CancellationToken;

use tests::process::{serve, until};
use tests::scrape::Scrape;

pub(crate) const FULL: &str = "
    create sequence refused;
    create function disk_full() returns trigger language plpgsql as $$ begin
        perform nextval('refused');
        raise exception 'could not extend file: No space left on device'
            using errcode = 'disk_full';
    end $$;
    create trigger disk_full before insert on events
        for each statement execute function disk_full();
    create trigger disk_full before insert or update or delete on outbox
        for each statement execute function disk_full()";

/// The disk of the keyring, which the tests keep apart.
pub(crate) const KEYRING_FULL: &str = "
    create function disk_full() returns trigger language plpgsql as $$ begin
        raise exception 'could not extend file: No space left on device'
            using errcode = 'disk_full';
    end $$;
    create trigger disk_full before insert on data_keys
        for each statement execute function disk_full()";

/// The log has room for small events only, as when the last pages of a table are not full.
const NEARLY_FULL: &str = "
    create function disk_full() returns trigger language plpgsql as $$ begin
        raise exception 'could not extend file: No space left on device'
            using errcode = 'disk_full';
    end $$;
    create trigger disk_full before insert on responses
        for each row execute function disk_full()";

const ROOM_AGAIN: &str = "
    drop trigger disk_full on events;
    drop trigger disk_full on outbox";

async fn refused(world: &World) -> i64 {
    world.ask_number("select last_value from refused").await
}

/// Tries of all that is queued, as the outbox counts them.
async fn tries(world: &World) -> Vec<i32> {
    let tries = sqlx::query_scalar("select tries from outbox order by tries");
    tries.fetch_all(world.pool()).await.unwrap()
}

/// The answer of `/readyz`, and the name of its only alarm.
async fn ready(world: &World) -> (u16, String) {
    let answer = world.ask_readiness().await;
    let alarms = answer.body["alarms"].as_array().cloned().unwrap_or_default();
    assert!(alarms.len() < 2, "{}", answer.text());
    let alarm = alarms.first().map_or("", |alarm| alarm["name"].as_str().unwrap());
    (answer.status.as_u16(), alarm.to_owned())
}

fn answered(world: &World, claimed: &ClaimedAttempt) -> FinishedAttempt {
    let exchange = OutgoingExchange {
        answer: AttemptAnswer::Status(200),
        retry_after: None,
        hops: Vec::new(),
        snippet: Vec::new(),
        connected: true,
    };
    FinishedAttempt { claimed: claimed.clone(), exchange, finished_at: world.clock.now() }
}

/// Writes are refused and nothing is sent. All work goes on when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e15_a_full_disk_only_delays_work() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    let under_way = claim_due(world.deliverer(), &world.limits(1)).await.unwrap();
    world.submit(&firm).await;
    world.submit(&firm).await;
    world.change_database(FULL).await;

    let hook = json!({"target_url": receiver.url("/more"), "trigger": "form_submitted"});
    let made = world.create_hook(&firm, hook.clone()).await;
    let taken_in = world.report(&[super::submitted(&firm, world.id())]).await;
    for answer in [made, taken_in] {
        assert_eq!(answer.code(), (503, "unavailable"));
        assert_eq!(answer.headers["retry-after"], "1");
    }
    for path in ["/me", "/forms", "/hooks", "/triggers/form_submitted/sample"] {
        assert_eq!(world.get(&firm, path).await.status, 200, "{path}");
    }
    let answers = [answered(&world, &under_way[0])];
    assert!(record_batch(world.deliverer(), &answers).await.unwrap_err().may_pass());

    let (stop, nudge) = (CancellationToken::new(), world.service().store.nudge().clone());
    let (deliverer, until) = (world.deliverer().clone(), stop.clone());
    let (dispatch, inbox) = Dispatcher::new(deliverer, SenderCount::alone(), until);
    let sending = tokio::spawn(async move { deliver(dispatch, inbox, &nudge).await });
    let before = refused(&world).await;
    let looked_at = async { while refused(&world).await < before + 4 {} };
    tokio::time::timeout(Duration::from_secs(30), looked_at).await.unwrap();
    assert_eq!((receiver.received().len(), tries(&world).await), (0, vec![0, 0, 1]));

    world.change_database(ROOM_AGAIN).await;
    record_batch(world.deliverer(), &answers).await.unwrap();
    let sent = tokio::time::timeout(Duration::from_secs(30), receiver.wait_for(2)).await.unwrap();
    assert_eq!(sent.len(), 2, "the two that were queued");
    world.create_hook(&firm, hook).await.ok();
    stop.cancel();
    sending.await.unwrap();
    world.project().await;
    assert_eq!(world.delivery_states().await, vec![("delivered".to_owned(), None); 3]);
}

/// A full disk refused every report, and `/readyz` told nothing.
#[tokio::test]
async fn e15_failing_reports_make_a_process_unready() {
    let world = World::new().await;
    let firm = world.firm().await;
    let keyring = world.keys();
    let room_again = "drop trigger disk_full on data_keys; drop function disk_full";
    for (database, full, room) in
        [(world.pool(), FULL, ROOM_AGAIN), (keyring, KEYRING_FULL, room_again)]
    {
        database.execute(full).await.unwrap();
        assert_eq!(ready(&world).await.0, 200, "no report was refused yet");
        let report = [super::submitted(&firm, world.id())];
        world.report(&report).await.refused(503, "unavailable");
        for _ in 0..2 {
            let answer = world.ask_readiness().await;
            assert_eq!(answer.code(), (503, "unavailable"));
            assert!(answer.text().contains("the disk of a database is full"), "{}", answer.text());
            assert_eq!(answer.headers["retry-after"], "1");
        }
        world.get(&firm, "/me").await.ok();
        database.execute(room).await.unwrap();
        assert_eq!(ready(&world).await, (200, "disk".to_owned()), "nobody reported meanwhile");
        world.report(&report).await.ok();
        assert_eq!(world.count_events("Tried").await, 0, "a trial leaves nothing");
    }
}

#[tokio::test]
async fn e15_some_refused_reports_raise_an_alarm() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.change_database(NEARLY_FULL).await;
    let refused = world.report(&[super::submitted(&firm, world.id())]).await;
    assert_eq!(refused.code(), (503, "unavailable"));
    assert_eq!(ready(&world).await, (200, "disk".to_owned()));
    let joined = json!({"member_id": world.id(), "role": "admin"});
    world.report_one(activity(firm.id, "member.joined", joined)).await;
    assert_eq!(ready(&world).await, (200, "disk".to_owned()));
}

/// The real process counts the refusals, and is ready again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e15_full_disk_refusals_are_counted() {
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    let served = serve(&world.database, &[]).await;
    let counted = |scrape: &Scrape| scrape.value("firmforms_disk_full_refusals_total");
    assert_eq!(counted(&Scrape::new(served.internal).await), 0.0);
    world.change_database(FULL).await;
    let batch = json!([super::submitted(&firm, world.id())]).to_string();
    let report = async || raw::report(served.internal, world.token(), &batch).await.unwrap();
    assert_eq!(report().await, 503);
    until(served.internal, "/readyz", 503).await;
    assert!(counted(&Scrape::new(served.internal).await) >= 2.0, "the report and the trial");
    world.change_database(ROOM_AGAIN).await;
    until(served.internal, "/readyz", 200).await;
    assert_eq!(report().await, 202);
}
