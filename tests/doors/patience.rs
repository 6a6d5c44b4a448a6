//! History waits a moment for the end of what has just begun.

use std::time::Duration;

use deliverer::send;
use eventstore::worker::{NextStep, Worker};
use projector::deliveries::DeliveryProjection;
use projector::follow::Follower;
use tests::{Receiver, World};

/// As `serve` runs it.
fn patient(world: &World) -> Follower<DeliveryProjection> {
    let store = world.service().store.clone();
    Follower::new(store, world.system.fence.clone(), DeliveryProjection)
        .holding_unfinished(world.clock.clone())
}

/// Takes in what it takes in, once all is settled; says for how long it waits then.
async fn follow(history: &mut Follower<DeliveryProjection>, world: &World) -> NextStep {
    while world.system.fence.look().await.unwrap().more {}
    loop {
        match history.step().await.unwrap() {
            NextStep::Busy => {}
            idle @ NextStep::IdleFor(_) => return idle,
        }
    }
}

/// The states in history, each with the place of its row: the first version of the first row is at (0,1).
async fn written(world: &World) -> Vec<String> {
    sqlx::query_scalar("select state || ctid::text from deliveries order by created_at, ctid")
        .fetch_all(world.pool())
        .await
        .unwrap()
}

/// A delivery that is queued, and history that knows all before it.
async fn queued() -> (World, Receiver, Follower<DeliveryProjection>) {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.project().await;
    world.submit(&firm).await;
    let mut history = patient(&world);
    let waits = NextStep::IdleFor(Duration::from_millis(300));
    assert_eq!(follow(&mut history, &world).await, waits);
    assert_eq!(written(&world).await, [""; 0]);
    (world, receiver, history)
}

#[tokio::test]
async fn what_is_delivered_within_a_moment_is_written_once() {
    let (world, receiver, mut history) = queued().await;
    assert_eq!(send::deliver_once(world.deliverer()).await.unwrap(), 1);
    assert_eq!(receiver.received().len(), 1);
    assert_eq!(follow(&mut history, &world).await, NextStep::IDLE);
    assert_eq!(written(&world).await, ["delivered(0,1)"]);
}

#[tokio::test]
async fn what_takes_longer_is_pending_after_a_moment_and_delivered_later() {
    let (world, _receiver, mut history) = queued().await;
    world.pass(Duration::from_millis(299));
    let waits = NextStep::IdleFor(Duration::from_millis(1));
    assert_eq!(follow(&mut history, &world).await, waits);
    assert_eq!(written(&world).await, [""; 0]);
    world.pass(Duration::from_millis(1));
    assert_eq!(follow(&mut history, &world).await, NextStep::IDLE);
    assert_eq!(written(&world).await, ["pending(0,1)"]);
    assert_eq!(send::deliver_once(world.deliverer()).await.unwrap(), 1);
    assert_eq!(follow(&mut history, &world).await, NextStep::IDLE);
    assert_eq!(written(&world).await, ["delivered(0,2)"]);
}

/// What comes after a delivery that hangs waits for its own end only.
#[tokio::test]
async fn who_hangs_holds_history_up_for_a_moment_only() {
    let (world, _receiver, mut history) = queued().await;
    world.pass(Duration::from_millis(300));
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/other")).await;
    world.submit(&firm).await;
    let waits = NextStep::IdleFor(Duration::from_millis(300));
    assert_eq!(follow(&mut history, &world).await, waits);
    assert_eq!(written(&world).await, ["pending(0,1)"]);
    while send::deliver_once(world.deliverer()).await.unwrap() > 0 {}
    assert_eq!(follow(&mut history, &world).await, NextStep::IDLE);
    assert_eq!(written(&world).await, ["delivered(0,3)", "delivered(0,2)"]);
}

#[tokio::test]
async fn what_another_process_takes_in_meanwhile_is_not_taken_in_twice() {
    let (world, _receiver, mut history) = queued().await;
    world.deliver().await;
    let by_the_other = written(&world).await;
    assert!(by_the_other[0].starts_with("delivered"), "{by_the_other:?}");
    assert_eq!(follow(&mut history, &world).await, NextStep::IDLE);
    assert_eq!(written(&world).await, by_the_other);
}
