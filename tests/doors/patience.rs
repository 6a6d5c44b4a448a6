//! The follower of deliveries waits a moment for the end of a delivery that has just begun.

use std::time::Duration;

use deliverer::send;
use eventstore::worker::{NextStep, Worker};
use projector::deliveries::DeliveryProjection;
use projector::follow::Follower;
use tests::{Receiver, World};

/// The follower as `serve` runs it.
fn patient(world: &World) -> Follower<DeliveryProjection> {
    let store = world.service().store.clone();
    Follower::new(store, world.system.fence.clone(), DeliveryProjection)
        .holding_unfinished(world.clock.clone())
}

/// Steps the follower until it is idle, and returns how long it waits.
async fn follow(history: &mut Follower<DeliveryProjection>, world: &World) -> NextStep {
    while world.system.fence.look().await.unwrap().more {}
    loop {
        match history.step().await.unwrap() {
            NextStep::Busy => {}
            idle @ NextStep::IdleFor(_) => return idle,
        }
    }
}

/// The states in the table, each with the place of its row. The first version of the first row is
/// at (0,1).
async fn written(world: &World) -> Vec<String> {
    sqlx::query_scalar("select state || ctid::text from deliveries order by created_at, ctid")
        .fetch_all(world.pool())
        .await
        .unwrap()
}

/// A queued delivery, and a follower that has read everything before it.
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
async fn a_quick_delivery_is_written_once() {
    let (world, receiver, mut history) = queued().await;
    assert_eq!(send::deliver_once(world.deliverer()).await.unwrap(), 1);
    assert_eq!(receiver.received().len(), 1);
    assert_eq!(follow(&mut history, &world).await, NextStep::IDLE);
    assert_eq!(written(&world).await, ["delivered(0,1)"]);
}

#[tokio::test]
async fn a_slow_delivery_is_pending_then_delivered() {
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

/// A delivery after a hanging one waits for its own end only.
#[tokio::test]
async fn a_hanging_delivery_holds_history_briefly() {
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
async fn another_followers_work_is_not_repeated() {
    let (world, _receiver, mut history) = queued().await;
    world.deliver().await;
    let by_the_other = written(&world).await;
    assert!(by_the_other[0].starts_with("delivered"), "{by_the_other:?}");
    assert_eq!(follow(&mut history, &world).await, NextStep::IDLE);
    assert_eq!(written(&world).await, by_the_other);
}

/// Deliveries of a burst wait for their turn, and history waits with them for up to 5 s. Events of
/// others lie between the two events of a delivery.
#[tokio::test]
async fn a_burst_is_written_once() {
    let world = World::new().await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.project().await;
    let mut history = patient(&world);
    let mut follow_on = async || follow(&mut history, &world).await;
    for _ in 0..300 {
        world.submit(&firm).await;
    }
    let waits = NextStep::IdleFor(Duration::from_millis(300));
    assert_eq!(follow_on().await, waits);
    world.pass(Duration::from_secs(4));
    assert!(send::deliver_once(world.deliverer()).await.unwrap() > 0);
    assert_eq!(follow_on().await, waits);
    assert_eq!(written(&world).await, [""; 0]);
    while send::deliver_once(world.deliverer()).await.unwrap() > 0 {}
    assert_eq!(follow_on().await, NextStep::IDLE);
    let states = written(&world).await;
    assert!(states.iter().all(|state| state.starts_with("delivered(")), "{states:?}");
    let places = "select sum(last)::bigint
                    from (select max((ctid::text::point)[1]) as last from deliveries
                           group by (ctid::text::point)[0]) as pages";
    assert_eq!(world.ask_number(places).await, 300, "an earlier version of a row has a place");
}
