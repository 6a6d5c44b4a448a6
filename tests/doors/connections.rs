//! Connections that wait outside their pool, each in the state of a new one.

use eventstore::{ConnectionCache, connect};
use futures::FutureExt;
use sqlx::PgConnection;
use tests::TestDatabase;

/// Size of the pool. Half of its connections may wait outside.
const MOST: u32 = 6;

async fn connections() -> (TestDatabase, ConnectionCache) {
    let database = TestDatabase::new().await;
    let pool = connect(database.main.clone(), MOST);
    (database, ConnectionCache::new(pool))
}

async fn pid(connection: &mut PgConnection) -> i32 {
    sqlx::query_scalar("select pg_backend_pid()").fetch_one(connection).await.unwrap()
}

async fn put(connection: &mut PgConnection, name: &str) {
    sqlx::query("insert into checkpoints (name, position) values ($1, 0)")
        .bind(name)
        .execute(connection)
        .await
        .unwrap();
}

async fn names(connections: &ConnectionCache) -> Vec<String> {
    sqlx::query_scalar("select name from checkpoints where name like 'kept %' order by 1")
        .fetch_all(connections.pool())
        .await
        .unwrap()
}

/// At most half of the pool waits outside.
#[tokio::test]
async fn the_last_returned_connection_is_taken_next() {
    let (_database, connections) = connections().await;
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.push(connections.take().await.unwrap());
    }
    let mut pids = Vec::new();
    for mut held in taken {
        pids.push(pid(&mut held).await);
        connections.give_back(held);
    }
    let mut waited = Vec::new();
    for _ in 0..3 {
        waited.push(connections.take().await.unwrap());
    }
    let mut next = Vec::new();
    for held in &mut waited {
        next.push(pid(held).await);
    }
    assert_eq!(next, [pids[2], pids[1], pids[0]]);
    // The fourth connection went back to the pool, which opens the remaining ones for other users.
    let all = (0..MOST - 3).map(|_| connections.pool().acquire());
    futures::future::try_join_all(all).await.unwrap();
}

#[tokio::test]
async fn uncommitted_work_vanishes_and_blocks_nobody() {
    let (_database, connections) = connections().await;
    let mut kept = connections.begin().await.unwrap();
    put(&mut kept, "kept one").await;
    kept.commit().await.unwrap();
    connections.give_back(kept);

    let mut left = connections.begin().await.unwrap();
    put(&mut left, "kept two").await;
    left.rollback().await.unwrap();
    connections.give_back(left);

    let mut dropped = connections.begin().await.unwrap();
    put(&mut dropped, "kept three").await;
    drop(dropped);

    let mut given_back = connections.begin().await.unwrap();
    put(&mut given_back, "kept four").await;
    connections.give_back(given_back);

    let mut next = connections.begin().await.unwrap();
    put(&mut next, "kept four").await;
    next.commit().await.unwrap();
    connections.give_back(next);
    assert_eq!(names(&connections).await, ["kept four", "kept one"]);
}

/// The library does not know that the server carried out a cancelled `begin`.
#[tokio::test]
async fn a_cancelled_begin_reaches_no_other_user() {
    let (_database, connections) = connections().await;
    let waiting = connections.take().await.unwrap();
    connections.give_back(waiting);
    // The server may have answered before anybody could hang up.
    while connections.begin().now_or_never().is_some() {}
    for number in 0..MOST {
        let mut held = connections.take().await.unwrap();
        put(&mut held, &format!("kept {number}")).await;
    }
    assert_eq!(names(&connections).await.len(), 6, "what was written is seen");
}

#[tokio::test]
async fn a_broken_waiting_connection_is_replaced() {
    let (_database, connections) = connections().await;
    let mut broken = connections.take().await.unwrap();
    let broken_pid = pid(&mut broken).await;
    connections.give_back(broken);
    sqlx::query("select pg_terminate_backend($1, 10000)")
        .bind(broken_pid)
        .execute(connections.pool())
        .await
        .unwrap();
    // A connection that was used just now is not checked, so that it may still be the broken one.
    let mut next = loop {
        let mut held = connections.take().await.unwrap();
        if sqlx::query("select").execute(&mut *held).await.is_ok() {
            break held;
        }
    };
    assert_ne!(pid(&mut next).await, broken_pid);
}

#[tokio::test]
async fn kept_connections_close_with_their_pool() {
    let (_database, connections) = connections().await;
    let (one, other) = (connections.take().await.unwrap(), connections.take().await.unwrap());
    connections.give_back(one);
    let closed = connections.close();
    tokio::pin!(closed);
    assert!(closed.as_mut().now_or_never().is_none(), "one is in use");
    connections.give_back(other);
    closed.await;
    assert!(connections.take().await.is_err());
    assert_eq!(connections.pool().size(), 0);
}
