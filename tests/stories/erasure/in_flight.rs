//! An erasure during a claim, a send or a record (rulings 27 and 29).

use std::time::Duration;

use deliverer::attempt::ClaimedAttempt;
use deliverer::attempt::FinishedAttempt;
use deliverer::claim::claim_due;
use deliverer::outgoing::OutgoingExchange;
use deliverer::record::record_batch;
use deliverer::send::deliver_once;
use domain::delivery::AttemptAnswer;
use eventstore::connect;
use serde_json::json;
use tests::{Firm, Handicap, Receiver, Reply, World, activity, own_cluster, until_blocked};
use uuid::Uuid;

use super::{DAY, causes, left, report, submit};

/// Seeds of each race.
const SEEDS: u64 = 200;

/// A part of three milliseconds, another for each seed.
async fn delay(seed: u64, prime: u64) {
    tokio::time::sleep(Duration::from_micros(seed * prime % 3_000)).await;
}

async fn erased(world: &World, firm: &Firm, response_id: Uuid) {
    report(world, firm, "response.erased", json!({"response_id": response_id})).await;
}

/// States and causes of a response's deliveries.
async fn ends(world: &World, response_id: Uuid) -> Vec<(String, Option<String>)> {
    sqlx::query_as("select state, cause from deliveries where response_id = $1")
        .bind(response_id)
        .fetch_all(world.pool())
        .await
        .unwrap()
}

fn delivered() -> (String, Option<String>) {
    ("delivered".to_owned(), None)
}

fn cancelled() -> (String, Option<String>) {
    ("cancelled".to_owned(), Some("source_erased".to_owned()))
}

/// The claim has looked and found nothing erased. The erasure commits before the claim does. Such a
/// claim was once sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h1_a_claim_after_erasure_sends_nothing() {
    let cluster = own_cluster().await;
    let world = World::on(cluster.database().await).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    let response_id = submit(&world, &firm, "a@example.com").await;
    let pool = connect(world.database.main.clone(), 2);
    let mut holding = pool.begin().await.unwrap();
    sqlx::query("lock table bodies in share mode").execute(&mut *holding).await.unwrap();
    let erase_meanwhile = async {
        until_blocked(&pool, 1).await;
        erased(&world, &firm, response_id).await;
        holding.commit().await.unwrap();
    };
    let (sent, ()) = tokio::join!(deliver_once(world.deliverer()), erase_meanwhile);
    assert_eq!(sent.unwrap(), 1);
    assert!(receiver.received().is_empty());
    world.erase().await;
    world.project().await;
    assert_eq!(ends(&world, response_id).await, [cancelled()]);
    assert_eq!(left(&world, response_id).await, (0, 0));
}

/// Claim, send and record race the erasure and its worker in one turn, and no second request goes
/// out. With fixed delays the erasure won all of 200 races on a busy machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h1_erasure_racing_a_claim_leaves_nothing() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    let answers = [(500, cancelled()), (200, delivered())];
    for seed in 0..SEEDS {
        let status = answers[usize::from(seed % 2 == 1)].0;
        receiver.reply([Reply::status(status).body(b"canary answer")]);
    }
    let (mut sent, mut handicap) = (0, Handicap::default());
    for seed in 0..SEEDS {
        let response_id = submit(&world, &firm, "a@example.com").await;
        let claiming = async {
            handicap.first().await;
            deliver_once(world.deliverer()).await.unwrap();
        };
        let erasing = async {
            handicap.second().await;
            erased(&world, &firm, response_id).await;
            world.erase().await;
        };
        tokio::join!(claiming, erasing);
        let arrived = receiver.received().len();
        world.deliver().await;
        let end = if arrived == sent { cancelled() } else { answers[sent % 2].1.clone() };
        assert_eq!(ends(&world, response_id).await, [end], "seed {seed}");
        assert_eq!(left(&world, response_id).await, (0, 0), "seed {seed}");
        assert!(arrived - sent <= 1, "seed {seed}");
        handicap.after(arrived > sent);
        sent = arrived;
    }
    world.pass(2 * DAY);
    world.deliver().await;
    assert_eq!(receiver.received().len(), sent, "no second request");
    assert!(0 < sent && sent < usize::try_from(SEEDS).unwrap(), "{sent} sent is no race");
}

/// The answer of a claimed attempt, with a snippet to keep.
fn finished(world: &World, claimed: ClaimedAttempt, status: u16) -> FinishedAttempt {
    let exchange = OutgoingExchange {
        answer: AttemptAnswer::Status(status),
        retry_after: None,
        hops: Vec::new(),
        snippet: b"canary answer".to_vec(),
        connected: true,
    };
    FinishedAttempt { claimed, exchange, finished_at: world.clock.now() }
}

/// A response and its claimed attempt.
async fn claimed(world: &World, firm: &Firm) -> (Uuid, ClaimedAttempt) {
    let response_id = submit(world, firm, "a@example.com").await;
    let mut claimed = claim_due(world.deliverer(), &world.limits(16)).await.unwrap();
    (response_id, claimed.pop().unwrap())
}

/// The attempt was in flight when its source was erased. Its answer once stayed for 30 days. There
/// is no second attempt.
#[tokio::test]
async fn h1_an_answer_after_erasure_is_dropped() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    for (status, end) in [(500, cancelled()), (200, delivered())] {
        let (response_id, claimed) = claimed(&world, &firm).await;
        erased(&world, &firm, response_id).await;
        world.erase().await;
        record_batch(world.deliverer(), &[finished(&world, claimed, status)]).await.unwrap();
        world.project().await;
        assert_eq!(left(&world, response_id).await, (0, 0));
        assert_eq!(ends(&world, response_id).await, [end]);
    }
}

/// No attempt follows the claimed one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h1_erasure_racing_a_record_leaves_nothing() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    let (mut recorded_first, mut handicap) = (0, Handicap::default());
    for seed in 0..SEEDS {
        let (response_id, claimed) = claimed(&world, &firm).await;
        let (status, end) = if seed % 2 == 0 { (500, cancelled()) } else { (200, delivered()) };
        let recording = async {
            handicap.first().await;
            record_batch(world.deliverer(), &[finished(&world, claimed, status)]).await.unwrap();
        };
        let erasing = async {
            handicap.second().await;
            erased(&world, &firm, response_id).await;
            world.erase().await;
        };
        tokio::join!(recording, erasing);
        world.deliver().await;
        assert_eq!(ends(&world, response_id).await, [end], "seed {seed}");
        assert_eq!(left(&world, response_id).await, (0, 0), "seed {seed}");
        let was_first = was_recorded_first(&world, response_id).await;
        recorded_first += usize::from(was_first);
        handicap.after(was_first);
    }
    world.pass(2 * DAY);
    world.deliver().await;
    assert!(receiver.received().is_empty(), "no try after the claimed one");
    let seeds = usize::try_from(SEEDS).unwrap();
    assert!((1..seeds).contains(&recorded_first), "{recorded_first} is no race");
}

/// Whether the log has the attempt before the erasure.
async fn was_recorded_first(world: &World, response_id: Uuid) -> bool {
    sqlx::query_scalar(
        "select (select max(e.position) from events e join deliveries d
                     on e.aggregate_id = d.delivery_id::text
                  where d.response_id = $1 and e.event_type = 'DeliveryAttempted')
              < (select position from events where event_type = 'ResponseErased'
                    and payload -> 'ResponseErased' ->> 'response_id' = $1::text)",
    )
    .bind(response_id)
    .fetch_one(world.pool())
    .await
    .unwrap()
}

/// A batch that was looking while the response was erased drops the data key that it made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_racing_erasure_leaves_no_key() {
    let world = World::new().await;
    let firm = world.firm().await;
    for seed in 0..SEEDS {
        let response_id = submit(&world, &firm, "a@example.com").await;
        let again = json!({
            "report_id": world.id(), "response_id": response_id, "title": "T", "status": "draft",
            "review_url": "https://forms.test/r",
        });
        let again = activity(firm.id, "report.created", again);
        let reporting = async {
            delay(seed, 37).await;
            world.report_one(again).await;
        };
        let erasing = async {
            delay(seed, 53).await;
            erased(&world, &firm, response_id).await;
            world.erase().await;
        };
        tokio::join!(reporting, erasing);
        world.erase().await;
        assert_eq!(left(&world, response_id).await, (0, 0), "seed {seed}");
    }
    assert!(causes(&world).await.is_empty());
}
