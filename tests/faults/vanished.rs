//! A machine that vanishes closes nothing: its sessions stay until the server notices (ruling 57).

use std::time::{Duration, Instant};

use eventstore::presence::{ProcessGroup, count_members, silent_members};
use eventstore::{Nudge, WakeScope, connect, relay_nudges};
use futures::future::join;
use nix::sys::signal::Signal;
use sqlx::PgPool;
use tests::{DatabaseProxy, Receiver, TestDatabase, World, own_cluster, tcp_cluster};
use tokio::time::{sleep, timeout};

use tests::process::{Served, firmforms, serve, serve_with, signal, until};

/// From one look to the next.
const AGAIN: Duration = Duration::from_millis(100);

/// A defect would last for two hours.
const PATIENCE: Duration = Duration::from_secs(90);

/// A service whose both databases are behind a proxy.
async fn serve_through(proxy: &DatabaseProxy, database: &TestDatabase) -> Served {
    let [main, keyring] = [&database.main, &database.keyring].map(|name| proxy.url(name));
    let variables = [("DATABASE_URL", &*main), ("FIRMFORMS_KEYRING_URL", &*keyring)];
    serve_with(database, &[], &variables).await
}

/// The machine of this service vanishes with it.
fn vanish(served: &Served, proxy: &DatabaseProxy) {
    proxy.vanish();
    signal(&served.child, Signal::SIGKILL);
}

async fn senders(pool: &PgPool) -> usize {
    count_members(&mut pool.acquire().await.unwrap(), ProcessGroup::Sending).await.unwrap()
}

/// No connection had keepalives, and the server waited two hours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vanished_machine_loses_its_connections() {
    let cluster = tcp_cluster(&[]).await;
    let database = cluster.database().await;
    let proxy = DatabaseProxy::before(&cluster.over_tcp(&database.main)).await;
    let served = serve_through(&proxy, &database).await;
    let pool = connect(database.main.clone(), 1);
    let sessions = async || -> i64 {
        sqlx::query_scalar(
            "select count(*) from pg_stat_activity
              where backend_type = 'client backend' and client_addr is not null",
        )
        .fetch_one(&pool)
        .await
        .unwrap()
    };
    assert!(sessions().await > 0);
    let vanished = Instant::now();
    vanish(&served, &proxy);
    let ended = async {
        while sessions().await > 0 {
            sleep(AGAIN).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("keepalives end the sessions");
    println!("the last session ended {:?} later", vanished.elapsed());
}

/// The vanished sender kept its place and its share, and the next one waited for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vanished_sender_does_not_count() {
    let cluster = own_cluster().await;
    let database = cluster.database().await;
    let proxy = DatabaseProxy::before(&database.main).await;
    let served = serve_through(&proxy, &database).await;
    let world = World::real_time(database).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let mut looking = world.pool().acquire().await.unwrap();
    while senders(world.pool()).await != 1 {}

    vanish(&served, &proxy);
    world.submit(&firm).await;
    let next = serve(&world.database, &[]).await;
    let ready = Instant::now();
    receiver.wait_for(1).await;
    println!("the next one sends {:?} after it is ready", ready.elapsed());
    let silent = async {
        loop {
            let silent = silent_members(&mut looking, ProcessGroup::Sending).await.unwrap();
            if let [one] = &silent[..] {
                return one.session.clone();
            }
            sleep(AGAIN).await;
        }
    };
    let session = timeout(PATIENCE, silent).await.expect("the vanished one is silent");
    assert_eq!(senders(world.pool()).await, 1, "the next one alone");
    until(next.internal, "/readyz", 200).await;
    let doctor = firmforms(&world.database).arg("doctor").output().await.unwrap();
    let said = String::from_utf8(doctor.stdout).unwrap();
    let line = said.lines().find(|line| line.contains("\tsenders\t")).unwrap();
    assert!(line.starts_with("notice") && line.contains(&session), "{line}");
}

/// A NOTIFY on a connection that fell silent waited for its answer without an end, and no process
/// heard of the news of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_leaves_a_silent_connection() {
    let cluster = own_cluster().await;
    let database = cluster.database().await;
    let proxy = DatabaseProxy::before(&database.main).await;
    let near = connect(proxy.url(&database.main).parse().unwrap(), 2);
    let far = connect(database.main.clone(), 2);
    let [telling, hearing] = [Nudge::default(), Nudge::default()];
    let mut heard = hearing.subscribe();
    let _relays =
        tokio::spawn(join(relay_nudges(near, telling.clone()), relay_nudges(far, hearing)));
    let mut until_heard = async || {
        heard.mark_unchanged();
        while timeout(AGAIN, heard.changed()).await.is_err() {
            telling.signal(WakeScope::default(), 1);
        }
    };
    until_heard().await;
    proxy.vanish();
    timeout(PATIENCE, until_heard()).await.expect("it notifies on a new connection");
}

/// The silent connections neither answered nor ended, and each call waited for one of them in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_leaves_connections_that_fell_silent() {
    let cluster = own_cluster().await;
    let database = cluster.database().await;
    let proxy = DatabaseProxy::before(&database.main).await;
    let served = serve_through(&proxy, &database).await;
    let world = World::real_time(database).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    proxy.vanish();
    world.submit(&firm).await;
    let delivered = async {
        receiver.wait_for(1).await;
        until(served.internal, "/readyz", 200).await;
    };
    timeout(PATIENCE, delivered).await.expect("the service works on new connections");
}
