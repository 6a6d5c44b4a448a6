//! E21 and E22: a deliverer that is stopped, or cannot reach the database any more, in the middle
//! of a send. Also connections that break.

use nix::sys::signal::Signal;
use tests::{DatabaseProxy, Fault, own_cluster};
use tokio::process::Child;
use tokio::time::timeout;
use uuid::Uuid;

use super::{CONNECT_WITHIN, FAST, LEASE, PATIENCE, Scene};
use tests::process::{signal, work};

const DELIVERER: [&str; 4] = [FAST[0], FAST[1], "--role", "deliverer"];

/// A stopped process is like a dead one until it runs again. Another process sends its delivery
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e21_a_stopped_deliverer_comes_back_harmless() {
    let cluster = own_cluster().await;
    let mut scene = Scene::on(cluster.database().await).await;
    let stopped = work(scene.database(), &DELIVERER, &[]).await;
    let _history = work(scene.database(), &["--role", "projector"], &[]).await;
    scene.under_way().await;
    signal(&stopped, Signal::SIGSTOP);
    scene.receiver.release();

    let (mut other, id) = scene.replaced().await;
    other.kill().await.unwrap();
    signal(&stopped, Signal::SIGCONT);
    let late = scene.back(id).await;
    // The answer lay in the socket, and its ten seconds were over. So the deliverer may note
    // either.
    assert!(["delivered", "retry"].contains(&&*late), "{late}");
}

/// Resets enough that every worker has tried again and again.
const RESETS: usize = 20;

/// Another deliverer sends once more when the lease has ended. The first comes back on connections
/// that break. Its old answer is noted and changes nothing, and the first works on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e22_a_partitioned_deliverer_comes_back_harmless() {
    let cluster = own_cluster().await;
    let mut scene = Scene::on(cluster.database().await).await;
    let proxy = DatabaseProxy::before(&scene.database().main).await;
    let through = [("DATABASE_URL", &*proxy.url(&scene.database().main))];
    let _cut_off = work(scene.database(), &DELIVERER, &through).await;
    let _history = work(scene.database(), &["--role", "projector"], &[]).await;
    scene.under_way().await;
    proxy.set(Fault::BlackHole);
    scene.receiver.release();

    let (mut other, id) = scene.replaced().await;
    other.kill().await.unwrap();
    // An answer that met a broken connection after its lease was given up.
    proxy.set(Fault::Reset);
    proxy.until_reset(RESETS).await;
    proxy.set(Fault::None);
    assert_eq!(scene.back(id).await, "delivered");
}

impl Scene {
    /// One delivery that its receiver has taken and not answered.
    async fn under_way(&mut self) {
        self.receiver.hold();
        self.submit(1).await;
        self.receiver.wait_for(1).await;
    }

    /// Another deliverer, which has sent that delivery when the lease had ended, once.
    async fn replaced(&self) -> (Child, Uuid) {
        let other = work(self.database(), &DELIVERER, &[]).await;
        self.receiver.wait_for(2).await;
        self.assert_held().await;
        let received = self.receiver.received();
        let [first, second] = &received[..] else { panic!("{} requests", received.len()) };
        assert!(second.arrived - first.arrived + CONNECT_WITHIN >= LEASE);
        let id = first.header("x-service-delivery").parse().unwrap();
        assert_eq!(self.world.history(id).await, delivered(&["interrupted", "delivered"]));
        (other, id)
    }

    /// Waits until the first deliverer works again. Returns the outcome that it noted for its old
    /// answer, which changed nothing.
    async fn back(&mut self, id: Uuid) -> String {
        self.submit(1).await;
        self.receiver.wait_for(3).await;
        // A late answer is written down after the answers of its batch that are in time.
        let noted = async { while self.world.history(id).await.1.len() < 3 {} };
        timeout(PATIENCE, noted).await.expect("its old answer is noted");
        self.assert_held().await;
        assert_eq!(self.receiver.received().len(), 3);
        let (state, mut outcomes) = self.world.history(id).await;
        // It stands behind the try that it belongs to.
        let late = outcomes.remove(1);
        assert_eq!((state, outcomes), delivered(&["interrupted", "delivered"]));
        late
    }
}

fn delivered(outcomes: &[&str]) -> (String, Vec<String>) {
    ("delivered".to_owned(), outcomes.iter().map(|one| (*one).to_owned()).collect())
}

/// A connection that ends in the middle of anything is opened again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e12_broken_connections_are_opened_again() {
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
