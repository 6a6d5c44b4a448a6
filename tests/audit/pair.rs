//! The main database and its keyring: they belong together, and neither is older than the other.

use deliverer::inspect::lost_keys::{KeyCoverage, check_newest};
use serde_json::Value;
use sqlx::Executor;
use tests::{TestDatabase, World};
use tokio::io::{AsyncBufReadExt, BufReader};
use uuid::Uuid;

use tests::process::{firmforms, serving};

/// The verdict of one check of `doctor`, and its words.
async fn doctor(database: &TestDatabase, check: &str) -> (String, String) {
    let output = firmforms(database).args(["doctor", "--json"]).output().await.unwrap();
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let finding = found.into_iter().find(|one| one["check"] == check).unwrap();
    let word = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    (word("verdict"), word("says"))
}

async fn installation_of(world: &World) -> [Uuid; 2] {
    let mut ids = Vec::new();
    for pool in [world.pool(), world.keys()] {
        let id = sqlx::query_scalar("select installation_id from installation");
        ids.push(id.fetch_one(pool).await.unwrap());
    }
    ids.try_into().unwrap()
}

/// The process said only that nothing decrypts.
#[tokio::test]
async fn a_keyring_of_another_installation_is_refused() {
    let (one, two) = (World::new().await, World::new().await);
    let [main, keyring] = installation_of(&one).await;
    assert_eq!(main, keyring);
    let mixed = TestDatabase::from_main(one.database.main.clone(), two.database.keyring.clone());
    let output = firmforms(&mixed).args(["firms", "list"]).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("do not belong together"), "{said}");
    let (verdict, says) = doctor(&mixed, "installation").await;
    assert!(verdict == "wrong" && says.contains(&main.to_string()), "{says}");
    assert_eq!(doctor(&one.database, "installation").await.0, "fine");
    assert_eq!(installation_of(&one).await, [main, keyring], "nothing was written");
}

/// A backup of either database may be older than the id of the installation.
#[tokio::test]
async fn a_start_gives_both_databases_one_id() {
    let world = World::new().await;
    let [id, _] = installation_of(&world).await;
    for pool in [world.pool(), world.keys()] {
        pool.execute("delete from installation").await.unwrap();
        assert_eq!(doctor(&world.database, "installation").await.0, "fine");
        let started = firmforms(&world.database).args(["firms", "list"]).status().await.unwrap();
        assert!(started.success());
        assert_eq!(installation_of(&world).await, [id; 2]);
    }
}

/// The keyring failed over to a standby that lacked its end. The responses had been answered with
/// 202, and their lost keys were noticed at their first delivery.
#[tokio::test]
async fn doctor_and_start_report_lost_newest_keys() {
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    let mut responses = Vec::new();
    for _ in 0..4 {
        responses.push(world.submit(&firm).await);
    }
    let coverage = async || check_newest(world.pool(), &world.service().keyring).await.unwrap();
    assert_eq!(coverage().await, KeyCoverage { looked: 4, lost: 0 });
    assert_eq!(doctor(&world.database, "newest_keys").await.0, "fine");
    world.order_erasure(&firm, responses[0]).await;
    for response_id in &responses[..3] {
        let lost = format!("delete from data_keys where subject_id = '{response_id}'");
        world.change_keyring(&lost).await;
    }
    assert_eq!(coverage().await, KeyCoverage { looked: 4, lost: 2 }, "one of them is erased");
    let (verdict, says) = doctor(&world.database, "newest_keys").await;
    assert_eq!(verdict, "wrong");
    assert!(says.starts_with("2 of the newest 4 responses have no data key"), "{says}");
    let mut child = serving(&world.database, &[], &[]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap().filter(|l| !l.ends_with("INFO ready")) {
        said.push(line);
    }
    let lost = "the keyring has lost keys of the newest responses";
    assert!(said.iter().any(|line| line.contains(lost)), "{said:?}");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn doctor_finds_a_keyring_missing_an_erasure() {
    let world = World::new().await;
    let firm = world.firm().await;
    let response_id = world.submit(&firm).await;
    assert_eq!(doctor(&world.database, "erasures").await.0, "fine");
    world.order_erasure(&firm, response_id).await;
    world.erase().await;
    assert_eq!(doctor(&world.database, "erasures").await.0, "fine");
    world.change_keyring("delete from erased_up_to").await;
    assert_eq!(doctor(&world.database, "erasures").await.0, "wrong");
}

/// A dead row of a data key holds its key until the vacuum. By default the vacuum waits until a
/// fifth of the table is dead.
#[tokio::test]
async fn vacuum_of_keys_ignores_the_table_size() {
    let world = World::new().await;
    for (pool, tables) in [
        (world.keys(), &["data_keys"][..]),
        (world.pool(), &["webhook_secrets", "firm_contacts", "mails"]),
    ] {
        for table in tables {
            let options: Vec<String> =
                sqlx::query_scalar("select unnest(reloptions) from pg_class where relname = $1")
                    .bind(table)
                    .fetch_all(pool)
                    .await
                    .unwrap();
            let by_count = "autovacuum_vacuum_scale_factor=0".to_owned();
            assert!(options.contains(&by_count), "{table}: {options:?}");
        }
    }
}
