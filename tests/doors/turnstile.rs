//! The batcher of keys: concurrent calls share a statement, and each gets its own answer.

use std::sync::Arc;

use domain::access::ApiKey;
use serde_json::{Value, json};
use sqlx::{Executor, Postgres, Transaction};
use tests::{Answer, DatabaseProxy, Fault, Firm, TestDatabase, World, until_blocked};
use tokio::task::{JoinHandle, yield_now};
use uuid::Uuid;

/// Greatest number of concurrent statements.
const ATTENDANTS: i64 = 2;

/// A world whose callers can be made to wait for each other.
struct Scene {
    world: Arc<World>,
    firm: Firm,
}

impl Scene {
    async fn new() -> Self {
        let world = Arc::new(World::new().await);
        let firm = world.firm().await;
        Self { world, firm }
    }

    async fn keys(&self, count: usize) -> Vec<ApiKey> {
        let mut made = Vec::with_capacity(count);
        for number in 0..count {
            let (firm, name) = (&self.firm, format!("Key {number}"));
            let key = self.world.new_key(firm, &name).await;
            made.push(key.key);
        }
        made
    }

    /// Makes both statements wait, each with a call of one of these keys.
    async fn hold(&self, keys: &[ApiKey]) -> (Transaction<'static, Postgres>, Vec<Call>) {
        let mut held = self.world.pool().begin().await.unwrap();
        held.execute("lock table key_calls in exclusive mode").await.unwrap();
        let mut calls = Vec::new();
        for (waiting, key) in (1..).zip(keys) {
            calls.push(self.call(key.as_str(), "/me"));
            until_blocked(self.world.pool(), waiting).await;
        }
        (held, calls)
    }

    /// A call in a task of its own.
    fn call(&self, key: &str, path: &'static str) -> Call {
        let (world, key) = (Arc::clone(&self.world), key.to_owned());
        tokio::spawn(async move { world.call(&key, "GET", path, Value::Null).await })
    }

    /// Number of transactions that wrote the current rings.
    async fn statements(&self) -> i64 {
        self.world.ask_number("select count(distinct xmin::text) from key_calls").await
    }

    /// Number of counted calls after the end of every statement under way. A statement may go on
    /// after its caller hung up.
    async fn counted(&self) -> i64 {
        let mut ended = self.world.pool().begin().await.unwrap();
        ended.execute("lock table key_calls in share mode").await.unwrap();
        sqlx::query_scalar("select count(*) from key_calls, unnest(calls)")
            .fetch_one(&mut *ended)
            .await
            .unwrap()
    }

    /// Ends the connections that wait for a lock.
    async fn break_off(&self) {
        let statement = "select pg_terminate_backend(pid) from pg_stat_activity
              where datname = current_database() and wait_event_type = 'Lock'";
        self.world.change_database(statement).await;
    }
}

type Call = JoinHandle<Answer>;

/// Lets every call reach the batcher. The runtime has nothing else to do.
async fn come() {
    for _ in 0..1_000 {
        yield_now().await;
    }
}

async fn statuses(calls: impl IntoIterator<Item = Call>) -> Vec<u16> {
    let mut statuses = Vec::new();
    for call in calls {
        statuses.push(call.await.unwrap().status.as_u16());
    }
    statuses
}

/// Each call gets its own answer.
#[tokio::test]
async fn b12_waiting_calls_share_one_statement() {
    let scene = Scene::new().await;
    let (world, keys) = (&scene.world, scene.keys(23).await);
    let [at_its_limit, revoked, ..] = &keys[..] else { unreachable!() };
    for _ in 0..120 {
        assert_eq!(world.call(at_its_limit.as_str(), "GET", "/me", Value::Null).await.status, 200);
    }
    let id: Uuid = sqlx::query_scalar("select key_id from key_auth where sha256 = $1")
        .bind(revoked.hash())
        .fetch_one(world.pool())
        .await
        .unwrap();
    world.revoke_key(&scene.firm, id).await;
    let suspended = world.firm().await;
    world.suspend_firm(&suspended).await;

    let (held, first) = scene.hold(&keys[2..4]).await;
    let wrong = format!("ffk_{}A", "0".repeat(42));
    let others = [at_its_limit.as_str(), revoked.as_str(), &suspended.key, &wrong];
    let others = others.map(|key| scene.call(key, "/me"));
    let good: Vec<_> = keys[4..].iter().map(|key| scene.call(key.as_str(), "/me")).collect();
    come().await;
    held.rollback().await.unwrap();
    assert_eq!(statuses(first).await, [200; 2]);
    assert_eq!(statuses(others).await, [429, 401, 403, 401]);
    for (call, key) in good.into_iter().zip(&keys[4..]) {
        let answer = call.await.unwrap();
        assert_eq!(
            (answer.status.as_u16(), &answer.body["key"]["prefix"]),
            (200, &json!(key.prefix()))
        );
    }
    // The ring of the key at its limit was written by the last of its own calls.
    assert_eq!(scene.statements().await, 1 + ATTENDANTS + 1);
}

/// 20 calls of one key wait together, and five of them have room.
#[tokio::test]
async fn b11_waiting_calls_pass_within_the_rate() {
    let scene = Scene::new().await;
    let keys = scene.keys(2).await;
    for _ in 0..115 {
        assert_eq!(scene.world.get(&scene.firm, "/me").await.status, 200);
    }
    let (held, first) = scene.hold(&keys).await;
    let path = |n| if n % 2 == 0 { "/me" } else { "/hooks" };
    let calls: Vec<_> = (0..20).map(|n| scene.call(&scene.firm.key, path(n))).collect();
    come().await;
    held.rollback().await.unwrap();
    assert_eq!(statuses(first).await, [200; 2]);
    let mut statuses = statuses(calls).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200; 5], vec![429; 15]].concat());
    assert_eq!(scene.counted().await, 120 + 2);
}

/// Each call of the batch gets 503, and none is counted. The next calls pass.
#[tokio::test]
async fn e12_a_failed_statement_fails_its_callers() {
    let scene = Scene::new().await;
    let keys = scene.keys(10).await;
    let (held, first) = scene.hold(&keys[..2]).await;
    let others: Vec<_> = keys[2..].iter().map(|key| scene.call(key.as_str(), "/me")).collect();
    come().await;
    scene.break_off().await;
    assert_eq!(statuses(first).await, [503; 2]);
    until_blocked(scene.world.pool(), 1).await;
    scene.break_off().await;
    assert_eq!(statuses(others).await, [503; 8]);
    held.rollback().await.unwrap();
    assert_eq!(scene.counted().await, 0);
    let again = keys.iter().map(|key| scene.call(key.as_str(), "/me")).collect::<Vec<_>>();
    assert_eq!(statuses(again).await, [200; 10]);
    assert_eq!(scene.counted().await, 10);
}

/// A call whose caller hung up is counted.
#[tokio::test]
async fn a23_a_hangup_harms_no_other_caller() {
    let scene = Scene::new().await;
    let keys = scene.keys(5).await;
    let (held, first) = scene.hold(&keys[..2]).await;
    first[0].abort();
    let [one, gone, other] = [2, 3, 4].map(|key: usize| scene.call(keys[key].as_str(), "/me"));
    come().await;
    gone.abort();
    come().await;
    held.rollback().await.unwrap();
    assert_eq!(statuses([one, other]).await, [200; 2]);
    assert_eq!(scene.counted().await, 5, "whoever hung up is counted");
    let again = keys.iter().map(|key| scene.call(key.as_str(), "/me")).collect::<Vec<_>>();
    assert_eq!(statuses(again).await, [200; 5]);
}

/// A call ends long before its caller would give up. The next calls use another connection.
#[tokio::test]
async fn e22_a_silent_database_is_asked_again() {
    let mut database = TestDatabase::new().await;
    let proxy = DatabaseProxy::before(&database.main).await;
    database.main = proxy.url(&database.main).parse().unwrap();
    let world = World::on(database).await;
    let firm = world.firm().await;
    assert_eq!(world.get(&firm, "/hooks").await.status, 200);
    proxy.set(Fault::BlackHole);
    world.get(&firm, "/hooks").await.refused(503, "unavailable");
    proxy.set(Fault::None);
    assert_eq!(world.get(&firm, "/hooks").await.status, 200);
}
