//! The public door: its keys, the order of its refusals, and the shapes of its answers.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use domain::subscription::Trigger;
use serde_json::{Value, json};
use tests::{Answer, Firm, TestDatabase, World, activity, later, make_request};
use uuid::Uuid;

const TARGET: &str = "https://hooks.example.com/catch";

/// Calls of a key, each with a valid body or id.
fn calls(firm: &Firm, hook_id: Uuid) -> Vec<(&'static str, String, Value)> {
    vec![
        ("GET", "/me".into(), Value::Null),
        ("GET", "/triggers".into(), Value::Null),
        ("GET", "/forms".into(), Value::Null),
        ("GET", format!("/forms/{}", firm.form), Value::Null),
        ("GET", "/hooks".into(), Value::Null),
        ("POST", "/hooks".into(), hook()),
        ("DELETE", format!("/hooks/{hook_id}"), Value::Null),
    ]
}

fn hook() -> Value {
    json!({"target_url": TARGET, "trigger": "form_submitted"})
}

/// A request to the public door, with these header lines and no others.
async fn send(world: &World, call: (&str, &str), headers: &[(&str, &str)], body: Body) -> Answer {
    let (method, path) = call;
    world.public(make_request(method, &format!("/api/v1{path}"), headers, body)).await
}

async fn report(world: &World, event: Value) {
    let answer = world.report(&[event]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.body),
        (202, json!({"accepted": 1, "duplicates": 0, "stale": 0}))
    );
}

fn form(form_id: Uuid, created_at: &str, status: &str) -> Value {
    json!({
        "form_id": form_id, "title": "Intake", "slug": "intake", "url": "https://forms.test/f/intake",
        "status": status, "hidden_fields": [], "created_at": created_at,
    })
}

fn ids(list: &Answer) -> Vec<Uuid> {
    let items = list.body.as_array().unwrap();
    let id = |item: &Value| item["id"].as_str().unwrap().parse().unwrap();
    items.iter().map(id).collect()
}

#[tokio::test]
async fn me_is_the_firm_and_the_key() {
    let world = World::new().await;
    let firm = world.firm().await;
    let me = world.get(&firm, "/me").await;
    assert_eq!(
        (me.status.as_u16(), me.text()),
        (
            200,
            &*format!(
                r#"{{"firm":{{"id":"{}","name":"Harrow Lane"}},"key":{{"id":"{}","name":"Zapier","prefix":"{}"}}}}"#,
                firm.id,
                firm.key_id,
                &firm.key[..12]
            )
        )
    );
}

#[tokio::test]
async fn triggers_follow_the_plan_and_subscriptions_stay() {
    let world = World::new().await;
    let firm = world.firm().await;
    let hot = json!({"target_url": TARGET, "trigger": "lead_hot"});
    let create = || world.create_hook(&firm, hot.clone());
    assert_eq!(create().await.status, 201);

    let full = world.get(&firm, "/triggers").await;
    let key = |offer: &Value| offer["key"].as_str().unwrap().to_owned();
    let keys = |list: &Answer| list.body.as_array().unwrap().iter().map(key).collect::<Vec<_>>();
    assert_eq!(keys(&full), Trigger::ALL.map(Trigger::key));
    let first = concat!(
        r#"[{"key":"form_submitted","label":"Form is submitted","hint":"someone finishes the form","#,
        r#""sample_url":"https://forms.test/api/v1/triggers/form_submitted/sample"},"#,
    );
    assert!(full.text().starts_with(first), "{}", full.text());

    let smaller = json!({"plan": {"leads_in_full": false}});
    report(&world, later(activity(firm.id, "firm.changed", smaller), 1)).await;
    let fewer = world.get(&firm, "/triggers").await;
    assert_eq!(keys(&fewer), Trigger::ALL[..9].iter().map(|t| t.key()).collect::<Vec<_>>());
    create().await.refused(400, "unknown_trigger");
    assert_eq!(world.get(&firm, "/hooks").await.body[0]["trigger"], "lead_hot");
}

#[tokio::test]
async fn forms_are_listed_newest_first() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (draft, oldest) = (world.id(), world.id());
    let created = |id, at, status| activity(firm.id, "form.created", form(id, at, status));
    report(&world, created(draft, "2026-10-31T23:59:59.999Z", "draft")).await;
    report(&world, created(oldest, "2026-09-30T00:00:00+00:00", "published")).await;

    let list = world.get(&firm, "/forms").await;
    assert_eq!(ids(&list), [draft, firm.form, oldest]);
    let one = world.get(&firm, &format!("/forms/{}", firm.form)).await;
    assert_eq!(
        one.text(),
        format!(
            concat!(
                r#"{{"id":"{}","title":"New client enquiry","status":"published","#,
                r#""created_at":"2026-10-01T09:30:00.000Z","slug":"enquiry","#,
                r#""url":"https://forms.test/f/enquiry","#,
                r#""hidden_fields":[{{"key":"partner","label":"Partner"}}]}}"#,
            ),
            firm.form
        )
    );
    assert_eq!(list.body[1], one.body);
    assert_eq!(list.body[0]["status"], "draft");
    assert_eq!(list.body[2]["created_at"], "2026-09-30T00:00:00.000Z");
}

#[tokio::test]
async fn the_newest_500_forms_are_listed() {
    let world = World::new().await;
    let firm = world.firm().await;
    let newer: Vec<_> = (0..500)
        .map(|n| {
            let at = format!("2026-10-{:02}T00:00:00Z", 2 + n / 25);
            activity(firm.id, "form.created", form(world.id(), &at, "published"))
        })
        .collect();
    assert_eq!(world.report(&newer).await.body["accepted"], 500);
    let listed = ids(&world.get(&firm, "/forms").await);
    assert_eq!(listed.len(), 500);
    assert!(!listed.contains(&firm.form), "the oldest of 501");
    let path = format!("/forms/{}", firm.form);
    assert_eq!(world.get(&firm, &path).await.status, 200);
}

#[tokio::test]
async fn hooks_are_listed_newest_first() {
    let world = World::new().await;
    let firm = world.firm().await;
    let empty = world.get(&firm, "/hooks").await;
    assert_eq!(empty.text(), "[]");
    let bodies = [
        hook(),
        json!({"target_url": TARGET, "event": "report_sent", "form_id": null}),
        json!({"target_url": TARGET, "trigger": "booking_made", "form_id": firm.form}),
    ];
    let mut made = Vec::new();
    for body in bodies {
        let answer = world.create_hook(&firm, body).await;
        assert_eq!(answer.status, 201);
        made.push(answer);
        world.pass(Duration::from_millis(1));
    }
    let listed = world.get(&firm, "/hooks").await;
    let newest_first: Vec<_> = made.iter().rev().map(Answer::text).collect();
    assert_eq!(listed.text(), format!("[{}]", newest_first.join(",")));
    assert_eq!(
        made[2].text(),
        format!(
            concat!(
                r#"{{"id":"{}","trigger":"booking_made","#,
                r#""target_url":"https://hooks.example.com/catch","form_id":"{}","#,
                r#""created_at":"2026-11-01T12:00:00.002Z"}}"#,
            ),
            made[2].body["id"].as_str().unwrap(),
            firm.form
        )
    );
    assert_eq!(made[1].body["form_id"], Value::Null);
}

#[tokio::test]
async fn two_identical_subscriptions_are_two() {
    let world = World::new().await;
    let firm = world.firm().await;
    let one = world.subscribe(&firm, TARGET).await;
    let two = world.subscribe(&firm, TARGET).await;
    let listed: BTreeSet<_> = ids(&world.get(&firm, "/hooks").await).into_iter().collect();
    assert_eq!(listed, BTreeSet::from([one, two]));
}

/// A25: `POST` and `GET` show one timestamp, at .000 too.
#[tokio::test]
async fn a25_timestamps_have_three_digits() {
    let world = World::new().await;
    let firm = world.firm().await;
    let steps = [
        (Duration::ZERO, "2026-11-01T12:00:00.000Z"),
        (Duration::from_micros(999_999), "2026-11-01T12:00:00.999Z"),
        (Duration::from_nanos(999), "2026-11-01T12:00:00.999Z"),
        (Duration::from_nanos(1), "2026-11-01T12:00:01.000Z"),
    ];
    for (step, at) in steps {
        world.pass(step);
        let made = world.create_hook(&firm, hook()).await;
        assert_eq!(made.body["created_at"], at);
        let listed = world.get(&firm, "/hooks").await;
        let found =
            listed.body.as_array().unwrap().iter().find(|hook| hook["id"] == made.body["id"]);
        assert_eq!(found, Some(&made.body));
    }
}

/// C2, C11, ruling 14c: no character of the URL is changed, even if a parser would change one.
#[tokio::test]
async fn target_url_comes_back_exactly_as_sent() {
    let world = World::new().await;
    let firm = world.firm().await;
    let long = format!("https://hooks.example.com/{}", "é".repeat(2_000 - 26));
    assert_eq!(long.chars().count(), 2_000);
    for target in [
        "https://HOOKS.Example.com",
        "https://hooks.example.com:443/a/../b?x=1&x=2&amp;#frag",
        "https://hooks.example.com./%0d%0aX-Y:%20z",
        "https://аpple.com/😀",
        "https://93.184.216.34/",
        &long,
    ] {
        let body = json!({"target_url": target, "trigger": "form_submitted"});
        let made = world.create_hook(&firm, body).await;
        assert_eq!((made.status.as_u16(), &made.body["target_url"]), (201, &json!(target)));
        let path = format!("/hooks/{}", made.body["id"].as_str().unwrap());
        assert_eq!(world.get(&firm, "/hooks").await.body[0]["target_url"], target);
        assert_eq!(world.call(&firm.key, "DELETE", &path, Value::Null).await.status, 200);
    }
    let too_long = json!({"target_url": format!("{long}é"), "trigger": "form_submitted"});
    let refused = world.create_hook(&firm, too_long).await;
    assert_eq!(refused.code(), (400, "invalid_target"));
}

/// A18: in a path and in a body.
#[tokio::test]
async fn a18_upper_case_ids_are_the_same() {
    let world = World::new().await;
    let firm = world.firm().await;
    let upper = firm.form.to_string().to_uppercase();
    let shown = world.get(&firm, &format!("/forms/{upper}")).await;
    assert_eq!((shown.status.as_u16(), &shown.body["id"]), (200, &json!(firm.form)));
    let body = json!({"target_url": TARGET, "trigger": "form_submitted", "form_id": upper});
    let made = world.create_hook(&firm, body).await;
    assert_eq!(made.body["form_id"], json!(firm.form));
    let path = format!("/hooks/{}", made.body["id"].as_str().unwrap().to_uppercase());
    let deleted = world.call(&firm.key, "DELETE", &path, Value::Null).await;
    assert_eq!((deleted.status.as_u16(), deleted.text()), (200, r#"{"ok":true}"#));
}

/// A18: the answer is the one to a missing id, byte for byte.
#[tokio::test]
async fn a18_a_malformed_id_is_unknown() {
    let world = World::new().await;
    let firm = world.firm().await;
    let hook_id = world.subscribe(&firm, TARGET).await;
    for (route, id, code) in
        [("forms", firm.form, "form_not_found"), ("hooks", hook_id, "not_found")]
    {
        let method = if route == "forms" { "GET" } else { "DELETE" };
        let call = async |text: String| {
            let path = format!("/{route}/{text}");
            world.call(&firm.key, method, &path, Value::Null).await
        };
        let missing = call(world.id().to_string()).await;
        assert_eq!(missing.code(), (404, code));
        for text in [
            "abc".into(),
            format!("%7B{id}%7D"),
            format!("urn:uuid:{id}"),
            id.simple().to_string(),
            Uuid::nil().to_string(),
            "%00".into(),
            format!("{id}%00"),
            format!("{id}%20"),
            format!("%20{id}"),
            format!("{id}%2F"),
            format!("{}%E2%80%90{}", &id.to_string()[..8], &id.to_string()[9..]),
            "%ff".into(),
            "%".into(),
            "a".repeat(10_000),
        ] {
            let answer = call(text.clone()).await;
            assert_eq!(answer.bytes, missing.bytes, "{text}");
            assert_eq!(answer.status, 404, "{text}");
        }
    }
    assert_eq!(ids(&world.get(&firm, "/hooks").await), [hook_id]);
}

/// A20: without a key the route gets 401.
#[tokio::test]
async fn a20_an_unknown_route_gets_404() {
    let world = World::new().await;
    let firm = world.firm().await;
    let form = firm.form;
    for path in [
        "".into(),
        "/".into(),
        "/nothing".into(),
        "/me/".into(),
        "/ME".into(),
        "/forms/".into(),
        "/hooks/".into(),
        "//hooks".into(),
        "/forms//".into(),
        "/forms/../hooks".into(),
        "/forms/%2e%2e/hooks".into(),
        "/me%2f".into(),
        "/../../internal/v1/activity".into(),
        "/../v1/me".into(),
        format!("/forms/{form}/"),
        format!("/forms//{form}"),
        format!("/forms/{form}/hooks"),
    ] {
        let with = world.get(&firm, &path).await;
        assert_eq!(with.code(), (404, "not_found"), "{path}");
        let without = send(&world, ("GET", &path), &[], Body::empty()).await;
        assert_eq!(without.code(), (401, "unauthorized"), "{path}");
    }
}

/// A20: `Allow` names the right methods, and no header overrides a method.
#[tokio::test]
async fn a20_a_wrong_method_gets_405() {
    let world = World::new().await;
    let firm = world.firm().await;
    let hook_id = world.subscribe(&firm, TARGET).await;
    let (one_form, one_hook) = (format!("/forms/{}", firm.form), format!("/hooks/{hook_id}"));
    let (links, send_invite) = (format!("{one_form}/links"), format!("{one_form}/send"));
    for (path, allowed) in [
        ("/me", "GET,HEAD"),
        ("/triggers", "GET,HEAD"),
        ("/triggers/form_submitted/sample", "GET,HEAD"),
        ("/openapi.json", "GET,HEAD"),
        (&links, "POST"),
        (&send_invite, "POST"),
        ("/forms", "GET,HEAD"),
        (&one_form, "GET,HEAD"),
        ("/hooks", "GET,HEAD,POST"),
        (&one_hook, "DELETE"),
    ] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            if allowed.split(',').any(|allowed| allowed == method) {
                continue;
            }
            let with = world.call(&firm.key, method, path, Value::Null).await;
            assert_eq!(with.code(), (405, "invalid_request"), "{method} {path}");
            assert_eq!(with.headers["allow"], allowed, "{method} {path}");
            let without = send(&world, (method, path), &[], Body::empty()).await;
            assert_eq!(without.code(), (401, "unauthorized"), "{method} {path}");
        }
    }
    let overrides = [
        ("x-api-key", firm.key.as_str()),
        ("x-http-method-override", "DELETE"),
        ("x-http-method", "DELETE"),
        ("x-method-override", "DELETE"),
    ];
    let refused = send(&world, ("POST", &one_hook), &overrides, Body::empty()).await;
    assert_eq!(refused.code(), (405, "invalid_request"));
    assert_eq!(ids(&world.get(&firm, "/hooks").await), [hook_id]);
}

/// A26: the door alone chooses its headers, and every answer is JSON.
#[tokio::test]
async fn a26_no_answer_header_echoes_the_caller() {
    let world = World::new().await;
    let firm = world.firm().await;
    let headers = [
        ("x-api-key", firm.key.as_str()),
        ("origin", "https://canary.example"),
        // A well-formed id comes back (ruling 38).
        ("x-request-id", "<canary>"),
        ("accept", "text/canary"),
        ("traceparent", "00-canary-canary-01"),
    ];
    let body = json!({"target_url": "https://canary.example/canary", "trigger": "form_submitted"});
    let wrong = json!({"target_url": "canary", "trigger": "form_submitted"});
    let calls = [
        (("GET", "/me?canary=canary"), Value::Null, 200),
        (("GET", "/hooks"), Value::Null, 200),
        (("POST", "/hooks"), body, 201),
        (("POST", "/hooks"), wrong, 400),
        (("POST", "/hooks"), json!(["canary"]), 400),
        (("GET", "/canary"), Value::Null, 404),
        (("GET", "/forms/canary%0d%0aset-cookie:canary"), Value::Null, 404),
        (("CANARY", "/me"), Value::Null, 405),
    ];
    let ours = [
        "content-type",
        "content-length",
        "x-content-type-options",
        "cache-control",
        "allow",
        "x-request-id",
        "ratelimit",
        "ratelimit-policy",
    ];
    for (call, body, status) in calls {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let answer = send(&world, call, &headers, body).await;
        assert_eq!(answer.status, status, "{call:?}");
        assert_eq!(answer.headers["content-type"], "application/json");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["cache-control"], "no-store", "nobody on the way keeps it");
        for (name, value) in &answer.headers {
            assert!(ours.contains(&name.as_str()), "{call:?}: {name}");
            assert!(!value.to_str().unwrap().contains("canary"), "{call:?}: {name}");
        }
        if status >= 400 {
            assert!(!answer.text().contains("canary"), "{call:?}: {}", answer.text());
        }
    }
}

/// B1: a key in a query or a cookie is no key.
#[tokio::test]
async fn b1_only_two_headers_carry_a_key() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let (key, bearer) = (firm.key.as_str(), format!("Bearer {}", firm.key));
    let (shouted, basic) = (format!("BEARER {key}"), format!("Basic {key}"));
    let long = format!("Bearer {key}{}", "A".repeat(10_000));
    let me = async |headers: &[(&str, &str)]| {
        let answer = send(&world, ("GET", "/me"), headers, Body::empty()).await;
        if answer.status == 401 {
            assert_eq!(answer.code().1, "unauthorized");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        } else {
            assert_eq!(answer.body["key"]["id"], json!(firm.key_id));
        }
        answer.status.as_u16()
    };
    assert_eq!(me(&[("authorization", &bearer)]).await, 200);
    assert_eq!(me(&[("authorization", &shouted)]).await, 200);
    assert_eq!(me(&[("x-api-key", key)]).await, 200);
    assert_eq!(me(&[("authorization", &bearer), ("x-api-key", key)]).await, 200);
    for refused in [
        &[][..],
        &[("authorization", "")],
        &[("authorization", key)],
        &[("authorization", &basic)],
        &[("authorization", &long)],
        &[("x-api-key", &bearer)],
        &[("authorization", &bearer), ("x-api-key", &other.key)],
        &[("x-api-key", key), ("x-api-key", key)],
        &[("authorization", &bearer), ("authorization", &bearer)],
        &[("cookie", key)],
    ] {
        assert_eq!(me(refused).await, 401, "{refused:?}");
    }
    let query = format!("/me?api_key={key}&key={key}&access_token={key}");
    let answer = send(&world, ("GET", &query), &[], Body::empty()).await;
    assert_eq!(answer.code(), (401, "unauthorized"));
}

/// B2: one character more, less or otherwise.
#[tokio::test]
async fn b2_an_almost_right_key_is_wrong() {
    let world = World::new().await;
    let firm = world.firm().await;
    let key = &firm.key;
    let last = if key.ends_with('A') { 'E' } else { 'A' };
    for wrong in [
        key[..46].to_owned(),
        format!("{key}A"),
        format!("{}+", &key[..46]),
        format!("{}{last}", &key[..46]),
        key.to_uppercase(),
        format!("FFK_{}", &key[4..]),
        format!("fft_{}", &key[4..]),
        key[4..].to_owned(),
    ] {
        let answer = world.call(&wrong, "GET", "/me", Value::Null).await;
        assert_eq!(answer.code(), (401, "unauthorized"));
    }
}

/// B3: the very next call is refused, on another server too.
#[tokio::test]
async fn b3_every_server_refuses_a_revoked_key() {
    let world = World::new().await;
    let firm = world.firm().await;
    let database =
        TestDatabase::from_main(world.database.main.clone(), world.database.keyring.clone());
    let other_server = World::at(database, world.clock.clone()).await;
    let hook_id = world.subscribe(&firm, TARGET).await;
    for (method, path, body) in calls(&firm, hook_id) {
        let answer = other_server.call(&firm.key, method, &path, body).await;
        assert!(answer.status.is_success(), "{method} {path}");
    }
    world.revoke_key(&firm, firm.key_id).await;
    for server in [&world, &other_server] {
        for (method, path, body) in calls(&firm, hook_id) {
            let answer = server.call(&firm.key, method, &path, body).await;
            assert_eq!(answer.code(), (401, "unauthorized"), "{method} {path}");
        }
    }
}

/// B5: suspended and closed firms are inactive. A revoked key of such a firm gets 401.
#[tokio::test]
async fn b5_an_inactive_firm_gets_403() {
    let world = World::new().await;
    let firm = world.firm().await;
    let revoked = world.new_key(&firm, "old").await;
    world.revoke_key(&firm, revoked.id).await;
    let hook_id = world.subscribe(&firm, TARGET).await;
    let refused = async |why: &str| {
        for (method, path, body) in calls(&firm, hook_id) {
            let answer = world.call(&firm.key, method, &path, body.clone()).await;
            assert_eq!(answer.code(), (403, "firm_inactive"), "{why}: {method} {path}");
            let answer = world.call(revoked.key.as_str(), method, &path, body).await;
            assert_eq!(answer.code(), (401, "unauthorized"), "{why}: {method} {path}");
        }
    };
    let state = |kind, second| report(&world, later(activity(firm.id, kind, json!({})), second));
    state("firm.suspended", 1).await;
    refused("suspended").await;
    state("firm.resumed", 2).await;
    assert_eq!(ids(&world.get(&firm, "/hooks").await), [hook_id]);
    state("firm.closed", 3).await;
    refused("closed").await;
}

/// B6, Authentication 4: bytes and headers are the ones for a missing form.
#[tokio::test]
async fn b6_another_firms_form_looks_missing() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let show = async |id: Uuid| world.get(&firm, &format!("/forms/{id}")).await;
    let (theirs, missing) = (show(other.form).await, show(world.id()).await);
    assert_eq!(theirs.code(), (404, "form_not_found"));
    assert_eq!(theirs.lasting_headers(), missing.lasting_headers());
    assert_eq!(theirs.bytes, missing.bytes);
}

/// B7: another key of the firm neither sees nor deletes the hook.
#[tokio::test]
async fn b7_a_hook_needs_its_own_key() {
    let world = World::new().await;
    let (firm, foreign) = (world.firm().await, world.firm().await);
    let second = world.new_key(&firm, "second").await;
    let hook_id = world.subscribe(&firm, TARGET).await;
    let path = format!("/hooks/{hook_id}");
    let delete = async |key: &str, path: &str| world.call(key, "DELETE", path, Value::Null).await;
    let missing = delete(&firm.key, &format!("/hooks/{}", world.id())).await;
    assert_eq!(missing.code(), (404, "not_found"));
    for other in [second.key.as_str(), &foreign.key] {
        assert_eq!(world.call(other, "GET", "/hooks", Value::Null).await.text(), "[]");
        assert_eq!(delete(other, &path).await.bytes, missing.bytes);
    }
    assert_eq!(delete(&firm.key, &path).await.text(), r#"{"ok":true}"#);
    assert_eq!(delete(&firm.key, &path).await.bytes, missing.bytes);
}

/// B8: the refusal is the one for a missing form.
#[tokio::test]
async fn b8_another_firms_form_takes_no_subscription() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let create = async |form_id: Uuid| {
        let body = json!({"target_url": TARGET, "trigger": "form_submitted", "form_id": form_id});
        world.create_hook(&firm, body).await
    };
    let (theirs, missing) = (create(other.form).await, create(world.id()).await);
    assert_eq!(theirs.code(), (404, "form_not_found"));
    assert_eq!(theirs.bytes, missing.bytes);
    assert_eq!(world.get(&firm, "/hooks").await.text(), "[]");
}

/// Ruling 1: the order is head, key, firm, route, body. A call with two faults gets the first
/// refusal.
#[tokio::test]
async fn refusals_come_in_the_contracts_order() {
    let world = World::new().await;
    let (active, asleep) = (world.firm().await, world.firm().await);
    report(&world, later(activity(asleep.id, "firm.suspended", json!({})), 1)).await;
    let many: Vec<_> = vec![("x-many", "x"); 100];
    let ask = async |key: Option<&str>, call, body: &str| {
        let headers: Vec<_> = key.map(|key| ("x-api-key", key)).into_iter().collect();
        let answer = send(&world, call, &headers, Body::from(body.to_owned())).await;
        (answer.status.as_u16(), answer.code().1.to_owned())
    };
    let is = |status: u16, code: &str| (status, code.to_owned());
    let large = format!(r#"{{"target_url":"{}"}}"#, "a".repeat(64 << 10));
    let (nowhere, wrong_method) = (("POST", "/nowhere"), ("PUT", "/hooks"));

    let mut lines = many.clone();
    lines.push(("x-api-key", "wrong"));
    let head = send(&world, nowhere, &lines, Body::empty()).await;
    assert_eq!(head.code(), (431, "invalid_request"));
    for call in [nowhere, wrong_method, ("POST", "/hooks")] {
        for body in ["[]", &large] {
            for key in [None, Some("wrong")] {
                assert_eq!(ask(key, call, body).await, is(401, "unauthorized"), "{call:?}");
            }
            assert_eq!(ask(Some(&asleep.key), call, body).await, is(403, "firm_inactive"));
        }
    }
    for body in ["[]", &large] {
        assert_eq!(ask(Some(&active.key), nowhere, body).await, is(404, "not_found"));
        assert_eq!(ask(Some(&active.key), wrong_method, body).await, is(405, "invalid_request"));
    }
    let create = ("POST", "/hooks");
    assert_eq!(ask(Some(&active.key), create, "[]").await, is(400, "invalid_request"));
    assert_eq!(ask(Some(&active.key), create, &large).await, is(413, "invalid_request"));
}

/// Ruling 9: `event` is another name of `trigger`.
#[tokio::test]
async fn trigger_and_event_must_agree() {
    let world = World::new().await;
    let firm = world.firm().await;
    let create = async |mut body: Value| {
        body["target_url"] = json!(TARGET);
        let answer = world.create_hook(&firm, body).await;
        (answer.status.as_u16(), answer.code().1.to_owned())
    };
    let (made, refused) = ((201, String::new()), (400, "invalid_request".to_owned()));
    assert_eq!(create(json!({})).await, refused);
    assert_eq!(create(json!({"event": "report_sent"})).await, made);
    assert_eq!(create(json!({"trigger": "report_sent", "event": "report_sent"})).await, made);
    assert_eq!(create(json!({"trigger": "report_sent", "event": "lead_hot"})).await, refused);
    assert_eq!(create(json!({"trigger": "x", "event": "y"})).await, refused);
    assert_eq!(create(json!({"trigger": "report_sent", "event": null})).await, refused);
    let unknown = (400, "unknown_trigger".to_owned());
    assert_eq!(create(json!({"trigger": "x", "event": "x"})).await, unknown);
    assert_eq!(create(json!({"event": "Form_Submitted"})).await, unknown);
}

/// Refusals of `POST /hooks`, in the order of ruling 10.
const FAULTS: [(u16, &str); 5] = [
    (400, "invalid_request"),
    (400, "unknown_trigger"),
    (400, "invalid_target"),
    (404, "form_not_found"),
    (409, "too_many_hooks"),
];

/// A request for a subscription with these faults. The last fault is the firm's.
fn faulty(world: &World, faults: &[usize]) -> Value {
    let has = |fault| faults.contains(&fault);
    let mut body = hook();
    if has(0) {
        body["event"] = json!(5);
    }
    if has(1) {
        body["trigger"] = json!("no_such_trigger");
    }
    if has(2) {
        body["target_url"] = json!("https://10.0.0.1/");
    }
    if has(3) {
        body["form_id"] = json!(world.id());
    }
    body
}

/// Ruling 10, for each pair of faults. The limit of 100 subscriptions is the firm's, over all its
/// keys.
#[tokio::test]
async fn the_first_fault_decides_the_refusal() {
    let world = World::new().await;
    let (roomy, full) = (world.firm().await, world.firm().await);
    let second = world.new_key(&full, "second").await;
    for n in 0..100 {
        let key = if n % 2 == 0 { &full.key } else { second.key.as_str() };
        assert_eq!(world.call(key, "POST", "/hooks", hook()).await.status, 201);
    }
    for (first, refusal) in FAULTS.into_iter().enumerate() {
        for next in first..5 {
            let firm = if next == 4 { &full } else { &roomy };
            let body = faulty(&world, &[first, next]);
            let answer = world.create_hook(firm, body).await;
            assert_eq!(answer.code(), refusal, "{first} and {next}");
        }
    }
    assert_eq!(world.get(&roomy, "/hooks").await.text(), "[]");

    let listed = ids(&world.get(&full, "/hooks").await);
    assert_eq!(listed.len(), 50);
    let other_key = || world.call(second.key.as_str(), "POST", "/hooks", hook());
    other_key().await.refused(409, "too_many_hooks");
    world.remove_hook(&full, listed[0]).await.ok();
    assert_eq!(other_key().await.status, 201);
    other_key().await.refused(409, "too_many_hooks");
    assert_eq!(world.create_hook(&roomy, hook()).await.status, 201);
}

/// Ruling 14: the form is gone, and takes no new subscription.
#[tokio::test]
async fn a_deleted_forms_subscriptions_stay() {
    let world = World::new().await;
    let firm = world.firm().await;
    let of_form = json!({"target_url": TARGET, "trigger": "form_submitted", "form_id": firm.form});
    let made = world.create_hook(&firm, of_form.clone()).await;
    let deleted = activity(firm.id, "form.deleted", json!({"form_id": firm.form}));
    report(&world, later(deleted, 1)).await;
    let shown = world.get(&firm, &format!("/forms/{}", firm.form)).await;
    assert_eq!(shown.code(), (404, "form_not_found"));
    assert_eq!(world.get(&firm, "/forms").await.text(), "[]");
    let again = world.create_hook(&firm, of_form).await;
    assert_eq!(again.code(), (404, "form_not_found"));
    assert_eq!(world.get(&firm, "/hooks").await.body, json!([made.body]));
}
