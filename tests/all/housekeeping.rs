//! What is kept for a time only: how long, and how it goes.

use std::time::Duration;

use eventstore::worker::{NextStep, Worker};
use projector::housekeeping::HousekeepingWorker;
use tests::World;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

async fn seen(world: &World) -> i64 {
    sqlx::query_scalar("select count(*) from activity_seen").fetch_one(world.pool()).await.unwrap()
}

fn housekeeping(world: &World) -> HousekeepingWorker {
    HousekeepingWorker::new(world.pool().clone(), world.clock.clone())
}

#[tokio::test]
async fn the_id_of_a_report_is_remembered_for_30_days() {
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
async fn what_is_old_goes_in_batches_once_an_hour() {
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
