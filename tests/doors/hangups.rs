//! A23: callers hang up at any moment, on real sockets.

use std::sync::Arc;

use door::{Door, DoorSettings};
use tests::{Firm, World};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

const FIRMS: usize = 10;
const CALLS_PER_FIRM: usize = 100;

/// A thousand calls of `POST /hooks`, each cut off at its own moment: from before its first byte is
/// read until long after it was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_cut_calls_leave_no_half_hook() {
    let world = Arc::new(World::new().await);
    let door = Door::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (address, stop) = (door.local_addr().unwrap(), CancellationToken::new());
    let router = api::public::router(world.service().clone());
    let served = tokio::spawn(door.serve(router, DoorSettings::default(), stop.clone()));
    for _ in 0..FIRMS {
        let firm = world.firm().await;
        for call in 0..CALLS_PER_FIRM {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(request(&firm).as_bytes()).await.unwrap();
            // From 0 to some 20 ms.
            for _ in 0..call * call {
                tokio::task::yield_now().await;
            }
            drop(stream);
        }
    }
    // The door ends after the calls that it has begun.
    stop.cancel();
    served.await.unwrap();
    assert_whole(&world).await;
    assert_clean(&world).await;
}

fn request(firm: &Firm) -> String {
    let body = r#"{"target_url":"https://93.184.216.34/","trigger":"form_submitted"}"#;
    format!(
        "POST /api/v1/hooks HTTP/1.1\r\nHost: test\r\nX-API-Key: {}\r\nContent-Length: {}\r\n\r\n{body}",
        firm.key,
        body.len()
    )
}

/// Every hook has its event, its lane and its place in the quota, and nothing else has.
async fn assert_whole(world: &World) {
    let (hooks, events, lanes, used): (i64, i64, i64, i64) = sqlx::query_as(
        "select (select count(*) from hooks),
                (select count(*) from events join hooks on aggregate_id = hook_id::text
                  where event_type = 'SubscriptionCreated'),
                (select count(*) from lanes join hooks on lane_id = hook_id),
                (select sum(used) from quotas where kind = 'hooks')",
    )
    .fetch_one(world.pool())
    .await
    .unwrap();
    assert_eq!((events, lanes, used), (hooks, hooks, hooks));
    assert!(hooks > 0, "some calls came through");
}

/// No connection came back inside a transaction: the time of the database moves on in each.
async fn assert_clean(world: &World) {
    let mut connections = Vec::new();
    while let Some(connection) = world.pool().try_acquire() {
        connections.push(connection);
    }
    assert!(!connections.is_empty());
    for connection in &mut connections {
        let mut now = async || -> String {
            sqlx::query_scalar("select now()::text").fetch_one(&mut **connection).await.unwrap()
        };
        assert_ne!(now().await, now().await);
    }
}
