//! A database that is away or busy: callers get their answers meanwhile, and all comes back.

use std::time::{Duration, Instant};

use cluster::{Cluster, ClusterConfig, Durability};
use eventstore::connect;
use futures::future::join_all;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Executor};
use tempfile::TempDir;
use tests::{DatabaseProxy, Fault, Receiver, TestDatabase, World, raw, until_blocked};

use crate::health::health;
use tests::process::{Listening, Served, call, firmforms, get, serve, serve_with, until};
use tests::scrape::Scrape;

/// A server that can be stopped and started again, where it was.
struct Server {
    folder: TempDir,
}

impl Server {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    async fn start(&self) -> Cluster {
        let config = ClusterConfig {
            data_dir: self.folder.path().join("data"),
            durability: Durability::ForTests,
            settings: Vec::new(),
            pg_bin: std::env::var_os("FIRMFORMS_PG_BIN").map(Into::into),
        };
        let cluster = Cluster::open(&config).await.unwrap();
        for name in ["away", "away_keyring"] {
            cluster.ensure_database(name).await.unwrap();
        }
        cluster
    }
}

fn databases(cluster: &Cluster) -> TestDatabase {
    TestDatabase::from_main(
        cluster.connect_options("away"),
        cluster.connect_options("away_keyring"),
    )
}

/// Three steps in one life of the server: away at the start, there, and started anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_a_service_waits_out_database_outages() {
    let server = Server::new();
    let cluster = server.start().await;
    let database = databases(&cluster);
    cluster.stop().await.unwrap();

    let waiting = Listening::start(&database, &[], &[]).await;
    assert_eq!(get(waiting.internal, "/livez").await.0, 200);
    assert_eq!(health(waiting.internal, &["--live"]).await.0, Some(0));
    let (code, said) = health(waiting.internal, &[]).await;
    assert!(code == Some(1) && said.contains("not ready: 127.0.0.1:"), "{code:?} {said}");
    assert!(said.contains("answers 503"), "{said}");
    for (door, path) in [
        (waiting.internal, "/readyz"),
        (waiting.internal, "/internal/v1/activity"),
        (waiting.public, "/api/v1/me"),
    ] {
        let (status, answer) = get(door, path).await;
        assert_eq!(status, 503, "{path} {answer}");
        assert!(answer.contains("\r\nretry-after: 1\r\n"), "{path} {answer}");
        assert!(answer.contains(r#""code":"unavailable""#), "{path} {answer}");
    }

    for (path, status) in [("/api/v1/openapi.json", 200), ("/docs/quickstart", 200), ("/", 303)] {
        assert_eq!(get(waiting.public, path).await.0, status, "{path}");
    }
    let counted = get(waiting.internal, "/metrics").await;
    assert!(counted.0 == 200 && counted.1.contains("\nfirmforms_database_up 0\n"), "{counted:?}");

    let cluster = server.start().await;
    let served = waiting.until_ready().await;
    assert_eq!(get(served.internal, "/readyz").await.0, 200);
    let (world, receiver) = (World::real_time(database).await, Receiver::start().await);
    let firm = world.firm().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    receiver.wait_for(1).await;

    cluster.stop().await.unwrap();
    until(served.internal, "/readyz", 503).await;
    for path in ["/livez", "/metrics"] {
        assert_eq!(get(served.internal, path).await.0, 200);
    }
    let _cluster = server.start().await;
    until(served.internal, "/readyz", 200).await;
    world.submit(&firm).await;
    receiver.wait_for(2).await;
}

/// All hosts of both databases are away, and one comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_one_host_back_revives_the_service() {
    let server = Server::new();
    let cluster = server.start().await;
    let database = databases(&cluster);
    let url = |one: &PgConnectOptions| {
        let url = one.to_url_lossy();
        let at_host = format!("@127.0.0.1:1,{}", url.host_str().unwrap());
        url.as_str().replace(&format!("@{}", url.host_str().unwrap()), &at_host)
    };
    let main = url(&database.main);
    let keyring = url(&database.keyring);
    let hosts = [("DATABASE_URL", &*main), ("FIRMFORMS_KEYRING_URL", &*keyring)];
    let served = serve_with(&database, &[], &hosts).await;
    let (world, receiver) = (World::real_time(database).await, Receiver::start().await);
    let firm = world.firm().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    cluster.stop().await.unwrap();
    until(served.internal, "/readyz", 503).await;
    let _cluster = server.start().await;
    until(served.internal, "/readyz", 200).await;
    world.submit(&firm).await;
    receiver.wait_for(1).await;
}

/// A command does not wait for its database.
#[tokio::test]
async fn e11_a_waiting_service_ends_at_signals() {
    let nowhere = |name| PgConnectOptions::new().host("127.0.0.1").port(1).database(name);
    let database = TestDatabase::from_main(nowhere("a"), nowhere("b"));
    let waiting = Listening::start(&database, &[], &[]).await;
    assert!(waiting.stopped().await.success());
    let migrate = firmforms(&database).arg("migrate").output().await.unwrap();
    let said = String::from_utf8(migrate.stderr).unwrap();
    assert_eq!((migrate.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(
        said.starts_with("firmforms: the main database does not answer at 127.0.0.1:1/a: "),
        "{said}"
    );
    assert!(said.contains("refused"), "{said}");
}

/// A fault that does not pass by itself is not waited for, and is told in one line. An unknown
/// database is such a fault, too.
#[tokio::test]
async fn e11_a_wrong_password_ends_the_service() {
    let given = TestDatabase::new().await;
    let (main, keyring) = (given.main.clone(), given.keyring.clone());
    for (main, keyring, why) in [
        (main.clone().password("wrong"), keyring.clone(), "the main database: "),
        (main.clone().database("nowhere"), keyring.clone(), "the main database: "),
        (main.clone(), keyring.database("nowhere"), "the keyring: "),
    ] {
        let database = TestDatabase::from_main(main, keyring);
        let serve = ["serve", "--addr", "127.0.0.1:0", "--internal-addr", "127.0.0.1:0"];
        let ended = firmforms(&database).args(serve).env("RUST_LOG", "off").output().await.unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.starts_with(&format!("firmforms: {why}")), "{said}");
    }
}

/// E13 and E16: callers wait for one table, and more callers wait behind them. Health and
/// deliveries go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e16_slow_calls_delay_nothing_else() {
    let world = World::real_time(TestDatabase::new().await).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let served = serve(&world.database, &[]).await;
    let me = ("GET", "/me");
    let mut transaction = world.pool().begin().await.unwrap();
    let held_long = "set local idle_in_transaction_session_timeout = 0";
    transaction.execute(held_long).await.unwrap();
    transaction.execute("lock table key_calls in exclusive mode").await.unwrap();
    let slow = join_all((0..100).map(async |_| {
        let asked = Instant::now();
        (call(served.public, me, &firm.key, "").await, asked.elapsed())
    }));
    let beside = async {
        until_blocked(world.pool(), CALLERS).await;
        for _ in 0..5 {
            assert_eq!(get(served.internal, "/readyz").await.0, 200);
        }
        world.submit(&firm).await;
        receiver.wait_for(1).await;
    };
    let (answers, ()) = tokio::join!(slow, beside);
    transaction.rollback().await.unwrap();
    for ((status, answer), took) in &answers {
        assert_eq!(*status, 503, "{answer}");
        assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
        assert!(*took < Duration::from_secs(9), "they pile up: {took:?}");
    }
    assert_eq!(call(served.public, me, &firm.key, "").await.0, 200);
}

/// The failed steps of all workers.
async fn failed_steps(served: &Served) -> u64 {
    let (_, metrics) = get(served.internal, "/metrics").await;
    let of_workers =
        metrics.lines().filter(|line| line.starts_with("firmforms_worker_step_failures_total{"));
    let counts = of_workers.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
    counts.sum::<f64>() as u64
}

/// The answer of `/readyz` to the holder of a token.
async fn ready_with(served: &Served, token: &str) -> String {
    let request = format!(
        "GET /readyz HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\n\r\n"
    );
    raw::exchange(served.internal, &request).await.unwrap().1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_logged_once() {
    let world = World::real_time(TestDatabase::new().await).await;
    let (firm, database) = (world.firm().await, &world.database);
    let proxy = DatabaseProxy::before(&database.main).await;
    let [main, keyring] = [&database.main, &database.keyring].map(|one| proxy.url(one));
    let urls = [("DATABASE_URL", &*main), ("FIRMFORMS_KEYRING_URL", &*keyring)];
    let served = serve_with(database, &[], &urls).await;
    // From here on the process knows the token.
    assert_eq!(raw::report(served.internal, world.token(), "[]").await.unwrap(), 202);

    proxy.set(Fault::Reset);
    served.until_logged("does not answer", 2).await;
    while failed_steps(&served).await < 30 {
        assert_eq!(call(served.public, ("GET", "/me"), &firm.key, "").await.0, 503);
    }
    let (status, told) = get(served.internal, "/readyz").await;
    assert!(status == 503 && !told.contains("reason"), "{told}");
    let told = ready_with(&served, world.token()).await;
    assert!(told.contains("\"reason\":\"the keyring does not answer"), "{told}");
    assert!(told.contains("the main database does not answer"), "{told}");
    assert!(!ready_with(&served, "fft_of_nobody").await.contains("reason"));

    proxy.set(Fault::None);
    until(served.internal, "/readyz", 200).await;
    served.until_logged("is back", 2).await;
    let log = served.log.lock().unwrap().clone();
    let loud = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    let lines: Vec<&str> = log.lines().filter(loud).collect();
    let is_told = |line: &&str| line.contains("does not answer");
    assert!(lines.len() == 2 && lines.iter().all(is_told), "{lines:#?}");
}

/// The claim was repeated at once, thousands of times a second, each with a line in the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_without_its_table_waits() {
    let database = TestDatabase::new().await;
    let main = connect(database.main.clone(), 1);
    let served = serve_with(&database, &[], &[]).await;
    sqlx::raw_sql("alter table lane_wakes rename to away").execute(&main).await.unwrap();
    served.until_logged("worker=\"deliver\" error=", 1).await;
    assert!(!served.log.lock().unwrap().contains("a claim was refused"));
}

/// Statements of a service under way at once that identify the caller.
const CALLERS: i64 = 2;

/// Every submission failed meanwhile, and readiness and metrics told nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_an_unreachable_keyring_is_reported() {
    let database = TestDatabase::new().await;
    let proxy = DatabaseProxy::before(&database.keyring).await;
    let keyring = proxy.url(&database.keyring);
    let served = serve_with(&database, &[], &[("FIRMFORMS_KEYRING_URL", &*keyring)]).await;
    let up = |scrape: &Scrape, database: &str| scrape.value(&format!("firmforms_{database}_up"));
    Scrape::until(served.internal, |scrape| up(scrape, "keyring") > 0.0).await;
    let doctor = async || {
        let mut command = firmforms(&database);
        command.env("FIRMFORMS_KEYRING_URL", &keyring).args(["doctor"]);
        let output = command.output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for fault in [Fault::Reset, Fault::BlackHole] {
        proxy.set(fault);
        until(served.internal, "/readyz", 503).await;
        let (_, told) = get(served.internal, "/readyz").await;
        assert!(told.contains(r#""error":"the keyring does not answer"#), "{fault:?} {told}");
        assert_eq!(get(served.internal, "/livez").await.0, 200);
        let away = Scrape::until(served.internal, |scrape| up(scrape, "keyring") < 1.0).await;
        assert!(up(&away, "database") > 0.0, "{fault:?} {}", away.text);
        if fault == Fault::Reset {
            let (code, said) = doctor().await;
            assert_eq!(code, Some(1), "{said}");
            assert!(said.contains("wrong\tkeyring_primary\t"), "{said}");
            assert!(said.contains("fine\tprimary\t") && said.contains("\tlog_tail\t"), "{said}");
        }
        proxy.set(Fault::None);
        until(served.internal, "/readyz", 200).await;
        Scrape::until(served.internal, |scrape| up(scrape, "keyring") > 0.0).await;
    }
}
