//! A claim in the append that the database refuses: the batch is taken in without the claim.

use tests::until_blocked;

use super::gate::{Gate, ROWS};
use super::*;

/// A lease that the database refused once failed the whole batch.
#[tokio::test]
async fn a_refused_lease_fails_no_report() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    refuse_leases(&scene).await;
    assert_eq!(scene.queue_after_another().await, (0, 1), "it is accepted, and waits");
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 1);
    scene.assert_all_arrived_once(1).await;
}

/// H1: the token is revoked between the refused claim and the second transaction. The data key of
/// the erased response once stayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h1_a_refused_batch_keeps_no_key() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let erased = scene.world.submit(&scene.firm).await;
    process.answered(1).await;
    scene
        .report(&[activity(scene.firm.id, "response.erased", json!({"response_id": erased}))])
        .await;
    scene.world.erase().await;
    refuse_leases(&scene).await;
    let gate = Gate::before(&scene.world, ROWS).await;
    let revoking = async {
        until_blocked(scene.world.pool(), 1).await;
        scene.world.change_database("update tokens set revoked_at = now()").await;
        gate.open().await;
    };
    let batch = [submitted(&scene.firm, scene.world.id()), submitted(&scene.firm, erased)];
    let (refused, ()) = tokio::join!(scene.world.report(&batch), revoking);
    assert_eq!(refused.code(), (401, "unauthorized"), "{}", refused.text());
    process.ends(&scene.world).await;
    assert_eq!(scene.world.count_data_keys_of(erased).await, 0);
}
