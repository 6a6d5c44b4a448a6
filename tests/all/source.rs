//! What a process appended itself is not read from the log again; wherever anything is missing, the log is read.

use domain::context::{Actor, Context};
use domain::firm::FirmEvent;
use eventstore::tail::{self, Stretch, TailError};
use eventstore::worker::{Step, Worker};
use eventstore::{NewEvent, RecordedEvent, Store, Upcasters};
use projector::deliveries::Deliveries;
use projector::follow::{Follower, Projection};
use sqlx::Executor;
use tests::{Firm, Receiver, Reply, World};
use uuid::Uuid;

const PASSED: &[&str] = Deliveries::PASSES;

/// Events that are kept, from one position on.
async fn kept() -> (World, Firm, Receiver, i64) {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.service().store.recent().keep(PASSED);
    let after = settled(&world).await;
    (world, firm, receiver, after)
}

async fn settled(world: &World) -> i64 {
    loop {
        let look = world.system.fence.look().await.unwrap();
        if !look.more {
            return look.settled;
        }
    }
}

/// The log, as a follower reads it that is not at the source.
async fn read(world: &World, after: i64, settled: i64) -> Result<Vec<RecordedEvent>, TailError> {
    let mut connection = world.pool().acquire().await.unwrap();
    let stretch = Stretch { after, settled, limit: 1_000 };
    tail::read_but(&mut connection, &Upcasters::current(), (stretch, PASSED)).await
}

async fn states(world: &World) -> Vec<String> {
    sqlx::query_scalar("select state from deliveries").fetch_all(world.pool()).await.unwrap()
}

/// An answer that redirects, one that is tried again.
#[tokio::test]
async fn what_is_kept_is_what_the_log_has() {
    let (world, firm, receiver, after) = kept().await;
    let onward = Reply::status(303).header("location", "/elsewhere");
    let busy = Reply::status(503).header("retry-after", "7");
    receiver.reply([onward, Reply::status(200), busy, Reply::status(200)]);
    for _ in 0..3 {
        world.submit(&firm).await;
        world.fan_out().await;
        while deliverer::engine::turn(world.courier()).await.unwrap() > 0 {}
    }
    let until = settled(&world).await;
    let recent = world.service().store.recent();
    let (known, read) = (recent.take(after, until), read(&world, after, until).await.unwrap());
    assert!(read.len() == 6, "{read:?}");
    assert_eq!(known, Some(read));
    assert_eq!(recent.take(after, until), None, "it is handed out once");
}

/// The log is spoilt, so that whoever read it would stop.
#[tokio::test]
async fn a_follower_at_the_source_does_not_read_the_log() {
    let (world, firm, _receiver, after) = kept().await;
    world.project().await;
    world.submit(&firm).await;
    world.fan_out().await;
    while deliverer::engine::turn(world.courier()).await.unwrap() > 0 {}
    let until = settled(&world).await;
    let spoilt = "alter table events disable trigger user;
                  update events set event_type = 'x' where aggregate_type = 'Delivery'";
    world.pool().execute(spoilt).await.unwrap();
    let (store, fence) = (world.service().store.clone(), world.system.fence.clone());
    let mut history = Follower::new(store, fence, Deliveries).at_the_source();
    while history.step().await.unwrap() == Step::Busy {}
    assert_eq!(states(&world).await, ["delivered"]);
    let why = read(&world, after, until).await.unwrap_err().to_string();
    assert!(why.contains("not a `x`"), "{why}");
}

/// What somebody else appended, a position that was drawn for nothing, an event of which nothing is kept.
#[tokio::test]
async fn where_anything_is_missing_the_log_is_read() {
    let (world, firm, receiver, mut after) = kept().await;
    let recent = world.service().store.recent();
    for missing in ["another's", "nothing", "a subscription"] {
        world.submit(&firm).await;
        match missing {
            "another's" => {
                let another = Store::new(world.pool().clone(), Vec::new());
                another.append(vec![somebody_else(&world)]).await.unwrap();
            }
            "nothing" => {
                let drawn = "select nextval('events_position_seq')";
                world.pool().execute(drawn).await.unwrap();
            }
            _ => drop(world.subscribe(&firm, &receiver.url("/other")).await),
        }
        world.fan_out().await;
        while deliverer::engine::turn(world.courier()).await.unwrap() > 0 {}
        let until = settled(&world).await;
        assert_eq!(recent.take(after, until), None, "{missing}");
        after = until;
    }
    world.submit(&firm).await;
    assert_eq!(recent.take(after, settled(&world).await), Some(vec![]), "an occurrence is passed");
    world.project().await;
    assert_eq!(states(&world).await, ["delivered"; 3]);
}

fn somebody_else(world: &World) -> NewEvent {
    let (firm_id, time) = (world.id(), world.clock.now());
    NewEvent {
        aggregate_id: firm_id.to_string(),
        sequence: 1,
        event: FirmEvent::FirmSuspended { time }.into(),
        context: Context {
            firm_id,
            recorded_at: time,
            actor: Actor::System,
            correlation_id: Uuid::nil(),
            causation_id: None,
            traceparent: None,
        },
    }
}
