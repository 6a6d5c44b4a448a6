//! What is claimed ahead: more than may be in flight to a host that answers quickly. What is sent at once stays within
//! ruling 34, over all processes.

use std::time::Duration;

use deliverer::Courier;
use deliverer::engine::turn;
use domain::pressure::Caps;
use eventstore::worker::{Step, Worker};
use serde_json::Value;
use tests::{Firm, Received, Receiver, Sending, World, submitted};

/// Twelve are claimed for a firm and a host, of which two are sent at once.
const CAPS: Caps = Caps { per_firm_and_host: 2, per_host: 3 };

struct Scene {
    world: World,
    firm: Firm,
    receiver: Receiver,
}

impl Scene {
    async fn new() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        world.subscribe(&firm, &receiver.url("/hook")).await;
        Self { world, firm, receiver }
    }

    fn courier(&self) -> Courier {
        let mut courier = self.world.courier().clone();
        courier.settings.caps = CAPS;
        // However slow the machine is, the receiver is quick.
        courier.settings.ahead = Duration::from_secs(3_600);
        courier
    }

    async fn submit(&self, count: usize) {
        let all: Vec<Value> = (0..count).map(|_| submitted(&self.firm, self.world.id())).collect();
        assert_eq!(self.world.report(&all).await.status, 202);
    }

    /// A process that knows how quickly the receiver answers: it has had one answer, which is recorded.
    async fn process(&self) -> Sending {
        let process = Sending::with(self.courier());
        self.submit(1).await;
        process.fan_out(&self.world).await;
        process.answered(1).await;
        process
    }

    /// So many are there, and the receiver answers none of them: what the process claims of them, and what it leaves.
    async fn claimed_of(&self, count: usize, process: &Sending) -> (i64, i64) {
        self.receiver.hold();
        self.submit(count).await;
        let mut fan_out = process.fan_out_worker(&self.world);
        while self.world.system.fence.look().await.unwrap().more {}
        while fan_out.step().await.unwrap() != Step::IDLE {}
        self.queue().await
    }

    /// What is claimed, and what is only queued.
    async fn queue(&self) -> (i64, i64) {
        let queue = "select count(*) filter (where leased_at is not null),
                            count(*) filter (where leased_at is null) from outbox";
        sqlx::query_as(queue).fetch_one(self.world.pool()).await.unwrap()
    }

    /// So many deliveries, each delivered by its first try.
    async fn all_arrived_once(&self, count: i64) {
        self.world.project().await;
        let delivered = "select count(*) from deliveries d join attempts a using (delivery_id)
                          where d.state = 'delivered' and a.outcome = 'delivered' and a.number = 1";
        let delivered: i64 =
            sqlx::query_scalar(delivered).fetch_one(self.world.pool()).await.unwrap();
        let tries: i64 = sqlx::query_scalar("select count(*) from attempts")
            .fetch_one(self.world.pool())
            .await
            .unwrap();
        let received = i64::try_from(self.receiver.received().len()).unwrap();
        assert_eq!((delivered, tries, received), (count, count, count));
    }
}

/// The most of these that were under way at a time.
fn at_once(received: &[Received]) -> usize {
    let during = |instant| {
        let began = received.iter().filter(|one| one.arrived <= instant);
        began.filter(|one| one.ended.is_none_or(|ended| ended > instant)).count()
    };
    received.iter().map(|one| during(one.arrived)).max().unwrap_or_default()
}

#[tokio::test]
async fn what_is_claimed_ahead_is_sent_as_the_host_has_room() {
    let scene = Scene::new().await;
    let process = scene.process().await;
    assert_eq!(scene.claimed_of(11, &process).await, (12, 0), "with the one that is not recorded");
    scene.receiver.wait_for(3).await;
    scene.receiver.release();
    process.answered(12).await;
    assert_eq!(at_once(&scene.receiver.received()), 2);
    process.ends(&scene.world).await;
    scene.all_arrived_once(12).await;
}

#[tokio::test]
async fn no_more_is_claimed_ahead_than_so_many_times_what_may_be_in_flight() {
    let scene = Scene::new().await;
    let process = scene.process().await;
    assert_eq!(scene.claimed_of(20, &process).await, (13, 8));
    scene.receiver.release();
    process.answered(13).await;
    process.ends(&scene.world).await;
    while turn(&scene.courier()).await.unwrap() > 0 {}
    assert_eq!(at_once(&scene.receiver.received()), 2);
    scene.all_arrived_once(21).await;
}

#[tokio::test]
async fn where_another_process_has_something_in_flight_nothing_is_claimed_ahead() {
    let scene = Scene::new().await;
    let (process, other) = (scene.process().await, scene.process().await);
    assert_eq!(scene.claimed_of(1, &other).await, (3, 0), "two of them answered and not recorded");
    scene.receiver.wait_for(3).await;
    scene.submit(9).await;
    process.fan_out(&scene.world).await;
    assert_eq!(scene.queue().await, (3, 9));
    scene.receiver.release();
    other.answered(2).await;
    other.ends(&scene.world).await;
    process.ends(&scene.world).await;
    while turn(&scene.courier()).await.unwrap() > 0 {}
    assert!(at_once(&scene.receiver.received()) <= 2);
    scene.all_arrived_once(12).await;
}

#[tokio::test]
async fn what_is_claimed_ahead_takes_no_place_of_other_firms() {
    let scene = Scene::new().await;
    let process = scene.process().await;
    assert_eq!(scene.claimed_of(9, &process).await, (10, 0));
    scene.receiver.wait_for(3).await;
    let (other, quick) = (scene.world.firm().await, Receiver::start().await);
    scene.world.subscribe(&other, &quick.url("/hook")).await;
    for _ in 0..2 {
        scene.world.submit(&other).await;
    }
    scene.world.fan_out().await;
    assert_eq!(turn(&scene.courier()).await.unwrap(), 1, "the host has three places");
    scene.receiver.release();
    process.answered(10).await;
    process.ends(&scene.world).await;
}

/// E25
#[tokio::test]
async fn e25_what_was_claimed_ahead_is_given_back_at_a_stop() {
    let scene = Scene::new().await;
    let process = scene.process().await;
    assert_eq!(scene.claimed_of(9, &process).await, (10, 0));
    scene.receiver.wait_for(3).await;
    process.stop.cancel();
    while scene.queue().await != (3, 7) {}
    scene.receiver.release();
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 3);
    while turn(&scene.courier()).await.unwrap() > 0 {}
    scene.all_arrived_once(10).await;
}

#[tokio::test]
async fn what_was_claimed_ahead_for_a_host_that_hangs_is_given_back_and_no_more_is() {
    let scene = Scene::new().await;
    let process = scene.process().await;
    assert_eq!(scene.claimed_of(9, &process).await, (10, 0));
    while scene.queue().await != (3, 7) {}
    assert_eq!(turn(&scene.courier()).await.unwrap(), 0, "the host has no place");
    scene.receiver.release();
    process.answered(3).await;
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 3);
    while turn(&scene.courier()).await.unwrap() > 0 {}
    scene.all_arrived_once(10).await;
}
