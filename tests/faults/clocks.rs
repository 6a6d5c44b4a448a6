//! Clocks that cannot be trusted: nothing is sent by them, and nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use deliverer::send::deliver;
use deliverer::{Dispatcher, SenderCount};
use domain::operations::ClockFault;
use eventstore::{Clock, WallClock, connect};
use serde_json::json;
use sqlx::{Executor, PgPool};
use tests::{ATTEMPTS, Receiver, TestDatabase, World, activity};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A wall clock so many seconds off.
#[derive(Default)]
struct Wall(AtomicI64);

impl WallClock for Wall {
    #[expect(clippy::disallowed_methods, reason = "it stands in for the machine's")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now() + TimeDelta::seconds(self.0.load(Ordering::Relaxed))
    }
}

/// A database whose clock is put forward and back by the test: its connections look for functions
/// here before they look for PostgreSQL's own.
async fn movable(database: &TestDatabase) -> PgPool {
    let pool = connect(database.main.clone().options([("search_path", "public,pg_catalog")]), 2);
    let statements = "create table moved (by interval not null);
        insert into moved values ('0');
        create function public.clock_timestamp() returns timestamptz language sql
            as 'select pg_catalog.clock_timestamp() + by from moved'";
    pool.execute(statements).await.unwrap();
    pool
}

async fn move_clock(pool: &PgPool, by: &str) {
    sqlx::query("update moved set by = $1::text::interval").bind(by).execute(pool).await.unwrap();
}

/// A world whose clock is held against this wall, with a receiver and a firm.
async fn world(wall: &Arc<Wall>) -> (World, PgPool) {
    let database = TestDatabase::new().await;
    let pool = movable(&database).await;
    let clock = Clock::measured_beside(Arc::clone(wall) as _, &pool).await.unwrap();
    (World::at(database, clock).await, pool)
}

/// The answer came a second after the server had read its clock, and the service's clock went half
/// a second slow until the next measurement. Deliveries waited as long.
#[tokio::test]
async fn a_slow_answer_moves_no_clock() {
    let database = TestDatabase::new().await;
    let pool = connect(database.main.clone().options([("search_path", "public,pg_catalog")]), 2);
    let statements = "create sequence readings;
        create function public.clock_timestamp() returns timestamptz language plpgsql as $$
            declare at timestamptz := pg_catalog.clock_timestamp(); begin
                perform pg_sleep(case when nextval('readings') = 1 then 1 else 0 end);
                return at;
            end $$";
    pool.execute(statements).await.unwrap();
    let clock = Clock::of_database(&pool).await.unwrap();
    let at: DateTime<Utc> =
        sqlx::query_scalar("select pg_catalog.clock_timestamp()").fetch_one(&pool).await.unwrap();
    assert!(at <= clock.now().get() + TimeDelta::milliseconds(250), "it is slow");
}

/// Delivers like a service, until told to stop.
fn delivering(world: &World) -> (CancellationToken, JoinHandle<()>) {
    let (deliverer, stop) = (world.deliverer().clone(), CancellationToken::new());
    let (nudge, ended) = (world.service().store.nudge().clone(), stop.clone());
    let (dispatch, answers) = Dispatcher::new(deliverer, SenderCount::alone(), ended);
    (stop, tokio::spawn(async move { deliver(dispatch, answers, &nudge).await }))
}

/// The status of `/readyz`, and its first alarm.
async fn ready(world: &World) -> (u16, String) {
    let answer = world.ask_readiness().await;
    let alarm = answer.body["alarms"][0]["name"].as_str().unwrap_or_default();
    (answer.status.as_u16(), alarm.to_owned())
}

/// When the only try there is was claimed.
async fn claimed_at(world: &World) -> DateTime<Utc> {
    let started = async || -> Option<DateTime<Utc>> {
        let started = format!("select started_at from {ATTEMPTS}");
        sqlx::query_scalar(&started).fetch_optional(world.pool()).await.unwrap()
    };
    loop {
        if let Some(started) = started().await {
            return started;
        }
    }
}

/// The time stays the database's, and callers are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e18_a_wrong_wall_clock_stops_sending() {
    let wall = Arc::new(Wall(AtomicI64::new(600)));
    let (world, pool) = world(&wall).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    let (stop, sending) = delivering(&world);
    for seconds in [-600, -31, 31] {
        wall.0.store(seconds, Ordering::Relaxed);
        world.clock.measure(&pool).await.unwrap();
        let Some(ClockFault::Apart { seconds: apart }) = world.clock.fault() else {
            panic!("{seconds} seconds are too many")
        };
        assert!(apart.abs_diff(seconds) <= 1, "{apart} for {seconds}");
        assert_eq!(ready(&world).await, (200, "clock".to_owned()), "callers are served");
        let off = world.clock.now().get() - Wall::default().now();
        assert!(off.abs() < TimeDelta::seconds(5), "the time is the database's: {off}");
        world.new_key(&firm, "while it is off").await;
    }
    wall.0.store(0, Ordering::Relaxed);
    let right_again = world.clock.now().get();
    world.clock.measure(&pool).await.unwrap();
    assert_eq!(world.clock.fault(), None);
    assert_eq!(ready(&world).await, (200, String::new()));
    receiver.wait_for(1).await;
    assert!(claimed_at(&world).await >= right_again, "nothing was claimed before");
    stop.cancel();
    sending.await.unwrap();
}

/// The machine's clock moves with the database's, as on one machine: only the steady clock tells.
/// No delivery is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e19_a_clock_put_back_stops_sending() {
    let wall = Arc::new(Wall::default());
    let (world, pool) = world(&wall).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    assert_eq!(world.clock.fault(), None);

    move_clock(&pool, "-1 hour").await;
    wall.0.store(-3_600, Ordering::Relaxed);
    world.clock.measure(&pool).await.unwrap();
    let jumped = world.clock.fault();
    assert!(matches!(jumped, Some(ClockFault::Jumped { seconds: -3_601..=-3_599 })), "{jumped:?}");
    assert_eq!(ready(&world).await, (200, "clock".to_owned()));
    world.submit(&firm).await;
    let (stop, sending) = delivering(&world);
    world.submit(&firm).await;
    assert_eq!(receiver.received().len(), 0);

    world.clock.measure(&pool).await.unwrap();
    assert_eq!(world.clock.fault(), None, "it goes steadily again");
    assert_eq!(ready(&world).await, (200, String::new()));
    receiver.wait_for(2).await;
    stop.cancel();
    sending.await.unwrap();
}

/// The database's clock alone jumps an hour forward, and back.
#[tokio::test]
async fn e19_a_clock_jump_faults_until_righted() {
    let wall = Arc::new(Wall::default());
    let (world, pool) = world(&wall).await;
    let mut faults = Vec::new();
    for by in ["1 hour", "1 hour", "0", "0"] {
        move_clock(&pool, by).await;
        world.clock.measure(&pool).await.unwrap();
        faults.push(match world.clock.fault() {
            Some(ClockFault::Jumped { seconds }) if seconds > 0 => "forward",
            Some(ClockFault::Jumped { .. }) => "back",
            Some(ClockFault::Apart { .. }) => "apart",
            None => "none",
        });
    }
    assert_eq!(faults, ["forward", "apart", "back", "none"]);
}

/// Work that is due by the wrong time waits for the right one.
#[tokio::test]
async fn e19_nothing_falls_due_by_wrong_clocks() {
    let wall = Arc::new(Wall(AtomicI64::new(-3_600)));
    let (world, pool) = world(&wall).await;
    let firm = world.firm().await;
    let saved = json!({
        "response_id": world.id(), "form_id": firm.form, "saved_at": "2026-11-01T12:00:00Z",
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "A"}],
    });
    world.report(&[activity(firm.id, "response.saved", saved)]).await;
    let past = "update partials set due_at = due_at - interval '2 hours'";
    assert_eq!(world.change_database(past).await, 1);
    let waiting = async || {
        world.time_out().await;
        world.count("partials").await
    };
    assert_eq!(waiting().await, 1);
    world.subscribe(&firm, "http://127.0.0.1:7777/hook").await;
    world.submit(&firm).await;
    let long_ago = "update lanes set paused_at = now() - interval '73 hours'";
    assert_eq!(world.change_database(long_ago).await, 1);
    let queued = async || {
        world.cancel().await;
        world.count("outbox").await
    };
    assert_eq!(queued().await, 1, "nor is a suspended firm's queue cancelled");
    wall.0.store(0, Ordering::Relaxed);
    world.clock.measure(&pool).await.unwrap();
    assert_eq!((waiting().await, queued().await), (0, 0));
}
