//! The order of locks (docs/explanation/log-and-fence.md): a transaction that waits for a lane has
//! appended nothing yet.

use serde_json::json;
use tests::{World, activity, later};

/// A recorder holds one lane of a firm and waits for a lock of another. A suspension of the firm
/// that had appended to its streams first would then wait for the recorder's lane: a deadlock.
#[tokio::test]
async fn a_suspension_locks_lanes_before_streams() {
    let world = World::new().await;
    let firm = world.firm().await;
    let lane_id = world.subscribe(&firm, "https://hooks.example.com/1").await;
    for (second, kind) in (1..).zip(["firm.suspended", "firm.resumed", "firm.closed"]) {
        let mut recorder = world.pool().begin().await.unwrap();
        sqlx::query("select 1 from lanes where lane_id = $1 for update")
            .bind(lane_id)
            .execute(&mut *recorder)
            .await
            .unwrap();
        let told = [later(activity(firm.id, kind, json!({})), second)];
        let appended_while_waiting = async {
            let waits = "select exists (select 1 from pg_stat_activity
                          where datname = current_database() and wait_event_type = 'Lock')";
            while !sqlx::query_scalar::<_, bool>(waits).fetch_one(world.pool()).await.unwrap() {}
            let appended: bool = sqlx::query_scalar(
                "select exists (select 1 from pg_locks
                  where relation = 'events'::regclass and mode = 'RowExclusiveLock'
                    and database = (select oid from pg_database
                                     where datname = current_database()))",
            )
            .fetch_one(world.pool())
            .await
            .unwrap();
            recorder.rollback().await.unwrap();
            appended
        };
        let (answer, appended) = tokio::join!(world.report(&told), appended_while_waiting);
        assert_eq!((answer.status.as_u16(), appended), (202, false), "{kind}");
    }
}
