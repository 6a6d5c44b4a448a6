//! `GET /triggers/{trigger}/sample` (contract; ruling 14b).

use std::pin::pin;
use std::time::{Duration, Instant};

use domain::subscription::Trigger;
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{DatabaseProxy, Fault, Firm, Receiver, TestDatabase, World, activity};
use uuid::Uuid;

use tests::process::{call, serve_with};
use tests::scrape::Scrape;

async fn sample(world: &World, firm: &Firm, path: &str) -> Value {
    let answer = world.get(firm, &format!("/triggers/{path}")).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    let items = answer.body.as_array().unwrap();
    assert_eq!(items.len(), 1, "exactly one");
    items[0].clone()
}

async fn submit_at(world: &World, firm: &Firm, form: Uuid, at: &str) -> Uuid {
    let response_id = world.id();
    let data = json!({
        "response_id": response_id, "form_id": form, "submitted_at": at,
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": at}],
    });
    world.report_one(activity(firm.id, "response.submitted", data)).await;
    response_id
}

async fn another_form(world: &World, firm: &Firm) -> Uuid {
    let form_id = world.id();
    let data = json!({
        "form_id": form_id, "title": "Second", "slug": "second", "url": "https://forms.test/f/2",
        "status": "draft", "hidden_fields": [], "created_at": "2026-10-02T09:30:00.000Z",
    });
    world.report_one(activity(firm.id, "form.created", data)).await;
    form_id
}

#[tokio::test]
async fn without_submissions_every_sample_is_made_up() {
    let world = World::new().await;
    let firm = world.firm().await;
    for trigger in Trigger::ALL {
        let made_up = sample(&world, &firm, &format!("{trigger}/sample")).await;
        assert_eq!(made_up["event"], trigger.key());
        assert_eq!(made_up["form"]["title"], "New client enquiry");
        assert!(!made_up["answers"].as_array().unwrap().is_empty());
        assert_eq!(made_up["response"]["submitted_at"], "2026-11-01T12:00:00.000Z");
    }
}

/// A sample of the latest submission has exactly the bytes that its delivery sent.
#[tokio::test]
async fn a_sample_has_the_deliverys_bytes() {
    let world = World::new().await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/")).await;
    world.submit(&firm).await;
    world.deliver().await;
    let sent = receiver.received()[0].body.clone();
    let answer = world.get(&firm, "/triggers/form_submitted/sample").await;
    assert_eq!(answer.bytes, [b"[", &sent[..], b"]"].concat());
}

/// The submission is the latest of the firm, or of the form that the call names.
#[tokio::test]
async fn a_sample_is_of_the_latest_submission() {
    let world = World::new().await;
    let firm = world.firm().await;
    let second = another_form(&world, &firm).await;
    let late = submit_at(&world, &firm, firm.form, "2026-11-01T11:00:00.000Z").await;
    let early = submit_at(&world, &firm, second, "2026-11-01T10:00:00.000Z").await;
    let of = async |query: String| {
        let made = sample(&world, &firm, &format!("form_submitted/sample{query}")).await;
        made["response"]["id"].as_str().unwrap().parse::<Uuid>().unwrap()
    };
    assert_eq!(of(String::new()).await, late);
    assert_eq!(of(format!("?form_id={}&x=1&form=abc", firm.form)).await, late);
    assert_eq!(of(format!("?form_id={}", second.to_string().to_uppercase())).await, early);
    world.pass(Duration::from_secs(1));
    let same_time = submit_at(&world, &firm, second, "2026-11-01T11:00:00.000Z").await;
    assert_eq!(of(String::new()).await, late.max(same_time), "then the id decides");
}

#[tokio::test]
async fn only_own_finished_responses_are_samples() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    world.submit(&other).await;
    let saved = json!({
        "response_id": world.id(), "form_id": firm.form, "saved_at": "2026-11-01T11:00:00Z",
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "half"}],
    });
    world.report(&[activity(firm.id, "response.saved", saved)]).await;
    let made_up = sample(&world, &firm, "partial_submission/sample").await;
    assert_eq!(made_up["respondent"]["name"], "Jane Example");
    let form = format!("form_submitted/sample?form_id={}", firm.form);
    assert_eq!(sample(&world, &firm, &form).await["form"]["id"], json!(firm.form));
}

/// A submission whose key is gone cannot be read: the one before it is shown.
#[tokio::test]
async fn an_erased_submission_is_no_sample() {
    let world = World::new().await;
    let firm = world.firm().await;
    let kept = submit_at(&world, &firm, firm.form, "2026-11-01T10:00:00.000Z").await;
    let erased = submit_at(&world, &firm, firm.form, "2026-11-01T11:00:00.000Z").await;
    let subject = vault::KeySubject { firm_id: firm.id, subject_id: erased };
    world.service().keyring.forget_keys(&[subject]).await.unwrap();
    let shown = sample(&world, &firm, "form_submitted/sample").await;
    assert_eq!(shown["response"]["id"], json!(kept));
}

/// A hanging keyring costs a call for a sample two seconds, and any other call nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_a_hanging_keyring_delays_only_samples() {
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    world.submit(&firm).await;
    let proxy = DatabaseProxy::before(&world.database.keyring).await;
    let through = [("FIRMFORMS_KEYRING_URL", &*proxy.url(&world.database.keyring))];
    let served = serve_with(&world.database, &["--role", "api"], &through).await;
    let sample = || call(served.public, ("GET", "/triggers/form_submitted/sample"), &firm.key, "");
    assert_eq!(sample().await.0, 200);

    proxy.set(Fault::BlackHole);
    // More than there are connections for callers with a key.
    let mut samples = pin!(join_all((0..30).map(|_| sample())));
    let others = async {
        let used = r#"firmforms_pool_connections{pool="keyring",state="used"}"#;
        Scrape::until(served.internal, |told| told.value(used) == 8.0).await;
        let asked = Instant::now();
        let answer = call(served.public, ("GET", "/me"), &firm.key, "").await;
        (answer.0, asked.elapsed())
    };
    let (status, took) = tokio::select! {
        answers = &mut samples => panic!("they waited for the keyring: {answers:?}"),
        answer = others => answer,
    };
    assert!(status == 200 && took < Duration::from_secs(1), "{status} after {took:?}");
    for (status, answer) in samples.await {
        assert!(status == 503 && answer.contains(r#""code":"unavailable""#), "{answer}");
    }
    proxy.set(Fault::None);
    assert_eq!(sample().await.0, 200);
}

/// A19
#[tokio::test]
async fn a19_unknown_triggers_and_forms_get_404() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let get = async |path: String| world.get(&firm, &format!("/triggers/{path}")).await;
    for trigger in ["x", "Form_Submitted", "form_submitted%00", "%ff", "form_submitted%20", "lead"]
    {
        for query in ["", "?form_id=abc"] {
            let answer = get(format!("{trigger}/sample{query}")).await;
            assert_eq!(answer.code(), (404, "unknown_trigger"), "{trigger}{query}");
        }
    }
    let missing = get(format!("form_submitted/sample?form_id={}", world.id())).await;
    assert_eq!(missing.code(), (404, "form_not_found"));
    let form = firm.form;
    for query in [
        "form_id=abc".to_owned(),
        "form_id=".to_owned(),
        "form_id".to_owned(),
        format!("form_id={form}&form_id={form}"),
        format!("form_id={{{form}}}"),
        "form_id=%ff".to_owned(),
        format!("form_id={}", other.form),
    ] {
        let answer = get(format!("form_submitted/sample?{query}")).await;
        assert_eq!(answer.bytes, missing.bytes, "{query}");
    }
}

#[tokio::test]
async fn a_trigger_outside_the_plan_is_unknown() {
    let world = World::new().await;
    let firm = world.firm().await;
    let change = activity(firm.id, "firm.changed", json!({"plan": {"leads_in_full": false}}));
    world.report_one(tests::later(change, 1)).await;
    let answer = world.get(&firm, "/triggers/lead_hot/sample").await;
    assert_eq!(answer.code(), (404, "unknown_trigger"));
    sample(&world, &firm, "form_submitted/sample").await;
}
