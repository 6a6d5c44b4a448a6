//! The internal door: the routes of each role, the shapes of answers, and the secrets it never
//! shows.

use std::time::Duration;

use api::commands::tokens::{self, CreatedToken, HolderRole};
use axum::body::Body;
use futures::stream;
use serde_json::{Value, json};
use sqlx::Executor;
use tests::{
    Answer, Firm, Receiver, Reply, StoredEvent, World, activity, later, make_request, table_names,
};
use uuid::Uuid;

use tests::process::firmforms;

async fn token(world: &World, role: HolderRole) -> CreatedToken {
    tokens::create(world.service(), role.name(), role).await.unwrap()
}

/// Calls the internal door; `null` sends no body.
async fn call(world: &World, token: &str, (method, path): (&str, &str), body: &Value) -> Answer {
    let path = path.strip_prefix("/internal/v1").unwrap();
    world.call_internally(token, method, path, body.clone()).await
}

/// Calls the internal door as the product, at a path of the firm.
async fn of_firm(world: &World, firm: &Firm, call: (&str, &str), body: Value) -> Answer {
    let (method, path) = call;
    let path = format!("/firms/{}{path}", firm.id);
    world.call_internally(world.token(), method, &path, body).await
}

/// Sends these bytes as the product, under these headers.
async fn send(
    world: &World,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Answer {
    world.internal(make_request("POST", path, headers, body)).await
}

const ACTIVITY: &str = "/internal/v1/activity";

#[tokio::test]
async fn each_role_may_call_its_own_routes() {
    let world = World::new().await;
    let firm = world.firm().await;
    let path = |rest: &str| format!("/internal/v1/firms/{}{rest}", firm.id);
    let missing = world.id();
    let (keys, key) = (path("/keys"), path(&format!("/keys/{missing}")));
    let (secret, deliveries) = (path("/webhook-secret"), path("/deliveries"));
    let rotation = path("/webhook-secret/rotate");
    let delivery = path(&format!("/deliveries/{missing}"));
    let product = &[HolderRole::Product, HolderRole::Operator][..];
    let readers = &[HolderRole::Operator, HolderRole::Auditor][..];
    let questions: Vec<String> =
        ["/access", "/deliveries/export"].into_iter().map(path).chain(asked_of_all()).collect();
    let histories = [
        path(&format!("/keys/{missing}/history")),
        path(&format!("/deliveries/{missing}/history")),
        format!("/internal/v1/events/{missing}"),
    ];
    let people = path("/people");
    let lists = [path("/members"), path("/forms"), "/internal/v1/firms".to_owned()];
    let mut routes = vec![
        (("POST", ACTIVITY), product, 400),
        (("GET", &*keys), &HolderRole::ALL[..], 200),
        (("POST", &keys), product, 400),
        (("DELETE", &key), product, 404),
        (("GET", &secret), product, 200),
        (("POST", &rotation), product, 200),
        (("GET", &deliveries), readers, 200),
        (("GET", &delivery), readers, 404),
        (("POST", &people), readers, 400),
    ];
    routes.extend(questions.iter().map(|path| (("GET", &**path), readers, 200)));
    routes.extend(histories.iter().map(|path| (("GET", &**path), readers, 404)));
    routes.extend(lists.iter().map(|path| (("GET", &**path), &HolderRole::ALL[..], 200)));
    let revoked = token(&world, HolderRole::Operator).await;
    tokens::revoke(world.service(), revoked.id).await.unwrap();
    for role in HolderRole::ALL {
        let token = token(&world, role).await;
        for (route, roles, admitted) in routes.iter().copied() {
            let answer = call(&world, &token.token, route, &Value::Null).await;
            if roles.contains(&role) {
                assert_eq!(answer.status, admitted, "{role:?} {route:?} {}", answer.text());
            } else {
                assert_eq!(answer.code(), (403, "forbidden"), "{role:?} {route:?}");
            }
        }
    }
    for (route, ..) in routes.iter().copied() {
        for wrong in [&*revoked.token, &firm.key, "", "fft_", &format!("{}A", revoked.token)] {
            let answer = call(&world, wrong, route, &Value::Null).await;
            assert_eq!(answer.code(), (401, "unauthorized"), "{route:?}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
    }
}

/// Questions about all firms.
fn asked_of_all() -> impl Iterator<Item = String> {
    let questions = ["tokens", "replays", "receivers", "stats", "find?q=Harrow"];
    questions.into_iter().map(|question| format!("/internal/v1/{question}"))
}

/// The door remembers a token from one call to the next. A remembered token alone admits no report,
/// and shows no other refusal than 401.
#[tokio::test]
async fn a_revoked_token_reports_nothing_more() {
    let world = World::new().await;
    let firm = world.firm().await;
    let new = |events: usize| -> Vec<Value> {
        (0..events).map(|_| tests::submitted(&firm, world.id())).collect()
    };
    let known = new(1);
    let bodies: [(&dyn Fn() -> Value, u16); 8] = [
        (&|| json!(new(1)), 202),
        (&|| json!(new(20)), 202),
        (&|| json!(new(100)), 202),
        (&|| json!(known), 202),
        (&|| json!(vec![Value::Null; 1_001]), 413),
        (&|| json!([]), 202),
        (&|| json!([{}]), 400),
        (&|| json!({}), 400),
    ];
    for (body, status) in bodies {
        let token = token(&world, HolderRole::Product).await;
        let authorization = format!("Bearer {}", token.token);
        let headers = [
            ("authorization", &*authorization),
            ("content-type", "application/cloudevents-batch+json"),
        ];
        for _ in 0..2 {
            let answer = send(&world, ACTIVITY, &headers, body().to_string()).await;
            assert_eq!(answer.status, status, "{}", answer.text());
        }
        tokens::revoke(world.service(), token.id).await.unwrap();
        let before = kept(&world).await;
        for _ in 0..2 {
            let answer = send(&world, ACTIVITY, &headers, body().to_string()).await;
            assert_eq!(answer.code(), (401, "unauthorized"), "{}", answer.text());
        }
        assert_eq!(kept(&world).await, before);
    }
}

/// Number of rows in each table to which a report writes.
async fn kept(world: &World) -> [i64; 4] {
    [
        world.count("events").await,
        world.count("subjects").await,
        world.count("reports").await,
        world.count_in_keyring("data_keys").await,
    ]
}

/// A small report of a remembered token is read before the token is looked up. A report over
/// 64 KiB, or without a length, is not.
#[tokio::test]
async fn large_reports_wait_for_the_token_check() {
    let world = World::new().await;
    let token = token(&world, HolderRole::Product).await;
    let authorization = format!("Bearer {}", token.token);
    let cloud_events = ("content-type", "application/cloudevents-batch+json");
    let headers = [("authorization", &*authorization), cloud_events];
    let never_sent = async |length: Option<&str>, patience| {
        let length = length.map(|length| ("content-length", length));
        let headers: Vec<_> = headers.into_iter().chain(length).collect();
        let body = Body::from_stream(stream::pending::<std::io::Result<Vec<u8>>>());
        let answer = send(&world, ACTIVITY, &headers, body);
        tokio::time::timeout(patience, answer).await.ok().map(|answer| answer.status.as_u16())
    };
    assert_eq!(send(&world, ACTIVITY, &headers, "[]").await.status, 202);
    tokens::revoke(world.service(), token.id).await.unwrap();
    let small = never_sent(Some("65536"), Duration::from_millis(100)).await;
    assert_eq!(small, None, "it is read first");
    for length in [Some("65537"), None] {
        assert_eq!(never_sent(length, Duration::from_secs(60)).await, Some(401));
    }
}

/// The refusal of a role is shown only to an active token.
#[tokio::test]
async fn a_revoked_auditor_token_is_unknown() {
    let world = World::new().await;
    let token = token(&world, HolderRole::Auditor).await;
    let report = ("POST", ACTIVITY);
    for _ in 0..2 {
        let answer = call(&world, &token.token, report, &json!([])).await;
        assert_eq!(answer.code(), (403, "forbidden"));
    }
    tokens::revoke(world.service(), token.id).await.unwrap();
    let answer = call(&world, &token.token, report, &json!([])).await;
    assert_eq!(answer.code(), (401, "unauthorized"));
}

#[tokio::test]
async fn tokens_and_keys_open_different_doors() {
    let world = World::new().await;
    let firm = world.firm().await;
    let token = token(&world, HolderRole::Operator).await;
    let me = world.call(&token.token, "GET", "/me", Value::Null).await;
    assert_eq!(me.code(), (401, "unauthorized"));
    let activity = world.call(&firm.key, "POST", "/../../internal/v1/activity", Value::Null).await;
    assert_eq!(activity.code(), (404, "not_found"));
}

/// Only the answer to its making shows the text.
#[tokio::test]
async fn a_keys_text_is_kept_nowhere() {
    let world = World::new().await;
    let firm = world.firm().await;
    let body = json!({"member_id": firm.owner, "name": "  Make \n"});
    let made = of_firm(&world, &firm, ("POST", "/keys"), body).await;
    let text = made.body["key"].as_str().unwrap().to_owned();
    let id = made.body["id"].as_str().unwrap();
    assert_eq!(
        (made.status.as_u16(), made.text()),
        (
            201,
            &*format!(
                concat!(
                    r#"{{"id":"{}","name":"Make","prefix":"{}","member_id":"{}","#,
                    r#""created_at":"2026-11-01T12:00:00.000Z","revoked_at":null,"#,
                    r#""last_used_at":null,"key":"{}"}}"#,
                ),
                id,
                &text[..12],
                firm.owner,
                text
            )
        )
    );
    assert_eq!(made.headers["cache-control"], "no-store");
    assert_eq!(world.call(&text, "GET", "/me", Value::Null).await.body["key"]["id"], json!(id));
    let listed = of_firm(&world, &firm, ("GET", "/keys"), Value::Null).await;
    assert!(!listed.text().contains(&text));
    for table in table_names(world.pool()).await {
        let found =
            world.count(&format!("{table} t where position('{text}' in t::text) > 0")).await;
        assert_eq!(found, 0, "{table}");
    }
}

#[tokio::test]
async fn keys_list_newest_first_and_revoke_once() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    world.pass(Duration::from_millis(1_001));
    let body = json!({"member_id": firm.owner, "name": "second"});
    let made = of_firm(&world, &firm, ("POST", "/keys"), body).await;
    let path = format!("/keys/{}", made.body["id"].as_str().unwrap());
    let (key, delete) = (made.body["key"].as_str().unwrap(), ("DELETE", &*path));
    let foreign = of_firm(&world, &other, delete, Value::Null).await;
    assert_eq!(foreign.code(), (404, "not_found"), "not by another firm's path");
    assert_eq!(world.call(key, "GET", "/me", Value::Null).await.status, 200);
    world.pass(Duration::from_millis(1));
    let revoked = of_firm(&world, &firm, delete, Value::Null).await;
    assert_eq!(revoked.text(), r#"{"ok":true}"#);
    assert_eq!(of_firm(&world, &firm, delete, Value::Null).await.bytes, foreign.bytes);
    assert_eq!(world.call(key, "GET", "/me", Value::Null).await.status, 401);
    for malformed in ["abc", "%00", &world.id().simple().to_string()] {
        let path = format!("/keys/{malformed}");
        let answer = of_firm(&world, &firm, ("DELETE", &path), Value::Null).await;
        assert_eq!(answer.bytes, foreign.bytes, "{malformed}");
    }

    let listed = of_firm(&world, &firm, ("GET", "/keys"), Value::Null).await;
    let shape = |id: &Value, name, prefix: &str, created_at, revoked_at: Value| {
        let used = revoked_at.as_str().map(|_| created_at);
        json!({"id": id, "name": name, "prefix": prefix, "member_id": firm.owner,
               "created_at": created_at, "revoked_at": revoked_at, "last_used_at": used})
    };
    let second = shape(
        &made.body["id"],
        "second",
        &key[..12],
        "2026-11-01T12:00:01.001Z",
        json!("2026-11-01T12:00:01.002Z"),
    );
    let first = (json!(firm.key_id), &firm.key[..12], "2026-11-01T12:00:00.000Z");
    let first = shape(&first.0, "Zapier", first.1, first.2, Value::Null);
    assert_eq!(listed.body, json!({"items": [second, first], "next": null}));
}

/// The 26th active key is refused, too.
#[tokio::test]
async fn a_key_needs_an_active_firms_manager() {
    let world = World::new().await;
    let firm = world.firm().await;
    let member = world.id();
    let plain = json!({"member_id": member, "role": "member"});
    assert_eq!(world.report(&[activity(firm.id, "member.joined", plain)]).await.status, 202);
    let create = async |firm: &Firm, body: Value| {
        let answer = of_firm(&world, firm, ("POST", "/keys"), body).await;
        (answer.status.as_u16(), answer.code().1.to_owned())
    };
    let named = |member_id: Uuid| json!({"member_id": member_id, "name": "k"});
    let is = |status: u16, code: &str| (status, code.to_owned());
    let nobody = Firm { id: world.id(), ..firm.clone() };
    assert_eq!(create(&nobody, named(firm.owner)).await, is(404, "firm_not_found"));
    assert_eq!(create(&firm, named(member)).await, is(403, "not_a_manager"));
    assert_eq!(create(&firm, named(world.id())).await, is(403, "not_a_manager"));
    for body in [
        json!({"name": "k"}),
        json!({"member_id": firm.owner}),
        json!({"member_id": "abc", "name": "k"}),
        json!({"member_id": firm.owner, "name": " "}),
        json!({"member_id": firm.owner, "name": "é".repeat(101)}),
        json!({"member_id": firm.owner, "name": null}),
        json!([firm.owner, "k"]),
    ] {
        assert_eq!(create(&firm, body.clone()).await, is(400, "invalid_request"), "{body}");
    }
    for _ in 1..25 {
        assert_eq!(create(&firm, named(firm.owner)).await.0, 201);
    }
    assert_eq!(create(&firm, named(firm.owner)).await, is(409, "too_many_keys"));
    world.suspend_firm(&firm).await;
    assert_eq!(create(&firm, named(firm.owner)).await, is(403, "firm_inactive"));
}

/// The actor of a key that the product makes is the member. An operator's key once named the
/// member, too.
#[tokio::test]
async fn the_log_names_a_keys_real_maker() {
    let world = World::new().await;
    let firm = world.firm().await;
    let path = format!("/internal/v1/firms/{}/keys", firm.id);
    let (mut expected, body) = (Vec::new(), json!({"member_id": firm.owner, "name": "made"}));
    for role in [HolderRole::Product, HolderRole::Operator] {
        let token = token(&world, role).await;
        let made = call(&world, &token.token, ("POST", &path), &body).await;
        assert_eq!((made.status.as_u16(), &made.body["member_id"]), (201, &json!(firm.owner)));
        expected.push(match role {
            HolderRole::Operator => format!("operator:{}", token.id),
            HolderRole::Product | HolderRole::Auditor => format!("member:{}", firm.owner),
        });
    }
    let created = world.events_of_type("KeyCreated").await;
    let created = created.iter().filter(|event| event.field("name") == "made");
    assert_eq!(created.map(StoredEvent::actor).collect::<Vec<_>>(), expected);
    let stranger = json!({"member_id": world.id(), "name": "made"});
    let operator = token(&world, HolderRole::Operator).await;
    let refused = call(&world, &operator.token, ("POST", &path), &stranger).await;
    assert_eq!(refused.code(), (403, "not_a_manager"), "whoever asks");
}

/// Readings of deliveries and of receivers' answers were once missing in the audit log.
#[tokio::test]
async fn readings_of_deliveries_are_audited() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    world.deliver().await;
    let id = receiver.received()[0].header("x-service-delivery").to_owned();
    let operator = token(&world, HolderRole::Operator).await;
    let path = format!("/internal/v1/firms/{}/deliveries", firm.id);
    for rest in [format!("?hook_id={hook}"), format!("/{id}"), format!("/{}", world.id())] {
        call(&world, &operator.token, ("GET", &format!("{path}{rest}")), &Value::Null).await;
    }
    let by_hand = firmforms(&world.database)
        .args(["--as", "ann", "deliveries", "show", "--firm", &firm.id.to_string(), &id])
        .output();
    assert!(by_hand.await.unwrap().status.success());
    world.project().await;
    let entries = world.audit_entries_of("audit_read").await;
    let read: Vec<_> = entries
        .iter()
        .map(|entry| (entry.actor_id.clone().unwrap(), entry.evidence_but_terminal()))
        .collect();
    let (one, page) = (json!({"what": "delivery", "how": "page", "delivery_id": id}), "page");
    let expected = [
        (operator.id.to_string(), json!({"what": "deliveries", "how": page, "hook_id": hook})),
        (operator.id.to_string(), one.clone()),
        ("ann".to_owned(), one),
    ];
    assert_eq!(read, expected);
}

#[tokio::test]
async fn each_showing_of_the_secret_is_logged() {
    let world = World::new().await;
    let firm = world.firm().await;
    let path = format!("/internal/v1/firms/{}/webhook-secret", firm.id);
    let mut secrets = Vec::new();
    let mut actors = Vec::new();
    for role in [HolderRole::Product, HolderRole::Operator] {
        let token = token(&world, role).await;
        let shown = call(&world, &token.token, ("GET", &path), &Value::Null).await;
        assert_eq!(shown.headers["cache-control"], "no-store");
        assert_eq!(shown.body["rotated_at"], "2026-11-01T12:00:00.000Z");
        secrets.push(shown.body["secret"].as_str().unwrap().to_owned());
        actors.push(format!("{}:{}", role.name(), token.id));
    }
    assert!(secrets[0].starts_with("whsec_") && secrets[0] == secrets[1]);
    let logged = world.events_of_type("SecretRevealed").await;
    assert!(logged.iter().map(StoredEvent::actor).eq(&actors), "{logged:?}");
    for event in logged {
        assert_eq!((event.firm_id, event.payload), (firm.id, json!({"SecretRevealed": {}})));
    }
    let nobody = Firm { id: world.id(), ..firm };
    let refused = of_firm(&world, &nobody, ("GET", "/webhook-secret"), Value::Null).await;
    assert_eq!(refused.code(), (404, "firm_not_found"));
}

#[tokio::test]
async fn a_delivery_withholds_content_without_a_reason() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let hook_id = world.subscribe(&firm, &receiver.url("/hook?token=canary")).await;
    let response_id = world.submit(&firm).await;
    let busy = Reply::status(503).header("retry-after", "7200").body(b"<b>busy</b>");
    receiver.reply([busy]);
    world.deliver().await;
    let sent = &receiver.received()[0];
    let id = sent.header("x-service-delivery").to_owned();
    let (operator, auditor) =
        (token(&world, HolderRole::Operator).await, token(&world, HolderRole::Auditor).await);
    let path = format!("/internal/v1/firms/{}/deliveries", firm.id);
    let one = format!("{path}/{}", id.to_uppercase());
    let show = async |token: &CreatedToken, path: &str| {
        call(&world, &token.token, ("GET", path), &Value::Null).await
    };

    let listed = show(&auditor, &path).await;
    let sha256 = listed.body["items"][0]["body_sha256"].clone();
    let mut delivery = json!({
        "id": id, "hook_id": hook_id, "trigger": "form_submitted", "form_id": firm.form,
        "response_id": response_id, "state": "pending", "cause": null,
        "created_at": "2026-11-01T12:00:00.000Z", "next_try_at": "2026-11-01T14:00:00.000Z",
        "body_sha256": sha256,
    });
    assert_eq!(listed.body, json!({"items": [delivery], "next": null}));
    let digest: String = sqlx::query_scalar("select encode(sha256($1), 'hex')")
        .bind(sent.body.as_ref())
        .fetch_one(world.pool())
        .await
        .unwrap();
    assert_eq!(sha256, digest);

    let shown = show(&operator, &one).await;
    let hops = shown.body["attempts"][0]["hops"].clone();
    assert!(!hops.to_string().contains("canary"), "{hops}");
    delivery["attempts"] = json!([{
        "number": 1, "started_at": "2026-11-01T12:00:00.000Z",
        "finished_at": "2026-11-01T12:00:00.000Z", "outcome": "retry", "status": 503,
        "error": null, "retry_after_seconds": 7200, "hops": hops, "answer": null,
        "answer_state": "withheld",
    }]);
    delivery["body"] = json!({"state": "withheld", "text": null});
    assert_eq!(shown.body, delivery);
    assert_eq!(show(&auditor, &one).await.body, delivery);
    let asked = show(&auditor, &format!("{one}?show_answer=a+claim&show_body=a+claim")).await;
    delivery["attempts"][0]["answer"] = "<b>busy</b>".into();
    delivery["attempts"][0]["answer_state"] = "shown".into();
    delivery["body"] = json!({"state": "shown", "text": str::from_utf8(&sent.body).unwrap()});
    assert_eq!(asked.body, delivery);
}

/// A limit cuts the list. Another firm sees none of the deliveries.
#[tokio::test]
async fn a_firms_deliveries_list_newest_first() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let mut newest_first = Vec::new();
    for _ in 0..3 {
        newest_first.insert(0, json!(world.submit(&firm).await));
        world.deliver().await;
        world.pass(Duration::from_millis(1));
    }
    let operator = token(&world, HolderRole::Operator).await;
    let list = async |firm_id: &str, rest: &str| {
        let path = format!("/internal/v1/firms/{firm_id}/deliveries{rest}");
        call(&world, &operator.token, ("GET", &path), &Value::Null).await
    };
    let (id, missing) = (firm.id.to_string(), world.id().to_string());
    let of = |answer: Answer| {
        let items = answer.body["items"].as_array().unwrap().clone();
        items.into_iter().map(|item| item["response_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(list(&id, "").await), newest_first);
    assert_eq!(of(list(&id, "?limit=2").await), newest_first[..2]);
    assert_eq!(of(list(&other.id.to_string(), "").await), [] as [Value; 0]);
    for wrong in ["0", "501", "-1", "x", "", "1.5", "99999999999999999999"] {
        let refused = list(&id, &format!("?limit={wrong}")).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
    for unknown in [&*missing, "abc", "%00"] {
        assert_eq!(list(unknown, "").await.code(), (404, "firm_not_found"), "{unknown}");
    }
    let delivery_id = receiver.received()[0].header("x-service-delivery").to_owned();
    assert_eq!(list(&id, &format!("/{delivery_id}")).await.status, 200);
    let theirs = list(&other.id.to_string(), &format!("/{delivery_id}")).await;
    assert_eq!(theirs.code(), (404, "delivery_not_found"));
    for unknown in [&*missing, "abc", "%00"] {
        let answer = list(&id, &format!("/{unknown}")).await;
        assert_eq!(answer.bytes, theirs.bytes, "{unknown}");
    }
}

#[tokio::test]
async fn health_is_asked_without_a_token() {
    let world = World::new().await;
    for path in ["/livez", "/readyz"] {
        let request = make_request("GET", path, &[("authorization", "")], Body::empty());
        let answer = world.internal(request).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, r#"{"ok":true}"#));
    }
    world.service().store.connections().close().await;
    let alive = world.internal(make_request("GET", "/livez", &[], Body::empty())).await;
    assert_eq!(alive.status, 200);
    let unready = world.ask_readiness().await;
    assert_eq!(unready.code(), (503, "unavailable"));
    assert_eq!(unready.headers["retry-after"], "1");
}

/// An alarm is a fault that needs a person, and no alarm makes a process unready (ruling 54).
#[tokio::test]
async fn a_ready_process_shows_its_alarms() {
    let world = World::new().await;
    world.firm().await;
    let alarms = async || {
        let answer = world.ask_readiness().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let alarms = answer.body["alarms"].as_array().cloned().unwrap_or_default();
        let names = alarms.iter().map(|alarm| alarm["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let wound = "insert into last_verification (ended_at, verified_to, outcome, reason)
                 values (now(), 1, 'broken', 'entry 1 of firm X')";
    world.change_database(wound).await;
    assert_eq!(alarms().await, ["verification"]);
    world.pass(Duration::from_secs(2 * 3_600));
    assert_eq!(alarms().await, ["verification"]);
    world.pass(Duration::from_secs(1));
    assert_eq!(alarms().await, ["verification", "checkpoints"], "nothing was signed");
    let body = world.ask_readiness().await;
    assert!(!body.text().contains("firm"), "no token was needed: {}", body.text());
}

/// A missing table once made a 500. A supervisor expects 503 (ruling 54).
#[tokio::test]
async fn an_unusable_schema_is_unready() {
    let ready = async |world: &World| {
        let answer = world.ask_readiness().await;
        answer.code().0
    };
    let (main, keyring) = (World::new().await, World::new().await);
    let last = "delete from _sqlx_migrations
                 where version = (select max(version) from _sqlx_migrations)";
    main.change_database(last).await;
    keyring.change_keyring("alter table wrapping_check rename to other").await;
    assert_eq!((ready(&main).await, ready(&keyring).await), (503, 503));
}

/// A slow question about an alarm once closed both doors (ruling 54).
#[tokio::test]
async fn unreadable_alarms_are_an_alarm() {
    let world = World::new().await;
    let mut locking = world.pool().begin().await.unwrap();
    locking.execute("lock table last_verification").await.unwrap();
    // Each look would take another connection, if the one before had not ended its own.
    for _ in 0..5 {
        let answer = world.ask_readiness().await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["alarms"][0]["name"]),
            (200, &json!("alarms"))
        );
    }
}

#[tokio::test]
async fn activity_needs_a_known_content_type() {
    let world = World::new().await;
    let firm = world.firm().await;
    let event = |second| later(activity(firm.id, "firm.changed", json!({"name": "N"})), second);
    for (kind, body) in [
        ("application/cloudevents+json", event(1).to_string()),
        ("application/cloudevents-batch+json; charset=UTF-8", json!([event(2)]).to_string()),
        ("Application/X-NDJSON", event(3).to_string()),
    ] {
        let taken = send(&world, ACTIVITY, &[("content-type", kind)], body).await;
        assert_eq!(taken.text(), r#"{"accepted":1,"duplicates":0,"stale":0}"#, "{kind}");
    }
    let (single, batch) = (event(4).to_string(), json!([event(4)]).to_string());
    for headers in [
        &[][..],
        &[("content-type", "application/json")],
        &[("content-type", "text/plain")],
        &[("content-type", "application/cloudevents+json; charset=latin1")],
        &[
            ("content-type", "application/cloudevents+json"),
            ("content-type", "application/x-ndjson"),
        ],
        &[("content-type", "application/cloudevents+json"), ("content-encoding", "gzip")],
        &[("content-type", "application/cloudevents-batch+json")],
    ] {
        let refused = send(&world, ACTIVITY, headers, single.clone()).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{headers:?}");
    }
    for (kind, body) in [
        ("application/cloudevents+json", batch.as_bytes()),
        ("application/cloudevents+json", b""),
        ("application/cloudevents-batch+json", b"null"),
        ("application/cloudevents-batch+json", b"\xff"),
        ("application/x-ndjson", batch.as_bytes()),
        ("application/x-ndjson", &[b"\xef\xbb\xbf", single.as_bytes()].concat()),
    ] {
        let refused = send(&world, ACTIVITY, &[("content-type", kind)], body.to_vec()).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{kind}");
    }
    assert_eq!(
        world.report(&[event(4)]).await.text(),
        r#"{"accepted":1,"duplicates":0,"stale":0}"#
    );
}

/// A7: a body that is too large is not read to its end, with or without a length.
#[tokio::test]
async fn a7_oversized_bodies_get_413_and_close() {
    let world = World::new().await;
    let firm = world.firm().await;
    let keys = format!("/internal/v1/firms/{}/keys", firm.id);
    let lines = ("content-type", "application/x-ndjson");
    for (path, headers, limit) in [(ACTIVITY, &[lines][..], 8 << 20), (&keys, &[], 64 << 10)] {
        let announced = [headers, &[("content-length", "99999999")]].concat();
        let refused = send(&world, path, &announced, Body::empty()).await;
        assert_eq!(refused.code(), (413, "invalid_request"), "{path}");
        assert_eq!(refused.headers["connection"], "close");
        let refused = send(&world, path, headers, vec![b' '; limit + 1]).await;
        assert_eq!(refused.code(), (413, "invalid_request"), "{path}");
        assert_ne!(send(&world, path, headers, vec![b' '; limit]).await.status, 413, "{path}");
        let chunk = || Ok::<_, std::io::Error>(vec![b' '; 1 << 20]);
        let endless = stream::repeat_with(chunk);
        let refused = send(&world, path, headers, Body::from_stream(endless)).await;
        assert_eq!(refused.code(), (413, "invalid_request"), "{path}");
    }
    let many = "{}\n".repeat(1_001);
    send(&world, ACTIVITY, &[lines], many).await.refused(413, "invalid_request");
    let answer =
        json!([{"id": "q", "question": "Q", "type": "t", "answer": "a".repeat(512 << 10)}]);
    let data = json!({"response_id": world.id(), "form_id": firm.form,
                      "submitted_at": "2026-11-01T12:00:00Z", "answers": answer});
    let refused = world.report(&[activity(firm.id, "response.submitted", data)]).await;
    assert_eq!((refused.code(), &refused.body["index"]), ((400, "invalid_request"), &json!(0)));
}
