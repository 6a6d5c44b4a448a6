//! Commands: each by a form with a reason, which the audit log keeps.

use std::time::Duration;

use api::commands::tokens::HolderRole;
use serde_json::Value;
use tests::{Answer, AuditEntry, Reply};

use super::{Scene, Visitor, post, value_of};

#[tokio::test]
async fn a_pause_and_its_end_keep_reasons() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let fields = [("host", "127.0.0.1"), ("reason", "they asked"), ("back", "/console/receivers")];
    let answer = operator.send("/console/pauses/begin", &fields).await;
    assert_eq!(answer.headers["location"], "/console/receivers?done=paused");
    let page = operator.page("/console/receivers?done=paused").await;
    assert!(page.contains("The pause has begun."), "{page}");
    let pauses = operator.get("/console/pauses.json").await.body;
    let pause = pauses["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(pauses["items"][0]["reason"], "they asked");
    let end = format!("/console/pauses/{pause}/end");
    assert_eq!(operator.send(&end, &[("reason", "it is well again")]).await.status, 303);
    assert_eq!(operator.get("/console/pauses.json").await.body["items"], Value::Array(vec![]));
    scene.world.project().await;
    for (action, reason) in
        [("deliveries_paused", "they asked"), ("deliveries_resumed", "it is well again")]
    {
        let entries = scene.world.audit_entries_of(action).await;
        let [AuditEntry { reason: given, .. }] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!(given.as_deref(), Some(reason));
    }
}

#[tokio::test]
async fn pausing_everything_needs_the_written_word() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    for (fields, status) in [
        (&[("reason", "a drill")][..], 400),
        (&[("all", "yes"), ("reason", "a drill")], 400),
        (&[("all", "ALL")], 400),
        (&[("all", "ALL"), ("reason", "a drill")], 303),
    ] {
        assert_eq!(
            operator.send("/console/pauses/begin", fields).await.status,
            status,
            "{fields:?}"
        );
    }
    let pauses = operator.get("/console/pauses.json").await.body;
    assert_eq!(pauses["items"].as_array().unwrap().len(), 1);
}

/// The commands of the console with valid fields.
async fn commands(scene: &Scene) -> Vec<(String, Vec<(&'static str, String)>)> {
    let delivery = scene.deliveries().await[0];
    let reason = ("reason", "a test".to_owned());
    let request_id = ("request_id", scene.world.id().to_string());
    let prefix = ("prefix", scene.firm.key[..12].to_owned());
    let replay = vec![
        reason.clone(),
        ("force", "true".to_owned()),
        ("number", "1".to_owned()),
        request_id.clone(),
    ];
    vec![
        ("/console/pauses/begin".into(), vec![reason.clone(), ("host", "a.example".into())]),
        (scene.at(&format!("/hooks/{}/test", scene.hook)), vec![reason.clone()]),
        (scene.at(&format!("/hooks/{}/reveal", scene.hook)), vec![reason.clone()]),
        (scene.at(&format!("/deliveries/{delivery}/reissue")), vec![reason.clone(), request_id]),
        (scene.at("/replay"), replay),
        (scene.at(&format!("/keys/{}/revoke", scene.firm.key_id)), vec![reason, prefix]),
    ]
}

fn refs<'a>(fields: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// The fields with the form token of a session.
fn with<'a>(fields: &'a [(&'static str, String)], token: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut fields = refs(fields);
    fields.push(("form_token", token));
    fields
}

#[tokio::test]
async fn an_auditor_gives_no_command() {
    let scene = Scene::new().await;
    let auditor = scene.visitor(HolderRole::Auditor).await;
    for (path, fields) in commands(&scene).await {
        let answer = auditor.send(&path, &refs(&fields)).await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
    }
    let page = auditor.page(&scene.at(&format!("/hooks/{}", scene.hook))).await;
    assert!(!page.contains("Pause this subscription"));
}

/// A form is foreign if it is of another session, site or origin.
#[tokio::test]
async fn no_command_comes_from_a_foreign_form() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let other = scene.visitor(HolderRole::Operator).await.form_token().await;
    let own = operator.form_token().await;
    let cookie = ("cookie", operator.cookie.as_str());
    let before: i64 = events(&scene).await;
    for (path, fields) in commands(&scene).await {
        let refused: [(&str, Answer); 5] = [
            ("no token", post(&scene.world, &path, &[cookie], &refs(&fields)).await),
            (
                "another session's",
                post(&scene.world, &path, &[cookie], &with(&fields, &other)).await,
            ),
            (
                "another site's",
                post(
                    &scene.world,
                    &path,
                    &[cookie, ("sec-fetch-site", "cross-site")],
                    &with(&fields, &own),
                )
                .await,
            ),
            (
                "another origin's",
                post(
                    &scene.world,
                    &path,
                    &[cookie, ("origin", "http://evil.example"), ("host", "a")],
                    &with(&fields, &own),
                )
                .await,
            ),
            ("a query's", operator.get(&format!("{path}?form_token={own}&reason=a")).await),
        ];
        for (why, answer) in refused {
            let is_page = path.ends_with("/replay") && answer.status == 200;
            assert!(
                matches!(answer.status.as_u16(), 403..=405) || is_page,
                "{why} {path}: {}",
                answer.status
            );
        }
        let without = post(&scene.world, &path, &[], &with(&fields, &own)).await;
        assert_eq!(without.status, 303, "{path} without a cookie");
        assert!(without.headers["location"].to_str().unwrap().starts_with("/console/sign-in"));
    }
    assert_eq!(events(&scene).await, before, "nothing was done");
}

/// Number of events except readings.
async fn events(scene: &Scene) -> i64 {
    scene.world.count("events where event_type <> 'AuditRead'").await
}

#[tokio::test]
async fn no_command_is_taken_without_a_reason() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let before = events(&scene).await;
    for (path, fields) in commands(&scene).await {
        for reason in ["", "  ", &"x".repeat(201)] {
            let mut fields = refs(&fields);
            fields.retain(|(name, _)| *name != "reason");
            fields.push(("reason", reason));
            let answer = operator.send(&path, &fields).await;
            assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        }
    }
    assert_eq!(events(&scene).await, before, "nothing was done");
}

#[tokio::test]
async fn withheld_content_shows_once_for_a_reason() {
    let scene = Scene::new().await;
    scene.receiver.reply([Reply::status(500)]);
    let delivery = scene.deliver().await;
    let path = scene.at(&format!("/deliveries/{delivery}/reveal"));
    let auditor = scene.visitor(HolderRole::Auditor).await;
    let body = auditor.send(&path, &[("what", "body"), ("reason", "case 7")]).await;
    assert_eq!(body.status, 200, "{}", body.text());
    assert!(body.text().contains("&quot;form_submitted&quot;"), "{}", body.text());
    assert_eq!(body.headers["cache-control"], "no-store");
    let answers = auditor.send(&path, &[("what", "answer"), ("reason", "case 7")]).await;
    assert!(answers.text().contains("Answer to try 1"), "{}", answers.text());
    let target = auditor.send(&path, &[("what", "target"), ("reason", "case 7")]).await;
    assert_eq!(target.status, 403, "whole targets are for operators");
    let operator = scene.visitor(HolderRole::Operator).await;
    let target = operator.send(&path, &[("what", "target"), ("reason", "case 8")]).await;
    assert!(target.text().contains("secret=abc"), "{}", target.text());
    let hook = scene.at(&format!("/hooks/{}/reveal", scene.hook));
    let target = operator.send(&hook, &[("reason", "case 9")]).await;
    assert!(target.text().contains("secret=abc"), "{}", target.text());
    let entries = scene.entries().await;
    for (action, reason) in [
        ("body_read", "case 7"),
        ("answer_read", "case 7"),
        ("target_revealed", "case 8"),
        ("target_revealed", "case 9"),
    ] {
        let entry = (action.to_owned(), Some(reason.to_owned()));
        assert!(entries.contains(&entry), "{entry:?}: {entries:?}");
    }
    let page = auditor.page(&scene.at(&format!("/deliveries/{delivery}"))).await;
    assert!(page.contains("withheld") && !page.contains("secret=abc"), "{page}");
}

/// The reason stays in the audit log.
#[tokio::test]
async fn revoking_a_key_needs_its_prefix() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let path = scene.at(&format!("/keys/{}/revoke", scene.firm.key_id));
    let wrong = [("reason", "a stolen laptop"), ("prefix", "ffk_AAAAAAAA")];
    assert_eq!(operator.send(&path, &wrong).await.status, 400);
    assert_eq!(scene.world.get(&scene.firm, "/me").await.status, 200);
    let right = [("reason", "a stolen laptop"), ("prefix", &scene.firm.key[..12])];
    assert_eq!(operator.send(&path, &right).await.status, 303);
    assert_eq!(scene.world.get(&scene.firm, "/me").await.status, 401);
    let entries = scene.entries().await;
    assert!(
        entries.contains(&("audit_read".into(), Some("a stolen laptop".into()))),
        "{entries:?}"
    );
    let page = operator.page(&scene.at(&format!("/keys/{}", scene.firm.key_id))).await;
    assert!(page.contains(&scene.hook.to_string()) && page.contains("revoked"), "{page}");
    assert!(!page.contains("Revoke this key"));
    assert_eq!(operator.send(&path, &right).await.status, 404, "it is revoked already");
}

/// The operator confirms the number of the dry run. A second click begins no second replay.
#[tokio::test]
async fn a_replay_begins_after_its_dry_run() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let delivery = scene.deliveries().await[0].to_string();
    let asked = [("delivery_ids", &*delivery), ("force", "true"), ("reason", "they lost it")];
    let path = scene.at("/replay");
    let dry = operator.send(&path, &asked).await;
    assert_eq!(dry.status, 200, "{}", dry.text());
    assert!(dry.text().contains("<strong>1 deliveries</strong>"), "{}", dry.text());
    assert_eq!(operator.get("/console/replays.json").await.body["items"], Value::Array(vec![]));
    let request_id = value_of(dry.text(), "request_id");
    let confirmed = |number: &'static str| {
        let mut fields: Vec<(&str, &str)> = asked.to_vec();
        fields.extend([("number", number), ("request_id", &*request_id)]);
        fields
    };
    for (number, status) in [("2", 409), ("one", 400)] {
        assert_eq!(operator.send(&path, &confirmed(number)).await.status, status, "{number}");
    }
    let right = confirmed("1");
    let begun = operator.send(&path, &right).await;
    let again = operator.send(&path, &right).await;
    assert_eq!(begun.status, 303, "{}", begun.text());
    assert_eq!(begun.headers["location"], again.headers["location"], "a second click begins none");
    let page = begun.headers["location"].to_str().unwrap().to_owned();
    assert!(operator.page(&page).await.contains("The replay has begun."));
    let change = page.replace("?done=ordered", "/change");
    for (word, state) in [("pause", "paused"), ("resume", "running")] {
        assert_eq!(operator.send(&change, &[("change", word)]).await.status, 303);
        let replays = operator.get("/console/replays.json").await.body;
        assert_eq!(replays["items"][0]["state"], state);
    }
}

/// The fields of the form that confirms a dry run, with this number.
fn confirmation<'a>(page: &'a str, number: &'a str) -> Vec<(&'a str, String)> {
    let (_, form) = page.split_once("form class=\"stacked\"").unwrap();
    let named = |field: &'a str| {
        let (name, rest) = field.split_once("\" value=\"")?;
        Some((name, rest.split('"').next()?.to_owned()))
    };
    let hidden = form.split("type=\"hidden\" name=\"").skip(1).filter_map(named);
    let mut fields: Vec<_> = hidden.filter(|(name, _)| *name != "form_token").collect();
    fields.push(("number", number.to_owned()));
    fields
}

/// A delivery that failed, and the dry run that finds it.
async fn dry_run(scene: &Scene, operator: &Visitor<'_>) -> String {
    scene.receiver.reply([Reply::status(404)]);
    scene.deliver().await;
    let dry = operator.send(&scene.at("/replay"), &[("reason", "an outage")]).await;
    assert!(dry.text().contains("<strong>1 deliveries</strong>"), "{}", dry.text());
    dry.text().to_owned()
}

/// A replay once began with deliveries that failed after its dry run.
#[tokio::test]
async fn later_deliveries_stay_out_of_the_replay() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let page = dry_run(&scene, &operator).await;
    scene.receiver.reply([Reply::status(404)]);
    scene.deliver().await;
    let begun = operator.send(&scene.at("/replay"), &refs(&confirmation(&page, "1"))).await;
    assert_eq!(begun.status, 303, "{}", begun.text());
    scene.world.project().await;
    let replays = operator.get("/console/replays.json").await.body;
    assert_eq!(replays["items"][0]["selected"], 1);
}

/// A replay once began although its number had changed since the dry run.
#[tokio::test]
async fn a_changed_number_refuses_the_replay() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let page = dry_run(&scene, &operator).await;
    let other = operator.send(&scene.at("/replay"), &refs(&confirmation(&page, "1"))).await;
    assert_eq!(other.status, 303, "{}", other.text());
    scene.world.pass(Duration::from_secs(1));
    scene.world.replay().await;
    scene.world.deliver().await;
    scene.world.project().await;
    let mut late = confirmation(&page, "1");
    late.retain(|(name, _)| *name != "request_id");
    late.push(("request_id", scene.world.id().to_string()));
    let refused = operator.send(&scene.at("/replay"), &refs(&late)).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("0 deliveries, and not 1"), "{}", refused.text());
    scene.world.project().await;
    let replays = operator.get("/console/replays.json").await.body;
    assert_eq!(replays["items"].as_array().unwrap().len(), 1);
}

/// One click once stopped a replay for good, and the audit log had no reason.
#[tokio::test]
async fn stopping_a_replay_needs_word_and_reason() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let page = dry_run(&scene, &operator).await;
    let begun = operator.send(&scene.at("/replay"), &refs(&confirmation(&page, "1"))).await;
    let page = begun.headers["location"].to_str().unwrap().to_owned();
    let change = page.replace("?done=ordered", "/change");
    let reason = ("reason", "the wrong firm");
    for (fields, status) in [
        (&[("change", "stop")][..], 400),
        (&[("change", "stop"), reason], 400),
        (&[("change", "stop"), reason, ("word", "stop")], 400),
        (&[("change", "stop"), ("word", "STOP")], 400),
        (&[("change", "stop"), reason, ("word", "STOP")], 303),
    ] {
        assert_eq!(operator.send(&change, fields).await.status, status, "{fields:?}");
    }
    let stopped = ("replay_stopped".to_owned(), Some("the wrong firm".to_owned()));
    let entries = scene.entries().await;
    assert!(entries.contains(&stopped), "{entries:?}");
}

/// A plain GET once showed a body, an answer and a target.
#[tokio::test]
async fn a_get_reveals_no_withheld_content() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let delivery = scene.deliveries().await[0];
    for name in ["show_body", "show_answer", "show_target", "show%5Fbody"] {
        for end in ["", ".json", ".ndjson", ".csv"] {
            let paths = [
                format!("/deliveries/{delivery}{end}?{name}=a"),
                format!("/hooks/{}{end}?{name}=a", scene.hook),
            ];
            for path in paths {
                let shown = operator.get(&scene.at(&path)).await;
                assert_eq!(shown.status, 200, "{path}: {}", shown.text());
                for secret in ["secret=abc", "\"form_submitted\\\"", "&quot;form_submitted&quot;"] {
                    assert!(!shown.text().contains(secret), "{path}: {}", shown.text());
                }
            }
        }
    }
    let told = ["body_read", "answer_read", "target_revealed"];
    let entries = scene.entries().await;
    assert!(!entries.iter().any(|(action, _)| told.contains(&&**action)), "{entries:?}");
}

/// A form that was sent twice once made two new deliveries.
#[tokio::test]
async fn a_twice_sent_form_reissues_once() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let delivery = scene.deliveries().await[0];
    let page = operator.page(&scene.at(&format!("/deliveries/{delivery}"))).await;
    let request_id = value_of(&page, "request_id");
    let path = scene.at(&format!("/deliveries/{delivery}/reissue"));
    let fields = [("reason", "their database was lost"), ("request_id", &*request_id)];
    let first = operator.send(&path, &fields).await;
    let second = operator.send(&path, &fields).await;
    assert_eq!(first.status, 303, "{}", first.text());
    assert_eq!(first.headers["location"], second.headers["location"]);
    scene.world.project().await;
    assert_eq!(scene.deliveries().await.len(), 2);
    assert_eq!(operator.send(&path, &fields[..1]).await.status, 400, "a form names its request");
}

/// The reading of such a target was once recorded, and nothing was shown.
#[tokio::test]
async fn a_target_shows_before_the_first_attempt() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    scene.world.submit(&scene.firm).await;
    scene.world.project().await;
    let untried = scene.deliveries().await[0];
    let path = scene.at(&format!("/deliveries/{untried}/reveal"));
    let shown = operator.send(&path, &[("what", "target"), ("reason", "case 10")]).await;
    assert!(shown.text().contains("/hook?secret=abc"), "{}", shown.text());
    assert!(scene.entries().await.contains(&("target_revealed".into(), Some("case 10".into()))));
}

#[tokio::test]
async fn an_operator_reissues_and_sends_a_sample() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let delivery = scene.deliveries().await[0];
    let path = scene.at(&format!("/deliveries/{delivery}/reissue"));
    let request_id = scene.world.id().to_string();
    let fields = [("reason", "their database was lost"), ("request_id", &*request_id)];
    let answer = operator.send(&path, &fields).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    scene.world.project().await;
    let page = answer.headers["location"].to_str().unwrap().to_owned();
    assert!(operator.page(&page).await.contains("This is the new delivery."));
    let path = scene.at(&format!("/hooks/{}/test", scene.hook));
    let sent = operator.send(&path, &[("reason", "a new receiver")]).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert!(sent.text().contains("Test of a subscription"), "{}", sent.text());
}

#[tokio::test]
async fn finding_a_person_shows_no_address() {
    let scene = Scene::new().await;
    let auditor = scene.visitor(HolderRole::Auditor).await;
    let path = scene.at("/person");
    let fields = [("address", "ann@example.com"), ("reason", "she asked")];
    let answer = auditor.send(&path, &fields).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(!answer.text().contains("ann@example.com"), "{}", answer.text());
    assert!(scene.entries().await.contains(&("person_read".into(), Some("she asked".into()))));
    assert_eq!(auditor.send(&path, &[("address", "ann@example.com")]).await.status, 400);
}
