//! Leasing ahead: a process leases more deliveries than may be in flight to a host that answers
//! quickly. It sends at once only its share (ruling 34).

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

    /// Numbers of leased and of waiting deliveries after `count` more responses, while the receiver
    /// answers none.
    async fn queue_after_unanswered(&self, count: usize) -> (i64, i64) {
        self.receiver.hold();
        self.submit(count).await;
        self.queue().await
    }

    /// Sends all waiting deliveries within the same limits.
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

/// Largest number of these requests that were under way at one time.
fn at_once(received: &[Received]) -> usize {
    let during = |instant| {
        let began = received.iter().filter(|one| one.arrived <= instant);
        began.filter(|one| one.ended.is_none_or(|ended| ended > instant)).count()
    };
    received.iter().map(|one| during(one.arrived)).max().unwrap_or_default()
}

#[tokio::test]
async fn leases_ahead_are_sent_as_slots_free() {
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

/// A firm's leases to a host end at a multiple of the attempts that may be in flight.
#[tokio::test]
async fn leases_ahead_stop_at_a_fixed_multiple() {
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
async fn an_unknown_host_gets_no_leases_ahead() {
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
async fn leases_ahead_take_no_other_firms_slot() {
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

/// F3: a burst that is leased as it comes leaves room for another lane to the same host. Otherwise
/// the other lane would wait as long as the burst lasts.
#[tokio::test]
async fn f3_a_burst_keeps_no_lane_waiting() {
    let scene = Scene::new().await;
    let other = json!({"target_url": scene.receiver.url("/paid"), "trigger": "payment_received"});
    scene.world.create_hook(&scene.firm, other).await.ok();
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

/// E25: three requests in flight are finished, and the seven leases ahead are released.
#[tokio::test]
async fn e25_a_stop_releases_leases_ahead() {
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

/// The database refuses the first release.
#[tokio::test]
async fn a_hanging_host_loses_its_leases_ahead() {
    let scene = Scene::new().await;
    let soon = Duration::from_millis(200);
    let process = scene.quick_with(|deliverer| deliverer.settings.slot_wait_max = soon).await;
    scene.world.change_database(FULL_ONCE).await;
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

/// Another life of the database server may know neither a lease nor its delivery (ruling 43). Such
/// leases were once sent.
#[tokio::test]
async fn leases_from_an_earlier_server_are_released() {
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
