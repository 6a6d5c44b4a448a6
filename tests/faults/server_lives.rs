//! The death of one PostgreSQL process, and the nets below (ruling 56).

use std::time::Duration;

use domain::event::{Actor, EventContext};
use domain::firm::FirmEvent;
use domain::values::Timestamp;
use eventstore::log_tail::LogTailCheck;
use eventstore::worker::{NextStep, Worker};
use eventstore::{
    AppendError, DatabaseHosts, Fence, JoinedWrites, LifeWatch, NewEvent, Nudge, PrimaryFollower,
    StatementAppend, Store,
};
use sqlx::{ConnectOptions, Executor};
use tests::{ReplicatedServer, ServerProcess, Templates, TestDatabase, cluster_with, count_rows};
use uuid::Uuid;

/// From one look to the next.
const AGAIN: Duration = Duration::from_millis(20);

/// A watched log on a server of its own.
struct WatchedLog {
    _server: Templates,
    database: TestDatabase,
    store: Store,
}

impl WatchedLog {
    async fn start() -> Self {
        // Uncommitted work stays unflushed, and is lost in a crash.
        let server = cluster_with(&[("wal_writer_delay", "10s")]).await;
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
async fn each_process_death_begins_a_life() {
    let log = WatchedLog::start().await;
    log.reconnect().await;
    for process in ServerProcess::ALL {
        let before = log.store.life().life_number();
        process.kill_in(&log.database.main).await;
        log.reconnect().await;
        assert!(log.store.life().life_number() > before, "{process:?} died, and nobody noticed");
    }
}

/// The fence remembered that a position is settled once an id has ended. The server forgot both,
/// and gave them out again: followers passed the position before its event was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_backend_clears_the_fence_memory() {
    let log = WatchedLog::start().await;
    let fence = Fence::new(&log.store);
    log.store.append(vec![event(1)]).await.unwrap();
    while fence.look().await.unwrap().more {}
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
    let lost = eventstore::log_tail::unacknowledged_losses(&mut connection).await.unwrap();
    assert_eq!(lost, []);
}

/// A cursor stands above the end of the log only after a fault.
async fn move_cursor(log: &WatchedLog, name: &str, position: i64) {
    let moved = "insert into checkpoints (name, position) values ($1, $2)
                 on conflict (name) do update set position = excluded.position";
    sqlx::query(moved).bind(name).bind(position).execute(log.store.pool()).await.unwrap();
}

/// The cursor of the seals stands above the end of the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_begins_above_every_cursor() {
    let log = WatchedLog::start().await;
    let mut begun = LogTailCheck::new(log.store.clone());
    log.store.append(vec![event(1)]).await.unwrap();
    for (process, cursor, stream) in
        [(ServerProcess::Backend, 40, 2), (ServerProcess::Checkpointer, 1_024, 3)]
    {
        move_cursor(&log, "seals", cursor).await;
        process.kill_in(&log.database.main).await;
        log.reconnect().await;
        while begun.step().await.is_err() {}
        let next = log.store.append(vec![event(stream)]).await.unwrap();
        assert_eq!(next[0].position, cursor + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_below_a_cursor_is_refused() {
    let log = WatchedLog::start().await;
    move_cursor(&log, "audit_log", 2).await;
    let refused = log.store.append(vec![event(1), event(2), event(3), event(4)]).await;
    assert!(matches!(refused, Err(AppendError::Conflict)), "{refused:?}");
    let appended = log.store.append(vec![event(1)]).await.unwrap();
    assert!(appended[0].position > 2, "the refused ones took the positions");
    move_cursor(&log, "audit_log", 40).await;
    log.store.append(vec![event(2)]).await.unwrap_err();
    assert_eq!(log.store.append(vec![event(2)]).await.unwrap()[0].position, 41);
}

/// Nothing of the statement stays, and the ordinary append after it draws higher positions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_below_a_cursor_is_refused() {
    let log = WatchedLog::start().await;
    let at_once = |condition| {
        let mut writes = JoinedWrites::default();
        writes.add("noted as (insert into checkpoints values ('noted', 0))").require(condition);
        StatementAppend { events: vec![event(1), event(2)], writes, ..StatementAppend::default() }
    };
    let untrue = log.store.append_at_once(at_once("1 = 2")).await;
    move_cursor(&log, "audit_log", 9).await;
    let passed = log.store.append_at_once(at_once("1 = 1")).await;
    for refused in [untrue, passed] {
        assert!(matches!(refused, Err(AppendError::Conflict)), "{refused:?}");
    }
    assert_eq!(count_rows(log.store.pool(), "events").await, 0);
    assert_eq!(count_rows(log.store.pool(), "checkpoints where name = 'noted'").await, 0);
    log.store.append(vec![event(1)]).await.unwrap_err();
    log.store.append(vec![event(1)]).await.unwrap();
    let appended = log.store.append_at_once(at_once("1 = 1")).await;
    assert!(matches!(appended, Err(AppendError::Conflict)), "the stream has its first event");
    let others = StatementAppend { events: vec![event(3), event(4)], ..at_once("1 = 1") };
    let appended = log.store.append_at_once(others).await.unwrap();
    assert_eq!(appended.iter().map(|one| one.position).collect::<Vec<_>>(), [12, 13]);
}

/// A cursor that passes an append under way passes its events for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_append_behind_cursors_is_refused() {
    let log = WatchedLog::start().await;
    let mut append = log.store.begin().await.unwrap();
    let position = append.append(vec![event(1)]).await.unwrap()[0].position;
    move_cursor(&log, "audit_log", position).await;
    // A short append is not checked again: the check would cost it a round trip.
    let slow = "select pg_sleep($1)";
    let seconds = eventstore::CHECKED_AFTER.as_secs_f64();
    sqlx::query(slow).bind(seconds).execute(append.connection()).await.unwrap();
    let refused = append.commit().await.unwrap_err();
    assert!(matches!(refused, AppendError::Conflict), "{refused}");
    assert_eq!(count_rows(log.store.pool(), "events").await, 0);
    let again = log.store.append(vec![event(1)]).await.unwrap();
    assert!(again[0].position > position, "it is decided again, and succeeds");
}

/// The transaction had begun before this process learned of the new primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_commit_succeeds_on_an_old_primary() {
    let (server, database) = ReplicatedServer::start().await;
    let mut hosts: DatabaseHosts = server.url(&database.main).parse().unwrap();
    hosts.find_primary().await.unwrap();
    let mut follower = PrimaryFollower::new(hosts, "the log");
    let life = follower.life().clone();
    let pool = follower.make_pool(&[], 4);
    let store = Store::new(pool, Vec::new()).watched_by(life.clone());
    let _following = tokio::spawn(follower.follow(Nudge::default()));
    store.append(vec![event(1)]).await.unwrap();
    server.until_in_step().await;
    let mut late = store.begin().await.unwrap();
    late.append(vec![event(2)]).await.unwrap();
    let before = life.life_number();
    server.promote().await;
    while life.life_number() == before {
        tokio::time::sleep(AGAIN).await;
    }
    let refused = late.commit().await.unwrap_err();
    assert!(matches!(refused, AppendError::Database(_)), "{refused}");

    while store.append(vec![event(2)]).await.is_err() {}
    let events = async |place: sqlx::postgres::PgConnectOptions| -> i64 {
        let mut connection = place.connect().await.unwrap();
        let count = "select count(*) from events";
        sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap()
    };
    assert_eq!(events(server.on_first(&database.main)).await, 1);
    assert_eq!(events(server.on_second(&database.main)).await, 2);
    while life.other_primaries().len() != 1 {
        tokio::time::sleep(AGAIN).await;
    }
}
