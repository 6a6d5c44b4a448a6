//! A rebuild beside live traffic, one that is killed, and one that cannot be.

use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use projector::rebuild::{ReadModel, RebuildAct, RebuildError, RebuildOrder, rebuild_models};
use serde_json::{Value, json};
use sqlx::{Connection, Executor};
use tests::{Firm, Receiver, TestDatabase, World, activity, own_cluster, until_settled};

use super::{assert_equal, make, verify};
use crate::newer::write_news;
use tests::process::{Served, call, crash, firmforms, report, serve};

async fn projections(world: &World, arguments: &[&str]) -> Output {
    firmforms(&world.database).arg("projections").args(arguments).output().await.unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

/// A firm's client and the product call until the stop. Each call sees the result of the call
/// before. Returns the number of rounds.
async fn traffic(world: &World, served: &Served, (firm, stop): (&Firm, &AtomicBool)) -> usize {
    let hook = json!({"target_url": "https://example.com/", "trigger": "payment_received"});
    let (mut rounds, mut key) = (0, firm.key.clone());
    while !stop.load(Ordering::Relaxed) {
        // A key has 120 calls a minute.
        if rounds % 35 == 34 {
            key = world.new_key(firm, "another").await.key.as_str().to_owned();
        }
        let made = call(served.public, ("POST", "/hooks"), &key, &hook.to_string()).await;
        assert_eq!(made.0, 201, "{}", made.1);
        let body = made.1.split("\r\n\r\n").nth(1).unwrap();
        let id = serde_json::from_str::<Value>(body).unwrap()["id"].as_str().unwrap().to_owned();
        let listed = call(served.public, ("GET", "/hooks"), &key, "").await;
        assert!(listed.1.contains(&id), "made, and not there: {}", listed.1);
        let path = format!("/hooks/{id}");
        let removed = call(served.public, ("DELETE", &path), &key, "").await;
        assert_eq!(removed.0, 200, "{}", removed.1);
        let data = json!({
            "response_id": world.id(), "form_id": firm.form,
            "submitted_at": "2026-11-01T12:00:00Z",
        });
        let batch = json!([activity(firm.id, "response.submitted", data)]).to_string();
        let taken = report(served.internal, world.token(), &batch).await;
        assert_eq!(taken.unwrap(), 202);
        rounds += 1;
    }
    rounds
}

/// F10: everything is rebuilt again and again while clients, the product, deliveries and a
/// verification of the audit log go on. No caller reads a wrong answer, and prepared statements
/// work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f10_a_rebuild_beside_traffic_misleads_nobody() {
    let world = World::real_time(TestDatabase::new().await).await;
    let receiver = Receiver::start().await;
    let mut firms = Vec::new();
    for _ in 0..3 {
        let firm = world.firm().await;
        world.subscribe(&firm, &receiver.url("/hook")).await;
        firms.push(firm);
    }
    world.project().await;
    let checkpoint = firmforms(&world.database).args(["audit", "checkpoint"]).output().await;
    assert!(checkpoint.unwrap().status.success());
    let served = serve(&world.database, &[]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let (told, clients) = (Arc::clone(&stop), &firms);
    let clients = async {
        let each = clients.iter().map(|firm| traffic(&world, &served, (firm, &told)));
        futures::future::join_all(each).await.into_iter().sum::<usize>()
    };
    let operators = async {
        for _ in 0..2 {
            let audit = async {
                firmforms(&world.database).args(["audit", "verify"]).output().await.unwrap()
            };
            let (rebuilt, audited) =
                tokio::join!(projections(&world, &["rebuild", "--all", "--json"]), audit);
            let told = (text(&rebuilt.stdout), text(&rebuilt.stderr));
            assert_eq!(rebuilt.status.code(), Some(0), "{told:?}");
            assert!(!told.0.contains("repaired"), "{}", told.0);
            assert_eq!(audited.status.code(), Some(0), "{}", text(&audited.stdout));
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (rounds, ()) = tokio::join!(clients, operators);
    until_settled(world.pool(), Duration::from_secs(60)).await.unwrap();
    assert!(rounds > 10, "{rounds} rounds");
    assert_eq!(receiver.received().len(), rounds, "each response was delivered once");
    assert_equal(&verify(&world).await);
}

/// The tables as objects of the database.
async fn tables(world: &World) -> Vec<(String, i64)> {
    sqlx::query_as(
        "select relname::text, oid::bigint from pg_class
          where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') order by 1",
    )
    .fetch_all(world.pool())
    .await
    .unwrap()
}

/// The schema of a rebuild, as a condition of a count.
const SHADOW: &str = "pg_namespace where nspname = 'shadow'";

/// The rebuild is killed while it fills, or in the middle of a swap. The live tables stay, and the
/// next rebuild clears the rest away.
#[tokio::test]
async fn f10_a_killed_rebuild_changes_nothing() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.submit(&firm).await;
    world.deliver().await;
    let before = tables(&world).await;
    for point in ["rebuilding", "swapping"] {
        let mut command = firmforms(&world.database);
        command.args(["projections", "rebuild", "--all"]);
        crash(command, point).await;
        assert_eq!(world.count(SHADOW).await, 1, "{point}: it had begun");
        assert_eq!(tables(&world).await, before, "{point}");
        until_forgotten(&world).await;
    }
    let done = projections(&world, &["rebuild", "--all"]).await;
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert_eq!(world.count(SHADOW).await, 0);
    assert_ne!(tables(&world).await, before);
    assert_equal(&verify(&world).await);
}

/// Waits until the server has noticed that a killed command is gone, and has dropped its locks.
async fn until_forgotten(world: &World) {
    let mut connection = world.pool().acquire().await.unwrap();
    connection.execute("select pg_advisory_lock(hashtext('firmforms rebuild'))").await.unwrap();
    connection.execute("select pg_advisory_unlock(hashtext('firmforms rebuild'))").await.unwrap();
}

/// The second of two rebuilds says that another is running. Its exit code says that nothing was
/// done.
#[tokio::test]
async fn a_second_rebuild_is_refused() {
    let world = World::new().await;
    let mut first = world.pool().acquire().await.unwrap();
    first.execute("select pg_advisory_lock(hashtext('firmforms rebuild'))").await.unwrap();
    for command in ["rebuild", "verify"] {
        let second = projections(&world, &[command, "firms"]).await;
        assert_eq!(second.status.code(), Some(2));
        assert!(text(&second.stderr).contains("another rebuild or verification is running"));
    }
    first.detach().close().await.unwrap();
    until_forgotten(&world).await;
    assert_eq!(projections(&world, &["rebuild", "firms"]).await.status.code(), Some(0));
}

/// The event is never skipped: no table is swapped in that was made from half of the log.
#[tokio::test]
async fn e9_an_unreadable_event_stops_a_rebuild() {
    let world = World::new().await;
    world.firm().await;
    let news = write_news(&world).await;
    let before = tables(&world).await;
    for command in [["verify", "--all"], ["rebuild", "--all"], ["rebuild", "firms"]] {
        let stopped = projections(&world, &command).await;
        let why = text(&stopped.stderr);
        assert_eq!(stopped.status.code(), Some(2), "{why}");
        assert!(
            why.contains(&format!("position {news}")) && why.contains("OccurrenceSold"),
            "{why}"
        );
    }
    assert_eq!((tables(&world).await, world.count(SHADOW).await), (before, 0));
}

/// Exit code 2 is for a wrong order, 1 for a difference that was only found, and 0 for the rest.
#[tokio::test]
async fn the_exit_code_tells_the_outcome() {
    let world = World::new().await;
    let firm = world.firm().await;
    for wrong in [vec!["rebuild"], vec!["rebuild", "outbox"], vec!["verify", "firms", "--all"]] {
        assert_eq!(projections(&world, &wrong).await.status.code(), Some(2), "{wrong:?}");
    }
    let status = projections(&world, &["status", "--json"]).await;
    let all: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 12);
    assert_eq!(all[0]["written"], "with the append");
    let equal = projections(&world, &["verify", "firms"]).await;
    assert_eq!(equal.status.code(), Some(0));
    assert!(text(&equal.stdout).starts_with("firms\tequal\t1\t"), "{}", text(&equal.stdout));
    super::tamper(&world, "update firms set name = 'Mallory'").await;
    let differs = projections(&world, &["verify", "firms"]).await;
    assert_eq!(differs.status.code(), Some(1));
    let line = format!("firms {}: name is Mallory, and the log says Harrow Lane\n", firm.id);
    assert!(text(&differs.stdout).ends_with(&line), "{}", text(&differs.stdout));
    let repaired = projections(&world, &["rebuild", "firms", "--json"]).await;
    assert_eq!(repaired.status.code(), Some(0));
    let told: Value = serde_json::from_slice(&repaired.stdout).unwrap();
    assert_eq!(told[0]["outcome"], "repaired");
    assert_eq!(told[0]["difference"]["column"], "name");
}

/// A long transaction keeps the live table: the rebuild gives up and changes nothing.
#[tokio::test]
async fn a_busy_table_is_left_alone() {
    let world = World::new().await;
    world.firm().await;
    let before = tables(&world).await;
    let mut reader = world.pool().begin().await.unwrap();
    reader.execute("select firm_id from firms").await.unwrap();
    let failed = make(&world, &[ReadModel::People, ReadModel::Firms], RebuildAct::Replace)
        .await
        .unwrap_err();
    assert_eq!(
        failed.done.iter().map(|report| report.model).collect::<Vec<_>>(),
        [ReadModel::People]
    );
    assert!(matches!(failed.why, RebuildError::InUse(ReadModel::Firms)), "{failed}");
    assert_equal(&make(&world, &[ReadModel::Firms], RebuildAct::Verify).await.unwrap());
    reader.rollback().await.unwrap();
    let others = |tables: Vec<(String, i64)>| {
        tables.into_iter().filter(|(name, _)| name != "people").collect::<Vec<_>>()
    };
    assert_eq!(others(tables(&world).await), others(before));
    make(&world, &[ReadModel::Firms], RebuildAct::Replace).await.unwrap();
}

/// The shadow table does not have a column of a later migration, nor a later grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_undoes_no_migration() {
    let world = World::new().await;
    world.firm().await;
    for (change, undo) in [
        ("alter table firms add column more integer", "alter table firms drop column more"),
        ("grant select on firms to pg_monitor", "revoke all on firms from pg_monitor"),
    ] {
        let begun = AtomicBool::new(false);
        let migrate = |_, _| {
            if !begun.swap(true, Ordering::Relaxed) {
                let change = world.pool().execute(change);
                let now = || tokio::runtime::Handle::current().block_on(change);
                tokio::task::block_in_place(now).unwrap();
            }
        };
        let now = world.clock.now().get();
        let order = RebuildOrder {
            models: vec![ReadModel::Firms],
            act: RebuildAct::Replace,
            now,
            tries: 2,
        };
        let before = tables(&world).await;
        let failed = rebuild_models(world.pool(), &order, &migrate).await.unwrap_err();
        assert!(matches!(failed.why, RebuildError::Redefined(ReadModel::Firms)), "{failed}");
        assert_eq!((tables(&world).await, world.count(SHADOW).await), (before, 0));
        make(&world, &[ReadModel::Firms], RebuildAct::Replace).await.unwrap();
        world.change_database(undo).await;
    }
}

/// A table that cannot be swapped is not swapped in half.
#[tokio::test]
async fn a_swap_that_fails_changes_nothing() {
    let world = World::new().await;
    world.firm().await;
    super::tamper(&world, "update firms set name = 'Mallory'").await;
    world.change_database("create view somebodys as select name from firms").await;
    let before = tables(&world).await;
    let failed = projections(&world, &["rebuild", "firms"]).await;
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("cannot drop table"), "{}", text(&failed.stderr));
    assert_eq!((tables(&world).await, world.count(SHADOW).await), (before, 0));
    assert_eq!(world.count("somebodys where name = 'Mallory'").await, 1);
    world.change_database("drop view somebodys").await;
    assert_eq!(projections(&world, &["rebuild", "firms"]).await.status.code(), Some(0));
}

/// Events that were appended beside a long append are not settled. A rebuild takes in a few of
/// them, fewer while it holds writers back, and fails at too many.
#[tokio::test]
async fn a_rebuild_takes_in_few_unsettled_events() {
    let cluster = own_cluster().await;
    let world = World::on(cluster.database().await).await;
    let mut long = world.pool().begin().await.unwrap();
    long.execute("insert into events overriding system value select * from events where false")
        .await
        .unwrap();
    world.firm().await;
    let report = make(&world, &[ReadModel::Firms], RebuildAct::Replace).await.unwrap().remove(0);
    assert_eq!((report.digest.rows, report.difference), (1, None));
    let many = async |number: i64| {
        let statement = format!(
            "insert into events (aggregate_type, aggregate_id, sequence, event_type, event_version,
                                 payload, metadata, firm_id, recorded_at, digest)
             select aggregate_type, gen_random_uuid()::text, 1, event_type, event_version, payload,
                    metadata, firm_id, recorded_at, digest
               from (select * from events where event_type = 'KeyCreated' limit 1) one
              cross join generate_series(1, {number})"
        );
        world.change_database(&statement).await;
    };
    many(600).await;
    assert_equal(&make(&world, &[ReadModel::Firms], RebuildAct::Verify).await.unwrap());
    let failed = make(&world, &[ReadModel::Firms], RebuildAct::Replace).await.unwrap_err();
    assert!(matches!(failed.why, RebuildError::TooMuch(ReadModel::Firms)), "{failed}");
    many(5_000).await;
    let failed = make(&world, &[ReadModel::Firms], RebuildAct::Verify).await.unwrap_err();
    assert!(matches!(failed.why, RebuildError::Unsettled), "{failed}");
    long.rollback().await.unwrap();
    assert_equal(&make(&world, &[ReadModel::Firms], RebuildAct::Verify).await.unwrap());
}
