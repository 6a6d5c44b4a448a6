//! What is claimed ahead: more than may be in flight to a host that answers quickly. What is sent at once stays within
//! ruling 34, over all processes.

use tests::Received;

use super::*;

/// Twelve are claimed for a firm and a host, of which two are sent at once.
const CAPS: Caps = Caps { per_firm_and_host: 2, per_host: 3 };

const HOUR: Duration = Duration::from_secs(3_600);

/// However slow the machine is, the receiver is quick, and nothing waits for too long.
fn settings(courier: &mut Courier) {
    let settings = &mut courier.settings;
    (settings.caps, settings.ahead, settings.place_within) = (CAPS, HOUR, HOUR);
}

impl Scene {
    fn courier(&self) -> Courier {
        let mut courier = self.world.courier().clone();
        settings(&mut courier);
        courier
    }

    /// A process that knows how quickly the receiver answers: it has had one answer, which is not recorded.
    async fn quick(&self) -> Sending {
        self.quick_with(|_| {}).await
    }

    async fn quick_with(&self, change: impl FnOnce(&mut Courier)) -> Sending {
        let process = self.process(|courier| {
            settings(courier);
            change(courier);
        });
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
        while self.step(&mut fan_out).await != Step::IDLE {}
        self.queue().await
    }

    /// Another lane of the firm's to this host, with something due.
    async fn other_lane(&self) -> Uuid {
        let hook = json!({"target_url": self.receiver.url("/other"), "trigger": "booking_made"});
        let made = self.world.call(&self.firm.key, "POST", "/hooks", hook).await;
        let hook: Uuid = made.body["id"].as_str().unwrap().parse().unwrap();
        let due = sqlx::query("update lanes set due_at = $2 where lane_id = $1").bind(hook);
        due.bind(self.world.clock.now().get()).execute(self.world.pool()).await.unwrap();
        hook
    }

    /// So many deliveries, each delivered by its first try.
    async fn all_arrived_once(&self, count: usize) {
        self.world.project().await;
        assert_eq!(histories(&self.world).await, vec![once(); count]);
        assert_eq!(self.receiver.received().len(), count);
    }
}

/// The disk is full when something is given back first.
const FULL_ONCE: &str = "
    create sequence given_back;
    create function full_once() returns trigger language plpgsql as $$
    begin
        if nextval('given_back') = 1 then
            raise exception 'no space left on device' using errcode = '53100';
        end if;
        return new;
    end $$;
    create trigger full_once before update on outbox
        for each row when (old.leased_at is not null and new.leased_at is null)
        execute function full_once();";

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
    let process = scene.quick().await;
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
    let process = scene.quick().await;
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
    let (process, other) = (scene.quick().await, scene.quick().await);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_processes_that_claim_ahead_keep_the_limit() {
    let scene = Scene::new().await;
    let processes = [scene.process(settings), scene.process(settings)];
    let stops = processes.each_ref().map(|process| process.stop.clone());
    let processes = processes.map(|process| process.runs(&scene.world));
    for round in 1..=30 {
        scene.submit(10).await;
        scene.receiver.wait_for(round * 10 - 8).await;
    }
    scene.receiver.wait_for(300).await;
    stops.iter().for_each(|stop| stop.cancel());
    for process in processes {
        process.await.unwrap();
    }
    assert!(at_once(&scene.receiver.received()) <= 2);
    scene.all_arrived_once(300).await;
}

#[tokio::test]
async fn what_is_claimed_ahead_takes_no_place_of_other_firms() {
    let scene = Scene::new().await;
    let process = scene.quick().await;
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

/// F3: nothing is claimed ahead of what waits for a claim of its own, or it would find no room as long as a burst lasts.
#[tokio::test]
async fn f3_what_waits_in_another_lane_to_the_same_host_keeps_its_turn() {
    let scene = Scene::new().await;
    let process = scene.quick().await;
    scene.other_lane().await;
    assert_eq!(scene.claimed_of(9, &process).await, (3, 7));
    scene.receiver.release();
}

/// What is held by an operator may be due for as long as it likes.
#[tokio::test]
async fn what_is_held_in_another_lane_keeps_nothing_from_being_claimed_ahead() {
    let scene = Scene::new().await;
    let process = scene.quick().await;
    let other = scene.other_lane().await;
    let order = json!({"hook_id": other, "reason": "a test"});
    scene.operate("POST", "/pauses", order.to_string()).await;
    assert_eq!(scene.claimed_of(9, &process).await, (10, 0));
    scene.receiver.release();
}

/// E25
#[tokio::test]
async fn e25_what_was_claimed_ahead_is_given_back_at_a_stop() {
    let scene = Scene::new().await;
    let process = scene.quick().await;
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

/// The database does not take back the first time.
#[tokio::test]
async fn what_was_claimed_ahead_for_a_host_that_hangs_is_given_back() {
    let scene = Scene::new().await;
    let soon = Duration::from_millis(200);
    let process = scene.quick_with(|courier| courier.settings.place_within = soon).await;
    scene.world.pool().execute(FULL_ONCE).await.unwrap();
    let claimed_at = scene.world.clock.now().get();
    assert_eq!(scene.claimed_of(9, &process).await, (10, 0));
    scene.world.pass(Duration::from_secs(1));
    while scene.queue().await != (3, 7) {}
    let refused = "select is_called and last_value > 1 from given_back";
    let refused: bool = sqlx::query_scalar(refused).fetch_one(scene.world.pool()).await.unwrap();
    assert!(refused, "it was given back twice");
    let oldest = "select bool_and(due_at <= $1) from outbox where leased_at is null";
    let oldest: bool =
        sqlx::query_scalar(oldest).bind(claimed_at).fetch_one(scene.world.pool()).await.unwrap();
    assert!(oldest, "it is as old as it was");
    assert_eq!(turn(&scene.courier()).await.unwrap(), 0, "the host has no place");
    scene.receiver.release();
    process.answered(3).await;
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 3);
    while turn(&scene.courier()).await.unwrap() > 0 {}
    scene.all_arrived_once(10).await;
}
