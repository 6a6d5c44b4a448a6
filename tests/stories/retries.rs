//! When a delivery is attempted again, and how its answers are kept, from the receiver's words to
//! history: cases D5, D7 to D11, C19 for steps, and E10.

use std::time::Duration;

use api::commands::secrets;
use domain::delivery::ANSWER_KEPT_BYTES;
use domain::event::Actor;
use rstest::rstest;
use serde_json::{Value, json};
use tests::{ATTEMPTS, Firm, FirstClaim, Receiver, Reply, TestDatabase, World};
use uuid::Uuid;

/// The id of the delivery that arrived last.
fn last(receiver: &Receiver) -> Uuid {
    receiver.received().last().unwrap().header("x-service-delivery").parse().unwrap()
}

/// A delivery's state after its only attempt, and the seconds to its next one.
async fn wait(world: &World, delivery_id: Uuid) -> (String, Option<i64>) {
    let wait = format!(
        "select state, extract(epoch from next_try_at - finished_at)::bigint
           from deliveries join {ATTEMPTS} using (delivery_id) where delivery_id = $1"
    );
    sqlx::query_as(&wait).bind(delivery_id).fetch_one(world.pool()).await.unwrap()
}

/// A number that nobody reads: 65 digits.
const TOO_LONG: &str = "99999999999999999999999999999999999999999999999999999999999999999";

/// Status and `Retry-After` of an answer, then the state and the wait in seconds. It is noon on
/// Sunday, 2026-11-01.
const WAITS: [(u16, &[&str], &str, Option<i64>); 26] = [
    (503, &["5"], "pending", Some(60)),
    (503, &["7200"], "pending", Some(7_200)),
    (408, &["7200"], "pending", Some(7_200)),
    (425, &["7200"], "pending", Some(7_200)),
    (429, &["7200"], "pending", Some(7_200)),
    (500, &["7200"], "pending", Some(7_200)),
    (599, &["7200"], "pending", Some(7_200)),
    (503, &["21600"], "pending", Some(21_600)),
    (503, &["21601"], "pending", Some(21_600)),
    (503, &["1000000000"], "pending", Some(21_600)),
    (503, &["999999999999999999999999999999"], "pending", Some(21_600)),
    (503, &["0"], "pending", Some(60)),
    (503, &["-1"], "pending", Some(60)),
    (503, &["1.5"], "pending", Some(60)),
    (503, &["1e9"], "pending", Some(60)),
    (503, &["soon"], "pending", Some(60)),
    (503, &[""], "pending", Some(60)),
    (503, &["7200", "7200"], "pending", Some(60)),
    (503, &["7200, 7200"], "pending", Some(60)),
    (503, &["Sun, 01 Nov 2026 14:00:00 GMT"], "pending", Some(7_200)),
    (503, &["Sunday, 01-Nov-26 14:00:00 GMT"], "pending", Some(7_200)),
    (503, &["Sun Nov  1 14:00:00 2026"], "pending", Some(7_200)),
    (503, &["Sat, 31 Oct 2026 14:00:00 GMT"], "pending", Some(60)),
    (503, &[TOO_LONG], "pending", Some(60)),
    (200, &["7200"], "delivered", None),
    (404, &["7200"], "failed", None),
];

#[rstest]
#[tokio::test]
async fn d8_retry_after_sets_the_next_attempt(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    for (status, said, state, seconds) in WAITS {
        let reply = Reply::status(status);
        receiver.reply([said.iter().fold(reply, |reply, text| reply.header("retry-after", text))]);
        world.submit(&firm).await;
        assert_eq!(world.deliver().await, 1, "{status} {said:?}");
        let expected = (state.to_owned(), seconds);
        assert_eq!(wait(&world, last(&receiver)).await, expected, "{status} {said:?}");
    }
}

/// An answer with a redirect, and the answer where it leads.
fn gone_elsewhere() -> [Reply; 2] {
    [Reply::status(307).header("location", "/gone"), Reply::status(410)]
}

/// Eight 500s in between reset nothing.
#[rstest]
#[tokio::test]
async fn d9_a_410_behind_a_redirect_counts(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let down = vec![Reply::status(500); 8];
    receiver.reply([gone_elsewhere().to_vec(), down, gone_elsewhere().to_vec()].concat());
    let mut states = Vec::new();
    for tries in [1, 8, 1] {
        world.submit(&firm).await;
        for _ in 0..tries {
            assert_eq!(world.deliver().await, 1);
            world.pass(Duration::from_secs(3_600));
        }
        states.push(world.history(last(&receiver)).await.0);
        let hooks = world.get(&firm, "/hooks").await;
        assert_eq!(hooks.body.as_array().unwrap().len(), usize::from(states.len() < 3));
    }
    assert_eq!(states, ["failed"; 3]);
    assert_eq!(receiver.received().len(), 12);
}

/// A receiver's words may reach a terminal, a page or a log.
#[rstest]
#[tokio::test]
async fn d5_any_answer_is_recorded_harmlessly(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let secret = secrets::reveal(world.service(), firm.id, Actor::System).await.unwrap().secret;
    let echo = format!("<b>{}</b> {} {}", firm.key, secret.as_str(), "x".repeat(4_096));
    let said = [b"\0\xff\x1b[31m", echo.as_bytes()].concat();
    receiver.reply([Reply::status(500).header("x-odd", "\t~").body(said.leak())]);
    let response_id = world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
    let id = last(&receiver);
    assert_eq!(world.history(id).await, ("pending".to_owned(), vec!["retry".to_owned()]));
    let subject = vault::KeySubject { firm_id: firm.id, subject_id: response_id };
    let keys = world.service().keyring.find_keys(&[subject]).await.unwrap();
    let mut connection = world.pool().acquire().await.unwrap();
    let kept = vault::answers::read(&mut connection, &keys, id).await.unwrap().remove(&1).unwrap();
    let start = "\u{fffd}\u{fffd}\u{fffd}[31m<b>[masked]</b> [masked] xxx";
    assert!(kept.starts_with(start) && kept.len() == ANSWER_KEPT_BYTES, "{kept}");
}

/// The world is in the present: the clock of the other tests stands.
#[tokio::test]
async fn d11_a_signature_tells_its_second() {
    let world = World::real_time(TestDatabase::new().await).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    let before = world.clock.now().get().timestamp();
    assert_eq!(world.deliver().await, 1);
    let after = world.clock.now().get().timestamp();
    let received = receiver.received();
    let header = received[0].header("x-service-signature");
    let (t, v1) = header.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    assert!((before..=after).contains(&t.parse().unwrap()), "{before} {header} {after}");
    assert!(v1.len() == 64 && v1.bytes().all(|byte| b"0123456789abcdef".contains(&byte)));
}

async fn order_step(world: &World, firm: &Firm, url: &str, response_id: Uuid) {
    let mut order = world.step_order(firm, url, response_id);
    order["headers"] = json!({"Authorization": "Bearer x", "X-Team": "tax"});
    world.order_step(&order).await.ok();
}

/// A redirect to another host loses the extra headers of a step, its idempotency key and its
/// signature.
#[rstest]
#[tokio::test]
async fn c19_d13_another_host_gets_no_headers(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let elsewhere = format!("http://localhost:{}/step", receiver.address().port());
    let elsewhere: &str = elsewhere.leak();
    for (location, is_told) in [("/here", true), (elsewhere, false)] {
        receiver.reply([Reply::status(307).header("location", location)]);
        order_step(&world, &firm, &receiver.url("/step"), response_id).await;
        assert_eq!(world.deliver().await, 1);
        let received = receiver.received();
        let [first, second] = &received[received.len() - 2..] else { panic!("no redirect") };
        for name in ["authorization", "x-team", "idempotency-key", "x-service-signature"] {
            assert!(first.headers.contains_key(name), "{name}");
            assert_eq!(second.headers.contains_key(name), is_told, "{name} at {location}");
        }
        assert_eq!(first.body, second.body);
    }
}

/// It has failed after eight attempts that no receiver saw.
#[tokio::test]
async fn e10_an_unbuildable_delivery_fails_unseen() {
    let world = World::claiming(FirstClaim::FromOutbox).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let damaged = world.submit(&firm).await;
    let damage = format!("update responses set document = '' where response_id = '{damaged}'");
    world.change_database(&damage).await;
    for _ in 0..8 {
        assert_eq!(world.deliver().await, 1);
        world.pass(Duration::from_secs(3_600));
    }
    assert_eq!(world.deliver().await, 0);
    assert_eq!(receiver.received().len(), 0);
    let (state, outcomes) = world.history(world.first_delivery_id().await).await;
    assert_eq!((state.as_str(), outcomes.len()), ("failed", 8));
    assert_eq!(world.count(&format!("{ATTEMPTS} where error = 'never_sent'")).await, 8);
}

/// Steps at most, and twelve parts of the twelve seconds their first wait may lie in.
const STEPS: usize = 240;
const PARTS: usize = 12;

/// All steps fail in one moment, and their next attempts are spread over a fifth of the wait either
/// way. χ² with 11 degrees of freedom is above 50 once in two million runs.
#[rstest]
#[tokio::test]
async fn d7_first_waits_of_steps_are_spread(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    receiver.reply(vec![Reply::status(503); STEPS]);
    for _ in 0..STEPS {
        order_step(&world, &firm, &receiver.url("/step"), response_id).await;
    }
    assert_eq!(world.deliver().await, STEPS);
    let waits = format!(
        "select extract(epoch from next_try_at - finished_at)::float8
           from deliveries join {ATTEMPTS} using (delivery_id)"
    );
    let waits: Vec<f64> = sqlx::query_scalar(&waits).fetch_all(world.pool()).await.unwrap();
    let mut parts = [0_u32; PARTS];
    for wait in waits {
        assert!((24.0..=36.0).contains(&wait), "{wait}");
        parts[(24..36).rposition(|second| wait >= f64::from(second)).unwrap()] += 1;
    }
    let expected = f64::from(u32::try_from(STEPS / PARTS).unwrap());
    let chi_squared: f64 =
        parts.iter().map(|part| (f64::from(*part) - expected).powi(2) / expected).sum();
    assert!(chi_squared < 50.0, "{chi_squared}: {parts:?}");
    let nothing: Value = world.get(&firm, "/hooks").await.body;
    assert_eq!(nothing, json!([]), "no subscription had a part in it");
}
