//! E26: a newer build has written what this one cannot read, while both run.

use deliverer::fan_out::FanOut;
use eventstore::worker::Worker;
use projector::deliveries::Deliveries;
use projector::follow::Follower;
use serde_json::json;
use tests::{Receiver, World};

/// An occurrence of a kind this build does not know, at the end of the log.
pub(crate) async fn write_news(world: &World) -> i64 {
    sqlx::query_scalar(
        "insert into events (aggregate_type, aggregate_id, sequence, event_type, event_version,
                             payload, metadata, firm_id, event_id, recorded_at, digest)
         select 'Occurrence', gen_random_uuid()::text, 1, 'OccurrenceSold', '1.0', '{\"OccurrenceSold\": {}}',
                metadata, firm_id, gen_random_uuid(), recorded_at, digest
           from events order by position desc limit 1
         returning position",
    )
    .fetch_one(world.pool())
    .await
    .unwrap()
}

/// Why a worker stops; it may find things to do before.
async fn stopped<W: Worker>(worker: &mut W) -> String {
    for _ in 0..1_000 {
        if let Err(error) = worker.step().await {
            return error.to_string();
        }
    }
    panic!("{} went on", W::NAME)
}

async fn checkpoint(world: &World, name: &str) -> i64 {
    sqlx::query_scalar("select position from checkpoints where name = $1")
        .bind(name)
        .fetch_one(world.pool())
        .await
        .unwrap()
}

#[tokio::test]
async fn e26_an_event_of_a_newer_build_stops_who_follows_and_nobody_else() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    world.fan_out().await;
    world.project().await;
    let news = write_news(&world).await;
    world.submit(&firm).await;

    let mut fan_out = FanOut::new(world.courier().clone(), world.system.fence.clone());
    let store = world.service().store.clone();
    let mut history = Follower::new(store, world.system.fence.clone(), Deliveries);
    for _ in 0..3 {
        for why in [stopped(&mut fan_out).await, stopped(&mut history).await] {
            assert!(
                why.contains(&format!("position {news}")) && why.contains("OccurrenceSold"),
                "{why}"
            );
        }
    }
    for follower in ["fan_out", "deliveries"] {
        assert!(checkpoint(&world, follower).await < news, "{follower} has skipped it");
    }

    for path in ["/me", "/forms", "/hooks"] {
        assert_eq!(world.get(&firm, path).await.status, 200, "{path}");
    }
    let hook = json!({"target_url": receiver.url("/more"), "trigger": "form_submitted"});
    assert_eq!(world.call(&firm.key, "POST", "/hooks", hook).await.status, 201);
    let sent = deliverer::engine::turn(world.courier()).await.unwrap();
    assert_eq!((sent, receiver.received().len()), (1, 1), "what was queued before goes out");
}
