//! E15: the disk of the log and of the outbox is full. PostgreSQL's refusal (SQLSTATE 53100) is made
//! by triggers; what it refuses is counted, by a sequence that no rollback puts back.

use std::time::Duration;

use deliverer::attempt::ClaimedAttempt;
use deliverer::attempt::FinishedAttempt;
use deliverer::claim::claim;
use deliverer::outgoing::OutgoingExchange;
use deliverer::record::record;
use deliverer::send::deliver;
use deliverer::{Dispatcher, SenderCount};
use domain::answer::AttemptAnswer;
use serde_json::json;
use sqlx::Executor;
use tests::{Receiver, World};
use tokio_util::sync::CancellationToken;

const FULL: &str = "
    create sequence refused;
    create function disk_full() returns trigger language plpgsql as $$ begin
        perform nextval('refused');
        raise exception 'could not extend file: No space left on device'
            using errcode = 'disk_full';
    end $$;
    create trigger disk_full before insert on events
        for each statement execute function disk_full();
    create trigger disk_full before insert or update or delete on outbox
        for each statement execute function disk_full()";

const ROOM_AGAIN: &str = "
    drop trigger disk_full on events;
    drop trigger disk_full on outbox";

async fn refused(world: &World) -> i64 {
    sqlx::query_scalar("select last_value from refused").fetch_one(world.pool()).await.unwrap()
}

/// Tries of all that is queued, as the outbox counts them.
async fn tries(world: &World) -> Vec<i32> {
    let tries = sqlx::query_scalar("select tries from outbox order by tries");
    tries.fetch_all(world.pool()).await.unwrap()
}

fn answered(world: &World, claimed: &ClaimedAttempt) -> FinishedAttempt {
    let exchange = OutgoingExchange {
        answer: AttemptAnswer::Status(200),
        retry_after: None,
        hops: Vec::new(),
        snippet: Vec::new(),
        connected: true,
    };
    FinishedAttempt { claimed: claimed.clone(), exchange, finished_at: world.clock.now() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e15_a_full_disk_refuses_writes_and_sends_nothing_and_all_goes_on_when_there_is_room() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    let under_way = claim(world.deliverer(), &world.limits(1)).await.unwrap();
    world.submit(&firm).await;
    world.submit(&firm).await;
    world.pool().execute(FULL).await.unwrap();

    let hook = json!({"target_url": receiver.url("/more"), "trigger": "form_submitted"});
    let made = world.call(&firm.key, "POST", "/hooks", hook.clone()).await;
    let taken_in = world.report(&[super::submitted(&firm, world.id())]).await;
    for answer in [made, taken_in] {
        assert_eq!(answer.code(), (503, "unavailable"));
        assert_eq!(answer.headers["retry-after"], "1");
    }
    for path in ["/me", "/forms", "/hooks", "/triggers/form_submitted/sample"] {
        assert_eq!(world.get(&firm, path).await.status, 200, "{path}");
    }
    let answers = [answered(&world, &under_way[0])];
    assert!(record(world.deliverer(), &answers).await.unwrap_err().may_pass());

    let (stop, nudge) = (CancellationToken::new(), world.service().store.nudge().clone());
    let (deliverer, until) = (world.deliverer().clone(), stop.clone());
    let (dispatch, inbox) = Dispatcher::new(deliverer, SenderCount::alone(), until);
    let sending = tokio::spawn(async move { deliver(dispatch, inbox, &nudge).await });
    let before = refused(&world).await;
    let looked_at = async { while refused(&world).await < before + 4 {} };
    tokio::time::timeout(Duration::from_secs(30), looked_at).await.unwrap();
    assert_eq!((receiver.received().len(), tries(&world).await), (0, vec![0, 0, 1]));

    world.pool().execute(ROOM_AGAIN).await.unwrap();
    record(world.deliverer(), &answers).await.unwrap();
    let sent = tokio::time::timeout(Duration::from_secs(30), receiver.wait_for(2)).await.unwrap();
    assert_eq!(sent.len(), 2, "the two that were queued");
    assert_eq!(world.call(&firm.key, "POST", "/hooks", hook).await.status, 201);
    stop.cancel();
    sending.await.unwrap();
    world.project().await;
    let states: Vec<(String, i64)> =
        sqlx::query_as("select state, count(*) from deliveries group by state")
            .fetch_all(world.pool())
            .await
            .unwrap();
    assert_eq!(states, [("delivered".to_owned(), 3)]);
}
