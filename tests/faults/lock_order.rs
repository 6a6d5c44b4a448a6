//! The order of locks (docs/explanation/log-and-fence.md): a transaction that waits for a lane has
//! appended nothing yet.

use serde_json::json;
use tests::{World, activity, later, until_blocked};

/// A recorder holds one lane of a firm and waits for a lock of another. A suspension of the firm
/// that had appended to its streams first would then wait for the recorder's lane: a deadlock.
#[tokio::test]
async fn a_suspension_locks_lanes_before_streams() {
    let world = World::new().await;
    let firm = world.firm().await;
    let lane_id = world.subscribe(&firm, "https://hooks.example.com/1").await;
    for (second, kind) in (1..).zip(["firm.suspended", "firm.resumed", "firm.closed"]) {
        let recorder = world.hold_lane(lane_id).await;
        let told = [later(activity(firm.id, kind, json!({})), second)];
        let appended_while_waiting = async {
            until_blocked(world.pool(), 1).await;
            let appending = "pg_locks
                  where relation = 'events'::regclass and mode = 'RowExclusiveLock'
                    and database = (select oid from pg_database
                                     where datname = current_database())";
            let appended = world.count(appending).await;
            recorder.rollback().await.unwrap();
            appended
        };
        let (answer, appended) = tokio::join!(world.report(&told), appended_while_waiting);
        assert_eq!((answer.status.as_u16(), appended), (202, 0), "{kind}");
    }
}
