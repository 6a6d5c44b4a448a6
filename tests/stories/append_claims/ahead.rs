//! What is leased ahead: more than may be in flight to a host that answers quickly. What a process
//! sends at once stays within its share of ruling 34.

use super::*;

/// Twelve are leased for a firm and a host, of which two are sent at once.
const CAPS: HostCaps = HostCaps { per_firm_and_host: 2, per_host: 3 };

const HOUR: Duration = Duration::from_secs(3_600);

/// However slow the machine is, the receiver is quick, and nothing waits for too long.
fn settings(deliverer: &mut DelivererContext) {
    let settings = &mut deliverer.settings;
    (settings.caps, settings.ahead, settings.slot_wait_max) = (CAPS, HOUR, HOUR);
}

impl Scene {
    /// A process that knows how quickly the receiver answers: it has had one answer, which is not
    /// recorded.
    async fn quick(&self) -> Sending {
        self.quick_with(|_| {}).await
    }

    async fn quick_with(&self, change: impl FnOnce(&mut DelivererContext)) -> Sending {
        let process = self.process(|deliverer| {
            settings(deliverer);
            change(deliverer);
        });
        self.submit(1).await;
        process.answered(1).await;
        process
    }

    /// So many come in, and the receiver answers none of them: what is leased then, and what waits.
    async fn queue_after_unanswered(&self, count: usize) -> (i64, i64) {
        self.receiver.hold();
        self.submit(count).await;
        self.queue().await
    }

    /// Sends what waits, within the same limits.
    async fn send_the_rest(&self) {
        let mut deliverer = self.world.deliverer().clone();
        settings(&mut deliverer);
        while deliver_once(&deliverer).await.unwrap() > 0 {}
    }
}

/// The disk is full when something is given back first.
const FULL_ONCE: &str = "
    create sequence given_back;
    create function full_once() returns trigger language plpgsql security definer as $$
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
async fn what_is_leased_ahead_is_sent_as_the_host_has_room() {
    let scene = Scene::new().await;
    let process = scene.quick().await;
    assert_eq!(scene.queue_after_unanswered(11).await, (12, 0), "one of them is not recorded");
    scene.receiver.wait_for(3).await;
    scene.receiver.release();
    process.answered(12).await;
    assert_eq!(at_once(&scene.receiver.received()), 2);
    process.ends(&scene.world).await;
    scene.assert_all_arrived_once(12).await;
}

#[tokio::test]
async fn no_more_is_leased_ahead_than_so_many_times_what_may_be_in_flight() {
    let scene = Scene::new().await;
    let process = scene.quick().await;
    assert_eq!(scene.queue_after_unanswered(20).await, (13, 8));
    assert_eq!(scene.queue_after_unanswered(1).await, (13, 9));
    scene.receiver.release();
    process.answered(13).await;
    process.ends(&scene.world).await;
    scene.send_the_rest().await;
    assert_eq!(at_once(&scene.receiver.received()), 2);
    scene.assert_all_arrived_once(22).await;
}

#[tokio::test]
async fn of_a_host_that_is_not_known_to_be_quick_nothing_is_leased_ahead() {
    let scene = Scene::new().await;
    let process = scene.process(settings);
    assert_eq!(scene.queue_after_unanswered(9).await, (2, 7));
    scene.receiver.release();
    process.answered(2).await;
    process.ends(&scene.world).await;
    scene.send_the_rest().await;
    scene.assert_all_arrived_once(9).await;
}

#[tokio::test]
async fn what_is_leased_ahead_takes_no_place_of_other_firms() {
    let scene = Scene::new().await;
    let process = scene.quick().await;
    assert_eq!(scene.queue_after_unanswered(9).await, (10, 0));
    scene.receiver.wait_for(3).await;
    let (other, theirs) = (scene.world.firm().await, Receiver::start().await);
    scene.world.subscribe(&other, &theirs.url("/hook")).await;
    theirs.hold();
    for _ in 0..2 {
        scene.world.submit(&other).await;
    }
    assert_eq!(scene.queue().await, (11, 1), "the host has three places");
    theirs.wait_for(1).await;
    theirs.release();
    scene.receiver.release();
    process.answered(11).await;
    process.ends(&scene.world).await;
}

/// F3: a burst that is leased as it comes leaves room for what waits, or that would wait as long as
/// the burst lasts.
#[tokio::test]
async fn f3_what_waits_in_another_lane_to_the_same_host_keeps_its_turn() {
    let scene = Scene::new().await;
    let other = json!({"target_url": scene.receiver.url("/paid"), "trigger": "payment_received"});
    assert_eq!(scene.world.call(&scene.firm.key, "POST", "/hooks", other).await.status, 201);
    let lead = scene.world.id();
    let process = scene.process(settings);
    scene.report(&[submitted(&scene.firm, lead)]).await;
    process.answered(1).await;
    assert_eq!(scene.queue_after_unanswered(28).await, (13, 16));
    scene.world.pass(Duration::from_secs(1));
    let paid = json!({"payment_id": lead, "response_id": lead, "amount": 1, "currency": "EUR",
                      "at": "2026-11-01T12:00:00Z"});
    scene.report(&[activity(scene.firm.id, "payment.received", paid)]).await;
    assert_eq!(scene.queue().await, (13, 17));
    let (stop, running) = (process.stop.clone(), process.runs());
    scene.receiver.release();
    let received = scene.receiver.wait_for(30).await;
    let place = received.iter().position(|one| one.uri.path() == "/paid").unwrap();
    assert!((13..25).contains(&place), "the oldest of the other lane go on: {place}");
    stop.cancel();
    running.await.unwrap();
    scene.assert_all_arrived_once(30).await;
    assert_eq!(at_once(&received), 2);
}

/// E25
#[tokio::test]
async fn e25_what_was_leased_ahead_is_given_back_at_a_stop() {
    let scene = Scene::new().await;
    let process = scene.quick().await;
    assert_eq!(scene.queue_after_unanswered(9).await, (10, 0));
    scene.receiver.wait_for(3).await;
    process.stop.cancel();
    while scene.queue().await != (3, 7) {}
    scene.receiver.release();
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 3);
    scene.send_the_rest().await;
    scene.assert_all_arrived_once(10).await;
}

/// The database does not take back the first time.
#[tokio::test]
async fn what_was_leased_ahead_for_a_host_that_hangs_is_given_back() {
    let scene = Scene::new().await;
    let soon = Duration::from_millis(200);
    let process = scene.quick_with(|deliverer| deliverer.settings.slot_wait_max = soon).await;
    scene.world.pool().execute(FULL_ONCE).await.unwrap();
    let leased_at = scene.world.clock.now().get();
    assert_eq!(scene.queue_after_unanswered(9).await, (10, 0));
    scene.world.pass(Duration::from_secs(1));
    while scene.queue().await != (3, 7) {}
    let refused = "select is_called and last_value > 1 from given_back";
    let refused: bool = sqlx::query_scalar(refused).fetch_one(scene.world.pool()).await.unwrap();
    assert!(refused, "it was given back twice");
    let oldest = "select bool_and(due_at <= $1) from outbox where leased_at is null";
    let oldest: bool =
        sqlx::query_scalar(oldest).bind(leased_at).fetch_one(scene.world.pool()).await.unwrap();
    assert!(oldest, "it is as old as it was");
    assert_eq!(scene.queue_after_another().await, (3, 8), "the host is not quick any more");
    scene.receiver.release();
    process.answered(3).await;
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 3);
    scene.send_the_rest().await;
    scene.assert_all_arrived_once(11).await;
}

/// Another life of the server may know nothing of a lease, nor of the delivery (ruling 43).
#[tokio::test]
async fn what_was_leased_in_an_earlier_life_of_the_server_was_sent() {
    let scene = Scene::new().await;
    let process = scene.quick().await;
    assert_eq!(scene.queue_after_unanswered(9).await, (10, 0));
    scene.receiver.wait_for(3).await;
    let other_server = own_cluster().await;
    let elsewhere = other_server.database().await.main;
    let life = scene.world.deliverer().store.life();
    life.connect(elsewhere, 1).acquire().await.unwrap();
    scene.receiver.release();
    process.answered(3).await;
    while scene.queue().await != (3, 7) {}
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 3);
    scene.send_the_rest().await;
    scene.assert_all_arrived_once(10).await;
}
