//! A failover to a standby that had not received the end of the log (ruling 43).

use domain::event::{Actor, EventContext};
use domain::firm::FirmEvent;
use domain::values::Timestamp;
use eventstore::log_tail::LogTailCheck;
use eventstore::worker::{NextStep, Worker};
use eventstore::{AppendTransaction, Fence, LifeWatch, NewEvent, Store};
use projector::deliveries::DeliveryProjection;
use projector::follow::Follower;
use serde_json::json;
use std::time::Duration;
use tests::{Receiver, ReplicatedServer, Sending, World, submitted};
use uuid::Uuid;

use tests::process::{data_dir, firmforms};

/// Steps a worker until the database answers it.
async fn step<W: Worker>(worker: &mut W) -> NextStep {
    loop {
        if let Ok(step) = worker.step().await {
            return step;
        }
    }
}

/// Steps a worker until it has nothing to do.
async fn drain<W: Worker>(worker: &mut W) {
    while step(worker).await != NextStep::IDLE {}
}

/// The deliveries in history, in the order of their ids.
async fn history(world: &World) -> Vec<Uuid> {
    let mut ids = world.delivery_ids().await;
    ids.sort_unstable();
    ids
}

/// The deliveries of this response, by the log.
async fn deliveries_of(world: &World, response_id: Uuid) -> Vec<Uuid> {
    sqlx::query_scalar("select delivery_id from outbox where response_id = $1")
        .bind(response_id)
        .fetch_all(world.pool())
        .await
        .unwrap()
}

/// A follower had read the event before the end of the log was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_never_shows_a_lost_event() {
    let (server, database) = ReplicatedServer::start().await;
    let world = World::on(database).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.project().await;
    let mut follower =
        Follower::new(world.projector().clone(), world.system.fence.clone(), DeliveryProjection)
            .holding_unfinished(world.clock.clone());
    drain(&mut follower).await;

    server.fall_behind().await;
    let lost = world.submit(&firm).await;
    let lost = deliveries_of(&world, lost).await;
    assert!(
        matches!(step(&mut follower).await, NextStep::IdleFor(wait) if wait < Duration::from_millis(301))
    );
    assert!(history(&world).await.is_empty(), "the follower holds what it has read");
    server.fail_over().await;

    // The next event takes the position of the one that was lost.
    let mut check = LogTailCheck::new(world.projector().clone());
    step(&mut check).await;
    let kept = world.submit(&firm).await;
    let kept = deliveries_of(&world, kept).await;
    world.pass(Duration::from_secs(1));
    drain(&mut follower).await;
    assert_eq!((lost.len(), history(&world).await), (1, kept), "a delivery that never was");
}

/// A height of the server's earlier life settled an event that was not committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_settles_no_uncommitted_event() {
    let (server, database) = ReplicatedServer::start().await;
    let life = LifeWatch::default();
    let store = Store::new(life.connect(database.main, 4), Vec::new()).watched_by(life);
    let fence = Fence::new(&store);
    server.fall_behind().await;
    let mut lost = store.begin().await.unwrap();
    let position = lost.append(vec![event(1)]).await.unwrap()[0].position;
    assert!(fence.look().await.unwrap().more);
    server.fail_over().await;
    drop(lost);

    // Others write, so that ids are as high as in the earlier life.
    for _ in 0..50 {
        while sqlx::query("select pg_current_xact_id()").execute(store.pool()).await.is_err() {}
    }
    let (slow, drawn) = appending(&store, position).await;
    let look = fence.look().await.unwrap();
    assert!(look.settled < drawn, "{} of {drawn} is settled", look.settled);
    slow.commit().await.unwrap();
    while fence.look().await.unwrap().settled < drawn {}
}

/// A transaction whose event has this position, or a higher one.
async fn appending(store: &Store, position: i64) -> (AppendTransaction<'_>, i64) {
    for stream in 2.. {
        let mut appending = store.begin().await.unwrap();
        let drawn = appending.append(vec![event(stream)]).await.unwrap()[0].position;
        if drawn >= position {
            return (appending, drawn);
        }
        appending.commit().await.unwrap();
    }
    unreachable!("positions grow");
}

fn event(stream: u128) -> NewEvent {
    let time: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
    let context = EventContext {
        firm_id: Uuid::from_u128(stream),
        recorded_at: time,
        actor: Actor::System,
        correlation_id: Uuid::nil(),
        causation_id: None,
        traceparent: None,
        terminal: None,
    };
    NewEvent {
        aggregate_id: Uuid::from_u128(stream).to_string(),
        sequence: 1,
        event: FirmEvent::FirmSuspended { time }.into(),
        context,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_log_end_alarms_until_acknowledged() {
    let (server, database) = ReplicatedServer::start().await;
    let world = World::on(database).await;
    let firm = world.firm().await;
    let mut check = LogTailCheck::new(world.projector().clone());
    assert_eq!(step(&mut check).await, NextStep::IDLE);
    server.fall_behind().await;
    world.submit(&firm).await;
    server.fail_over().await;
    step(&mut check).await;

    let ready = async || world.ask_readiness().await;
    let answer = ready().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.body["alarms"][0]["name"], "log_tail", "{}", answer.text());
    assert_eq!(world.get(&firm, "/me").await.status, 200, "callers are served meanwhile");

    std::fs::create_dir_all(data_dir(&world.database)).unwrap();
    let said = async |arguments: &[&str]| {
        let ended = firmforms(&world.database).arg("doctor").args(arguments).output().await;
        String::from_utf8(ended.unwrap().stdout).unwrap()
    };
    let line = |said: &str| said.lines().find(|line| line.contains("log_tail")).unwrap().to_owned();
    assert!(line(&said(&[]).await).starts_with("wrong"));
    assert!(line(&said(&["--acknowledge"]).await).starts_with("fine"));
    assert_eq!(ready().await.text(), r#"{"ok":true}"#);
}

/// The failover loses the first delivery under way. Its answer leaves nothing in the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_report_keeps_its_delivery_id() {
    let (server, database) = ReplicatedServer::start().await;
    let world = World::on(database).await;
    let mut sending = Sending::with(world.deliverer().clone());
    sending.claims_in_appends(&world);
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;

    server.fall_behind().await;
    let report = submitted(&firm, world.id());
    world.report(std::slice::from_ref(&report)).await.ok();
    sending.answered(1).await;
    server.fail_over().await;
    step(&mut LogTailCheck::new(world.projector().clone())).await;
    assert_eq!(sending.settle().await, 1);
    let answers = world.count("events where aggregate_type = 'Delivery'").await;
    assert_eq!(answers, 0, "an answer to nothing");

    let again = world.report(&[report]).await;
    assert_eq!((again.status.as_u16(), &again.body["accepted"]), (202, &json!(1)));
    sending.settle().await;
    let ids: Vec<String> =
        receiver.received().iter().map(|one| one.header("x-service-delivery").to_owned()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1]);
    world.project().await;
    let (state, outcomes) = world.history(ids[0].parse().unwrap()).await;
    assert_eq!((state.as_str(), outcomes.as_slice()), ("delivered", &["delivered".to_owned()][..]));
}
