//! Copies from before an erasure (case H3): the keys are elsewhere, so erased data stay erased.

use deliverer::upkeep;
use domain::operations::ErasureMark;
use domain::values::Timestamp;
use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use tests::{Copies, Firm, Receiver, Reply, TestDatabase, World};
use uuid::Uuid;
use vault::{DataKeys, KeySubject, answers, bodies, bookings, reports, responses};

use super::{causes, left, report, submit};

/// A response with everything that the vault can hold of one: its document, a report, a booking, a
/// frozen body and a receiver's answer. Its delivery waits for the second attempt.
async fn with_everything(world: &World, firm: &Firm, receiver: &Receiver) -> Uuid {
    let response_id = submit(world, firm, "canary@example.com").await;
    let created = json!({
        "report_id": world.id(), "response_id": response_id, "title": "Canary", "status": "draft",
        "summary": "canary", "review_url": "https://forms.test/canary",
    });
    let booked = json!({
        "booking_id": world.id(), "response_id": response_id, "title": "Canary call",
        "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
        "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30, "time_zone": "Europe/Paris",
        "invitee": {"name": "Canary", "email": "canary@example.com"},
    });
    report(world, firm, "report.created", created).await;
    report(world, firm, "booking.made", booked).await;
    receiver.reply([Reply::status(503).body(b"canary answer")]);
    world.deliver().await;
    response_id
}

/// How many documents, reports, bookings, bodies and answers of a response a world can read.
async fn readable(world: &World, firm: &Firm, response_id: Uuid) -> [usize; 5] {
    let subject = KeySubject { firm_id: firm.id, subject_id: response_id };
    let keys: DataKeys = world.service().keyring.find_keys(&[subject]).await.unwrap();
    let mut connection = world.pool().acquire().await.unwrap();
    let ids = async |statement: &str| -> Vec<Uuid> {
        sqlx::query_scalar(statement).bind(response_id).fetch_all(world.pool()).await.unwrap()
    };
    let body_ids = ids("select body_id from bodies where response_id = $1").await;
    let delivery_ids = ids("select delivery_id from answers where response_id = $1").await;
    let mut answered = 0;
    for delivery_id in delivery_ids {
        answered += answers::read(&mut connection, &keys, delivery_id).await.unwrap().len();
    }
    [
        responses::read(&mut connection, &keys).await.unwrap().len(),
        reports::read(&mut connection, &keys, &[subject]).await.unwrap().len(),
        bookings::read(&mut connection, &keys, &[subject]).await.unwrap().len(),
        bodies::read(&mut connection, &keys, &body_ids).await.unwrap().len(),
        answered,
    ]
}

/// A world on restored databases, at the time of the first.
async fn restored(world: &World, main: PgConnectOptions, keyring: PgConnectOptions) -> World {
    let now: Timestamp = world.clock.now();
    World::at(TestDatabase::from_main(main, keyring), eventstore::Clock::standing_at(now)).await
}

/// A dump from before the erasure is restored beside the keyring of today. Its log knows nothing of
/// the erasure, and still the response cannot be read or sent.
#[tokio::test]
async fn h3_an_old_dump_reveals_nothing_erased() {
    let Some(copies) = Copies::of_this_machine() else { return };
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    let kept = with_everything(&world, &firm, &receiver).await;
    let erased = with_everything(&world, &firm, &receiver).await;
    assert_eq!(readable(&world, &firm, erased).await, [1; 5]);
    let dump = copies.dump_without("canary", &world.database.main).await;
    report(&world, &firm, "response.erased", json!({"response_id": erased})).await;
    world.erase().await;
    let main = copies.restore(&dump, &world.database.main).await;
    let restored = restored(&world, main, world.database.keyring.clone()).await;
    assert_eq!(
        upkeep::redo_erasures(restored.deliverer()).await.unwrap(),
        0,
        "its log knows of none"
    );
    assert_eq!(left(&restored, erased).await, (6, 0), "it is there");
    assert_eq!(readable(&restored, &firm, erased).await, [0; 5], "nobody can read it");
    assert_eq!(readable(&restored, &firm, kept).await, [1; 5], "all else can be read");
    let before = receiver.received().len();
    restored.pass(super::DAY);
    restored.deliver().await;
    let sent = receiver.received().split_off(before);
    assert!(!sent.is_empty() && sent.iter().all(|one| one.json()["response"]["id"] == json!(kept)));
}

/// The dump is from between the erasure's report and its execution, and the keyring's backup is
/// older. Everything can be read until the start carries out the log's erasures again. The start
/// does so before `serve` is ready.
#[tokio::test]
async fn h3_an_old_keyring_brings_nothing_back() {
    let Some(copies) = Copies::of_this_machine() else { return };
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    let kept = with_everything(&world, &firm, &receiver).await;
    let erased = with_everything(&world, &firm, &receiver).await;
    let keyring = copies.dump_without("canary", &world.database.keyring).await;
    report(&world, &firm, "response.erased", json!({"response_id": erased})).await;
    let main = copies.dump_without("canary", &world.database.main).await;
    let main = copies.restore(&main, &world.database.main).await;
    let keyring = copies.restore(&keyring, &world.database.keyring).await;
    let restored = restored(&world, main, keyring).await;
    assert_eq!(readable(&restored, &firm, erased).await, [1; 5], "the key is back");
    assert_eq!(upkeep::redo_erasures(restored.deliverer()).await.unwrap(), 1);
    restored.project().await;
    assert_eq!(left(&restored, erased).await, (0, 0));
    assert_eq!(readable(&restored, &firm, kept).await, [1; 5]);
    assert_eq!(causes(&restored).await, ["source_erased"], "its second try is taken back");
    restored.erase().await;
    restored.project().await;
    assert_eq!(causes(&restored).await, ["source_erased"], "once");
}

/// Rows that a restore brought back go at the start, and so do their queued deliveries. The
/// deliveries once stayed queued.
#[tokio::test]
async fn a_start_cancels_an_erased_responses_deliveries() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    let queued = submit(&world, &firm, "a@example.com").await;
    world.order_erasure(&firm, queued).await;
    assert_eq!(upkeep::redo_erasures(world.deliverer()).await.unwrap(), 1);
    world.project().await;
    assert_eq!(causes(&world).await, ["source_erased"]);
    assert_eq!(world.count("lanes where due_at is not null").await, 0, "and its lane sleeps");
    assert_eq!(left(&world, queued).await, (0, 0));
}

/// Each start once deleted the rows and keys of every erasure there ever was, before it was ready.
#[tokio::test]
async fn an_ordinary_start_repeats_no_erasure() {
    let world = World::new().await;
    let firm = world.firm().await;
    let erase = async |response_id: Uuid| {
        report(&world, &firm, "response.erased", json!({"response_id": response_id})).await;
    };
    for _ in 0..3 {
        erase(submit(&world, &firm, "a@example.com").await).await;
    }
    world.erase().await;
    assert_eq!(upkeep::redo_erasures(world.deliverer()).await.unwrap(), 0);
    erase(submit(&world, &firm, "a@example.com").await).await;
    let redo = async || upkeep::redo_erasures(world.deliverer()).await.unwrap();
    assert_eq!(redo().await, 1, "the worker had not come to it");
    world.erase().await;
    assert_eq!(redo().await, 0);
    // A build from before the mark has carried them out, and marked none.
    world.change_keyring("delete from erased_up_to").await;
    assert_eq!((redo().await, redo().await), (4, 0), "once");
}

/// The main database of today has carried the erasure out, and the older keyring knows nothing of
/// the erasure. The keyring once kept the erased keys.
#[tokio::test]
async fn h3_an_older_keyring_loses_erased_keys() {
    let Some(copies) = Copies::of_this_machine() else { return };
    let world = World::new().await;
    let firm = world.firm().await;
    let mut erased = Vec::new();
    for _ in 0..2 {
        let response_id = submit(&world, &firm, "canary@example.com").await;
        report(&world, &firm, "response.erased", json!({"response_id": response_id})).await;
        erased.push(response_id);
        if erased.len() == 1 {
            world.erase().await;
        }
    }
    let keyring = copies.dump_without("canary", &world.database.keyring).await;
    world.erase().await;
    assert_eq!(left(&world, erased[1]).await, (0, 0));
    let keyring = copies.restore(&keyring, &world.database.keyring).await;
    let restored = restored(&world, world.database.main.clone(), keyring).await;
    assert_eq!(left(&restored, erased[1]).await, (0, 1), "its key is back");
    assert_eq!(upkeep::redo_erasures(restored.deliverer()).await.unwrap(), 1, "and not the first");
    assert_eq!(left(&restored, erased[1]).await, (0, 0));
    assert_eq!(upkeep::redo_erasures(restored.deliverer()).await.unwrap(), 0);
}

/// The keyring's mark names an erasure that the restored log does not have. Another one is at its
/// position by now.
#[tokio::test]
async fn h3_a_strange_mark_repeats_the_erasures() {
    let Some(copies) = Copies::of_this_machine() else { return };
    let world = World::new().await;
    let firm = world.firm().await;
    let first = submit(&world, &firm, "canary@example.com").await;
    let second = submit(&world, &firm, "canary@example.com").await;
    report(&world, &firm, "response.erased", json!({"response_id": first})).await;
    let main = copies.dump_without("canary", &world.database.main).await;
    report(&world, &firm, "response.erased", json!({"response_id": second})).await;
    world.erase().await;
    let main = copies.restore(&main, &world.database.main).await;
    let restored = restored(&world, main, world.database.keyring.clone()).await;
    assert_eq!((left(&restored, first).await.0, left(&restored, second).await.0), (2, 2));
    let progress = upkeep::erasure_progress(restored.pool(), &restored.service().keyring).await;
    assert_eq!(progress.unwrap().mark, ErasureMark::Strange);
    assert_eq!(upkeep::redo_erasures(restored.deliverer()).await.unwrap(), 1);
    assert_eq!((left(&restored, first).await.0, left(&restored, second).await.0), (0, 2));
    restored.erase().await;
    assert_eq!(upkeep::redo_erasures(restored.deliverer()).await.unwrap(), 0);
    report(&restored, &firm, "response.erased", json!({"response_id": second})).await;
    restored.erase().await;
    assert_eq!(left(&restored, second).await, (0, 0));
    assert_eq!(upkeep::redo_erasures(restored.deliverer()).await.unwrap(), 0);
}
