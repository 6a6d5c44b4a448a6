//! `doctor` at the terminal: faults of an installation are found and named.

use std::collections::BTreeMap;
use std::time::Duration;

use api::commands::pauses::{self, RequestedScope};
use domain::event::Actor;
use eventstore::checkup::{oldest_appender, oldest_snapshot};
use eventstore::connect;
use serde_json::Value;
use sqlx::{Connection, Executor};
use tests::{TestDatabase, World, cluster_with, count_rows};

use crate::injected::disk::{FULL, KEYRING_FULL};
use tests::process::firmforms;

/// The exit code, and each check's verdict.
async fn doctor(database: &TestDatabase) -> (i32, BTreeMap<String, String>) {
    let output = firmforms(database).args(["doctor", "--json"]).output().await.unwrap();
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let word = |finding: &Value, what: &str| finding[what].as_str().unwrap().to_owned();
    let verdicts = found.iter().map(|one| (word(one, "check"), word(one, "verdict")));
    (output.status.code().unwrap(), verdicts.collect())
}

/// The verdicts that are not fine, without the faults of the tests' own server, which is fast and
/// careless.
async fn found(database: &TestDatabase) -> (i32, Vec<String>) {
    let (code, verdicts) = doctor(database).await;
    let wanting = verdicts.into_iter().filter(|(_, verdict)| verdict != "fine");
    let wanting = wanting.map(|(check, verdict)| format!("{check}: {verdict}"));
    (code, wanting.filter(|one| !CARELESS.contains(&one.as_str())).collect())
}

const CARELESS: [&str; 4] = [
    "durability: wrong",
    "keyring_durability: wrong",
    "standbys: notice",
    "keyring_standbys: notice",
];

/// The settings of a server that keeps its commits.
const CAREFUL: [(&str, &str); 3] =
    [("fsync", "on"), ("full_page_writes", "on"), ("synchronous_commit", "on")];

const UNSIGNED: &str = "checkpoints: notice";
const UNVERIFIED: &str = "verification: notice";
const NO_BACKUP: &str = "backup: notice";

#[tokio::test]
async fn a_sound_installation_has_nothing_wrong() {
    let cluster = cluster_with(&CAREFUL).await;
    let world = World::real_time(cluster.database().await).await;
    world.firm().await;
    world.deliver().await;
    let (code, verdicts) = doctor(&world.database).await;
    assert_eq!((code, verdicts.len()), (0, 45), "{verdicts:?}");
    for check in ["durability", "keyring_durability"] {
        assert_eq!(verdicts[check], "fine");
    }
    for check in ["standbys", "keyring_standbys"] {
        assert_eq!(verdicts[check], "notice", "it has none");
    }
    let new = [NO_BACKUP, UNSIGNED, UNVERIFIED].map(str::to_owned);
    assert_eq!(found(&world.database).await, (0, new.to_vec()));
    assert!(
        firmforms(&world.database).args(["audit", "checkpoint"]).status().await.unwrap().success()
    );
    let verified = "insert into last_verification (ended_at, verified_to, outcome)
                    values (now(), 1, 'intact')";
    world.change_database(verified).await;
    let backed_up = "insert into last_backup (taken_at, position, bytes) values (now(), 1, 1)";
    world.change_database(backed_up).await;
    assert_eq!(found(&world.database).await, (0, vec![]));
    let pause =
        pauses::pause(world.service(), &RequestedScope::All, "maintenance", Actor::System).await;
    pause.unwrap();
    world.project().await;
    assert_eq!(found(&world.database).await, (0, vec!["pauses: notice".to_owned()]));
}

#[tokio::test]
async fn doctor_finds_each_standstill() {
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    world.subscribe(&firm, "http://127.0.0.1:7777/hook").await;
    world.submit(&firm).await;
    world.deliver().await;
    let break_it = async |statement: &'static str| {
        world.change_database(statement).await;
        let (code, mut found) = found(&world.database).await;
        found.retain(|one| ![NO_BACKUP, UNSIGNED, UNVERIFIED].contains(&one.as_str()));
        assert_eq!(code, 1, "{statement}");
        found
    };
    let old = "update lanes set due_at = due_at - interval '1 day'";
    assert_eq!(break_it(old).await, ["backlog: notice", "senders: wrong"]);
    assert_eq!(break_it("update lanes set due_at = null").await, ["lanes: wrong"]);
    let lease = "update lanes set due_at = now() + interval '1 day';
                 update outbox set leased_at = now(), lease = 1, due_at = now() - interval '1 day'";
    assert_eq!(break_it(lease).await, ["leases: wrong"]);
    let held = "update lanes set paused_at = now(); delete from webhook_secrets";
    assert_eq!(break_it(held).await, ["secrets: wrong"]);
    let replay = "insert into replays (replay_id, firm_id, state, reason, force, rate_per_second,
                      selected, requested_at, sequence)
                  values (gen_random_uuid(), gen_random_uuid(), 'running', 'a', false, 1, 1,
                          now() - interval '1 day', 1)";
    assert_eq!(break_it(replay).await, ["replays: wrong", "secrets: wrong"]);
    let follower = "set session_replication_role = replica;
                    update events set recorded_at = now() - interval '1 day';
                    update checkpoints set position = 0 where name = 'deliveries';
                    reset session_replication_role";
    assert_eq!(break_it(follower).await[0], "deliveries: wrong");
    let seal = "insert into seals values (1, 1024, 0, sha256(''), sha256(''), sha256(''))";
    assert!(break_it(seal).await.contains(&"seals: wrong".to_owned()));
}

/// A role's default, and the settings of the tests' own server.
#[tokio::test]
async fn settings_that_lose_commits_are_found() {
    let cluster = cluster_with(&[("fsync", "on"), ("full_page_writes", "on")]).await;
    let world = World::real_time(cluster.database().await).await;
    let verdict = async || doctor(&world.database).await.1["durability"].clone();
    assert_eq!(verdict().await, "notice", "the service raises synchronous_commit for itself");
    let careless = World::real_time(TestDatabase::new().await).await;
    let (code, verdicts) = doctor(&careless.database).await;
    assert_eq!((code, verdicts["durability"].as_str()), (1, "wrong"));
}

/// Writes fail and reads work, so no other check finds the fault.
#[tokio::test]
async fn doctor_finds_a_full_database_disk() {
    let world = World::real_time(TestDatabase::new().await).await;
    world.firm().await;
    world.deliver().await;
    let full = [(world.pool(), FULL, "disk"), (world.keys(), KEYRING_FULL, "keyring_disk")];
    for (database, fault, check) in full {
        assert_eq!(doctor(&world.database).await.1[check], "fine");
        database.execute(fault).await.unwrap();
        let (code, verdicts) = doctor(&world.database).await;
        assert_eq!((code, verdicts[check].as_str()), (1, "wrong"), "{verdicts:?}");
    }
}

/// An upgrade by logical replication leaves the sequence behind.
#[tokio::test]
async fn doctor_finds_a_position_sequence_left_behind() {
    let world = World::real_time(TestDatabase::new().await).await;
    world.firm().await;
    world.deliver().await;
    world.change_database("alter sequence events_position_seq restart").await;
    let (code, found) = found(&world.database).await;
    assert_eq!(
        (code, found),
        (
            1,
            [NO_BACKUP, UNSIGNED, "disk: notice", "positions: wrong", UNVERIFIED]
                .map(str::to_owned)
                .to_vec()
        )
    );
    let advised = "select setval('events_position_seq', (select max(position) from events))";
    world.change_database(advised).await;
    assert_eq!(doctor(&world.database).await.1["positions"], "fine");
    world.firm().await;
}

#[tokio::test]
async fn doctor_finds_another_key_or_schema() {
    let world = World::real_time(TestDatabase::new().await).await;
    world.firm().await;
    world.deliver().await;
    let mut command = firmforms(&world.database);
    let command = command.env("FIRMFORMS_WRAPPING_KEY", "08".repeat(32));
    let output = command.args(["doctor", "--json"]).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("wrapping_key") && said.contains("the keyring this main database"));
    // The advice was to rotate the secrets.
    let found: Value = serde_json::from_str(&said).unwrap();
    let found = found.as_array().unwrap();
    let secrets = found.iter().find(|one| one["check"] == "secrets").unwrap();
    assert_eq!((&secrets["verdict"], &secrets["do"]), (&"notice".into(), &Value::Null));
    let says = secrets["says"].as_str().unwrap();
    assert!(says.ends_with("probably because of `wrapping_key`"), "{says}");
    assert!(!said.contains("secrets rotate"), "{said}");
    for (statement, wrong) in [
        ("update _sqlx_migrations set version = 999 where version = 11", "newer version"),
        ("delete from _sqlx_migrations where version = 999", "1 migrations are missing"),
    ] {
        world.change_database(statement).await;
        let output = firmforms(&world.database).args(["doctor", "--json"]).output().await.unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(wrong), "{said}");
        let left = world.count("_sqlx_migrations").await;
        assert!(left >= 10, "it migrates nothing");
    }
}

/// Exit code 2 says that `doctor` could not look.
#[tokio::test]
async fn doctor_fails_without_its_database() {
    let database = TestDatabase::new().await;
    let mut away = database;
    away.main = away.main.socket("/nowhere").port(1);
    let output = firmforms(&away).args(["doctor"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// In a cluster of its own, since it leaves a transaction there.
#[tokio::test]
async fn the_oldest_appending_transaction_is_found() {
    let cluster = cluster_with(&[("max_prepared_transactions", "2")]).await;
    let world = World::real_time(cluster.database().await).await;
    let found = async || oldest_appender(world.pool()).await.unwrap();
    let mut neighbour = sqlx::PgConnection::connect_with(&world.database.main).await.unwrap();
    neighbour.execute("begin; select pg_current_xact_id()").await.unwrap();
    assert_eq!(found().await, None, "it writes, and appends nothing");
    neighbour
        .execute("insert into events overriding system value select * from events where false")
        .await
        .unwrap();
    let (age, who) = found().await.unwrap();
    assert!(age < Duration::from_secs(60) && who.contains("pid"), "{who}");
    neighbour.execute("prepare transaction 'left'").await.unwrap();
    let (age, who) = found().await.unwrap();
    assert!(age < Duration::from_secs(60) && who == "prepared transaction left", "{who}");
    assert_eq!(doctor(&world.database).await.1["prepared"], "fine", "it is new");
    neighbour.execute("rollback prepared 'left'").await.unwrap();
    assert_eq!(found().await, None);
}

/// Core 6: the holder of the oldest snapshot keeps dead rows. In a cluster of its own, since the
/// test holds snapshots there.
#[tokio::test]
async fn the_oldest_snapshot_holder_is_found() {
    let settings =
        [("max_prepared_transactions", "2"), ("wal_level", "logical"), ("autovacuum", "off")];
    let cluster = cluster_with(&settings).await;
    let world = World::real_time(cluster.database().await).await;
    let found = async || oldest_snapshot(&mut world.pool().acquire().await.unwrap()).await.unwrap();
    assert_eq!(found().await, None);
    let mut dump = sqlx::PgConnection::connect_with(&world.database.main).await.unwrap();
    dump.execute("set application_name = 'dump'").await.unwrap();
    dump.execute("begin isolation level repeatable read; select from lanes").await.unwrap();
    world.firm().await;
    let held = found().await.unwrap();
    assert!(held.holder.starts_with("dump (pid "), "{held:?}");
    assert!(held.transactions > 0 && held.held_for.is_some_and(|age| !age.is_zero()), "{held:?}");
    dump.execute("rollback").await.unwrap();
    dump.execute("begin; select pg_current_xact_id(); prepare transaction 'left'").await.unwrap();
    assert_eq!(found().await.unwrap().holder, "prepared transaction left");
    dump.execute("rollback prepared 'left'").await.unwrap();
    dump.execute("select pg_create_logical_replication_slot('old', 'pgoutput')").await.unwrap();
    assert_eq!(found().await, None, "it keeps dead rows of the catalogs only");
    dump.execute("select pg_drop_replication_slot('old')").await.unwrap();
}

/// On a keyring that nobody has used yet, a key that is tried by mistake does not become its key.
#[tokio::test]
async fn looking_writes_nothing_down() {
    let database = TestDatabase::new().await;
    let (code, _) = doctor(&database).await;
    assert_ne!(code, 2, "it could look");
    let keyring = connect(database.keyring.clone(), 1);
    for table in ["wrapping_check", "identity_key", "data_keys"] {
        assert_eq!(count_rows(&keyring, table).await, 0, "{table}");
    }
}
