//! The claim in the append and the removal of a subscription: the order of their commits decides
//! (ruling 29), and neither waits long for the other.

use std::sync::atomic::{AtomicU64, Ordering};

use eventstore::connect;
use tests::until_blocked;
use tokio::time::timeout;

use super::gate::{Gate, OCCURRENCES, REMOVALS, ROWS};
use super::*;

impl Scene {
    pub(super) async fn remove(&self, hook: Uuid) {
        self.world.remove_hook(&self.firm, hook).await.ok();
    }

    /// Fails unless `count` deliveries were cancelled for this cause before their first attempt.
    pub(super) async fn assert_all_cancelled(&self, count: usize, cause: &str) {
        assert_eq!(self.histories().await, vec![("cancelled".to_owned(), Vec::new()); count]);
        let of_another = format!("select count(*) from deliveries where cause <> '{cause}'");
        assert_eq!(self.world.ask_number(&of_another).await, 0);
        assert!(self.receiver.received().is_empty());
        self.assert_nothing_is_left().await;
    }

    async fn assert_nothing_is_left(&self) {
        assert_eq!((self.queue().await, self.wakes().await), ((0, 0), 0));
        assert_eq!(self.world.count("lanes where due_at is not null").await, 0);
    }
}

/// The match saw the subscription. Before the append, the subscription was removed and its waiting
/// deliveries were cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_after_a_removal_is_cancelled() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let gate = Gate::before(&scene.world, OCCURRENCES).await;
    let removal = async {
        until_blocked(scene.world.pool(), 1).await;
        scene.remove(scene.hook).await;
        scene.world.cancel().await;
        gate.open().await;
    };
    tokio::join!(scene.submit_in_steps(), removal);
    assert_eq!(scene.queue().await, (0, 1), "a closed lane is not leased from");
    assert_eq!(scene.wakes().await, 1);
    scene.world.cancel().await;
    scene.assert_all_cancelled(1, "subscription_deleted").await;
    assert_eq!(deliver_once(scene.world.deliverer()).await.unwrap(), 0);
    process.ends(&scene.world).await;
}

/// The removal has the lane, and commits after the append. Then the append's delivery is cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_waits_for_no_removal() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let gate = Gate::before(&scene.world, REMOVALS).await;
    let append = async {
        until_blocked(scene.world.pool(), 1).await;
        assert_eq!(scene.queue_after_another().await, (0, 1));
        assert_eq!(deliver_once(scene.world.deliverer()).await.unwrap(), 0);
        scene.world.cancel().await;
        assert_eq!(scene.queue().await, (0, 1), "nobody has decided yet");
        gate.open().await;
    };
    tokio::join!(scene.remove(scene.hook), append);
    assert_eq!(deliver_once(scene.world.deliverer()).await.unwrap(), 0);
    scene.world.cancel().await;
    scene.assert_all_cancelled(1, "subscription_deleted").await;
    process.ends(&scene.world).await;
}

/// The append has the lane, so the removal waits and comes after the lease. A delivery that fails
/// then is not attempted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_leased_before_removal_is_sent() {
    for (status, state, outcome) in [(200, "delivered", "delivered"), (500, "cancelled", "retry")] {
        let scene = Scene::new().await;
        let process = scene.process(|_| {});
        scene.receiver.reply([Reply::status(status)]);
        let gate = Gate::before(&scene.world, ROWS).await;
        let removal = async {
            until_blocked(scene.world.pool(), 1).await;
            let open = async {
                until_blocked(scene.world.pool(), 2).await;
                gate.open().await;
            };
            tokio::join!(scene.remove(scene.hook), open);
        };
        tokio::join!(scene.submit(1), removal);
        process.answered(1).await;
        scene.world.cancel().await;
        process.ends(&scene.world).await;
        scene.submit(1).await;
        scene.world.pass(Duration::from_secs(3_600));
        assert_eq!(scene.world.deliver().await, 0);
        assert_eq!(scene.histories().await, [(state.to_owned(), vec![outcome.to_owned()])]);
        assert_eq!(scene.receiver.received().len(), 1);
        scene.assert_nothing_is_left().await;
    }
}

/// A removal before a submission takes its subscription off the list; one after it leaves it there.
#[tokio::test]
async fn a_batchs_order_decides_on_listed_subscriptions() {
    for (is_closed_first, listed) in [(true, 0), (false, 1)] {
        let scene = Scene::new().await;
        let process = scene.process(|_| {});
        let closed = later(activity(scene.firm.id, "firm.closed", json!({})), 1);
        let mut batch = [submitted(&scene.firm, scene.world.id()), closed];
        if is_closed_first {
            batch.reverse();
        }
        scene.report(&batch).await;
        assert_eq!(scene.queue().await, (0, i64::try_from(listed).unwrap()));
        assert_eq!(deliver_once(scene.world.deliverer()).await.unwrap(), 0);
        scene.world.cancel().await;
        scene.assert_all_cancelled(listed, "firm_closed").await;
        process.ends(&scene.world).await;
    }
}

/// One of two members leaves, and the subscription of the other stays.
#[tokio::test]
async fn a_leaving_member_takes_only_own_subscriptions() {
    let scene = Scene::new().await;
    let (process, member) = (scene.process(|_| {}), scene.world.id());
    let joined = json!({"member_id": member, "role": "admin"});
    scene.report(&[activity(scene.firm.id, "member.joined", joined)]).await;
    let key = api::commands::keys::create(scene.world.service(), scene.firm.id, member, "Theirs");
    let key = key.await.unwrap().key.as_str().to_owned();
    let theirs = json!({"target_url": scene.receiver.url("/theirs"), "trigger": "form_submitted"});
    scene.world.call(&key, "POST", "/hooks", theirs).await.ok();
    let left = later(activity(scene.firm.id, "member.left", json!({"member_id": member})), 1);
    let [before, after] = [(); 2].map(|()| submitted(&scene.firm, scene.world.id()));
    scene.report(&[before, left, after]).await;
    assert_eq!(scene.queue().await, (0, 3));
    assert_eq!(scene.world.deliver().await, 2);
    let mut histories = scene.histories().await;
    histories.sort();
    assert_eq!(histories, [("cancelled".to_owned(), Vec::new()), once(), once()]);
    assert!(scene.receiver.received().iter().all(|one| one.uri.path() == "/hook"));
    scene.assert_nothing_is_left().await;
    process.ends(&scene.world).await;
}

/// The cancel worker takes wakes, too: no claim looks at a closed lane.
#[tokio::test]
async fn cancelling_absorbs_the_wakes_of_closed_lanes() {
    let scene = Scene::new().await;
    scene.submit(1).await;
    scene.world.change_database("update lanes set due_at = null").await;
    scene.remove(scene.hook).await;
    let wake = "insert into lane_wakes (lane_id) select lane_id from lanes, generate_series(1, 20)";
    scene.world.change_database(wake).await;
    assert_eq!(scene.wakes().await, 21);
    scene.world.cancel().await;
    scene.world.change_database(wake).await;
    scene.world.cancel().await;
    scene.assert_all_cancelled(1, "subscription_deleted").await;
}

/// PostgreSQL grants a shared lock past a transaction that waits for an exclusive one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_commits_beside_sharing_appends() {
    let scene = Scene::new().await;
    let (stop, taken) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
    let holders: Vec<_> = (0..3)
        .map(|_| {
            let pool = connect(scene.world.database.main.clone(), 1);
            let (stop, taken, lane_id) = (stop.clone(), Arc::clone(&taken), scene.hook);
            tokio::spawn(async move {
                while !stop.is_cancelled() {
                    let mut sharing = pool.begin().await.unwrap();
                    sqlx::query("select 1 from lanes where lane_id = $1 for key share")
                        .bind(lane_id)
                        .execute(&mut *sharing)
                        .await
                        .unwrap();
                    sharing.commit().await.unwrap();
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let so_far = || taken.load(Ordering::Relaxed);
    while so_far() < 100 {
        tokio::task::yield_now().await;
    }
    timeout(Duration::from_secs(20), scene.remove(scene.hook)).await.unwrap();
    let removed = so_far();
    while so_far() < removed + 100 {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    join_all(holders).await.into_iter().for_each(Result::unwrap);
}
