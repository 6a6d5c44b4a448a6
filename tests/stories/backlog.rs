//! Much at once: a firm whose receivers hang, the backlog of an outage, receivers that all say
//! "later", one occurrence for many subscriptions (cases F3, F4, F5 and F9).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use deliverer::DelivererContext;
use deliverer::attempt::ClaimedAttempt;
use deliverer::claim::{claim_due, next_due};
use deliverer::outbox::release::release_attempts;
use deliverer::send::{deliver, deliver_once};
use deliverer::{Dispatcher, SendLimits, SenderCount};
use domain::delivery::pressure::HostCaps;
use serde_json::json;
use tests::{Receiver, Reply, World, activity};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

fn deliverer(world: &World, permits: usize, caps: HostCaps) -> DelivererContext {
    let mut deliverer = world.deliverer().clone();
    (deliverer.settings.permits, deliverer.settings.caps) = (permits, caps);
    deliverer
}

/// F3: all of one firm's receivers hang, and the firm has ten times more deliveries than there are
/// permits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f3_hanging_receivers_delay_no_other_firm() {
    let world = World::new().await;
    let (hog, other) = (world.firm().await, world.firm().await);
    let (black_hole, receiver) = (Receiver::start().await, Receiver::start_at("127.0.0.2").await);
    black_hole.hold();
    for hook in 0..10 {
        world.subscribe(&hog, &black_hole.url(&format!("/{hook}"))).await;
    }
    world.subscribe(&other, &receiver.url("/hook")).await;
    for _ in 0..16 {
        world.submit(&hog).await;
    }
    let (deliverer, nudge) =
        (deliverer(&world, 16, HostCaps::default()), world.service().store.nudge());
    let (stop, nudge) = (CancellationToken::new(), nudge.clone());
    let until = stop.clone();
    let (dispatch, answers) = Dispatcher::new(deliverer, SenderCount::alone(), until);
    let sending = tokio::spawn(async move { deliver(dispatch, answers, &nudge).await });
    let patience = Duration::from_secs(8);
    timeout(patience, black_hole.wait_for(12)).await.unwrap();
    for sent in 1..=5 {
        world.submit(&other).await;
        timeout(patience, receiver.wait_for(sent)).await.unwrap();
    }
    assert_eq!(black_hole.received().len(), 12, "none of its own had ended");
    stop.cancel();
    black_hole.release();
    sending.await.unwrap();
}

/// A lane is put off if the database refuses its claim. Such a lane once kept all later lanes from
/// being claimed.
#[tokio::test]
async fn an_unclaimable_row_stops_no_other_lane() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    let mut firms = Vec::new();
    for path in ["/refused", "/one", "/two"] {
        let firm = world.firm().await;
        let lane = world.subscribe(&firm, &receiver.url(path)).await;
        world.submit(&firm).await;
        firms.push(lane);
    }
    let refuse = format!(
        "alter table outbox add constraint refused check (lane_id <> '{}' or leased_at is null)",
        firms[0]
    );
    world.change_database(&refuse).await;
    let (deliverer, nudge) = (world.deliverer().clone(), world.service().store.nudge().clone());
    let (stop, patience) = (CancellationToken::new(), Duration::from_secs(20));
    let (dispatch, answers) = Dispatcher::new(deliverer, SenderCount::alone(), stop.clone());
    let told = nudge.clone();
    let sending = tokio::spawn(async move { deliver(dispatch, answers, &told).await });
    let sent = timeout(patience, receiver.wait_for(2)).await.unwrap();
    assert!(sent.iter().all(|request| request.uri.path() != "/refused"));
    world.change_database("alter table outbox drop constraint refused").await;
    world.pass(Duration::from_secs(61));
    nudge.wake_all();
    let sent = timeout(patience, receiver.wait_for(3)).await.unwrap();
    assert_eq!(sent[2].uri.path(), "/refused");
    stop.cancel();
    sending.await.unwrap();
}

/// Queued deliveries of each lane, in the order in which they should go.
async fn queued(world: &World) -> BTreeMap<Uuid, VecDeque<Uuid>> {
    let rows: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "select lane_id, delivery_id from outbox where due_at <= $1 order by due_at, position",
    )
    .bind(world.clock.now().get())
    .fetch_all(world.pool())
    .await
    .unwrap();
    let mut lanes = BTreeMap::<_, VecDeque<_>>::new();
    for (lane_id, delivery_id) in rows {
        lanes.entry(lane_id).or_default().push_back(delivery_id);
    }
    lanes
}

/// Fails unless these are the next of their lanes.
fn take(lanes: &mut BTreeMap<Uuid, VecDeque<Uuid>>, claimed: &[ClaimedAttempt]) {
    for (lane_id, waiting) in lanes {
        let of_lane = claimed.iter().filter(|one| one.lane_id == *lane_id);
        let taken: BTreeSet<Uuid> = of_lane.map(|one| one.delivery_id).collect();
        let oldest: BTreeSet<Uuid> = waiting.drain(..taken.len()).collect();
        assert_eq!(taken, oldest, "an older one of the lane waits");
    }
}

/// How many of these go to the host of these lanes.
fn to(host_lanes: &[Uuid], claimed: &[ClaimedAttempt]) -> usize {
    claimed.iter().filter(|one| host_lanes.contains(&one.lane_id)).count()
}

/// F4: nobody sends for an hour, and responses come in all the while. No delivery is early, and no
/// host is flooded.
#[tokio::test]
async fn f4_an_outages_backlog_drains_oldest_first() {
    let world = World::new().await;
    let (firms, receiver) = ([world.firm().await, world.firm().await], Receiver::start().await);
    let asked_to_wait = Reply::status(503).header("retry-after", "7200");
    let later = world.subscribe(&firms[0], &receiver.url("/later")).await;
    receiver.reply([asked_to_wait]);
    world.submit(&firms[0]).await;
    assert_eq!(world.deliver().await, 1);
    let (mut one_host, mut other_host) = (vec![later], Vec::new());
    for firm in &firms {
        one_host.push(world.subscribe(firm, "http://127.0.0.1:7777/a").await);
        one_host.push(world.subscribe(firm, "http://127.0.0.1:8888/b").await);
        other_host.push(world.subscribe(firm, "http://127.0.0.2:7777/c").await);
    }
    for _ in 0..6 {
        for firm in &firms {
            world.submit(firm).await;
            world.submit(firm).await;
        }
        world.pass(Duration::from_secs(600));
    }

    let deliverer = deliverer(&world, 64, HostCaps { per_firm_and_host: 5, per_host: 8 });
    let (mut lanes, limits) = (queued(&world).await, SendLimits::alone(deliverer.settings));
    for host in ["127.0.0.1", "127.0.0.2"].repeat(8) {
        let now = Instant::now();
        limits.note_answer(host, now, now);
    }
    assert_eq!(lanes.values().map(VecDeque::len).sum::<usize>(), 84);
    let mut rounds = Vec::new();
    while lanes.values().any(|waiting| !waiting.is_empty()) {
        let claimed = claim_due(&deliverer, &limits).await.unwrap();
        assert!(!claimed.is_empty(), "it drains: {lanes:?}");
        take(&mut lanes, &claimed);
        rounds.push((to(&one_host, &claimed), to(&other_host, &claimed)));
        // All of them arrive before the next claim.
        world.drop_in_flight().await;
    }
    assert!(rounds.iter().all(|(one, other)| *one <= 8 && *other <= 8), "{rounds:?}");
    assert_eq!(rounds[0], (8, 8), "as fast as the limits allow");
    assert!(
        claim_due(&deliverer, &limits).await.unwrap().is_empty(),
        "the one that was told to wait"
    );
    let early: Vec<i32> =
        sqlx::query_scalar("select tries from outbox").fetch_all(world.pool()).await.unwrap();
    assert_eq!(early, [1]);
    world.pass(Duration::from_secs(3_600 - 1));
    assert!(claim_due(&deliverer, &limits).await.unwrap().is_empty());
    assert!(next_due(&deliverer, &limits).await.unwrap().is_some());
    world.pass(Duration::from_secs(1));
    assert_eq!(claim_due(&deliverer, &limits).await.unwrap().len(), 1);
}

/// F5: all receivers say "later". A wait begins with its own answer, so the second wave is as long
/// as the first. The permits set the length of the first.
#[tokio::test]
async fn f5_the_second_wave_is_no_steeper() {
    const DELIVERIES: usize = 160;
    let world = World::new().await;
    let receiver = Receiver::start().await;
    receiver.reply(vec![Reply::status(429).header("retry-after", "60"); DELIVERIES]);
    for _ in 0..4 {
        let firm = world.firm().await;
        world.subscribe(&firm, &receiver.url("/hook")).await;
        for _ in 0..DELIVERIES / 4 {
            world.submit(&firm).await;
        }
    }
    let deliverer = deliverer(&world, 16, HostCaps::default());
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _second in 0..60 {
        // The permits are out for a second.
        first.push(deliver_once(&deliverer).await.unwrap());
        world.pass(Duration::from_secs(1));
    }
    for _second in 0..60 {
        // Whatever has fallen due goes out, so that nothing but its time holds it back.
        let mut sent = 0;
        loop {
            match deliver_once(&deliverer).await.unwrap() {
                0 => break,
                now => sent += now,
            }
        }
        second.push(sent);
        world.pass(Duration::from_secs(1));
    }
    for wave in [&mut first, &mut second] {
        wave.retain(|sent| *sent > 0);
        assert_eq!(wave.iter().sum::<usize>(), DELIVERIES, "{wave:?}");
    }
    let (peak, mean) = (second.iter().max().unwrap(), DELIVERIES / second.len());
    assert!(*peak <= 2 * mean, "{peak} in one second of {second:?}");
    assert!(second.len() >= first.len(), "{second:?} after {first:?}");
}

/// F9: a great response has a hundred subscriptions to it. Its body is built once and held once.
#[tokio::test]
async fn f9_a_hundred_subscriptions_share_one_body() {
    let world = World::new().await;
    let firm = world.firm().await;
    for hook in 0..100 {
        world.subscribe(&firm, &format!("http://127.0.0.1:7777/{hook}")).await;
    }
    let answer = "a".repeat(500_000);
    let data = json!({
        "response_id": world.id(), "form_id": firm.form, "submitted_at": "2026-11-01T12:00:00Z",
        "answers": [{"id": "q", "question": "Q?", "type": "long_text", "answer": answer}],
    });
    world.report_one(activity(firm.id, "response.submitted", data)).await;
    let wide = HostCaps { per_firm_and_host: 1_000, per_host: 1_000 };
    let claimed = {
        let deliverer = deliverer(&world, 512, wide);
        claim_due(&deliverer, &SendLimits::alone(deliverer.settings)).await.unwrap()
    };
    assert_eq!(claimed.len(), 100);
    let bytes: Vec<_> = claimed.iter().map(|one| &one.body.as_ref().unwrap().bytes).collect();
    assert!(bytes[0].len() > 1_000_000, "{} bytes", bytes[0].len());
    assert!(bytes.iter().all(|other| other.as_ptr() == bytes[0].as_ptr()), "one piece of memory");
    assert_eq!(world.count("bodies").await, 1);
}

/// F9: more bytes are due than a claim may hold, and the next claims take the rest. A body is twice
/// its document.
#[tokio::test]
async fn f9_a_claim_keeps_its_byte_limit() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.subscribe(&firm, "http://127.0.0.1:7777/hook").await;
    for _response in 0..40 {
        let answer = "a".repeat(10_000);
        let data = json!({
            "response_id": world.id(), "form_id": firm.form,
            "submitted_at": "2026-11-01T12:00:00Z",
            "answers": [{"id": "q", "question": "Q?", "type": "long_text", "answer": answer}],
        });
        world.report_one(activity(firm.id, "response.submitted", data)).await;
    }
    let mut deliverer =
        deliverer(&world, 512, HostCaps { per_firm_and_host: 1_000, per_host: 1_000 });
    deliverer.settings.claim_bytes = 16 * 10_500;
    let first = claim_due(&deliverer, &SendLimits::alone(deliverer.settings)).await.unwrap();
    release_attempts(&deliverer, &first).await.unwrap();
    world.pass(Duration::from_millis(1));
    let mut claims = vec![first.len()];
    while claims.iter().skip(1).sum::<usize>() < 40 {
        claims.push(
            claim_due(&deliverer, &SendLimits::alone(deliverer.settings)).await.unwrap().len(),
        );
    }
    assert_eq!(claims, [16, 8, 8, 16, 8], "documents, their bodies, and what comes after them");
}
