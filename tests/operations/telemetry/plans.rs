//! Each query of a scrape uses indexes.

use deliverer::inspect::backlog;
use eventstore::progress::follower_progress;
use projector::{invites, notices, pauses, replays};
use sqlx::{ConnectOptions, Connection, Executor, PgConnection};
use tests::World;

/// Tables that a scrape read from end to end, in this transaction.
async fn read_whole(connection: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(
        "select relname::text from pg_stat_xact_user_tables where seq_scan > 0 order by relname",
    )
    .fetch_all(connection)
    .await
    .unwrap()
}

#[tokio::test]
async fn h4_scrapes_read_no_table_in_full() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.subscribe(&firm, "https://canary.invalid/hook").await;
    world.submit(&firm).await;
    world.deliver().await;
    world.erase().await;
    // A session of its own: the counts include earlier reads of the session.
    let mut session = world.database.main.connect().await.unwrap();
    let mut transaction = session.begin().await.unwrap();
    // A small table is cheaper to read in full. With this, only a query without an index does.
    transaction.execute("set local enable_seqscan = off").await.unwrap();
    let now = world.clock.now().get();
    let behind = follower_progress(&mut transaction).await.unwrap();
    let mut names: Vec<_> = behind.iter().map(|of| (of.name.as_str(), of.behind)).collect();
    names.sort_unstable();
    assert_eq!(names, [("audit_log", 0), ("deliveries", 0), ("erase", 0)]);
    backlog::count_lanes(&mut transaction, now).await.unwrap();
    replays::count_open(&mut transaction).await.unwrap();
    invites::under_way(&mut transaction).await.unwrap();
    notices::backlog(&mut transaction).await.unwrap();
    assert_eq!(pauses::count(&mut transaction).await.unwrap(), 0);
    // One row per follower.
    assert_eq!(read_whole(&mut transaction).await, ["checkpoints"]);
    let backlog = backlog::count_deliveries(&mut transaction, now).await.unwrap();
    assert_eq!((backlog.due, backlog.waiting, backlog.in_flight), (0, 1, 0));
}
