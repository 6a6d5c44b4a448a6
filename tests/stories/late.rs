//! Answers that come after their lease was taken over, and claims that are given back.

use std::time::Duration;

use api::commands::tokens::HolderRole;
use deliverer::DelivererContext;
use deliverer::attempt::ClaimedAttempt;
use deliverer::attempt::FinishedAttempt;
use deliverer::claim::claim_due;
use deliverer::outbox::release::release_attempts;
use deliverer::outgoing::OutgoingExchange;
use deliverer::record::record_batch;
use domain::delivery::AttemptAnswer;
use serde_json::{Value, json};
use sqlx::postgres::PgPoolOptions;
use tests::{ATTEMPTS, Receiver, Reply, Sending, World};
use uuid::Uuid;

async fn one_claim(world: &World) -> ClaimedAttempt {
    let mut claimed = claim_due(world.deliverer(), &world.limits(16)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

/// The answer of an attempt, as its sender hands it over now.
fn answered(world: &World, claimed: &ClaimedAttempt, status: u16) -> FinishedAttempt {
    let exchange = OutgoingExchange {
        answer: AttemptAnswer::Status(status),
        retry_after: None,
        hops: Vec::new(),
        snippet: b"said".to_vec(),
        connected: true,
    };
    FinishedAttempt { claimed: claimed.clone(), exchange, finished_at: world.clock.now() }
}

async fn write_down(world: &World, claimed: &ClaimedAttempt, status: u16) {
    record_batch(world.deliverer(), &[answered(world, claimed, status)]).await.unwrap();
}

/// Number, outcome, status, and whether the attempt was late.
type Try = (i32, String, Option<i32>, bool);

async fn tries(world: &World) -> (String, Vec<Try>) {
    world.project().await;
    let state = world.delivery_states().await.remove(0).0;
    let tries = format!(
        "select number, outcome, status, late is not null from {ATTEMPTS} order by number, 4"
    );
    (state, sqlx::query_as(&tries).fetch_all(world.pool()).await.unwrap())
}

fn a_try(number: i32, outcome: &str, status: Option<i32>, late: bool) -> Try {
    (number, outcome.to_owned(), status, late)
}

/// A world whose one delivery was claimed, hung beyond its lease, and was claimed again.
async fn taken_over() -> (World, ClaimedAttempt, ClaimedAttempt) {
    let world = World::new().await;
    let firm = world.firm().await;
    world.subscribe(&firm, "http://127.0.0.1:7777/hook").await;
    world.submit(&firm).await;
    let first = one_claim(&world).await;
    world.pass(Duration::from_secs(121));
    world.end_leases().await;
    let second = one_claim(&world).await;
    assert_eq!((first.number, second.number), (1, 2));
    (world, first, second)
}

/// The attempt under way decides.
#[tokio::test]
async fn e21_a_late_failure_is_only_noted() {
    let (world, first, second) = taken_over().await;
    write_down(&world, &first, 503).await;
    let interrupted = a_try(1, "interrupted", None, false);
    let noted = a_try(1, "retry", Some(503), true);
    let history = vec![interrupted.clone(), noted.clone()];
    assert_eq!(tries(&world).await, ("pending".to_owned(), history));
    write_down(&world, &second, 200).await;
    let last = a_try(2, "delivered", Some(200), false);
    let history = vec![interrupted, noted, last];
    assert_eq!(tries(&world).await, ("delivered".to_owned(), history));
}

/// The attempt under way is only noted.
#[tokio::test]
async fn e21_a_late_success_ends_the_delivery() {
    let (world, first, second) = taken_over().await;
    write_down(&world, &first, 204).await;
    let history =
        vec![a_try(1, "interrupted", None, false), a_try(1, "delivered", Some(204), true)];
    assert_eq!(tries(&world).await, ("delivered".to_owned(), history.clone()));
    write_down(&world, &second, 503).await;
    let (state, all) = tries(&world).await;
    assert_eq!(state, "delivered", "what has arrived has arrived");
    assert_eq!(all, [history, vec![a_try(2, "retry", Some(503), true)]].concat());
    world.pass(Duration::from_secs(3_600));
    assert_eq!(world.deliver().await, 0, "nothing is sent again");
}

/// A late answer stands behind the attempt that was cut off, whenever it came.
#[tokio::test]
async fn e21_history_shows_late_answers() {
    let (world, first, second) = taken_over().await;
    write_down(&world, &second, 200).await;
    world.pass(Duration::from_secs(1));
    write_down(&world, &first, 503).await;
    let operator = world.new_token(HolderRole::Operator).await;
    let one = format!("/firms/{}/deliveries/{}", first.firm_id, first.delivery_id);
    let shown = world.get_internally(&operator, &format!("{one}?show_answer=a+fault")).await;
    let a_try = |number: u32, (from, to): (&str, &str), outcome: &str, status: Option<u16>| {
        json!({
            "number": number, "started_at": format!("2026-11-01T12:{from}.000Z"),
            "finished_at": format!("2026-11-01T12:{to}.000Z"), "outcome": outcome,
            "status": status, "error": null, "retry_after_seconds": null, "hops": [],
            "answer": "said", "answer_state": "shown",
        })
    };
    let mut cut_off = a_try(1, ("00:00", "02:01"), "interrupted", None);
    (cut_off["error"], cut_off["answer"]) = (json!("interrupted"), Value::Null);
    cut_off["answer_state"] = json!("empty");
    let mut late = a_try(1, ("00:00", "02:02"), "retry", Some(503));
    late["late"] = json!(true);
    let counts = a_try(2, ("02:01", "02:01"), "delivered", Some(200));
    assert_eq!(shown.body["attempts"], json!([cut_off, late, counts]));
    assert_eq!(shown.body["state"], "delivered");
}

/// The late answer and the answer that counts come in either order.
#[tokio::test]
async fn e21_one_batch_may_hold_both_answers() {
    for (late, in_time, state) in [(200, 503, "delivered"), (503, 200, "delivered")] {
        let (world, first, second) = taken_over().await;
        let batch = [answered(&world, &first, late), answered(&world, &second, in_time)];
        record_batch(world.deliverer(), &batch).await.unwrap();
        let (found, all) = tries(&world).await;
        assert_eq!((found.as_str(), all.len()), (state, 3));
    }
}

/// A failover loses the end of the log, and the delivery is queued anew. A late answer once took
/// the first place of the stream, and the delivery was never attempted again.
#[tokio::test]
async fn a_late_answer_loses_no_requeued_delivery() {
    for (late, state) in [(503, "pending"), (200, "delivered")] {
        let world = World::new().await;
        let firm = world.firm().await;
        world.subscribe(&firm, "http://127.0.0.1:7777/hook").await;
        world.submit(&firm).await;
        let first = one_claim(&world).await;
        // The claim is not in the database that took over, and its occurrence is.
        let lost = "update outbox set lease = null, leased_at = null, tries = 0, body_id = null,
                                      body_sha256 = null, due_at = '2026-11-01T12:00:00Z'";
        world.change_database(lost).await;
        world.change_database("update lanes set due_at = '2026-11-01T12:00:00Z'").await;
        write_down(&world, &first, late).await;
        assert_eq!(tries(&world).await.0, state);
        let second = claim_due(world.deliverer(), &world.limits(16)).await.unwrap();
        assert_eq!(second.len(), usize::from(late == 503), "its next try is not that of before");
        for second in second {
            assert_ne!(first.lease, second.lease);
            write_down(&world, &second, 200).await;
        }
        assert_eq!(tries(&world).await.0, "delivered");
    }
}

/// The database that took over has lost the delivery too, and nothing is made up.
#[tokio::test]
async fn a_late_answer_without_delivery_is_dropped() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.subscribe(&firm, "http://127.0.0.1:7777/hook").await;
    world.submit(&firm).await;
    let claimed = one_claim(&world).await;
    world.change_database("delete from outbox").await;
    write_down(&world, &claimed, 200).await;
    assert_eq!(tries(&world).await, ("pending".to_owned(), vec![]));
}

/// E14: the commit's answer was lost, so the batch is written again.
#[tokio::test]
async fn e14_a_repeated_record_counts_once() {
    for status in [200, 404, 503] {
        let world = World::new().await;
        let firm = world.firm().await;
        world.subscribe(&firm, "http://127.0.0.1:7777/hook").await;
        world.submit(&firm).await;
        let claimed = one_claim(&world).await;
        write_down(&world, &claimed, status).await;
        let once = tries(&world).await;
        write_down(&world, &claimed, status).await;
        assert_eq!(tries(&world).await, once, "{status}");
        assert_eq!(once.1.len(), 1);
    }
}

/// E25: a claim that a stopping process did not send uses up no attempt, and goes out at once.
#[tokio::test]
async fn e25_a_release_uses_no_attempt() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    for _ in 0..10 {
        let claimed = one_claim(&world).await;
        assert_eq!(claimed.number, 1);
        release_attempts(world.deliverer(), &[claimed]).await.unwrap();
    }
    assert_eq!(world.deliver().await, 1);
    let (state, all) = tries(&world).await;
    assert_eq!((state.as_str(), all), ("delivered", vec![a_try(1, "delivered", Some(200), false)]));
    assert_eq!(receiver.received().len(), 1);
}

/// E19: a lease that was given before the database's clock went back an hour begins anew.
#[tokio::test]
async fn e19_a_future_lease_begins_anew() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    one_claim(&world).await;
    let ahead =
        "update outbox set leased_at = now() + interval '1 h', due_at = now() + interval '62 min'";
    world.change_database(ahead).await;
    assert_eq!(world.deliver().await, 0);
    world.pass(Duration::from_secs(119));
    assert_eq!(world.deliver().await, 0, "a lease is 120 s");
    world.pass(Duration::from_secs(2));
    assert_eq!(world.deliver().await, 1);
    let (state, all) = tries(&world).await;
    assert_eq!(state, "delivered");
    let history =
        vec![a_try(1, "interrupted", None, false), a_try(2, "delivered", Some(200), false)];
    assert_eq!(all, history);
}

/// A locked lane holds up its own answers. It once held up all answers that came with them.
#[tokio::test]
async fn a_locked_lane_holds_up_no_other() {
    let world = World::new().await;
    let (held, other) = (world.firm().await, world.firm().await);
    let (receiver, busy) = (Receiver::start().await, Receiver::start().await);
    // A success needs no lane.
    busy.reply([503, 503].map(Reply::status));
    let lane = world.subscribe(&held, &busy.url("/held")).await;
    world.subscribe(&other, &receiver.url("/other")).await;
    let options = world.database.main.clone().options([("lock_timeout", "200ms")]);
    let pool = PgPoolOptions::new().max_connections(5).connect_lazy_with(options);
    let store = world.deliverer().store.with_pool(pool);
    let sending = Sending::with(DelivererContext { store, ..world.deliverer().clone() });
    sending.claims_in_appends(&world);
    world.submit(&held).await;
    world.submit(&held).await;
    world.submit(&other).await;
    sending.answered(3).await;
    let locked = world.hold_lane(lane).await;
    let recorded = async || -> Vec<Uuid> {
        let attempted = world.events_of_type("DeliveryAttempted").await;
        attempted.iter().map(|event| event.firm_id).collect()
    };
    let meanwhile = async {
        while recorded().await.is_empty() {}
        assert_eq!(recorded().await, [other.id]);
        locked.rollback().await.unwrap();
    };
    tokio::join!(sending.ends(&world), meanwhile);
    assert_eq!(recorded().await.len(), 3);
}
