//! Connections that stay out of their pool: the next one has them as if they were new.

use eventstore::{ConnectionCache, connect};
use futures::FutureExt;
use sqlx::PgConnection;
use tests::TestDatabase;

/// The most that a pool has; half of them may stay out of it.
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

#[tokio::test]
async fn the_one_that_came_back_last_is_taken_next_and_half_of_the_pool_waits_at_most() {
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
    // The fourth went to the pool, whose other users have it and what else there is.
    let all = (0..MOST - 3).map(|_| connections.pool().acquire());
    futures::future::try_join_all(all).await.unwrap();
}

#[tokio::test]
async fn what_was_not_committed_never_happened_and_holds_up_nobody() {
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

/// The library does not know that a `begin` which nobody waited for was carried out.
#[tokio::test]
async fn what_a_cancelled_begin_left_open_is_given_to_nobody() {
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
async fn one_that_broke_while_it_waited_is_replaced() {
    let (_database, connections) = connections().await;
    let mut broken = connections.take().await.unwrap();
    let broken_pid = pid(&mut broken).await;
    connections.give_back(broken);
    sqlx::query("select pg_terminate_backend($1, 10000)")
        .bind(broken_pid)
        .execute(connections.pool())
        .await
        .unwrap();
    // One that was used just now is taken at its word.
    let mut next = loop {
        let mut held = connections.take().await.unwrap();
        if sqlx::query("select").execute(&mut *held).await.is_ok() {
            break held;
        }
    };
    assert_ne!(pid(&mut next).await, broken_pid);
}

#[tokio::test]
async fn they_close_with_their_pool() {
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
