//! From a submitted form to a signed request at the receiver and to its history.

use std::time::Duration;

use api::commands::secrets;
use domain::delivery::signature::{SignedRequest, verify_request};
use domain::event::Actor;
use rstest::rstest;
use serde_json::{Value, json};
use tests::{Firm, FirstClaim, Received, Receiver, Reply, World, activity};
use uuid::Uuid;

async fn secret(world: &World, firm: &Firm) -> String {
    let revealed = secrets::reveal(world.service(), firm.id, Actor::System).await.unwrap();
    revealed.secret.as_str().to_owned()
}

fn delivery_id(received: &Received) -> Uuid {
    received.header("x-service-delivery").parse().unwrap()
}

#[rstest]
#[tokio::test]
async fn a_submitted_form_reaches_its_subscriber_signed(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let hook_id = world.subscribe(&firm, &receiver.url("/hook?a=b")).await;
    let response_id = world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);

    let received = &receiver.received()[0];
    assert_eq!(received.uri, "/hook?a=b");
    assert_eq!(received.header("content-type"), "application/json");
    assert_eq!(received.header("x-service-event"), "form_submitted");
    assert_eq!(received.header("x-service-hook"), hook_id.to_string());
    assert_eq!(received.header("idempotency-key"), received.header("x-service-delivery"));
    assert_eq!(received.header("accept"), "*/*");
    assert!(received.header("user-agent").starts_with("firmforms/"));
    assert!(received.headers.get("x-service-test").is_none());
    let now = world.clock.now().get().timestamp();
    let request =
        SignedRequest { header: received.header("x-service-signature"), body: &received.body };
    verify_request(request, &secret(&world, &firm).await, now).unwrap();
    assert_eq!(
        received.json(),
        json!({
            "event": "form_submitted",
            "form": {"id": firm.form, "title": "New client enquiry",
                     "url": "https://forms.test/f/enquiry"},
            "response": {"id": response_id, "submitted_at": "2026-11-01T11:59:58.250Z",
                         "device": "mobile", "lang": "fr", "ending": "default"},
            "respondent": {"name": "Zoé Lefèvre", "first_name": "Zoé", "last_name": "Lefèvre",
                           "email": "zoe@example.com", "phone": "", "company": ""},
            "answers": [{"id": "q1", "question": "Pourquoi ?", "type": "long_text",
                         "answer": "Parce que… 🎉 \"oui\""}],
            "fields": {"q1": "Parce que… 🎉 \"oui\""},
            "variables": {"score": 7},
            "hidden": {"utm_source": "news"},
            "report": null,
        })
    );
    let history = world.history(delivery_id(received)).await;
    assert_eq!(history, ("delivered".to_owned(), vec!["delivered".to_owned()]));
}

/// The response is reported three times.
#[rstest]
#[tokio::test]
async fn each_matching_subscription_gets_one_delivery(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/one")).await;
    world.subscribe(&firm, &receiver.url("/two")).await;
    let of_form = |form: Option<Uuid>| {
        json!({"target_url": receiver.url("/form"), "trigger": "form_submitted",
               "form_id": form})
    };
    world.create_hook(&firm, of_form(Some(firm.form))).await;
    let other_trigger = json!({"target_url": receiver.url("/x"), "trigger": "report_sent"});
    world.create_hook(&firm, other_trigger).await;
    let event = activity(
        firm.id,
        "response.submitted",
        json!({"response_id": world.id(), "form_id": firm.form,
               "submitted_at": "2026-11-01T12:00:00Z"}),
    );
    let mut again = event.clone();
    again["id"] = json!(world.id());
    let first = world.report(std::slice::from_ref(&event)).await;
    assert_eq!(first.body, json!({"accepted": 1, "duplicates": 0, "stale": 0}));
    assert_eq!(world.deliver().await, 3);
    let second = world.report(&[event, again]).await;
    assert_eq!(second.body, json!({"accepted": 0, "duplicates": 2, "stale": 0}));
    assert_eq!(world.deliver().await, 0);

    let mut paths: Vec<_> = receiver.received().iter().map(|r| r.uri.path().to_owned()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/form", "/one", "/two"]);
}

/// Ruling 30: occurrences between the creation and the removal count.
#[rstest]
#[tokio::test]
async fn a_subscription_gets_its_lifetimes_occurrences(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.submit(&firm).await;
    let hook_id = world.subscribe(&firm, &receiver.url("/hook")).await;
    let within = world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
    let path = format!("/hooks/{hook_id}");
    assert_eq!(world.call(&firm.key, "DELETE", &path, Value::Null).await.body, json!({"ok": true}));
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 0);
    assert_eq!(receiver.received()[0].json()["response"]["id"], json!(within));
}

/// D7: the attempts follow the retry schedule, with one id and the same bytes.
#[rstest]
#[tokio::test]
async fn d7_a_delivery_fails_after_eight_attempts(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    receiver.reply(vec![Reply::status(503); 8]);
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
    for minutes in [1, 2, 4, 8, 16, 32, 60] {
        world.pass(Duration::from_secs(minutes * 60 - 1));
        assert_eq!(world.deliver().await, 0, "before {minutes} minutes have passed");
        world.pass(Duration::from_secs(1));
        assert_eq!(world.deliver().await, 1, "after {minutes} minutes");
    }
    world.pass(Duration::from_secs(24 * 60 * 60));
    assert_eq!(world.deliver().await, 0);

    let received = receiver.received();
    assert_eq!(received.len(), 8);
    let secret = secret(&world, &firm).await;
    for request in &received {
        assert_eq!(delivery_id(request), delivery_id(&received[0]));
        assert_eq!(request.body, received[0].body);
        let header = request.header("x-service-signature");
        let t = header[2..].split(',').next().unwrap().parse().unwrap();
        verify_request(SignedRequest { header, body: &request.body }, &secret, t).unwrap();
    }
    let times: std::collections::BTreeSet<_> =
        received.iter().map(|request| request.header("x-service-signature")).collect();
    assert_eq!(times.len(), 8, "each try is signed anew");
    let (state, outcomes) = world.history(delivery_id(&received[0])).await;
    assert_eq!(state, "failed");
    assert_eq!(outcomes.join(" "), "retry retry retry retry retry retry retry failed");
}

/// D8
#[rstest]
#[tokio::test]
async fn d8_retry_after_lengthens_the_wait(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    receiver.reply([Reply::status(429).header("retry-after", "7200")]);
    world.submit(&firm).await;
    world.deliver().await;
    world.pass(Duration::from_secs(7_199));
    assert_eq!(world.deliver().await, 0);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.deliver().await, 1);
}

/// D6
#[rstest]
#[tokio::test]
async fn d6_a_final_answer_ends_the_delivery(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    receiver.reply([Reply::status(404).body(b"no such \x00 hook")]);
    let response_id = world.submit(&firm).await;
    world.deliver().await;
    world.pass(Duration::from_secs(24 * 60 * 60));
    assert_eq!(world.deliver().await, 0);
    let id = delivery_id(&receiver.received()[0]);
    assert_eq!(world.history(id).await, ("failed".to_owned(), vec!["failed".to_owned()]));
    let subject = vault::KeySubject { firm_id: firm.id, subject_id: response_id };
    let keys = world.service().keyring.find_keys(&[subject]).await.unwrap();
    let mut connection = world.pool().acquire().await.unwrap();
    let answers = vault::answers::read(&mut connection, &keys, id).await.unwrap();
    let kept = &answers[&1];
    assert_eq!(kept, "no such \u{fffd} hook");
}

/// D9: the 410s come in a row, and the other deliveries are cancelled.
#[rstest]
#[tokio::test]
async fn d9_two_410s_remove_the_subscription(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let hook_id = world.subscribe(&firm, &receiver.url("/hook")).await;
    let gone = || Reply::status(410);
    let kept = [gone(), Reply::status(200), gone(), Reply::status(404), Reply::status(503), gone()];
    receiver.reply(kept);
    for _ in 0..4 {
        world.submit(&firm).await;
        world.deliver().await;
    }
    let hooks = world.get(&firm, "/hooks").await;
    assert_eq!(hooks.body.as_array().unwrap().len(), 1, "410, 200, 410, 404: it lives");
    world.submit(&firm).await;
    world.deliver().await;
    let waiting = delivery_id(&receiver.received()[4]);
    world.submit(&firm).await;
    world.deliver().await;

    let hooks = world.get(&firm, "/hooks").await;
    assert_eq!(hooks.body, json!([]), "410, 404, 410: it is removed");
    assert_eq!(world.history(waiting).await.0, "cancelled");
    let removed = world.events_of_type("SubscriptionRemoved").await.remove(0);
    assert_eq!(removed.aggregate_id, hook_id.to_string());
    assert_eq!(removed.field("reason"), "target_gone");
    let evidence: Vec<Uuid> = removed
        .field("evidence")
        .as_array()
        .unwrap()
        .iter()
        .map(|gone| gone["delivery_id"].as_str().unwrap().parse().unwrap())
        .collect();
    let received = receiver.received();
    assert_eq!(evidence, [delivery_id(&received[2]), delivery_id(&received[5])]);
}

/// D10
#[rstest]
#[tokio::test]
async fn d10_concurrent_410s_make_one_removal(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    receiver.reply([vec![Reply::status(503)], vec![Reply::status(410); 5]].concat());
    world.submit(&firm).await;
    world.deliver().await;
    for _ in 0..5 {
        world.submit(&firm).await;
    }
    world.deliver().await;
    let waiting = delivery_id(&receiver.received()[0]);
    assert_eq!(world.history(waiting).await.0, "cancelled", "what was queued beside them");
    assert_eq!(world.count_events("SubscriptionRemoved").await, 1);
    assert_eq!(world.count_events("TargetGone").await, 2);
}

#[rstest]
#[tokio::test]
async fn a_revoked_key_takes_its_subscriptions_along(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    receiver.reply([Reply::status(503)]);
    world.submit(&firm).await;
    world.deliver().await;
    let id = delivery_id(&receiver.received()[0]);
    world.revoke_key(&firm, firm.key_id).await;
    let me = world.get(&firm, "/me").await;
    assert_eq!((me.status.as_u16(), &me.body["code"]), (401, &json!("unauthorized")));
    world.pass(Duration::from_secs(60));
    assert_eq!(world.deliver().await, 0);
    assert_eq!(world.history(id).await.0, "cancelled");
    assert_eq!(world.delivery_states().await[0].1.as_deref(), Some("key_revoked"));
}

/// B4
#[rstest]
#[tokio::test]
async fn b4_a_leaving_member_loses_the_keys(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let mut left = activity(firm.id, "member.left", json!({"member_id": firm.owner}));
    left["time"] = json!("2026-11-01T12:00:01Z");
    assert_eq!(
        world.report(&[left]).await.body,
        json!({"accepted": 1, "duplicates": 0, "stale": 0})
    );
    assert_eq!(world.get(&firm, "/me").await.status, 401);
    let mut last = 0;
    for name in ["MemberLeft", "KeyRevoked", "SubscriptionRemoved"] {
        let events = world.events_of_type(name).await;
        let [event] = &events[..] else { panic!("{events:?}") };
        assert!(event.position > last, "{name}");
        assert!(last == 0 || event.metadata["causation_id"].is_string(), "{name} has a cause");
        last = event.position;
    }
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 0);
}

/// Ruling 28
#[rstest]
#[tokio::test]
async fn suspensions_hold_and_closings_cancel_deliveries(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let report = async |kind, second| {
        let mut event = activity(firm.id, kind, json!({}));
        event["time"] = json!(format!("2026-11-01T12:00:{second:02}Z"));
        world.report_one(event).await;
    };
    report("firm.suspended", 1).await;
    let me = world.get(&firm, "/me").await;
    assert_eq!((me.status.as_u16(), &me.body["code"]), (403, &json!("firm_inactive")));
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 0, "it waits");
    report("firm.resumed", 2).await;
    assert_eq!(world.deliver().await, 1);
    receiver.reply([Reply::status(503)]);
    world.submit(&firm).await;
    world.deliver().await;
    report("firm.closed", 3).await;
    world.pass(Duration::from_secs(3_600));
    assert_eq!(world.deliver().await, 0);
    let id = delivery_id(&receiver.received()[1]);
    assert_eq!(world.history(id).await.0, "cancelled");
    assert_eq!(world.get(&firm, "/me").await.status, 403);
}

/// E4, E5: the process dies after its claim. The delivery is sent again when its lease ends.
#[tokio::test]
async fn e5_an_unrecorded_attempt_counts() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    let lost = deliverer::claim::claim_due(world.deliverer(), &world.limits(10)).await.unwrap();
    assert_eq!(lost.len(), 1);
    world.pass(Duration::from_secs(119));
    assert_eq!(world.deliver().await, 0);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.deliver().await, 1);
    let received = &receiver.received()[0];
    assert_eq!(&received.body, &lost[0].body.as_ref().unwrap().bytes, "the bytes were frozen");
    let (state, outcomes) = world.history(delivery_id(received)).await;
    assert_eq!(
        (state.as_str(), outcomes.join(" ").as_str()),
        ("delivered", "interrupted delivered")
    );
}

/// Ruling 23: the last attempt is cut off.
#[tokio::test]
async fn an_interrupted_last_attempt_fails_the_delivery() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    for number in 1..=8 {
        let claimed =
            deliverer::claim::claim_due(world.deliverer(), &world.limits(10)).await.unwrap();
        assert_eq!(claimed[0].number, number);
        world.pass(Duration::from_secs(120));
        world.end_leases().await;
    }
    assert!(
        deliverer::claim::claim_due(world.deliverer(), &world.limits(10)).await.unwrap().is_empty()
    );
    world.project().await;
    let id = world.first_delivery_id().await;
    let (state, outcomes) = world.history(id).await;
    assert_eq!((state.as_str(), outcomes.len()), ("failed", 8));
    assert!(outcomes.iter().all(|outcome| outcome == "interrupted"));
}

/// Ruling 29: a delivery in flight at the removal is delivered or cancelled.
#[tokio::test]
async fn a_removal_allows_no_retry() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let hook_id = world.subscribe(&firm, &receiver.url("/hook")).await;
    for _ in 0..3 {
        world.submit(&firm).await;
    }
    let claimed = deliverer::claim::claim_due(world.deliverer(), &world.limits(10)).await.unwrap();
    let [arrives, fails, lost] = <[_; 3]>::try_from(claimed).ok().unwrap();
    world.remove_hook(&firm, hook_id).await.ok();
    let batch = [finished(&world, &arrives, 200), finished(&world, &fails, 503)];
    deliverer::record::record_batch(world.deliverer(), &batch).await.unwrap();
    world.deliver().await;
    assert_eq!(world.history(arrives.delivery_id).await.0, "delivered");
    assert_eq!(world.history(fails.delivery_id).await.0, "cancelled");
    assert_eq!(world.history(lost.delivery_id).await.0, "pending", "its lease has not ended");
    world.pass(Duration::from_secs(120));
    assert_eq!(world.deliver().await, 0);
    assert_eq!(world.history(lost.delivery_id).await.0, "cancelled");
    assert_eq!(world.count("outbox").await, 0);
}

/// A backlog in the lane: its holder set the time before it could see the new work.
#[tokio::test]
async fn a_locked_lane_hides_no_new_work() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let mut holder = world.pool().begin().await.unwrap();
    sqlx::query("select 1 from lanes for update").execute(&mut *holder).await.unwrap();
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 0, "the lane is somebody else's");
    sqlx::query("update lanes set due_at = null").execute(&mut *holder).await.unwrap();
    holder.commit().await.unwrap();
    assert_eq!(world.deliver().await, 1);
}

/// Ruling 34: 32 at a time, counted once each
#[tokio::test]
async fn answers_recorded_together_leave_the_lane_awake() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    for _ in 0..60 {
        world.submit(&firm).await;
    }
    let limits = world.limits(100);
    let mut claimed = deliverer::claim::claim_due(world.deliverer(), &limits).await.unwrap();
    assert_eq!(claimed.len(), 32);
    let batch: Vec<_> = claimed.drain(..30).map(|one| finished(&world, &one, 200)).collect();
    deliverer::record::record_batch(world.deliverer(), &batch).await.unwrap();
    drop(batch);
    let next = deliverer::claim::claim_due(world.deliverer(), &limits).await.unwrap();
    assert_eq!(next.len(), 28, "all that is left: 30 places are free");
    assert!(deliverer::claim::claim_due(world.deliverer(), &limits).await.unwrap().is_empty());
}

fn finished(
    world: &World,
    claimed: &deliverer::attempt::ClaimedAttempt,
    status: u16,
) -> deliverer::attempt::FinishedAttempt {
    deliverer::attempt::FinishedAttempt {
        claimed: claimed.clone(),
        exchange: deliverer::outgoing::OutgoingExchange {
            answer: domain::delivery::AttemptAnswer::Status(status),
            retry_after: None,
            hops: vec![],
            snippet: vec![],
            connected: true,
        },
        finished_at: world.clock.now(),
    }
}

/// B17's neighbour: ids that the product uses in two firms. Each firm gets its own response.
#[rstest]
#[tokio::test]
async fn two_firms_may_share_a_response_id(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let world = World::claiming(first).await;
    let receiver = Receiver::start().await;
    let (one, two) = (world.firm().await, world.firm().await);
    let response_id = world.id();
    let mut reports = Vec::new();
    for (firm, path, name) in [(&one, "/one", "Ann"), (&two, "/two", "Bob")] {
        world.subscribe(firm, &receiver.url(path)).await;
        let data = json!({"response_id": response_id, "form_id": firm.form,
                          "submitted_at": "2026-11-01T12:00:00Z", "respondent": {"name": name}});
        reports.push(activity(firm.id, "response.submitted", data));
    }
    let answer = world.report(&reports).await;
    assert_eq!(answer.body, json!({"accepted": 2, "duplicates": 0, "stale": 0}));
    assert_eq!(world.deliver().await, 2);
    let mut heard: Vec<(String, Value)> = receiver
        .received()
        .iter()
        .map(|one| (one.uri.path().to_owned(), one.json()["respondent"]["name"].clone()))
        .collect();
    heard.sort_by_key(|(path, _)| path.clone());
    assert_eq!(heard, [("/one".into(), json!("Ann")), ("/two".into(), json!("Bob"))]);
}
