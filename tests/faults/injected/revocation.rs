//! E27: a revocation races the claim of its subscription's deliveries.

use std::time::Duration;

use futures::future::{join, join_all};
use tests::{Firm, TestDatabase, World};
use uuid::Uuid;

use super::Scene;

/// Firms, the keys of each that race, and the subscriptions of each key.
const ROUNDS: u64 = 50;
const KEYS: u64 = 5;
const HOOKS: u64 = 4;

/// 1,000 seeds: whichever commits first, no claim comes after a removal (I4). A delivery that was
/// claimed before the removal is sent once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e27_no_claim_follows_a_racing_revocation() {
    let mut scene = Scene::on(TestDatabase::new().await).await;
    scene.world.revoke_key(&scene.firm, scene.firm.key_id).await;
    for round in 0..ROUNDS {
        scene.firm = scene.world.firm().await;
        let racers = racers(&scene).await;
        scene.submit(1).await;
        let (world, firm) = (&scene.world, &scene.firm);
        let revocations = racers.iter().zip(0..).map(async |((key_id, _), place)| {
            let delay = Duration::from_micros((round * KEYS + place) * 1_013 % 9_000);
            tokio::time::sleep(delay).await;
            world.revoke_key(firm, *key_id).await;
        });
        join(join_all(revocations), claims(world, round)).await;
        scene.world.deliver().await;
        scene.acknowledged.removed_hooks.extend(racers.into_iter().flat_map(|(_, hooks)| hooks));
    }
    let sent = scene.world.count("deliveries where state = 'delivered'").await;
    let cancelled = scene.world.count("deliveries where cause = 'key_revoked'").await;
    assert_eq!(u64::try_from(sent + cancelled).unwrap(), ROUNDS * KEYS * HOOKS);
    assert!(sent > 50 && cancelled > 50, "{sent} sent, {cancelled} cancelled: no race");
    scene.assert_held().await;
}

/// Keys of the firm, each with its subscriptions.
async fn racers(scene: &Scene) -> Vec<(Uuid, Vec<Uuid>)> {
    let (world, firm) = (&scene.world, &scene.firm);
    let mut racers = Vec::new();
    for _ in 0..KEYS {
        let key = world.new_key(firm, "racer").await;
        let of_key = Firm { key_id: key.id, key: key.key.as_str().to_owned(), ..firm.clone() };
        let mut hooks = Vec::new();
        for _ in 0..HOOKS {
            hooks.push(world.subscribe(&of_key, &scene.receiver.url("/")).await);
        }
        racers.push((key.id, hooks));
    }
    racers
}

/// Claims and sends while there is something that nobody else has locked.
async fn claims(world: &World, round: u64) {
    tokio::time::sleep(Duration::from_micros(round * 397 % 12_000)).await;
    while deliverer::send::deliver_once(world.deliverer()).await.unwrap() > 0 {}
}
