//! The chain as it grows: without gaps, at a fixed cost, and witnessed each hour.

use std::sync::Arc;
use std::time::Duration;

use auditor::{CheckpointFolder, Checkpointer, KeyFolder, Notary, verify};
use chrono::{DateTime, Utc};
use eventstore::worker::Worker;
use eventstore::{DigestInput, canonical_json, event_digest};
use futures::future::join_all;
use projector::audit::AuditLog;
use projector::follow::Follower;
use serde_json::Value;
use sqlx::FromRow;
use sqlx::types::Json;
use tests::{World, counting_statements};
use uuid::Uuid;
use vault::SystemEntropy;

use super::{audit, read, read_often};
use tests::process::{crash, firmforms};

fn follower(world: &World) -> Follower<AuditLog> {
    Follower::new(world.service().store.clone(), world.system.fence.clone(), AuditLog)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g6_fifty_racing_readings_leave_no_gap() {
    let world = Arc::new(World::new().await);
    let firm = world.firm().await;
    let readers = (0..50).map(|_| {
        let (world, firm) = (Arc::clone(&world), firm.clone());
        tokio::spawn(async move { read(&world, &firm).await })
    });
    let followers = (0..3).map(|_| {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.project().await })
    });
    let both: Vec<_> = readers.chain(followers.collect::<Vec<_>>()).collect();
    join_all(both).await.into_iter().for_each(|done| done.unwrap());
    world.project().await;
    let entries = world.audit_entries(firm.id).await;
    let readings = entries.iter().filter(|entry| entry.action == "audit_read").count();
    let last = format!("select max(sequence) from audit_log where firm_id = '{}'", firm.id);
    // The firm, its owner and its key, and fifty readings.
    assert_eq!((entries.len(), world.ask_number(&last).await, readings), (53, 53, 50));
}

/// A batch of 990 takes as many statements as one of 10.
#[tokio::test]
async fn a_larger_batch_takes_no_more_statements() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.project().await;
    let mut counts = Vec::new();
    for times in [10, 990] {
        read_often(&world, &firm, times).await;
        // The fence asks as often as it must.
        while world.system.fence.look().await.unwrap().more {}
        let mut follower = follower(&world);
        let (step, statements) = counting_statements(follower.step()).await;
        step.map_err(|error| error.to_string()).unwrap();
        counts.push(statements);
    }
    assert_eq!(counts[0], counts[1]);
}

#[tokio::test]
async fn g7_each_quiet_hour_gets_a_checkpoint() {
    let world = World::new().await;
    world.firm().await;
    world.project().await;
    let folder = tempfile::tempdir().unwrap();
    let notary = Notary {
        keys: KeyFolder::in_folder(folder.path().join("keys")),
        checkpoints: CheckpointFolder::in_folder(folder.path().join("checkpoints")),
    };
    let (pool, clock) = (world.pool().clone(), world.clock.clone());
    let mut hourly = Checkpointer::new(notary.clone(), pool, clock, Arc::new(SystemEntropy));
    let count = || notary.checkpoints.numbered_files().unwrap().len();
    for expected in [1, 2, 3] {
        for _ in 0..3 {
            hourly.step().await.unwrap();
            world.pass(Duration::from_secs(20 * 60));
        }
        assert_eq!(count(), expected);
    }
    notary.keys.rotate(&SystemEntropy).unwrap();
    hourly.step().await.unwrap();
    assert_eq!(count(), 4);
    let last = notary.checkpoints.read_last().unwrap().unwrap();
    assert_eq!(last.verified_key(), notary.keys.public_keys().unwrap().pop());
    let verdict =
        verify::database(world.pool(), &notary, verify::VerifiedWith::default(), |_, _| {})
            .await
            .unwrap();
    let verify::AuditVerdict::Intact(report) = verdict else { panic!("{verdict:?}") };
    assert_eq!((report.checkpoints, report.firms), (4, 1));
}

#[tokio::test]
async fn an_empty_log_is_intact() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let notary = Notary {
        keys: KeyFolder::in_folder(folder.path().join("keys")),
        checkpoints: CheckpointFolder::in_folder(folder.path().join("checkpoints")),
    };
    notary.take_checkpoint(world.pool(), &SystemEntropy, world.clock.now()).await.unwrap();
    let verdict =
        verify::database(world.pool(), &notary, verify::VerifiedWith::default(), |_, _| {})
            .await
            .unwrap();
    assert!(matches!(verdict, verify::AuditVerdict::Intact(_)), "{verdict:?}");
}

#[tokio::test]
async fn p17_an_unstored_checkpoint_is_not_taken() {
    let world = World::new().await;
    world.firm().await;
    world.project().await;
    // The key's two halves and their copy are written like a checkpoint. A crash follows at each of
    // them, and at the checkpoint.
    let crashing = async |point: &str| {
        let mut command = firmforms(&world.database);
        command.args(["audit", "checkpoint"]);
        crash(command, point).await;
    };
    for point in ["checkpointing:1", "checkpointing:2", "checkpointing:2", "checkpointing:2"] {
        crashing(point).await;
    }
    let (code, text) = audit(&world, &["audit", "checkpoint"]).await;
    assert!(code == 0 && text.starts_with("number: 1\n"), "{text}");
    let (code, text) = audit(&world, &["audit", "verify"]).await;
    assert!(code == 0 && text.contains("1 checkpoints"), "{text}");
    // One that is stored counts, though the database does not know it yet.
    crashing("checkpointed").await;
    let (code, text) = audit(&world, &["audit", "checkpoint"]).await;
    assert!(code == 0 && text.starts_with("number: 3\n"), "{text}");
    let (code, text) = audit(&world, &["audit", "verify"]).await;
    assert!(code == 0 && text.contains("3 checkpoints"), "{text}");
}

/// An event of a subscription's creation, as it is stored.
#[derive(FromRow)]
struct StoredCreation {
    position: i64,
    aggregate_id: String,
    firm_id: Uuid,
    recorded_at: DateTime<Utc>,
    payload: Json<Value>,
    metadata: Json<Value>,
}

/// Rewrites the log's subscriptions as builds before ruling 44 recorded them.
async fn create_as_before(world: &World) {
    world.change_database("alter table events disable trigger user").await;
    let rows: Vec<StoredCreation> = sqlx::query_as(
        "select position, aggregate_id, firm_id, recorded_at, payload, metadata from events
          where event_type = 'SubscriptionCreated'",
    )
    .fetch_all(world.pool())
    .await
    .unwrap();
    for mut row in rows {
        let created = row.payload["SubscriptionCreated"].as_object_mut().unwrap();
        assert_eq!(created.remove("target_shown"), Some("origin".into()));
        let payload = canonical_json(&row.payload.0).unwrap();
        let digest = event_digest(&DigestInput {
            aggregate_id: &row.aggregate_id,
            aggregate_type: "Subscription",
            event_type: "SubscriptionCreated",
            event_version: "1.0",
            firm_id: row.firm_id,
            metadata: &canonical_json(&row.metadata.0).unwrap(),
            payload: &payload,
            recorded_at: row.recorded_at.into(),
            sequence: 1,
        });
        sqlx::query(
            "update events set event_version = '1.0', payload = $2::json, digest = $3
              where position = $1",
        )
        .bind(row.position)
        .bind(payload.get())
        .bind(digest.unwrap().as_slice())
        .execute(world.pool())
        .await
        .unwrap();
    }
    world.change_database("alter table events enable trigger user").await;
}

/// Entries are hashed. So entries of older subscriptions stay, beside newer ones with a masked
/// target.
#[tokio::test]
async fn g1_a_chain_across_builds_verifies() {
    let world = World::new().await;
    let firm = world.firm().await;
    let older = world.subscribe(&firm, "https://hooks.example.com/older?a=b").await;
    create_as_before(&world).await;
    world.subscribe(&firm, "https://hooks.example.com/newer?a=b").await;
    world.remove_hook(&firm, older).await.ok();
    world.project().await;
    let shown: Vec<String> = sqlx::query_scalar(
        "select evidence ->> 'target' from audit_log where subject_kind = 'hook' order by sequence",
    )
    .fetch_all(world.pool())
    .await
    .unwrap();
    let (path, origin) = ("https://hooks.example.com/older?…", "https://hooks.example.com/…");
    assert_eq!(shown, [path, origin, path]);
    assert_eq!(audit(&world, &["audit", "checkpoint"]).await.0, 0);
    let (code, text) = audit(&world, &["audit", "verify"]).await;
    assert!(code == 0 && text.contains("1 checkpoints"), "{text}");
    let listed =
        audit(&world, &["hooks", "list", "--firm", &firm.id.to_string(), "--removed"]).await;
    assert!(!listed.1.contains("older"), "{}", listed.1);
}

/// 505 events stood under no signature, and the verdict `intact` did not mention them.
#[tokio::test]
async fn a_verification_counts_unsigned_events() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.project().await;
    let sign = ["audit", "checkpoint"];
    assert_eq!(audit(&world, &sign).await.0, 0);
    let signed = audit(&world, &["audit", "verify"]).await;
    assert!(signed.0 == 0 && !signed.1.contains("not signed yet"), "{}", signed.1);
    read_often(&world, &firm, 7).await;
    world.project().await;
    let (code, text) = audit(&world, &["audit", "verify"]).await;
    assert!(code == 0 && text.contains("not signed yet: 7 events after position "), "{text}");
    let output = firmforms(&world.database).args(["audit", "verify", "--json"]).output().await;
    let told: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!((&told["verdict"], &told["events_unsigned"]), (&"intact".into(), &7.into()));
    assert_eq!(told["trusted_keys"], "signers_folder");
    assert_eq!(told["not_proved"], serde_json::json!(["tokens", "portal_links"]));
}
