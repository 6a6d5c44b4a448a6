//! Answers that the database does not take: a lane is locked by somebody else.

use std::time::Duration;

use eventstore::{Clock, connect};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tests::{ATTEMPTS, Firm, Receiver, Reply, World, own_cluster, until_settled};
use uuid::Uuid;

use tests::process::{Served, serve};

/// A subscription whose receiver answers 503 to its first attempt.
struct Lane {
    hook: Uuid,
    receiver: Receiver,
}

impl Lane {
    async fn new(world: &World, firm: &Firm) -> Self {
        let receiver = Receiver::start().await;
        let hook = world.subscribe(firm, &receiver.url("/hook")).await;
        receiver.reply([Reply::status(503)]);
        Self { hook, receiver }
    }

    /// Has an attempt answered while the lane is locked.
    async fn answer_locked(&self, world: &World, firm: &Firm) -> PgConnection {
        self.receiver.hold();
        world.submit(firm).await;
        self.receiver.wait_for(1).await;
        let holding = lock(&world.database.main, self.hook).await;
        self.receiver.release();
        holding
    }
}

/// A connection whose transaction holds the lane.
async fn lock(database: &PgConnectOptions, lane_id: Uuid) -> PgConnection {
    let mut connection = database.connect().await.unwrap();
    sqlx::raw_sql("begin").execute(&mut connection).await.unwrap();
    let locked = sqlx::query("select from lanes where lane_id = $1 for update").bind(lane_id);
    locked.execute(&mut connection).await.unwrap();
    connection
}

/// Waits until the service has put so many batches aside.
async fn put_aside(service: &Served, times: usize) {
    service.until_logged("each lane is recorded alone", times).await;
}

/// The outcomes of a subscription's attempts.
async fn outcomes(world: &World, hook: Uuid) -> Vec<String> {
    let question = format!(
        "select attempts.outcome from {ATTEMPTS} join deliveries d using (delivery_id)
          where d.hook_id = $1 order by attempts.number"
    );
    sqlx::query_scalar(&question).bind(hook).fetch_all(world.pool()).await.unwrap()
}

/// Answers that were put aside were recorded one batch after the other, each with patience until
/// its lease had ended. So one stuck lane let the leases of other lanes run out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_lane_ends_no_other_lease() {
    let cluster = own_cluster().await;
    let database = cluster.database().await;
    let clock = Clock::of_database(&connect(database.main.clone(), 1)).await.unwrap();
    let world = World::at(database, clock).await;
    let [first, second] = [world.firm().await, world.firm().await];
    let stuck = Lane::new(&world, &first).await;
    let other = Lane::new(&world, &second).await;
    // Its lease is 25 s.
    let service = serve(&world.database, &["--time-scale", "60"]).await;
    let holding = stuck.answer_locked(&world, &first).await;
    put_aside(&service, 1).await;
    let held_for_a_while = other.answer_locked(&world, &second).await;
    put_aside(&service, 2).await;
    held_for_a_while.close().await.unwrap();
    while outcomes(&world, other.hook).await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(outcomes(&world, other.hook).await[0], "retry", "its answer was recorded in time");
    assert!(outcomes(&world, stuck.hook).await.is_empty(), "the first lane is still stuck");
    holding.close().await.unwrap();
    until_settled(world.pool(), Duration::from_secs(120)).await.unwrap();
}
