//! E12–E14: the database is there, and does not behave.

use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use sqlx::{ConnectOptions, Connection};
use tests::{ATTEMPTS, DatabaseProxy, Fault, TestDatabase, own_cluster, until_settled};

use super::{FAST, PATIENCE, Scene, submitted};
use tests::process::{call, report, serve, serve_with, work};

/// E12: every connection is cut, again and again, while responses come in and go out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e12_cut_connections_lose_no_acknowledged_write() {
    const BATCHES: usize = 60;
    let cluster = own_cluster().await;
    let mut scene = Scene::on(cluster.database().await).await;
    let service = serve(scene.database(), &FAST).await;
    let (world, firm) = (&scene.world, &scene.firm);
    let mut refused = 0;
    let load = async {
        let mut taken = Vec::new();
        while taken.len() < BATCHES * 5 {
            let ids: Vec<_> = (0..5).map(|_| world.id()).collect();
            let batch: Vec<_> = ids.iter().map(|id| submitted(firm, *id)).collect();
            let batch = serde_json::to_string(&batch).unwrap();
            match report(service.internal, world.token(), &batch).await.map(|s| s.as_u16()) {
                Some(202) => taken.extend(ids),
                Some(503) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        taken
    };
    let (taken, cuts) = join(load, cut_connections(scene.database(), 12)).await;
    scene.acknowledged.responses = taken;
    assert!(cuts > 12, "{cuts} connections were cut");
    scene.assert_held().await;
    println!("{cuts} connections cut, {refused} batches refused");
}

/// Ends every connection of the service so many times, a moment apart; how many there were.
async fn cut_connections(database: &TestDatabase, times: u32) -> i64 {
    let mut hand = database.main.connect().await.unwrap();
    let mut every = tokio::time::interval(Duration::from_millis(150));
    let mut cut = 0;
    for _ in 0..times {
        every.tick().await;
        cut += sqlx::query_scalar::<_, i64>(
            "select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity
              where application_name = 'firmforms 0.3' and pid <> pg_backend_pid()",
        )
        .fetch_one(&mut hand)
        .await
        .unwrap();
    }
    hand.close().await.unwrap();
    cut
}

/// E13: a caller without a connection in time is told to come back. No caller waits for long, and
/// no call or connection is left over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e13_a_slow_database_turns_callers_away() {
    let cluster = own_cluster().await;
    let scene = Scene::on(cluster.database().await).await;
    let proxy = DatabaseProxy::before(&scene.database().main).await;
    let through = proxy.url(&scene.database().main);
    let api = ["--role", "api"];
    let service = serve_with(scene.database(), &api, &[("DATABASE_URL", &through)]).await;
    let me = || call(service.public, ("GET", "/me"), &scene.firm.key, "");
    assert_eq!(me().await.0, 200);
    proxy.set(Fault::Latency(Duration::from_secs(2)));
    let began = Instant::now();
    let answers = join_all((0..60).map(|_| me())).await;
    let took = began.elapsed();
    let turned_away: Vec<_> = answers.iter().filter(|(status, _)| *status == 503).collect();
    assert!(turned_away.len() >= 20, "{} of 60", turned_away.len());
    for (_, answer) in &turned_away {
        assert!(answer.contains("retry-after: ") && answer.contains("unavailable"), "{answer}");
    }
    assert!(answers.iter().all(|(status, _)| [200, 503].contains(&status.as_u16())));
    assert!(took < Duration::from_secs(15), "{took:?}");

    proxy.set(Fault::None);
    let began = Instant::now();
    let answers = join_all((0..20).map(|_| me())).await;
    assert!(answers.iter().all(|(status, _)| *status == 200));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let open = scene.world.count("pg_stat_activity where datname = current_database()");
    assert!(open.await <= 16 + 10 + 10, "the pools' own, and this test's");
}

/// E14: a COMMIT arrived, its answer did not. The caller is told to come back. The deliverer writes
/// its record again, and finds the record written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e14_a_lost_commit_answer_repeats_nothing() {
    let cluster = own_cluster().await;
    let mut scene = Scene::on(cluster.database().await).await;
    let proxy = DatabaseProxy::before(&scene.database().main).await;
    let through = [("DATABASE_URL", &*proxy.url(&scene.database().main))];
    let service = serve_with(scene.database(), &["--role", "api"], &through).await;
    proxy.set(Fault::ResetAfterCommitOf("SubscriptionCreated"));
    let target = r#"{"target_url":"https://93.184.216.34/kept","trigger":"booking_made"}"#;
    let (status, answer) = call(service.public, ("POST", "/hooks"), &scene.firm.key, target).await;
    assert_eq!(status, 503, "{answer}");
    assert!(answer.contains("retry-after: ") && answer.contains("unavailable"), "{answer}");
    assert_eq!(proxy.lost_commits(), 1);
    assert_eq!(scene.world.count("hooks where target_url like '%/kept'").await, 1);
    let deliverer = [&FAST[..], &["--role", "deliverer"]].concat();
    let _worker = work(scene.database(), &deliverer, &through).await;
    let _history = work(scene.database(), &["--role", "projector"], &[]).await;
    proxy.set(Fault::ResetAfterCommitOf("DeliveryAttempted"));
    for sent in [7, 14, 21] {
        scene.receiver.hold();
        scene.submit(7).await;
        scene.receiver.wait_for(sent).await;
        let lost = proxy.lost_commits();
        scene.receiver.release();
        until_settled(scene.world.pool(), PATIENCE).await.unwrap();
        assert!(proxy.lost_commits() > lost, "the record's COMMIT came, and no answer to it");
    }
    scene.assert_held().await;
    assert_eq!(scene.receiver.received().len(), 21, "nothing was sent twice");
    let tries = format!("select count(*) from {ATTEMPTS}");
    let delivered = format!("{tries} where outcome = 'delivered'");
    assert_eq!(
        (scene.world.ask_number(&delivered).await, scene.world.ask_number(&tries).await),
        (21, 21)
    );
}
