//! Databases on several hosts: the primary among them is found, and followed after a failover.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use eventstore::{LifeWatch, connect, connect_guarded};
use sqlx::{ConnectOptions, Connection, Executor};
use tests::{Receiver, ReplicatedServer, TestDatabase, World, cluster_with, submitted};

use tests::process::{Listening, data_dir, firmforms, get, report, serve, serve_with, until};
use uuid::Uuid;
use vault::{ErasedUpTo, KeySubject, Keyring, KeyringHosts, SystemEntropy, WrappingKey};

/// The variables that name both databases.
struct DatabaseUrls {
    main: String,
    keyring: String,
}

impl DatabaseUrls {
    fn on_both_hosts(server: &ReplicatedServer, database: &TestDatabase) -> Self {
        Self { main: server.url(&database.main), keyring: server.url(&database.keyring) }
    }

    fn through_proxy(server: &ReplicatedServer, database: &TestDatabase) -> Self {
        let main = server.url_through_proxy(&database.main);
        Self { main, keyring: server.url_through_proxy(&database.keyring) }
    }

    fn on_the_standby(server: &ReplicatedServer, database: &TestDatabase) -> Self {
        let main = server.standby_url(&database.main);
        Self { main, keyring: server.standby_url(&database.keyring) }
    }

    fn variables(&self) -> [(&str, &str); 2] {
        [("DATABASE_URL", &self.main), ("FIRMFORMS_KEYRING_URL", &self.keyring)]
    }
}

/// The lines of a log with this text.
fn count(log: &str, text: &str) -> usize {
    log.lines().filter(|line| line.contains(text)).count()
}

/// With a synchronous standby no acknowledged delivery is lost. The service has both hosts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_delivers_on_after_a_failover() {
    let (server, database) = ReplicatedServer::start().await;
    server.wait_for_standby_at_commits().await;
    let urls = DatabaseUrls::on_both_hosts(&server, &database);
    let world = World::real_time(database).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    std::fs::create_dir_all(data_dir(&world.database)).unwrap();
    let served = serve_with(&world.database, &[], &urls.variables()).await;
    for _ in 0..20 {
        world.submit(&firm).await;
    }
    receiver.wait_for(1).await;
    server.fail_over().await;

    let promoted = Instant::now();
    until(served.internal, "/readyz", 200).await;
    println!("ready {:?} after the promotion", promoted.elapsed());
    for _ in 0..5 {
        world.submit(&firm).await;
    }
    let bodies = async {
        loop {
            let mut bodies: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
            let received = receiver.received();
            for one in &received {
                let id = one.header("x-service-delivery").to_owned();
                bodies.entry(id).or_default().push(one.body.to_vec());
            }
            if bodies.len() == 25 {
                return bodies;
            }
            receiver.wait_for(received.len() + 1).await;
        }
    };
    let bodies = tokio::time::timeout(Duration::from_secs(200), bodies).await.unwrap();
    println!("all delivered {:?} after the promotion", promoted.elapsed());
    assert!(bodies.values().all(|sent| sent.iter().all(|body| *body == sent[0])));
    let verified = firmforms(&world.database)
        .args(["verify", "deliveries"])
        .envs(urls.variables())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8(verified.stdout).unwrap();
    assert!(said.starts_with("proven: 25 occurrences"), "{said}");
    let log = served.log.lock().unwrap().clone();
    for database in ["the main database", "the keyring"] {
        assert_eq!(count(&log, &format!("{database} is served by")), 1, "{log}");
    }
    assert_eq!(count(&log, "lost the end of its log"), 0, "{log}");
}

/// A process asked only the server that it used. So the process stayed on an old primary that lived
/// on beside the new one, and acknowledged reports that were lost with the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_leaves_an_old_live_primary() {
    let (server, database) = ReplicatedServer::start().await;
    let urls = DatabaseUrls::on_both_hosts(&server, &database);
    let second = server.on_second(&database.main);
    let world = World::real_time(database).await;
    let firm = world.firm().await;
    std::fs::create_dir_all(data_dir(&world.database)).unwrap();
    let served = serve_with(&world.database, &[], &urls.variables()).await;
    server.until_in_step().await;
    server.promote().await;

    let promoted = Instant::now();
    let mut acknowledged = Vec::new();
    let reporting = async {
        while acknowledged.len() < 5 {
            let id = world.id();
            let batch = serde_json::to_string(&[submitted(&firm, id)]).unwrap();
            let has_moved = ["the main database", "the keyring"].into_iter().all(|database| {
                served.log.lock().unwrap().contains(&format!("{database} is served by"))
            });
            let status = report(served.internal, world.token(), &batch).await;
            if has_moved && acknowledged.is_empty() {
                println!("moved {:?} after the promotion", promoted.elapsed());
            }
            if has_moved && status.is_some_and(|status| status == 202) {
                acknowledged.push(id);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reporting).await.expect("the service moves");
    let mut second = second.connect().await.unwrap();
    let kept: i64 =
        sqlx::query_scalar("select count(*) from responses where response_id = any($1)")
            .bind(&acknowledged)
            .fetch_one(&mut second)
            .await
            .unwrap();
    assert_eq!(usize::try_from(kept), Ok(acknowledged.len()));
    let other = "firmforms_other_primaries{database=\"main\"} 1";
    while !get(served.internal, "/metrics").await.1.contains(other) {}
    let told = "takes writes, too, as a primary of the main database";
    assert_eq!(count(&served.log.lock().unwrap(), told), 1);
}

/// The main database may move to the new primary before the keyring. A key on the old primary was
/// lost with it, and so was the report that the new primary had acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_primarys_keyring_changes_nothing() {
    let (server, database) = ReplicatedServer::start().await;
    let old = server.on_first(&database.keyring);
    let subject = KeySubject { firm_id: Uuid::from_u128(1), subject_id: Uuid::from_u128(2) };
    server.promote().await;
    for (keyring, hosts, is_believed) in [
        (old.clone(), KeyringHosts::OfMain, false),
        (old, KeyringHosts::Own, true),
        (server.on_second(&database.keyring), KeyringHosts::OfMain, true),
    ] {
        let [main_life, own_life] = [LifeWatch::default(), LifeWatch::default()];
        main_life.connect(server.on_second(&database.main), 1).acquire().await.unwrap();
        let keyring = Keyring::new(own_life.connect(keyring, 1), WrappingKey::new(&[7; 32]))
            .watched_by(own_life)
            .tied_to_main(main_life, hosts);
        let changes = [
            keyring.make_keys(&[subject], &SystemEntropy).await.map(drop),
            keyring.forget_keys(&[subject]).await,
            keyring.forget_up_to(&[], &ErasedUpTo { position: 1, digest: vec![7] }).await,
        ];
        assert_eq!(changes.map(|change| change.is_ok()), [is_believed; 3]);
    }
}

/// The old primary answers nothing and ends no connection. Steps that wait for it are given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_cut_off_stops_no_delivery() {
    let (server, database) = ReplicatedServer::start().await;
    let urls = DatabaseUrls::through_proxy(&server, &database);
    let promoted = DatabaseUrls::on_the_standby(&server, &database);
    let world = World::real_time(database).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    std::fs::create_dir_all(data_dir(&world.database)).unwrap();
    let served = serve_with(&world.database, &[], &urls.variables()).await;
    world.submit(&firm).await;
    receiver.wait_for(1).await;
    server.until_in_step().await;
    server.cut_primary_off().await;

    let since = Instant::now();
    let [main, keyring] = [&promoted.main, &promoted.keyring].map(|url| url.parse().unwrap());
    let world = World::real_time(TestDatabase::from_main(main, keyring)).await;
    let received = receiver.received().len();
    world.submit(&firm).await;
    receiver.wait_for(received + 1).await;
    let took = since.elapsed();
    println!("delivered {took:?} after the promotion");
    assert!(took < Duration::from_secs(40), "a step waited for the old primary: {took:?}");
    until(served.internal, "/readyz", 200).await;
}

/// The service finds only the standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_waits_for_a_standby_promotion() {
    let (server, database) = ReplicatedServer::start().await;
    let urls = DatabaseUrls::on_the_standby(&server, &database);
    let mut waiting = Listening::start(&database, &[], &urls.variables()).await;
    waiting.until_it_logs("is a standby: waiting").await;
    assert_eq!(get(waiting.internal, "/readyz").await.0, 503);
    server.fail_over().await;
    let served = waiting.until_ready().await;
    assert_eq!(get(served.internal, "/readyz").await.0, 200);
}

/// The refusal is logged once, however often the service connects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_a_standby_is_refused() {
    let (server, database) = ReplicatedServer::start().await;
    let served = serve(&database, &[]).await;
    server.mislead();
    until(served.internal, "/readyz", 503).await;
    // Several tries to connect.
    for _ in 0..3 {
        assert_eq!(get(served.internal, "/readyz").await.0, 503);
    }
    server.lead_back();
    until(served.internal, "/readyz", 200).await;
    let log = served.log.lock().unwrap().clone();
    let refused = "the server of the main database is a standby";
    assert_eq!(count(&log, refused), 1, "{log}");
    assert_eq!(count(&log, "after_connect"), 0, "{log}");
    assert_eq!(count(&log, "is in another life"), 0, "it never used the standby: {log}");
}

/// A reading command says that its server is a standby. Another command fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_reading_commands_use_a_standby() {
    let (server, database) = ReplicatedServer::start().await;
    let urls = DatabaseUrls::on_the_standby(&server, &database);
    let world = World::real_time(database).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    world.deliver().await;
    world.project().await;
    server.until_in_step().await;
    std::fs::create_dir_all(data_dir(&world.database)).unwrap();
    let run = async |arguments: &[&str]| {
        let ended =
            firmforms(&world.database).args(arguments).envs(urls.variables()).output().await;
        let ended = ended.unwrap();
        let [said, noted] =
            [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (ended.status.code().unwrap(), said, noted)
    };
    let (code, said, noted) = run(&["verify", "deliveries"]).await;
    assert_eq!(code, 0, "{said}{noted}");
    assert!(noted.contains("is a standby of the main database"), "{noted}");
    let (code, _, noted) = run(&["audit", "checkpoint"]).await;
    assert_eq!(code, 1, "a signature is noted in the database");
    assert!(noted.contains("read-only transaction"), "{noted}");
    let (code, said, noted) = run(&["audit", "verify"]).await;
    assert!(code != 2 || said.starts_with("INCOMPLETE"), "{said}{noted}");
    assert!(noted.contains("is a standby of the main database"), "{noted}");
    let (code, said, noted) = run(&["doctor"]).await;
    let wrong: Vec<&str> = said.lines().filter(|line| line.starts_with("wrong")).collect();
    assert_eq!(code, 1, "{said}{noted}");
    assert!(wrong.iter().any(|line| line.contains("\tprimary\t")), "{said}");
    assert!(
        wrong.iter().all(|line| line.contains("primary") || line.contains("durability")),
        "{said}"
    );
    let (code, _, noted) = run(&["lanes", "list"]).await;
    assert_eq!(code, 1);
    assert!(noted.starts_with("firmforms: the main database has no primary: "), "{noted}");
}

#[tokio::test]
async fn a_refused_url_hides_its_password() {
    let database = TestDatabase::new().await;
    for (variable, url) in [
        ("DATABASE_URL", "postgres://u:canary@a:1,b:x/db"),
        ("DATABASE_URL", "postgres://u:can/canary@a:1/db"),
        ("FIRMFORMS_KEYRING_URL", "postgres://u:canary@a,b/db?target_session_attrs=standby"),
    ] {
        let ended = firmforms(&database).arg("doctor").env(variable, url).output().await.unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(variable) && !said.contains("canary"), "{said}");
    }
}

#[tokio::test]
async fn only_a_weak_synchronous_commit_is_raised() {
    let cluster = cluster_with(&[]).await;
    let database = cluster.database().await;
    let mut owner = database.main.connect().await.unwrap();
    let name = database.main.get_database().unwrap();
    for (default, in_use) in [
        ("off", "on"),
        ("local", "on"),
        ("on", "on"),
        ("remote_write", "remote_write"),
        ("remote_apply", "remote_apply"),
    ] {
        let set = format!("alter database {name} set synchronous_commit = '{default}'");
        owner.execute(set.as_str()).await.unwrap();
        for pool in [connect(database.main.clone(), 1), connect_guarded(database.main.clone(), 1)] {
            // The second use is after the connection was given back.
            for _ in 0..2 {
                let found: String =
                    sqlx::query_scalar("show synchronous_commit").fetch_one(&pool).await.unwrap();
                assert_eq!(found, in_use, "the default is {default}");
            }
            pool.close().await;
        }
    }
    owner.close().await.unwrap();
}
