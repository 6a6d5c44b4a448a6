//! The checker of invariants can fail: each is broken once, by hand, and named.

use std::time::Duration;

use sqlx::Executor;
use sqlx::postgres::PgPoolOptions;
use tests::TestDatabase;
use tests::invariants::{Acknowledged, Request, Run};
use uuid::Uuid;

use super::{LEASE, Scene};

/// A run in which all went well: three deliveries, and one more of a removed subscription.
async fn good_run() -> Scene {
    let mut scene = Scene::on(TestDatabase::new().await).await;
    scene.submit(3).await;
    scene.world.deliver().await;
    scene.world.remove_hook(&scene.firm, scene.hook).await.ok();
    scene.acknowledged.removed_hooks.push(scene.hook);
    let key = scene.world.new_key(&scene.firm, "a guest").await;
    scene.world.revoke_key(&scene.firm, key.id).await;
    scene.acknowledged.revoked_keys.push(key.id);
    scene.assert_held().await;
    scene
}

/// Fails unless this is found when the database was changed so behind the service's back.
async fn assert_found(scene: &Scene, rule: &str, forged: &str) {
    // One connection: the checker asks inside the transaction that is never committed.
    let one = PgPoolOptions::new().max_connections(1);
    let pool = one.connect_with(scene.database().main.clone()).await.unwrap();
    let forge = format!("set session_replication_role = replica; begin; {forged}");
    pool.execute(&*forge).await.unwrap();
    let requests = scene.requests();
    let found = Run { pool: &pool, ..scene.run(&requests) }.violations().await;
    assert!(found.iter().any(|violation| violation.starts_with(rule)), "{rule}: {found:?}");
    pool.execute("rollback").await.unwrap();
    pool.close().await;
}

/// An event like one that is there, changed in this way.
fn another(event_type: &str, changes: &str) -> String {
    format!(
        "create temp table forged on commit drop as
           select * from events where event_type = '{event_type}' order by position limit 1;
         update forged set position = 1000000;
         {changes};
         insert into events overriding system value select * from forged"
    )
}

/// The log and the tables of subscriptions and keys are forged.
#[tokio::test]
async fn the_checker_finds_i1_and_i8_broken() {
    let scene = &good_run().await;
    let list = |hooks: &str| {
        format!(
            "update events set payload = jsonb_set(payload::jsonb, '{{OccurrenceRecorded,hooks}}',
                                                   '{hooks}')::json
              where event_type = 'OccurrenceRecorded'"
        )
    };
    assert_found(scene, "I1: an occurrence does not list", &list("[]")).await;
    let stranger = list(&format!("[\"{}\"]", Uuid::nil()));
    assert_found(scene, "I1: an occurrence lists", &stranger).await;
    assert_found(scene, "I1: a delivery is in no list", &stranger).await;
    let unseen = "delete from events where event_type = 'OccurrenceRecorded'";
    assert_found(scene, "I8: an acknowledged response", unseen).await;
    assert_found(scene, "I8: an acknowledged subscription", "delete from hooks").await;
    let back = "update hooks set removed_at = null, removed_position = null, removal_reason = null";
    assert_found(scene, "I8: an acknowledged removal", back).await;
    let valid = "update key_auth set revoked_at = null";
    assert_found(scene, "I8: an acknowledged revocation", valid).await;
}

/// The audit log lacks entries, or has a changed one.
#[tokio::test]
async fn the_checker_finds_i6_broken() {
    let scene = &good_run().await;
    scene.world.project().await;
    let lost = "delete from audit_log where action = 'hook_removed'";
    assert_found(scene, "I6: a removal has no entry", lost).await;
    let silent = "delete from audit_log where action = 'key_revoked'";
    assert_found(scene, "I6: a revocation has no entry", silent).await;
    let torn = "delete from audit_log where sequence = 2";
    assert_found(scene, "I6: a chain", torn).await;
    let changed = "update audit_log set entry = set_byte(entry, 9, 1) where sequence = 2";
    assert_found(scene, "I6: a chain", changed).await;
}

/// Attempts in the log and claims of the witness are forged.
#[tokio::test]
async fn the_checker_finds_i3_i4_i9_broken() {
    let scene = &good_run().await;
    let twice = another("DeliveryAttempted", "update forged set sequence = 9");
    assert_found(scene, "I3: tries", &twice).await;
    assert_found(scene, "I3: a delivery was claimed", "update witness.claims set number = 9").await;
    assert_found(scene, "I4: a claim", "update witness.claims set lane_closed = true").await;
    assert_found(scene, "I4: 1 requests of 0 claims", "delete from witness.claims").await;
    let stolen = "insert into witness.claims
                  select delivery_id, lease / 2, 2, claimed_at, ends_at, false from witness.claims;
                  delete from events where event_type = 'DeliveryAttempted'";
    assert_found(scene, "I9: a delivery was claimed", stolen).await;
}

#[tokio::test]
async fn the_checker_finds_i5_i6_i7_broken() {
    let scene = &good_run().await;
    assert_found(scene, "I5", &another("DeliveryAttempted", "update forged set sequence = 3"))
        .await;
    let again = another("SubscriptionRemoved", "update forged set sequence = 3");
    assert_found(scene, "I6: a subscription was removed twice", &again).await;
    let reopened = "update lanes set cancel_cause = null";
    assert_found(scene, "I6: a subscription is removed in its table alone", reopened).await;
    let unlogged = "delete from events where event_type = 'SubscriptionRemoved'";
    assert_found(scene, "I6: a subscription is removed in its table alone", unlogged).await;
    assert_found(scene, "I7: history is", "update deliveries set state = 'failed'").await;
    let revoked = "update key_auth set revoked_at = now();
                   update hooks set removed_at = null, removed_position = null, removal_reason = null";
    assert_found(scene, "a revoked key", revoked).await;
}

/// They break I7. A read model is made anew, and compared with the committed one.
#[tokio::test]
async fn the_checker_finds_any_wrong_read_model() {
    let scene = &good_run().await;
    scene.world.project().await;
    let requests = scene.requests();
    for (model, forged) in [
        ("firms", "update firms set invites_enabled = not invites_enabled"),
        ("hooks", "update hooks set removed_position = removed_position + 1"),
        ("deliveries", "update deliveries set next_try_at = now()"),
        ("quotas", "update quotas set used = used + 1"),
    ] {
        scene.world.change_database(forged).await;
        let found = scene.run(&requests).violations().await;
        let rule = format!("I7: {model} is not what the log says");
        assert!(found.iter().any(|violation| violation.starts_with(&rule)), "{rule}: {found:?}");
    }
}

/// They break I1, I2, I3 or I9.
#[tokio::test]
async fn the_checker_finds_wrong_requests_at_receivers() {
    let scene = good_run().await;
    let seen = scene.requests();
    let found = async |requests: Vec<Request>| {
        let acknowledged = &Acknowledged::default();
        let run = Run { pool: scene.world.pool(), requests: &requests, acknowledged, lease: LEASE };
        let mut found = run.violations().await;
        found.pop().unwrap_or_default()
    };
    let one = seen[0];
    let later = |seconds| Request { arrived: one.arrived + Duration::from_secs(seconds), ..one };
    assert_eq!(found(vec![one]).await, "");
    let stranger = Request { delivery_id: Uuid::nil(), ..one };
    assert!(found(vec![one, stranger]).await.starts_with("I1: a request is of no delivery"));
    let other = Request { sha256: [0; 32], ..one };
    assert!(found(vec![other]).await.starts_with("I2: history tells of other bytes"));
    assert!(found(vec![one, other]).await.starts_with("I2: a delivery came with different"));
    let nine = (0..9).map(|n| later(n * 60)).collect();
    assert!(found(nine).await.starts_with("I3: a delivery came 9 times"));
    let more = "insert into witness.claims
                select delivery_id, lease / 2, 2, ends_at, ends_at + interval '25 s', false
                  from witness.claims";
    scene.world.change_database(more).await;
    let unanswered = Request { ended: None, ..one };
    assert_eq!(found(vec![unanswered, later(24)]).await, "");
    assert!(found(vec![unanswered, later(9)]).await.starts_with("I9: two sends"));
    assert_eq!(found(vec![one, later(9)]).await, "", "the first had ended");
}
