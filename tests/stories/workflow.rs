//! Webhooks of workflow steps (contract, section Events; ruling 33).

use std::time::Duration;

use api::commands::secrets;
use api::commands::tokens::HolderRole;
use deliverer::send;
use domain::delivery::signature::{SignedRequest, verify_request};
use domain::event::Actor;
use serde_json::{Value, json};
use tests::{Answer, Firm, Receiver, Reply, World, activity, later};
use uuid::Uuid;

/// A step of a run, and its path at the internal door.
struct Step {
    run_id: Uuid,
    step_id: Uuid,
}

impl Step {
    fn new(world: &World) -> Self {
        Self { run_id: world.id(), step_id: world.id() }
    }

    fn order(&self, firm: &Firm, url: &str, response_id: Uuid) -> Value {
        json!({
            "firm_id": firm.id, "run_id": self.run_id, "step_id": self.step_id, "method": "POST",
            "url": url, "headers": {}, "trigger": "form_submitted", "response_id": response_id,
        })
    }

    async fn show(&self, world: &World) -> Answer {
        call(world, "GET", &format!("/{}/{}", self.run_id, self.step_id), Value::Null).await
    }

    async fn retry(&self, world: &World) -> Answer {
        call(world, "POST", &format!("/{}/{}/retry", self.run_id, self.step_id), Value::Null).await
    }
}

async fn call(world: &World, method: &str, path: &str, body: Value) -> Answer {
    world.call_internally(world.token(), method, &format!("/workflow-steps{path}"), body).await
}

fn outcomes(shown: &Answer) -> Vec<(u64, &str)> {
    let attempts = shown.body["attempts"].as_array().unwrap().iter();
    attempts
        .map(|one| (one["number"].as_u64().unwrap(), one["outcome"].as_str().unwrap()))
        .collect()
}

/// D14: the request has the method, the ids and the headers of the step.
#[tokio::test]
async fn d14_a_step_is_sent_signed() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    for (method, test) in [("POST", false), ("PUT", true), ("PATCH", false)] {
        let step = Step::new(&world);
        let mut order = step.order(&firm, &receiver.url("/step?a=b"), response_id);
        order["method"] = json!(method);
        order["test"] = json!(test);
        order["headers"] = json!({"Authorization": "Bearer canary-token", "X-Team": "tax"});
        let accepted = world.order_step(&order).await.ok();
        assert_eq!(accepted.body["state"], "pending");
        assert_eq!(world.deliver().await, 1);

        let sent = receiver.received().pop().unwrap();
        assert_eq!((sent.method.as_str(), sent.uri.to_string().as_str()), (method, "/step?a=b"));
        assert_eq!(sent.header("x-service-event"), "form_submitted");
        assert_eq!(sent.header("x-service-delivery"), accepted.body["delivery_id"]);
        assert_eq!(sent.header("idempotency-key"), format!("{}:{}", step.run_id, step.step_id));
        assert_eq!(sent.header("authorization"), "Bearer canary-token");
        assert_eq!(sent.header("x-team"), "tax");
        assert_eq!(sent.headers.get("x-service-test").is_some(), test);
        assert!(sent.headers.get("x-service-hook").is_none());
        assert_eq!(sent.json()["response"]["id"], json!(response_id));
        let secret = secrets::reveal(world.service(), firm.id, Actor::System).await.unwrap().secret;
        let header = sent.header("x-service-signature");
        let signed = SignedRequest { header, body: &sent.body };
        verify_request(signed, secret.as_str(), world.clock.now().get().timestamp()).unwrap();
        let shown = step.show(&world).await;
        assert_eq!((shown.status.as_u16(), &shown.body["state"]), (200, &json!("delivered")));
        assert_eq!(outcomes(&shown), [(1, "delivered")]);
    }
    assert!(world.columns_holding("canary-token").await.is_empty());
}

#[tokio::test]
async fn a_repeated_step_is_sent_once() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let (step, url) = (Step::new(&world), receiver.url("/step"));
    for _ in 0..3 {
        world.order_step(&step.order(&firm, &url, response_id)).await.ok();
        world.deliver().await;
    }
    assert_eq!(receiver.received().len(), 1);
    let other = Step { run_id: step.run_id, step_id: world.id() };
    world.order_step(&other.order(&firm, &url, response_id)).await.ok();
    assert_eq!(world.deliver().await, 1, "another step of the run is another delivery");
}

/// The first answer may have been lost, and the response was erased since. Another firm may not
/// take the step's ids.
#[tokio::test]
async fn an_erased_responses_step_is_accepted_again() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let step = Step::new(&world);
    let order = step.order(&firm, &receiver.url("/step"), response_id);
    world.order_step(&order).await.ok();
    world.deliver().await;
    world.order_erasure(&firm, response_id).await;
    let again = world.order_step(&order).await;
    assert_eq!((again.status.as_u16(), &again.body["state"]), (202, &json!("delivered")));
    let other = world.firm().await;
    let response_id = world.submit(&other).await;
    let stolen = world.order_step(&step.order(&other, &receiver.url("/step"), response_id)).await;
    assert_eq!(stolen.code(), (400, "invalid_request"), "a run is one firm's");
}

/// Ruling 25: a receiver's words are kept without the firm's own secrets.
#[tokio::test]
async fn an_echoed_header_is_kept_masked() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let step = Step::new(&world);
    let mut order = step.order(&firm, &receiver.url("/step"), response_id);
    order["headers"] = json!({"Authorization": "Bearer canary-token"});
    receiver.reply([Reply::status(404).body(b"you said: Bearer canary-token")]);
    let delivery = world.order_step(&order).await.body["delivery_id"].as_str().unwrap().to_owned();
    assert_eq!(world.deliver().await, 1);
    let operator = world.new_token(HolderRole::Operator).await;
    let path = format!("/firms/{}/deliveries/{delivery}?show_answer=a+fault", firm.id);
    let shown = world.get_internally(&operator, &path).await;
    assert_eq!(shown.body["attempts"][0]["answer"], "you said: [masked]");
    assert_eq!(shown.body["run_id"], json!(step.run_id));
}

/// Before the first attempt and after a retry, a second reading of the events once told of no next
/// attempt.
#[tokio::test]
async fn a_step_shows_its_deliverys_state() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let step = Step::new(&world);
    let queued = world.order_step(&step.order(&firm, &receiver.url("/step"), response_id)).await;
    let one = format!("/firms/{}/deliveries/", firm.id);
    let one = one + queued.body["delivery_id"].as_str().unwrap();
    let operator = world.new_token(HolderRole::Operator).await;
    let next_try = async || {
        let step = step.show(&world).await.body;
        let delivery = world.get_internally(&operator, &one).await.body;
        for told in ["state", "cause", "next_try_at"] {
            assert_eq!(step[told], delivery[told], "{told}");
        }
        step["next_try_at"].clone()
    };
    assert_eq!(next_try().await, "2026-11-01T12:00:00.000Z");
    receiver.reply([Reply::status(400)]);
    assert_eq!(world.deliver().await, 1);
    assert_eq!(next_try().await, Value::Null);
    world.pass(Duration::from_secs(5));
    assert_eq!(step.retry(&world).await.status, 202);
    assert_eq!(next_try().await, "2026-11-01T12:00:05.000Z");
}

/// D7: 30 s, 2, 8 and 32 minutes, each varied by a fifth at most. Then the step has failed.
#[tokio::test]
async fn d7_a_retry_gives_five_more_attempts() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let step = Step::new(&world);
    step.show(&world).await.refused(404, "delivery_not_found");
    step.retry(&world).await.refused(404, "delivery_not_found");
    world.order_step(&step.order(&firm, &receiver.url("/step"), response_id)).await;
    receiver.reply((0..9).map(|_| Reply::status(503)));
    for round in 0..2 {
        assert_eq!(world.deliver().await, 1);
        step.retry(&world).await.refused(409, "not_failed");
        for seconds in [30, 120, 480, 1_920] {
            let shown = step.show(&world).await;
            let at = |name: &str| {
                let last = shown.body["attempts"].as_array().unwrap().last().unwrap();
                let text = last.get(name).unwrap_or(&shown.body[name]).as_str().unwrap().to_owned();
                text.parse::<domain::values::Timestamp>().unwrap().get()
            };
            let wait = (at("next_try_at") - at("finished_at")).num_milliseconds();
            assert!((seconds * 800..=seconds * 1_200).contains(&wait), "{seconds}: {wait}");
            world.pass(Duration::from_millis(wait.unsigned_abs()));
            assert_eq!(world.deliver().await, 1);
        }
        let shown = step.show(&world).await;
        if round == 0 {
            assert_eq!(shown.body["state"], "failed");
            assert_eq!(outcomes(&shown).last(), Some(&(5, "failed")));
            assert_eq!(step.retry(&world).await.status, 202);
        } else {
            assert_eq!(shown.body["state"], "delivered");
            assert_eq!(outcomes(&shown).last(), Some(&(10, "delivered")));
        }
    }
    let sent = receiver.received();
    assert_eq!(sent.len(), 10);
    assert!(sent.iter().all(|one| one.body == sent[0].body), "the same bytes after a retry");
    let same = |name: &str| sent.iter().all(|one| one.header(name) == sent[0].header(name));
    assert!(same("x-service-delivery") && same("idempotency-key"));
    step.retry(&world).await.refused(409, "not_failed");
}

/// D9: for a step 410 is as final as any other 4xx, and counts nowhere.
#[tokio::test]
async fn d9_a_410_fails_the_step() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let hook_id = world.subscribe(&firm, &receiver.url("/hook")).await;
    let response_id = world.submit(&firm).await;
    world.deliver().await;
    for _ in 0..3 {
        let step = Step::new(&world);
        receiver.reply([Reply::status(410)]);
        world.order_step(&step.order(&firm, &receiver.url("/hook"), response_id)).await;
        assert_eq!(world.deliver().await, 1);
        let shown = step.show(&world).await;
        assert_eq!(
            (&shown.body["state"], outcomes(&shown)),
            (&json!("failed"), vec![(1, "failed")])
        );
    }
    let hooks = world.get(&firm, "/hooks").await;
    assert_eq!(hooks.body[0]["id"], json!(hook_id), "the subscription lives");
}

#[tokio::test]
async fn an_unsendable_step_is_refused() {
    let world = World::new().await;
    let firm = world.firm().await;
    let response_id = world.submit(&firm).await;
    let step = Step::new(&world);
    let good = step.order(&firm, "https://hooks.example.com/a", response_id);
    let with = |field: &str, value: Value| {
        let mut order = good.clone();
        order[field] = value;
        order
    };
    for (order, expected) in [
        (with("firm_id", json!(world.id())), (404, "firm_not_found")),
        (with("response_id", json!(world.id())), (404, "response_not_found")),
        (with("trigger", json!("nothing")), (400, "unknown_trigger")),
        (with("url", json!("https://10.0.0.1/")), (400, "invalid_target")),
        (with("url", json!(5)), (400, "invalid_request")),
        (with("method", json!("GET")), (400, "invalid_request")),
        (with("method", json!("post")), (400, "invalid_request")),
        (with("run_id", json!("1")), (400, "invalid_request")),
        (with("test", json!("yes")), (400, "invalid_request")),
        (with("headers", json!({"X-A": 1})), (400, "invalid_request")),
        (with("headers", json!({"X-Service-Event": "a"})), (400, "invalid_request")),
        (with("headers", json!({"X-A": "b\r\nHost: c"})), (400, "invalid_request")),
        (with("surprise", json!(1)), (400, "invalid_request")),
    ] {
        let answer = world.order_step(&order).await;
        assert_eq!(answer.code(), expected, "{order}");
    }
    step.show(&world).await.refused(404, "delivery_not_found");
    call(&world, "GET", "/a/b", Value::Null).await.refused(404, "delivery_not_found");
}

/// Ruling 28 for steps.
#[tokio::test]
async fn suspensions_hold_and_closings_cancel_steps() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let report = async |kind: &str, at: u32| {
        world.report_one(later(activity(firm.id, kind, json!({})), at)).await;
    };
    let url = receiver.url("/step");
    let early = Step::new(&world);
    world.order_step(&early.order(&firm, &url, response_id)).await;
    report("firm.suspended", 1).await;
    let late = Step::new(&world);
    let elsewhere = format!("http://127.0.0.2:{}/a", 9_999);
    world.order_step(&late.order(&firm, &elsewhere, response_id)).await.ok();
    assert_eq!(world.deliver().await, 0);
    report("firm.resumed", 2).await;
    assert_eq!(world.deliver().await, 2);
    assert_eq!(early.show(&world).await.body["state"], "delivered");
    assert_eq!(late.show(&world).await.body["state"], "pending", "nobody listens there");
    report("firm.closed", 3).await;
    world.deliver().await;
    let shown = late.show(&world).await;
    let cancelled = (&json!("cancelled"), &json!("firm_closed"));
    assert_eq!((&shown.body["state"], &shown.body["cause"]), cancelled);
    late.retry(&world).await.refused(403, "firm_inactive");
    let after = Step::new(&world);
    let refused = world.order_step(&after.order(&firm, &url, response_id)).await;
    assert_eq!(refused.code(), (403, "firm_inactive"));
    assert_eq!(receiver.received().len(), 1);
}

/// H1: an erased response takes the step's body and headers along.
#[tokio::test]
async fn h1_an_erased_response_cancels_its_steps() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let step = Step::new(&world);
    let mut order = step.order(&firm, &receiver.url("/step"), response_id);
    order["headers"] = json!({"X-Team": "tax"});
    receiver.reply([Reply::status(503)]);
    world.order_step(&order).await;
    assert_eq!(world.deliver().await, 1);
    world.order_erasure(&firm, response_id).await;
    world.erase().await;
    world.pass(Duration::from_secs(3_600));
    assert_eq!(world.deliver().await, 0);
    let shown = step.show(&world).await;
    let cancelled = (&json!("cancelled"), &json!("source_erased"));
    assert_eq!((&shown.body["state"], &shown.body["cause"]), cancelled);
    assert_eq!((world.count("step_headers").await, world.count("bodies").await), (0, 0));
    let again = Step::new(&world);
    let answer = world.order_step(&again.order(&firm, &receiver.url("/step"), response_id)).await;
    assert_eq!(answer.code(), (404, "response_not_found"));
}

/// The bytes of a step are kept as long as any other's. After that the step cannot be retried.
#[tokio::test]
async fn h2_a_purged_step_is_not_retried() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let step = Step::new(&world);
    let mut order = step.order(&firm, &receiver.url("/step"), response_id);
    order["headers"] = json!({"X-Team": "tax"});
    receiver.reply([Reply::status(404)]);
    world.order_step(&order).await;
    assert_eq!(world.deliver().await, 1);
    world.pass(Duration::from_secs(31 * 86_400));
    world.purge().await;
    step.retry(&world).await.refused(409, "body_purged");
    assert_eq!(world.count("step_headers").await, 0);
}

/// The retry failed on the last day of the first failure. History does not know it yet.
#[tokio::test]
async fn h2_a_retried_step_keeps_its_bytes() {
    let world = World::new().await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    let response_id = world.submit(&firm).await;
    let step = Step::new(&world);
    receiver.reply([Reply::status(404), Reply::status(404)]);
    world.order_step(&step.order(&firm, &receiver.url("/step"), response_id)).await.ok();
    assert_eq!(world.deliver().await, 1);
    world.pass(Duration::from_secs(30 * 86_400 - 1));
    step.retry(&world).await.ok();
    assert_eq!(send::deliver_once(world.deliverer()).await.unwrap(), 1);
    for days in [1, 28] {
        world.pass(Duration::from_secs(days * 86_400));
        world.purge().await;
        assert_eq!((world.count("step_headers").await, world.count("bodies").await), (1, 1));
        world.project().await;
    }
    world.pass(Duration::from_secs(2 * 86_400));
    world.purge().await;
    assert_eq!((world.count("step_headers").await, world.count("bodies").await), (0, 0));
}

/// Workflow builders put answers of people into URLs, and the log is for ever (ruling 44). The URL
/// was once in the log and in the queue.
#[tokio::test]
async fn no_table_shows_a_steps_url() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let url = receiver.url("/canary/in?email=canary%40example.com");
    let step = Step::new(&world);
    receiver.reply([Reply::status(503), Reply::status(404)]);
    world.order_step(&step.order(&firm, &url, response_id)).await.ok();
    assert_eq!(world.columns_holding("canary").await, Vec::<String>::new());
    assert_eq!(world.deliver().await, 1);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.deliver().await, 1);
    assert_eq!(step.retry(&world).await.status, 202);
    assert_eq!(world.deliver().await, 1);
    let sent = receiver.received();
    assert_eq!(sent.len(), 3);
    assert!(
        sent.iter().all(|one| one.uri == "/canary/in?email=canary%40example.com"),
        "every attempt goes to the whole URL"
    );
    for path in ["/elsewhere", "/canary/in?email=canary%40example.com"] {
        let order = Step::new(&world).order(&firm, &receiver.url(path), response_id);
        world.order_step(&order).await.ok();
    }
    world.project().await;
    assert_eq!(world.columns_holding("canary").await, Vec::<String>::new());

    let queued = world.events_of_type("StepQueued").await;
    let target = |n: usize| &queued[n].field("target")["in_vault"];
    assert!(queued.iter().all(|event| event.event_version == "2.0"), "{queued:?}");
    assert_eq!(target(0)["origin"], receiver.url(""));
    assert_eq!(target(0)["digest"].as_str().unwrap().len(), 64);
    assert_eq!(target(0), target(2), "equal URLs have equal digests");
    assert_ne!(target(0)["digest"], target(1)["digest"]);
    let retried = world.events_of_type("StepRetried").await;
    assert_eq!(&retried[0].field("order")["target"]["in_vault"], target(0));
    let shown = step.show(&world).await;
    assert_eq!(shown.body["attempts"][0]["hops"][0]["url"], receiver.url("/…"));
    assert!(!shown.text().contains("canary"), "{}", shown.text());
}

/// A URL that was put in the place of another would get the other's body.
#[tokio::test]
async fn a_swapped_step_url_is_never_sent() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    for damage in [
        "update step_headers a set url = b.url from step_headers b
          where a.delivery_id <> b.delivery_id",
        "update step_headers set url = null",
        "delete from step_headers",
    ] {
        let steps = [Step::new(&world), Step::new(&world)];
        for (step, path) in steps.iter().zip(["/one", "/two"]) {
            world.order_step(&step.order(&firm, &receiver.url(path), response_id)).await;
        }
        world.change_database(damage).await;
        assert_eq!(world.deliver().await, 2);
        for step in steps {
            let attempt = step.show(&world).await.body["attempts"][0].clone();
            assert_eq!(attempt["error"], "never_sent", "{damage}");
        }
        world.change_database("delete from outbox; delete from step_headers").await;
    }
    assert!(receiver.received().is_empty());
}

/// A relative redirect of a step leads from its whole URL, and history shows no path.
#[tokio::test]
async fn c19_a_redirect_joins_the_steps_url() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let step = Step::new(&world);
    receiver.reply([Reply::status(307).header("location", "next?canary")]);
    world.order_step(&step.order(&firm, &receiver.url("/canary/in"), response_id)).await;
    assert_eq!(world.deliver().await, 1);
    assert_eq!(receiver.received()[1].uri.to_string(), "/canary/next?canary");
    let shown = step.show(&world).await;
    let urls: Vec<&Value> = shown.body["attempts"][0]["hops"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hop| &hop["url"])
        .collect();
    assert_eq!(urls, [&json!(receiver.url("/…")), &json!(receiver.url(""))]);
}

/// Makes a step's rows as builds before ruling 44 wrote them: the URL is in its event and in its
/// order.
async fn queue_as_before(world: &World, step: &Step, url: &str) {
    world.change_database("alter table events disable trigger user").await;
    let origin = url.split('/').take(3).collect::<Vec<_>>().join("/");
    for statement in [
        "update events set event_version = '1.0',
                payload = (jsonb_set(payload::jsonb #- '{StepQueued,target}', '{StepQueued,url}',
                                     to_jsonb($1::text)))::json
          where event_type = 'StepQueued'
            and payload::jsonb #>> '{StepQueued,step,step_id}' = $2
            and payload::jsonb #>> '{StepQueued,target,in_vault,origin}' = $3",
        "update outbox set step = jsonb_set(step - 'target', '{url}', to_jsonb($1::text))
          where step #>> '{step,step_id}' = $2 and step #>> '{target,in_vault,origin}' = $3",
    ] {
        let written = sqlx::query(statement)
            .bind(url)
            .bind(step.step_id.to_string())
            .bind(&origin)
            .execute(world.pool())
            .await
            .unwrap();
        assert_eq!(written.rows_affected(), 1, "{statement}");
    }
    world.change_database("update step_headers set url = null").await;
}

/// It is also shown and retried.
#[tokio::test]
async fn an_older_builds_step_is_sent() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let (step, url) = (Step::new(&world), receiver.url("/in?a=b"));
    let mut order = step.order(&firm, &url, response_id);
    order["headers"] = json!({"X-Team": "tax"});
    world.order_step(&order).await;
    queue_as_before(&world, &step, &url).await;
    assert_eq!(world.order_step(&order).await.status, 202, "posted again");
    receiver.reply([Reply::status(404)]);
    assert_eq!(world.deliver().await, 1);
    let shown = step.show(&world).await;
    assert_eq!(shown.body["state"], "failed");
    assert_eq!(shown.body["attempts"][0]["hops"][0]["url"], receiver.url("/…"));
    assert_eq!(step.retry(&world).await.status, 202);
    assert_eq!(world.deliver().await, 1);
    world.project().await;
    let sent = receiver.received();
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|one| one.uri == "/in?a=b"));
    assert!(sent.iter().all(|one| one.header("x-team") == "tax"));
    assert_eq!(step.show(&world).await.body["state"], "delivered");
    let host: String = sqlx::query_scalar("select host from deliveries where host is not null")
        .fetch_one(world.pool())
        .await
        .unwrap();
    assert_eq!(host, "127.0.0.1");
}

/// H1: a failed step is retried after the erasure. Without its URL it cannot be sent, and history
/// says why.
#[tokio::test]
async fn h1_an_erased_step_says_its_cause() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let response_id = world.submit(&firm).await;
    let step = Step::new(&world);
    receiver.reply([Reply::status(404)]);
    world.order_step(&step.order(&firm, &receiver.url("/in?canary"), response_id)).await;
    assert_eq!(world.deliver().await, 1);
    world.order_erasure(&firm, response_id).await;
    world.erase().await;
    world.project().await;
    assert_eq!(world.count("step_headers").await, 0, "the URL is gone");
    assert_eq!(step.retry(&world).await.status, 202);
    assert_eq!(world.deliver().await, 0);
    let shown = step.show(&world).await;
    let cancelled = (&json!("cancelled"), &json!("source_erased"));
    assert_eq!((&shown.body["state"], &shown.body["cause"]), cancelled);
    assert_eq!(receiver.received().len(), 1);
}
