//! The death of one PostgreSQL process, and the nets below (ruling 56).

use domain::context::{Actor, EventContext};
use domain::firm::FirmEvent;
use domain::time::Timestamp;
use eventstore::log_tail::LogTailCheck;
use eventstore::worker::{NextStep, Worker};
use eventstore::{AppendError, Fence, LifeWatch, NewEvent, Store};
use sqlx::Executor;
use tests::{ServerProcess, TestDatabase, own_cluster};
use uuid::Uuid;

/// A watched log on a server of its own.
struct WatchedLog {
    _server: tests::Templates,
    database: TestDatabase,
    store: Store,
}

impl WatchedLog {
    async fn start() -> Self {
        let server = own_cluster().await;
        let database = server.database().await;
        let life = LifeWatch::default();
        let pool = life.connect(database.main.clone(), 4);
        let store = Store::new(pool, Vec::new()).watched_by(life);
        Self { _server: server, database, store }
    }

    /// Returns once the server answers this process again.
    async fn reconnect(&self) {
        while sqlx::query("select 1").execute(self.store.pool()).await.is_err() {}
    }
}

fn event(stream: u128) -> NewEvent {
    let time: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
    let context = EventContext {
        firm_id: Uuid::from_u128(stream),
        recorded_at: time,
        actor: Actor::System,
        correlation_id: Uuid::nil(),
        causation_id: None,
        traceparent: None,
        terminal: None,
    };
    NewEvent {
        aggregate_id: Uuid::from_u128(stream).to_string(),
        sequence: 1,
        event: FirmEvent::FirmSuspended { time }.into(),
        context,
    }
}

/// A recovery in place kept system identifier, timeline and the postmaster's start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_death_of_each_process_begins_a_life() {
    let log = WatchedLog::start().await;
    log.reconnect().await;
    for process in ServerProcess::ALL {
        let before = log.store.life().number();
        process.kill_in(&log.database.main).await;
        log.reconnect().await;
        assert!(log.store.life().number() > before, "{process:?} died, and nobody noticed");
    }
}

/// The fence remembered that a position is settled once an id has ended. The server forgot both,
/// and gave them out again: followers passed the position before its event was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_backend_ends_what_the_fence_remembers() {
    let log = WatchedLog::start().await;
    let fence = Fence::of(&log.store);
    log.store.append(vec![event(1)]).await.unwrap();
    while fence.look().await.unwrap().more {}
    // The WAL writer would flush the drawn ids within 200 ms.
    let mut lost = log.store.begin().await.unwrap();
    let batch = (2..34).map(event).collect();
    let drawn = lost.append(batch).await.unwrap().last().unwrap().position;
    assert!(fence.look().await.unwrap().more);
    ServerProcess::Backend.kill_in(&log.database.main).await;
    drop(lost);
    log.reconnect().await;

    // Others write, so that ids are as high as before.
    for _ in 0..50 {
        log.store.pool().execute("select pg_current_xact_id()").await.unwrap();
    }
    let mut slow = log.store.begin().await.unwrap();
    let position = slow.append(vec![event(100)]).await.unwrap()[0].position;
    let look = fence.look().await.unwrap();
    assert!(look.settled < position, "{} of {position} is settled, {drawn} was", look.settled);
    slow.commit().await.unwrap();
    while fence.look().await.unwrap().settled < position {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_process_alone_raises_no_alarm() {
    let log = WatchedLog::start().await;
    let mut check = LogTailCheck::new(log.store.clone());
    log.store.append(vec![event(1)]).await.unwrap();
    ServerProcess::WalWriter.kill_in(&log.database.main).await;
    log.reconnect().await;
    while !matches!(check.step().await, Ok(NextStep::IdleFor(_))) {}
    let mut connection = log.store.pool().acquire().await.unwrap();
    let lost = eventstore::log_tail::unacknowledged(&mut connection).await.unwrap();
    assert_eq!(lost, []);
}

/// Nothing passes a position that nobody has drawn, but a fault did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_begin_above_every_cursor_and_seal() {
    let log = WatchedLog::start().await;
    let first = log.store.append(vec![event(1)]).await.unwrap()[0].position;
    let ahead = "insert into checkpoints (name, position) values ('deliveries', $1)
                 on conflict (name) do update set position = $1";
    sqlx::query(ahead).bind(first + 40).execute(log.store.pool()).await.unwrap();
    let next = log.store.append(vec![event(2), event(3)]).await.unwrap();
    assert_eq!(next[0].position, first + 41);
    assert_eq!(next[1].position, first + 42);
    let sealed = "insert into seals (number, last_position, events, root, previous_hash, hash)
                  values (1, 1024, 3, $1, $1, $1)";
    sqlx::query(sealed).bind([0_u8; 32]).execute(log.store.pool()).await.unwrap();
    assert_eq!(log.store.append(vec![event(4)]).await.unwrap()[0].position, 1025);
}

/// A cursor that passes an append under way passes its events for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_behind_a_cursor_is_refused() {
    let log = WatchedLog::start().await;
    let mut append = log.store.begin().await.unwrap();
    let position = append.append(vec![event(1)]).await.unwrap()[0].position;
    let passed = "insert into checkpoints (name, position) values ('audit_log', $1)";
    sqlx::query(passed).bind(position).execute(log.store.pool()).await.unwrap();
    // A short append is not checked again: the check would cost it a round trip.
    tokio::time::sleep(eventstore::CHECKED_AFTER).await;
    let refused = append.commit().await.unwrap_err();
    assert!(matches!(refused, AppendError::Conflict), "{refused}");
    let events = "select count(*) from events";
    let events: i64 = sqlx::query_scalar(events).fetch_one(log.store.pool()).await.unwrap();
    assert_eq!(events, 0);
    let again = log.store.append(vec![event(1)]).await.unwrap();
    assert!(again[0].position > position, "it is decided again, and succeeds");
}
