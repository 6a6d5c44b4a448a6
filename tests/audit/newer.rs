//! E26: a newer build has written an event that this build cannot read, while both run. Also
//! databases that another build has made.

use eventstore::worker::Worker;
use projector::deliveries::DeliveryProjection;
use projector::follow::Follower;
use serde_json::json;
use sqlx::{ConnectOptions, Connection, Executor};
use tests::{Receiver, TestDatabase, World};

use tests::process::firmforms;

/// An occurrence of a kind this build does not know, at the end of the log.
pub(crate) async fn write_news(world: &World) -> i64 {
    sqlx::query_scalar(
        "insert into events (aggregate_type, aggregate_id, sequence, event_type, event_version,
                             payload, metadata, firm_id, recorded_at, digest)
         select 'Occurrence', gen_random_uuid()::text, 1, 'OccurrenceSold', '1.0', '{\"OccurrenceSold\": {}}',
                metadata, firm_id, recorded_at, digest
           from events order by position desc limit 1
         returning position",
    )
    .fetch_one(world.pool())
    .await
    .unwrap()
}

/// Why a worker stops; it may find things to do before.
async fn stopped<W: Worker>(worker: &mut W) -> String {
    for _ in 0..1_000 {
        if let Err(error) = worker.step().await {
            return error.to_string();
        }
    }
    panic!("{} went on", W::NAME)
}

async fn checkpoint(world: &World, name: &str) -> i64 {
    sqlx::query_scalar("select position from checkpoints where name = $1")
        .bind(name)
        .fetch_one(world.pool())
        .await
        .unwrap()
}

/// Callers are served, and queued deliveries go out.
#[tokio::test]
async fn e26_a_newer_event_stops_followers_alone() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    world.project().await;
    let news = write_news(&world).await;
    world.submit(&firm).await;

    let store = world.service().store.clone();
    let mut history = Follower::new(store, world.system.fence.clone(), DeliveryProjection);
    for _ in 0..3 {
        let why = stopped(&mut history).await;
        assert!(
            why.contains(&format!("position {news}")) && why.contains("OccurrenceSold"),
            "{why}"
        );
    }
    assert!(checkpoint(&world, "deliveries").await < news, "it has skipped it");

    for path in ["/me", "/forms", "/hooks"] {
        assert_eq!(world.get(&firm, path).await.status, 200, "{path}");
    }
    let hook = json!({"target_url": receiver.url("/more"), "trigger": "form_submitted"});
    world.create_hook(&firm, hook).await.ok();
    let sent = deliverer::send::deliver_once(world.deliverer()).await.unwrap();
    assert_eq!((sent, receiver.received().len()), (2, 2), "what is queued goes out");
}

#[tokio::test]
async fn a_plan_names_locks_and_changes_nothing() {
    let database = TestDatabase::without_schema().await;
    let plan = async || {
        let output = firmforms(&database).args(["migrate", "--plan", "--json"]).output().await;
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Vec<serde_json::Value>>(&output.stdout).unwrap()
    };
    let steps = plan().await;
    let of = |table: &str| steps.iter().find(|step| step["table"] == table).unwrap();
    assert_eq!((&of("events")["lock"], &of("events")["migration"]), (&json!("none"), &json!(1)));
    assert_eq!(of("data_keys")["database"], "the keyring");
    assert_eq!(plan().await, steps, "nothing was changed");
    assert!(firmforms(&database).arg("migrate").status().await.unwrap().success());
    assert!(plan().await.is_empty());
    let mut connection = database.main.connect().await.unwrap();
    // The newest build of all has an index more on a table with rows.
    let older = "delete from _sqlx_migrations where version = 28; analyze firms";
    connection.execute(older).await.unwrap();
    let steps = plan().await;
    assert!(steps.iter().any(|step| step["lock"] == "readers and writers wait"), "{steps:?}");
    assert!(steps.iter().all(|step| step["migration"] == 28), "{steps:?}");
}

/// The words of `migrate` about this database, which it refuses and leaves as it is.
async fn refused(database: &TestDatabase) -> String {
    let output = firmforms(database).args(["migrate"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

/// Either database is refused in one line.
#[tokio::test]
async fn migrate_tells_earlier_builds_from_newer_ones() {
    // An earlier build had other files under the same numbers, and more of them.
    let earlier = "update _sqlx_migrations set checksum = sha256(checksum);
                   insert into _sqlx_migrations select 999, description, installed_on, success,
                          checksum, execution_time from _sqlx_migrations where version = 1";
    let newer = "insert into _sqlx_migrations select 999, description, installed_on, success,
                        checksum, execution_time from _sqlx_migrations where version = 1";
    for name in ["the main database", "the keyring"] {
        for made_by in [earlier, newer] {
            let database = TestDatabase::new().await;
            let options = if name == "the keyring" { &database.keyring } else { &database.main };
            let mut connection = options.connect().await.unwrap();
            connection.execute(made_by).await.unwrap();
            connection.close().await.unwrap();

            let said = refused(&database).await;
            if made_by == earlier {
                let sentence = "was made by a build from before the first release; this build \
                                cannot read it: start with an empty database";
                assert_eq!(said, format!("firmforms: {name} {sentence}\n"));
            } else {
                assert!(said.starts_with(&format!("firmforms: {name}: migration 999 ")), "{said}");
                assert_eq!(said.lines().count(), 1, "{said}");
            }
        }
    }
}

/// A killed migration leaves an index that nobody may use. Two processes then migrate at once, and
/// neither waits for the snapshot of the other.
#[tokio::test]
async fn a_stopped_index_is_made_again() {
    let database = TestDatabase::new().await;
    let mut connection = database.main.connect().await.unwrap();
    // The server may have ended the index without the process that asked for it.
    for valid in [false, true] {
        let stopped = format!(
            "update pg_index set indisvalid = {valid}
              where indexrelid = 'responses_unfinished_idx'::regclass;
             delete from _sqlx_migrations where version = 54"
        );
        connection.execute(stopped.as_str()).await.unwrap();
        let migrate = async || firmforms(&database).arg("migrate").status().await.unwrap();
        let (one, two) = tokio::join!(migrate(), migrate());
        assert!(one.success() && two.success());
        let is_valid: bool = sqlx::query_scalar(
            "select indisvalid from pg_index
              where indexrelid = 'responses_unfinished_idx'::regclass",
        )
        .fetch_one(&mut connection)
        .await
        .unwrap();
        assert!(is_valid);
    }
}
