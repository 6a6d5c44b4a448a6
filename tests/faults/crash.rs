//! Real processes, really killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use eventstore::{Clock, connect};
use nix::sys::signal::Signal;
use tests::invariants::{Acknowledged, Request, Run};
use tests::{
    ATTEMPTS, Receiver, Reply, TestDatabase, World, activity, own_cluster, place_witness,
    until_blocked, until_settled,
};
use tokio::process::{Child, Command};
use uuid::Uuid;

use tests::process::{self, firmforms};

const DELIVERIES: usize = 1_000;

/// A service whose waits pass sixty times faster; its lease is 25 s.
async fn serve(database: &TestDatabase) -> Child {
    process::serve(database, &["--time-scale", "60"]).await.child
}

/// A world on the real clock, with a subscription and so many responses submitted.
async fn submitted(receiver: &Receiver, count: usize) -> World {
    let database = TestDatabase::new().await;
    let clock = Clock::of_database(&connect(database.main.clone(), 1)).await.unwrap();
    let world = World::at(database, clock).await;
    place_witness(world.pool()).await;
    let firm = world.firm().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let events: Vec<_> = (0..count)
        .map(|_| {
            let data = serde_json::json!({
                "response_id": world.id(), "form_id": firm.form,
                "submitted_at": "2026-11-01T12:00:00Z",
            });
            activity(firm.id, "response.submitted", data)
        })
        .collect();
    world.report(&events).await.ok();
    world
}

/// Waits until everything has come to its end, and asks the invariants.
async fn assert_held(world: &World, receiver: &Receiver) {
    until_settled(world.pool(), Duration::from_secs(120)).await.unwrap();
    let requests: Vec<Request> = receiver.received().iter().map(Request::new).collect();
    let (pool, lease) = (world.pool(), Duration::from_secs(25));
    let acknowledged = &Acknowledged::default();
    Run { pool, requests: &requests, acknowledged, lease }.assert_held().await;
}

/// E4 and E5, P6–P12 at random: `kill -9` of `serve` in the middle of 1,000 deliveries. Only kills
/// cause repeats, and a repeat has the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e5_a_killed_service_loses_no_delivery() {
    let receiver = Receiver::start().await;
    let world = submitted(&receiver, DELIVERIES).await;
    let mut killed = 0;
    for arrived in [200, 600] {
        let mut service = serve(&world.database).await;
        receiver.wait_for(arrived).await;
        service.kill().await.unwrap();
        killed += 1;
    }
    let _service = serve(&world.database).await;
    assert_held(&world, &receiver).await;

    let mut copies: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for request in receiver.received() {
        let id = request.header("x-service-delivery").to_owned();
        copies.entry(id).or_default().push(request.body);
    }
    assert_eq!(copies.len(), DELIVERIES, "none lost");
    let repeated: Vec<_> = copies.values().filter(|bodies| bodies.len() > 1).collect();
    for bodies in &repeated {
        assert!(bodies.iter().all(|body| body == &bodies[0]), "repeats are the same bytes");
        assert!(bodies.len() <= 1 + killed, "repeats come from kills alone");
    }
    let delivered = world.count("deliveries where state = 'delivered'").await;
    assert_eq!((world.count("deliveries").await, delivered), (1_000, 1_000));
    let interrupted = world.count(&format!("{ATTEMPTS} where outcome = 'interrupted'")).await;
    assert!(
        usize::try_from(interrupted).unwrap() >= repeated.len(),
        "every repeat follows a try that history calls interrupted"
    );
}

/// E25: a signal ends the process with 0, and nothing is repeated. 200 deliveries are with a
/// receiver that answers after the signal. 100 wait for a host slot, and use up no try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e25_a_stopped_service_finishes_its_sends() {
    let receiver = Receiver::start().await;
    receiver.hold();
    let world = submitted(&receiver, 300).await;
    let caps = ["--permits", "400", "--per-firm-and-host", "200", "--time-scale", "60"];
    let mut first = process::serve(&world.database, &caps).await.child;
    receiver.wait_for(200).await;
    process::signal(&first, Signal::SIGTERM);
    receiver.release();
    assert!(first.wait().await.unwrap().success());
    // In the outbox, or not spread into it yet.
    let left = "select (select count(*) from outbox) + (select count(*) from unspread)";
    assert_eq!((receiver.received().len(), world.ask_number(left).await), (200, 100));
    assert_eq!(world.count("outbox where leased_at is not null or tries > 0").await, 0);
    let _second = serve(&world.database).await;
    assert_held(&world, &receiver).await;
    let ids: BTreeSet<Uuid> = receiver
        .received()
        .iter()
        .map(|request| request.header("x-service-delivery").parse().unwrap())
        .collect();
    assert_eq!((receiver.received().len(), ids.len()), (300, 300));
}

/// P12: the record looked before the erasure and committed after the erase worker, and its process
/// was killed before its second look. The answer stayed for 30 days, as ciphertext without a key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h1_an_erasure_survives_a_crashed_record() {
    let cluster = own_cluster().await;
    let database = cluster.database().await;
    let clock = Clock::of_database(&connect(database.main.clone(), 1)).await.unwrap();
    let world = World::at(database, clock).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    receiver.reply([Reply::status(200).body(b"canary answer")]);
    receiver.hold();
    let response_id = world.submit(&firm).await;
    let mut service = process::serve_with(&world.database, &[], &[("CRASH_AT", "recorded")]).await;
    receiver.wait_for(1).await;

    // The record waits for another writer of its answer's row. It has looked by then.
    let pool = connect(world.database.main.clone(), 2);
    let mut holding = pool.begin().await.unwrap();
    let other =
        "insert into answers (delivery_id, number, firm_id, response_id, answer, received_at)
                 select delivery_id, 1, firm_id, response_id, '', now() from outbox";
    sqlx::query(other).execute(&mut *holding).await.unwrap();
    receiver.release();
    until_blocked(world.pool(), 1).await;
    world.order_erasure(&firm, response_id).await;
    world.begin_to_erase().await;
    holding.rollback().await.unwrap();
    process::assert_killed(service.child.wait().await.unwrap(), "recorded");

    world.erase().await;
    assert_eq!(world.count("answers").await, 0);
}

/// With another keyring no person would be known, and every mailed link would be dead.
#[tokio::test]
async fn another_keyring_is_refused_at_the_start() {
    let (database, other) = (TestDatabase::new().await, TestDatabase::new().await);
    assert!(firmforms(&database).arg("migrate").output().await.unwrap().status.success());
    let mixed = TestDatabase::from_main(database.main.clone(), other.keyring.clone());
    let refused = firmforms(&mixed).arg("migrate").output().await.unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("the keyring"), "{said}");
}

/// Two processes with two wrapping keys would each write rows that the other cannot read.
#[tokio::test]
async fn another_wrapping_key_is_refused_at_start() {
    let database = TestDatabase::new().await;
    let migrate = |key: &str| {
        let mut command = firmforms(&database);
        command.arg("migrate").env("FIRMFORMS_WRAPPING_KEY", key.repeat(32));
        command.output()
    };
    assert!(migrate("07").await.unwrap().status.success());
    assert!(migrate("07").await.unwrap().status.success());
    let other = migrate("08").await.unwrap();
    assert!(!other.status.success());
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(said.contains("the keyring was made with another wrapping key"), "{said}");
}

async fn refusal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = Command::new(tests::program())
        .env_clear()
        .args(arguments)
        .envs(environment.iter().copied())
        .output()
        .await
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn a_bad_setting_gets_one_clear_line() {
    let main = ("DATABASE_URL", "postgres://localhost/x");
    let alone = refusal(&["migrate"], &[main]).await;
    assert!(alone.contains("set FIRMFORMS_KEYRING_URL to another database"), "{alone}");
    let same = [main, ("FIRMFORMS_KEYRING_URL", "postgres://localhost/x")];
    assert_eq!(refusal(&["migrate"], &same).await, alone);
    let scaled =
        refusal(&["serve", "--time-scale", "60"], &[("FIRMFORMS_WRAPPING_KEY", "00")]).await;
    assert_eq!(scaled.lines().count(), 1, "{scaled}");
    let mail = ["serve", "--smtp-url", "smtp://mail.example.com", "--mail-from", "a@b.co"];
    let links = refusal(&mail, &[("FIRMFORMS_WRAPPING_KEY", "00")]).await;
    assert!(links.contains("--smtp-url needs --base-url with https"), "{links}");
    let key = [
        main,
        ("FIRMFORMS_KEYRING_URL", "postgres://localhost/y"),
        ("FIRMFORMS_WRAPPING_KEY", "0f"),
    ];
    let short = refusal(&["migrate"], &key).await;
    assert_eq!(short, "firmforms: FIRMFORMS_WRAPPING_KEY: not 64 hexadecimal digits\n");
    let folder = tempfile::tempdir().unwrap();
    let data_dir = ("FIRMFORMS_DATA_DIR", folder.path().to_str().unwrap());
    let nowhere = [("FIRMFORMS_PG_SEARCH", "none"), data_dir];
    let programs = refusal(&["migrate"], &nowhere).await;
    assert_eq!(programs.lines().count(), 1, "{programs}");
    assert!(programs.contains("postgresql"), "{programs}");
}
