//! The log: nothing lost, doubled or reordered, whatever writers do; nothing ever changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::delivery::DeliveryEvent;
use domain::delivery::workflow::StepTarget;
use domain::event::{Actor, Event, EventContext};
use domain::firm::{Firm, FirmCommand, FirmEvent};
use domain::subscription::{SubscriptionEvent, TargetShown};
use domain::values::Timestamp;
use eventstore::tail::{self, LogRange, TailError};
use eventstore::{AppendError, Fence, NewEvent, RecordedEvent, Store, Upcasters, connect};
use futures::future::join_all;
use sqlx::{Executor, PgPool};
use tests::{TestDatabase, own_cluster};
use uuid::Uuid;

const WRITERS: u64 = 12;
const TRANSACTIONS: u64 = 60;

fn now() -> Timestamp {
    "2026-11-01T12:00:00.000Z".parse().unwrap()
}

fn context(firm_id: Uuid) -> EventContext {
    EventContext {
        firm_id,
        recorded_at: now(),
        actor: Actor::System,
        correlation_id: Uuid::nil(),
        causation_id: None,
        traceparent: None,
        terminal: None,
    }
}

fn event(stream: Uuid, sequence: i64) -> NewEvent {
    NewEvent {
        aggregate_id: stream.to_string(),
        sequence,
        event: FirmEvent::FirmSuspended { time: now() }.into(),
        context: context(stream),
    }
}

const fn stretch(after: i64, settled: i64) -> LogRange {
    LogRange { after, settled, limit: 50 }
}

/// A small generator, so that a failing run can be repeated by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Appends to its own stream: some transactions draw their id early, some commit late, some never.
async fn hostile_writer(store: Store, number: u64) -> i64 {
    let stream = Uuid::from_u128(u128::from(number) + 1);
    let mut dice = Dice(number);
    let mut sequence = 0;
    for _ in 0..TRANSACTIONS {
        let mut appending = store.begin().await.unwrap();
        if dice.roll(3) == 0 {
            appending.connection().execute("select pg_current_xact_id()").await.unwrap();
            appending.connection().execute("select pg_sleep(0.003)").await.unwrap();
        }
        let count = i64::try_from(1 + dice.roll(3)).unwrap();
        let events = (1..=count).map(|place| event(stream, sequence + place)).collect();
        appending.append(events).await.unwrap();
        if dice.roll(4) == 0 {
            appending.connection().execute("select pg_sleep(0.01)").await.unwrap();
        }
        if dice.roll(5) == 0 {
            continue;
        }
        appending.commit().await.unwrap();
        sequence += count;
    }
    sequence
}

/// Counts the events that a follower sees if it only remembers its last position.
async fn plain_cursor(pool: PgPool, done: Arc<AtomicBool>) -> usize {
    let (mut last, mut seen) = (0_i64, 0);
    loop {
        let finished = done.load(Ordering::Acquire);
        let positions: Vec<i64> =
            sqlx::query_scalar("select position from events where position > $1 order by position")
                .bind(last)
                .fetch_all(&pool)
                .await
                .unwrap();
        seen += positions.len();
        match positions.last() {
            Some(position) => last = *position,
            None if finished => return seen,
            None => tokio::task::yield_now().await,
        }
    }
}

/// The events that a follower below the fence sees.
async fn fenced(pool: PgPool, done: Arc<AtomicBool>) -> Vec<(i64, String, i64)> {
    let fence = Fence::new(&Store::new(pool.clone(), Vec::new()));
    let upcasters = Upcasters::current();
    let (mut last, mut seen) = (0, Vec::new());
    loop {
        let finished = done.load(Ordering::Acquire);
        let look = fence.look().await.unwrap();
        let mut connection = pool.acquire().await.unwrap();
        let events =
            tail::read(&mut connection, &upcasters, stretch(last, look.settled)).await.unwrap();
        match events.last() {
            Some(event) => last = event.position,
            None if finished && !look.more => return seen,
            None => tokio::task::yield_now().await,
        }
        seen.extend(events.into_iter().map(|e| (e.position, e.aggregate_id, e.sequence)));
    }
}

/// G15: each event below the fence is seen once. A cursor without the fence misses some, so the
/// writers are hostile enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g15_hostile_writers_lose_no_event() {
    let cluster = own_cluster().await;
    let database = cluster.database().await;
    let store = Store::new(connect(database.main.clone(), 20), Vec::new());
    let readers = connect(database.main, 4);
    let done = Arc::new(AtomicBool::new(false));
    let fenced = tokio::spawn(fenced(readers.clone(), Arc::clone(&done)));
    let plain = tokio::spawn(plain_cursor(readers, Arc::clone(&done)));
    let written = join_all((0..WRITERS).map(|n| hostile_writer(store.clone(), n))).await;
    done.store(true, Ordering::Release);
    let seen = fenced.await.unwrap();

    assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "in the order of the log, each once");
    let mut streams: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (_, stream, sequence) in seen {
        streams.entry(stream).or_default().push(sequence);
    }
    for (number, count) in (1_u128..).zip(&written) {
        let whole: Vec<i64> = (1..=*count).collect();
        assert_eq!(streams[&Uuid::from_u128(number).to_string()], whole, "stream {number}");
    }
    let total = usize::try_from(written.iter().sum::<i64>()).unwrap();
    let plain = plain.await.unwrap();
    assert!(plain < total, "a plain cursor saw {plain} of {total}: the writers were not hostile");
}

/// A look that ended the wait of another said that there was nothing more. Its follower then waited
/// until another transaction appended.
#[tokio::test]
async fn a_look_without_more_settles_everything() {
    let store = store().await;
    let fence = Fence::new(&store);
    let mut slow = store.begin().await.unwrap();
    slow.append(vec![event(Uuid::from_u128(1), 1)]).await.unwrap();
    assert!(fence.look().await.unwrap().more);
    let last = store.append(vec![event(Uuid::from_u128(2), 1)]).await.unwrap()[0].position;
    slow.commit().await.unwrap();
    // Transactions of other tests in the same cluster are waited for, too.
    let look = loop {
        let look = fence.look().await.unwrap();
        if !look.more {
            break look;
        }
    };
    assert_eq!(look.settled, last);
}

#[tokio::test]
async fn a_transaction_without_appends_delays_no_follower() {
    let cluster = own_cluster().await;
    let store = Store::new(connect(cluster.database().await.main, 6), Vec::new());
    let other = connect(cluster.database().await.main, 2);
    let fence = Fence::new(&store);
    let mut elsewhere = other.begin().await.unwrap();
    elsewhere.execute("select pg_current_xact_id()").await.unwrap();
    elsewhere.execute("lock table events in row exclusive mode").await.unwrap();
    let mut here = store.begin().await.unwrap();
    here.connection().execute("select pg_current_xact_id(), * from events").await.unwrap();
    let mut appends = store.begin().await.unwrap();
    appends.append(vec![event(Uuid::from_u128(1), 1)]).await.unwrap();

    let last = store.append(vec![event(Uuid::from_u128(2), 1)]).await.unwrap()[0].position;
    assert!(looked_at_closely(&fence).await.1, "one that appends is waited for");
    appends.commit().await.unwrap();
    assert_eq!(looked_at_closely(&fence).await, (last, false));

    let appended = here.append(vec![event(Uuid::from_u128(3), 1)]).await.unwrap()[0].position;
    assert_eq!(looked_at_closely(&fence).await, (last, true));
    here.commit().await.unwrap();
    assert_eq!(looked_at_closely(&fence).await, (appended, false));
}

/// A fence that waits for another transaction each time does not know how long each one takes.
#[tokio::test]
async fn a_new_wait_resets_the_fence_age() {
    let cluster = own_cluster().await;
    let store = Store::new(connect(cluster.database().await.main, 6), Vec::new());
    let fence = Fence::new(&store);
    let (mut one, mut other) = (store.begin().await.unwrap(), store.begin().await.unwrap());
    one.append(vec![event(Uuid::from_u128(1), 1)]).await.unwrap();
    assert!(looked_at_closely(&fence).await.1);
    let waited = fence.pending_age();
    other.append(vec![event(Uuid::from_u128(2), 1)]).await.unwrap();
    one.commit().await.unwrap();
    assert!(fence.look().await.unwrap().more);
    assert!(fence.pending_age() < waited, "{:?}", fence.pending_age());
}

/// How far the log is settled, and whether there is more, for a fence that has waited for so long
/// that it asks whom it waits for.
async fn looked_at_closely(fence: &Fence) -> (i64, bool) {
    loop {
        let has_waited = fence.pending_age() > Duration::from_millis(10);
        let look = fence.look().await.unwrap();
        if has_waited || !look.more {
            return (look.settled, look.more);
        }
    }
}

async fn store() -> Store {
    Store::new(connect(TestDatabase::new().await.main, 4), Vec::new())
}

/// A sequence that is taken already is a conflict.
#[tokio::test]
async fn a_conflict_leaves_nothing_of_the_append() {
    let store = store().await;
    let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
    store.append(vec![event(one, 1)]).await.unwrap();
    let refused = store.append(vec![event(two, 1), event(one, 1)]).await;
    assert!(matches!(refused, Err(AppendError::Conflict)), "{refused:?}");
    let mut appending = store.begin().await.unwrap();
    let new = appending.append_new(vec![event(one, 1), event(two, 1)]).await.unwrap();
    assert_eq!(new.iter().map(|e| e.aggregate_id.clone()).collect::<Vec<_>>(), [two.to_string()]);
}

#[tokio::test]
async fn positions_follow_the_order_of_the_append() {
    let store = store().await;
    let events = (1..=200).rev().map(|n| event(Uuid::from_u128(n), 1)).collect::<Vec<_>>();
    let recorded = store.append(events.clone()).await.unwrap();
    assert!(recorded.is_sorted_by_key(|event| event.position));
    assert!(recorded.iter().map(|e| &e.aggregate_id).eq(events.iter().map(|e| &e.aggregate_id)));
    assert_eq!(read_from_start(&store).await, recorded);
}

/// The append leaves out the events that the log has already.
#[tokio::test]
async fn each_new_event_gets_its_own_position() {
    let store = store().await;
    let even = (1..=50).map(|n| event(Uuid::from_u128(2 * n), 1)).collect::<Vec<_>>();
    let mut recorded = store.append(even).await.unwrap();
    let all = (1..=100).rev().map(|n| event(Uuid::from_u128(n), 1)).collect::<Vec<_>>();
    let mut appending = store.begin().await.unwrap();
    let new = appending.append_new(all).await.unwrap();
    appending.commit().await.unwrap();
    assert_eq!(new.len(), 50);
    recorded.extend(new);
    assert_eq!(read_from_start(&store).await, recorded);
}

async fn read_from_start(store: &Store) -> Vec<RecordedEvent> {
    let mut connection = store.pool().acquire().await.unwrap();
    let all = LogRange { after: 0, settled: i64::MAX, limit: i64::MAX };
    tail::read(&mut connection, &Upcasters::current(), all).await.unwrap()
}

/// G1, as owner
#[tokio::test]
async fn the_log_cannot_be_changed() {
    let store = store().await;
    store.append(vec![event(Uuid::from_u128(1), 1)]).await.unwrap();
    for statement in ["update events set event_type = 'x'", "delete from events", "truncate events"]
    {
        let error = store.pool().execute(statement).await.unwrap_err();
        let code = error.as_database_error().and_then(|error| error.code()).unwrap();
        assert_eq!(code, "42501", "{statement}: {error}");
    }
}

#[tokio::test]
async fn the_digest_covers_the_canonical_bytes() {
    let store = store().await;
    store.append(vec![event(Uuid::from_u128(1), 1)]).await.unwrap();
    let (canonical, digest): (String, Vec<u8>) = sqlx::query_as(
        r#"select format('{"aggregate_id":%s,"aggregate_type":%s,"event_type":%s,"event_version":%s,"firm_id":%s,"metadata":%s,"payload":%s,"recorded_at":"2026-11-01T12:00:00.000Z","sequence":%s}',
                to_json(aggregate_id), to_json(aggregate_type), to_json(event_type),
                to_json(event_version), to_json(firm_id), metadata, payload, sequence), digest
             from events"#,
    )
    .fetch_one(store.pool())
    .await
    .unwrap();
    let recomputed: Vec<u8> = sqlx::query_scalar("select sha256(convert_to($1, 'UTF8'))")
        .bind(&canonical)
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(digest, recomputed, "{canonical}");
}

/// A23: a connection that comes back inside a transaction serves no other caller. With sqlx a
/// cancelled `begin` gives its connection back like this.
#[tokio::test]
async fn a23_an_open_transaction_ends_its_connection() {
    let pool = connect(TestDatabase::new().await.main, 1);
    let process = "select pg_backend_pid()";
    let mut connection = pool.acquire().await.unwrap();
    let before: i32 = sqlx::query_scalar(process).fetch_one(&mut *connection).await.unwrap();
    connection.execute("begin").await.unwrap();
    drop(connection);
    let after: i32 = sqlx::query_scalar(process).fetch_one(&pool).await.unwrap();
    assert_ne!(after, before);
    let store = Store::new(pool.clone(), Vec::new());
    store.append(vec![event(Uuid::from_u128(1), 1)]).await.unwrap();
    let kept: i32 = sqlx::query_scalar(process).fetch_one(&pool).await.unwrap();
    assert_eq!(kept, after, "a connection in order is used again");
}

/// E26
#[tokio::test]
async fn an_unknown_event_stops_the_tail_loudly() {
    let store = store().await;
    store.append(vec![event(Uuid::from_u128(1), 1)]).await.unwrap();
    sqlx::query(
        "insert into events (aggregate_type, aggregate_id, sequence, event_type, event_version,
                             payload, metadata, firm_id, recorded_at, digest)
         select 'Firm', aggregate_id, 2, 'FirmSold', '1.0', '{\"FirmSold\": {}}', metadata, firm_id,
                recorded_at, digest from events",
    )
    .execute(store.pool())
    .await
    .unwrap();
    let mut connection = store.pool().acquire().await.unwrap();
    let read = tail::read(&mut connection, &Upcasters::current(), stretch(0, i64::MAX)).await;
    let Err(TailError::Unreadable { position: 2, why }) = read else {
        panic!("it was read: {read:?}")
    };
    assert!(why.contains("FirmSold"), "{why}");
}

/// A payload of another version that looks like ours by chance may mean something else.
#[tokio::test]
async fn every_reader_refuses_an_unknown_version() {
    let store = store().await;
    let firm_id = Uuid::from_u128(1);
    store.append(vec![event(firm_id, 1)]).await.unwrap();
    let newer = "alter table events disable trigger events_refuse_change;
                 update events set event_version = '9.9'";
    store.pool().execute(newer).await.unwrap();
    let mut connection = store.pool().acquire().await.unwrap();
    let read = tail::read(&mut connection, &Upcasters::current(), stretch(0, i64::MAX)).await;
    let Err(TailError::Unreadable { position: 1, why }) = read else {
        panic!("it was read: {read:?}")
    };
    assert!(why.contains("unknown version `9.9`"), "{why}");

    let NewEvent { aggregate_id, context, .. } = event(firm_id, 1);
    let reveal = FirmCommand::RevealSecret;
    let refused = store.execute::<Firm>(&aggregate_id, reveal, &context).await.unwrap_err();
    assert!(refused.to_string().contains("unknown version `9.9`"), "{refused}");
}

#[tokio::test]
async fn one_list_of_upcasters_serves_the_tail() {
    use cqrs_es::persist::SemanticVersionEventUpcaster;
    let store = store().await;
    store.append(vec![event(Uuid::from_u128(1), 1)]).await.unwrap();
    let upcaster = SemanticVersionEventUpcaster::new(
        "FirmSuspended",
        "2.0",
        Box::new(|_| serde_json::json!({"FirmSuspended": {"time": "2020-01-01T00:00:00.000Z"}})),
    );
    let upcasters = Upcasters::new(vec![Box::new(upcaster)]);
    let mut connection = store.pool().acquire().await.unwrap();
    let read = tail::read(&mut connection, &upcasters, stretch(0, i64::MAX)).await.unwrap();
    let time = "2020-01-01T00:00:00.000Z".parse().unwrap();
    assert_eq!(read[0].event, Event::from(FirmEvent::FirmSuspended { time }));
}

/// Shapes of builds before ruling 44, as they are stored.
#[tokio::test]
async fn version_1_events_get_their_newest_shapes() {
    let store = store().await;
    store.append(vec![event(Uuid::from_u128(1), 1)]).await.unwrap();
    let order = r#"{"extra_headers":0,"form_id":"00000000-0000-0000-0000-000000000003","method":"POST",
        "response_id":"00000000-0000-0000-0000-000000000004",
        "step":{"run_id":"00000000-0000-0000-0000-000000000001",
                "step_id":"00000000-0000-0000-0000-000000000002"},
        "test":false,"trigger":"form_submitted","url":"https://hooks.example.com/in?a=b"}"#;
    let created = r#"{"form_id":null,"key_id":"00000000-0000-0000-0000-000000000009",
        "target_url":"https://hooks.example.com/in","trigger":"form_submitted"}"#;
    for (stream, sequence, name, content) in [
        ("Delivery", 1, "StepQueued", order.to_owned()),
        ("Delivery", 2, "StepRetried", format!(r#"{{"body":null,"order":{order},"tries":5}}"#)),
        ("Subscription", 1, "SubscriptionCreated", created.to_owned()),
    ] {
        sqlx::query(
            "insert into events (aggregate_type, aggregate_id, sequence, event_type, event_version,
                                 payload, metadata, firm_id, recorded_at, digest)
             select $1, aggregate_id, $2, $3, '1.0', $4::json, metadata, firm_id, recorded_at, digest
               from events where aggregate_type = 'Firm'",
        )
        .bind(stream)
        .bind(sequence)
        .bind(name)
        .bind(format!(r#"{{"{name}":{content}}}"#))
        .execute(store.pool())
        .await
        .unwrap();
    }
    let mut connection = store.pool().acquire().await.unwrap();
    let read = tail::read(&mut connection, &Upcasters::current(), stretch(1, i64::MAX)).await;
    let read: Vec<Event> = read.unwrap().into_iter().map(|recorded| recorded.event).collect();
    let [
        Event::Delivery(DeliveryEvent::StepQueued(queued)),
        Event::Delivery(DeliveryEvent::StepRetried(retried)),
        Event::Subscription(SubscriptionEvent::SubscriptionCreated { target_shown, .. }),
    ] = read.as_slice()
    else {
        panic!("{read:?}")
    };
    let url = "https://hooks.example.com/in?a=b".to_owned();
    assert_eq!(queued.target, StepTarget::InLog { url });
    assert_eq!(&retried.order, queued);
    assert_eq!(*target_shown, TargetShown::WithPath);
}
