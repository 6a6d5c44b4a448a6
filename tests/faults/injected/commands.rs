//! P1–P4 and P14: commands, their process killed before, in and after their one transaction.

use futures::future::join_all;
use serde_json::Value;
use tests::{TestDatabase, own_cluster};
use tokio::process::Command;

use super::{Scene, submitted};
use tests::process::{assert_killed, crash, firmforms, serve, serve_with, try_call};

const HOOK: &str = r#"{"target_url":"https://93.184.216.34/kept","trigger":"form_submitted"}"#;

/// The parts of the ordered subscription that exist: its event, its row, its lane, its place in the
/// quota.
const MADE: &str = "
select (select count(*) from events where event_type = 'SubscriptionCreated'
           and payload::text like '%/kept%')
     + (select count(*) from hooks where target_url like '%/kept')
     + (select count(*) from lanes) - 1
     + (select used from quotas where kind = 'hooks') - 1";

/// P1–P3: no part exists, and the caller had no answer. P4: all of the subscription exists, and so
/// does another one when the caller asks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_e2_killed_creates_leave_no_half() {
    let cluster = own_cluster().await;
    let points = [("begin", 0), ("inserted", 0), ("committing", 0), ("committed", 1)];
    join_all(points.map(async |(point, made)| {
        asked_for_twice(cluster.database().await, (point, made)).await;
    }))
    .await;
}

async fn asked_for_twice(database: TestDatabase, (point, made): (&str, i64)) {
    let mut scene = Scene::on(database).await;
    let api = ["--role", "api"];
    let told_to_die = [("CRASH_AT", point)];
    let mut killed = serve_with(scene.database(), &api, &told_to_die).await;
    let key = scene.firm.key.clone();
    let answer = try_call(killed.public, ("POST", "/hooks"), &key, HOOK).await;
    assert_eq!(answer, None, "{point}");
    assert_killed(killed.child.wait().await.unwrap(), point);
    assert_eq!(scene.world.ask_number(MADE).await, 4 * made, "{point}");

    let next = serve(scene.database(), &api).await;
    let (status, answer) = try_call(next.public, ("POST", "/hooks"), &key, HOOK).await.unwrap();
    assert_eq!(status, 201, "{point}: {answer}");
    assert_eq!(scene.world.ask_number(MADE).await, 4 * (made + 1), "{point}");
    let told: Value = serde_json::from_str(answer.lines().last().unwrap()).unwrap();
    scene.acknowledged.hooks.push(told["id"].as_str().unwrap().parse().unwrap());
    scene.run(&[]).assert_held().await;
}

/// A batch of activity exists wholly or not at all. Reported again, every activity is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_e2_killed_ingests_leave_no_half() {
    let cluster = own_cluster().await;
    let points = [("begin", 0), ("inserted", 0), ("committing", 0), ("committed", 3)];
    join_all(points.map(async |(point, kept)| {
        taken_in_twice(cluster.database().await, (point, kept)).await;
    }))
    .await;
}

async fn taken_in_twice(database: TestDatabase, (point, kept): (&str, i64)) {
    let mut scene = Scene::on(database).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("activity.ndjson");
    scene.acknowledged.responses = (0..3).map(|_| scene.world.id()).collect();
    let ids = scene.acknowledged.responses.iter();
    let lines: Vec<_> = ids.map(|id| submitted(&scene.firm, *id).to_string()).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let ingest = || {
        let mut command = firmforms(scene.database());
        command.arg("ingest").arg(&file);
        command
    };
    crash(ingest(), point).await;
    let occurrences = "select count(*) from events where event_type = 'OccurrenceRecorded'";
    for table in [occurrences, "select count(*) from responses"] {
        assert_eq!(scene.world.ask_number(table).await, kept, "{point}: {table}");
    }
    assert!(ingest().output().await.unwrap().status.success());
    assert_eq!(scene.world.ask_number(occurrences).await, 3, "{point}");
    scene.world.deliver().await;
    assert_eq!(scene.receiver.received().len(), 3, "{point}");
    scene.assert_held().await;
}

impl Scene {
    /// The command that revokes its key.
    fn revoke(&self) -> Command {
        let mut command = firmforms(self.database());
        let (firm, key) = (self.firm.id.to_string(), self.firm.key_id.to_string());
        command.args(["keys", "revoke", "--yes", "--firm", &firm, &key]);
        command
    }
}

/// P14: with the lanes closed and no more nothing is revoked; afterwards everything is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_killed_revocation_has_not_happened() {
    let mut scene = Scene::on(TestDatabase::new().await).await;
    for _ in 0..2 {
        let hook = scene.world.subscribe(&scene.firm, &scene.receiver.url("/more")).await;
        scene.acknowledged.hooks.push(hook);
    }
    let still_there = "
        select (select count(*) from hooks where removed_at is null)
             + (select count(*) from lanes where cancel_cause is null)
             + (select count(*) from key_auth where revoked_at is null)
             - (select count(*) from events where event_type in ('KeyRevoked', 'SubscriptionRemoved'))";
    for point in ["lane_changed", "committing"] {
        crash(scene.revoke(), point).await;
        assert_eq!(scene.world.ask_number(still_there).await, 7, "{point}");
        assert_eq!(scene.world.get(&scene.firm, "/me").await.status, 200, "{point}");
        scene.submit(1).await;
    }
    scene.world.deliver().await;
    assert_eq!(scene.receiver.received().len(), 6, "its subscriptions deliver");
    crash(scene.revoke(), "committed").await;
    assert_eq!(scene.world.ask_number(still_there).await, -4, "all of it");
    assert_eq!(scene.world.get(&scene.firm, "/me").await.status, 401);
    scene.acknowledged.removed_hooks = scene.acknowledged.hooks.clone();
    scene.submit(1).await;
    assert_eq!(scene.world.deliver().await, 0);
    scene.assert_held().await;
}
