//! Rows that are kept for a time only: how long, and how they go.

use std::time::Duration;

use eventstore::worker::{NextStep, Worker};
use projector::housekeeping::HousekeepingWorker;
use serde_json::json;
use tests::{World, activity};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

async fn seen(world: &World) -> i64 {
    world.count("activity_seen").await
}

fn housekeeping(world: &World) -> HousekeepingWorker {
    HousekeepingWorker::new(world.pool().clone(), world.clock.clone())
}

#[tokio::test]
async fn activity_ids_are_remembered_for_30_days() {
    let world = World::new().await;
    world.firm().await;
    let before = seen(&world).await;
    assert!(before > 0);
    let mut worker = housekeeping(&world);
    world.pass(30 * DAY);
    assert_eq!(worker.step().await.unwrap(), NextStep::IDLE);
    assert_eq!(seen(&world).await, before, "30 days old, and no older");
    world.firm().await;
    world.pass(HOUR);
    assert_eq!(worker.step().await.unwrap(), NextStep::IDLE);
    assert_eq!(seen(&world).await, before, "the second firm's are there");
}

#[tokio::test]
async fn old_rows_go_in_batches_each_hour() {
    let world = World::new().await;
    let remember = async |ids: i32| {
        sqlx::query(
            "insert into activity_seen (firm_id, source, id, seen_at)
             select gen_random_uuid(), 'urn:tests', 'n' || n, $2 from generate_series(1, $1) n",
        )
        .bind(ids)
        .bind(world.clock.now().get() - chrono::TimeDelta::days(31))
        .execute(world.pool())
        .await
        .unwrap();
    };
    let mut worker = housekeeping(&world);
    remember(2_500).await;
    for (step, left) in [(NextStep::Busy, 1_500), (NextStep::Busy, 500), (NextStep::IDLE, 0)] {
        assert_eq!(worker.step().await.unwrap(), step);
        assert_eq!(seen(&world).await, left);
    }
    remember(1).await;
    world.pass(HOUR - Duration::from_millis(1));
    assert_eq!(worker.step().await.unwrap(), NextStep::IDLE);
    assert_eq!(seen(&world).await, 1, "it is not time yet");
    world.pass(Duration::from_millis(1));
    assert_eq!(worker.step().await.unwrap(), NextStep::IDLE);
    assert_eq!(seen(&world).await, 0);
}

#[tokio::test]
async fn invite_tries_before_yesterday_are_forgotten() {
    let world = World::new().await;
    let insert = "insert into invite_tries values (gen_random_uuid(), '2026-10-30', 7),
                                                  (gen_random_uuid(), '2026-10-31', 7)";
    world.change_database(insert).await;
    assert_eq!(housekeeping(&world).step().await.unwrap(), NextStep::IDLE);
    let kept = world.count("invite_tries where day = '2026-10-31'").await;
    assert_eq!(kept, 1, "yesterday is kept for calls that began then");
    assert_eq!(world.count("invite_tries").await, 1);
}

/// A fact waited for ever for a response that never came.
#[tokio::test]
async fn waiting_facts_are_forgotten_after_90_days() {
    let world = World::new().await;
    let firm = world.firm().await;
    let response_id = world.id();
    let paid = async || {
        let data = json!({"payment_id": world.id(), "response_id": response_id, "amount": 1,
                          "currency": "EUR", "at": "2026-11-01T11:00:00Z"});
        world.report_one(activity(firm.id, "payment.received", data)).await;
    };
    let waiting = async || world.count("waiting_facts").await;
    paid().await;
    world.pass(90 * DAY);
    assert_eq!(housekeeping(&world).step().await.unwrap(), NextStep::IDLE);
    assert_eq!(waiting().await, 1, "90 days, and no longer");
    paid().await;
    world.pass(HOUR);
    assert_eq!(housekeeping(&world).step().await.unwrap(), NextStep::IDLE);
    assert_eq!(waiting().await, 1, "the second one waits");
    world.report_one(tests::submitted(&firm, response_id)).await;
    assert_eq!(waiting().await, 0, "and finds its response");
}

/// The list of a replay's deliveries was kept for ever. A running replay keeps its list.
#[tokio::test]
async fn ended_replays_lose_items_after_30_days() {
    let world = World::new().await;
    let ended_at = world.clock.now().get();
    let replay = async |items: i32, state: &str| {
        sqlx::query(
            "with replay as (
                 insert into replays (replay_id, firm_id, state, reason, force, rate_per_second,
                                      selected, requested_at, ended_at, sequence)
                 values (gen_random_uuid(), gen_random_uuid(), $2, 'a', false, 1, 1, $3,
                         case when $2 = 'running' then null else $3 end, 1)
                 returning replay_id)
             insert into replay_items (replay_id, place, delivery_id, outcome)
             select replay_id, n, gen_random_uuid(), 'delivered'
               from replay, generate_series(1, $1) n",
        )
        .bind(items)
        .bind(state)
        .bind(ended_at)
        .execute(world.pool())
        .await
        .unwrap();
    };
    let items = async || world.count("replay_items").await;
    replay(1_200, "finished").await;
    replay(3, "stopped").await;
    replay(5, "running").await;
    let mut worker = housekeeping(&world);
    world.pass(30 * DAY);
    assert_eq!(worker.step().await.unwrap(), NextStep::IDLE);
    assert_eq!(items().await, 1_208);
    world.pass(HOUR);
    for (step, left) in [(NextStep::Busy, 208), (NextStep::IDLE, 5)] {
        assert_eq!(worker.step().await.unwrap(), step);
        assert_eq!(items().await, left);
    }
}
