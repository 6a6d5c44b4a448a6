//! E22: a deliverer that cannot reach the database any more, in the middle of a send.

use tests::{DatabaseProxy, Fault, own_cluster};

use super::{CONNECT_WITHIN, FAST, LEASE, Scene};
use crate::process::work;

/// Another deliverer sends once more when the lease has ended; when the first is back, its old answer
/// is noted and changes nothing, and it works on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e22_a_deliverer_cut_off_in_a_send_is_replaced_once_and_comes_back_without_harm() {
    let cluster = own_cluster().await;
    let mut scene = Scene::on(cluster.database().await).await;
    let proxy = DatabaseProxy::before(&scene.database().main).await;
    let through = [("DATABASE_URL", &*proxy.url(&scene.database().main))];
    let deliverer = [&FAST[..], &["--role", "deliverer"]].concat();
    let _cut_off = work(scene.database(), &deliverer, &through).await;
    let _history = work(scene.database(), &["--role", "projector"], &[]).await;
    scene.receiver.hold();
    scene.submit(1).await;
    scene.receiver.wait_for(1).await;
    proxy.set(Fault::BlackHole);
    scene.receiver.release();

    let mut other = work(scene.database(), &deliverer, &[]).await;
    scene.assert_held().await;
    let received = scene.receiver.received();
    let [first, second] = &received[..] else { panic!("{} requests", received.len()) };
    assert!(second.arrived - first.arrived + CONNECT_WITHIN >= LEASE);
    let id = first.header("x-service-delivery").parse().unwrap();
    let ended = |outcomes: &[&str]| {
        ("delivered".to_owned(), outcomes.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(scene.world.history(id).await, ended(&["interrupted", "delivered"]));

    other.kill().await.unwrap();
    proxy.set(Fault::None);
    // It records in order: when it has recorded this, its old answer is behind it.
    scene.submit(1).await;
    scene.receiver.wait_for(3).await;
    scene.assert_held().await;
    assert_eq!(scene.receiver.received().len(), 3);
    let noted = ended(&["interrupted", "delivered", "delivered"]);
    assert_eq!(scene.world.history(id).await, noted, "the old answer changes nothing");
}

/// A connection that ends in the middle of anything is opened again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e12_connections_that_break_off_or_are_reset_are_opened_again() {
    let cluster = own_cluster().await;
    let mut scene = Scene::on(cluster.database().await).await;
    let proxy = DatabaseProxy::before(&scene.database().main).await;
    let through = [("DATABASE_URL", &*proxy.url(&scene.database().main))];
    let _service = work(scene.database(), &FAST, &through).await;
    for fault in [Fault::Reset, Fault::CutAfter(3_000), Fault::CutAfter(700), Fault::Reset] {
        let waiting = scene.acknowledged.responses.len();
        proxy.set(fault);
        scene.submit(10).await;
        proxy.set(Fault::None);
        scene.receiver.wait_for(waiting + 10).await;
    }
    scene.assert_held().await;
}
