//! The operator of a command at a terminal, and the rights of a token (ruling 46).

use std::time::Duration;

use api::commands::tokens::{self, CreatedToken, HolderRole};
use domain::access::TokenScope;
use serde_json::{Value, json};
use tests::{Answer, Firm, TestDatabase, World, activity, submitted};
use tokio::process::Command;
use uuid::Uuid;

use tests::process::firmforms;

async fn said(command: &mut Command) -> (i32, String) {
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}

async fn terminal(world: &World, arguments: &[&str]) -> (i32, String) {
    said(firmforms(&world.database).args(arguments)).await
}

async fn done(world: &World, arguments: &[&str]) -> Value {
    let (code, text) = terminal(world, arguments).await;
    assert_eq!(code, 0, "{arguments:?}: {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Action, actor and evidence of each entry of a chain.
async fn entries(world: &World, firm_id: Uuid) -> Vec<(String, String, Value)> {
    world.project().await;
    let entries = world.audit_entries(firm_id).await.into_iter();
    entries.map(|entry| (entry.action.clone(), entry.actor(), entry.evidence)).collect()
}

async fn last_entry(world: &World, firm_id: Uuid) -> (String, String, Value) {
    entries(world, firm_id).await.pop().unwrap()
}

fn account() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap();
    user.unwrap().name
}

#[tokio::test]
async fn a_command_records_its_operator() {
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    let id = firm.id.to_string();
    let reveal = ["secrets", "reveal", "--firm", &id, "--json"];
    done(&world, &reveal).await;
    let (action, actor, evidence) = last_entry(&world, firm.id).await;
    assert_eq!((&*action, actor), ("secret_revealed", format!("operator:{}", account())));
    let login: String =
        sqlx::query_scalar("select session_user::text").fetch_one(world.pool()).await.unwrap();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let place = json!({"host": host, "login": login, "user": account()});
    assert_eq!(evidence, json!({"terminal": place}));

    done(&world, &["--as", "ann.lee@example.com", "secrets", "reveal", "--firm", &id]).await;
    assert_eq!(last_entry(&world, firm.id).await.1, "operator:ann.lee@example.com");
    let mut by_variable = firmforms(&world.database);
    assert_eq!(said(by_variable.args(reveal).env("FIRMFORMS_AS", "bob")).await.0, 0);
    assert_eq!(last_entry(&world, firm.id).await.1, "operator:bob");
    let (code, text) = terminal(&world, &["--as", "a b", "firms", "list"]).await;
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("--as") && text.contains("1 to 64"), "{text}");
    let reported = submitted(&firm, world.id()).to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("activity.ndjson");
    std::fs::write(&file, reported).unwrap();
    done(&world, &["--as", "ann", "ingest", file.to_str().unwrap()]).await;
    assert_eq!(world.events_of_type("OccurrenceRecorded").await[0].actor(), "operator:ann");
}

#[tokio::test]
async fn creating_and_revoking_tokens_is_audited() {
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await.id.to_string();
    let made = done(
        &world,
        &[
            "--as",
            "ann",
            "tokens",
            "create",
            "--role",
            "operator",
            "--name",
            "on call",
            "--json",
            "--expires",
            "2099-01-31T00:00:00Z",
            "--firm",
            &firm,
        ],
    )
    .await;
    let id = made["id"].as_str().unwrap();
    let (action, actor, evidence) = last_entry(&world, Uuid::nil()).await;
    assert_eq!((&*action, &*actor), ("token_created", "operator:ann"));
    assert_eq!(
        (&evidence["name"], &evidence["role"], &evidence["expires_at"], &evidence["firm_ids"]),
        (&json!("on call"), &json!("operator"), &json!("2099-01-31T00:00:00.000Z"), &json!([firm]))
    );
    assert!(!evidence.to_string().contains(made["token"].as_str().unwrap()));
    done(&world, &["--as", "bob", "tokens", "revoke", "--yes", id]).await;
    let (action, actor, _) = last_entry(&world, Uuid::nil()).await;
    assert_eq!((&*action, &*actor), ("token_revoked", "operator:bob"));
    assert_eq!(terminal(&world, &["tokens", "revoke", "--yes", id]).await.0, 1);
    assert_eq!(entries(&world, Uuid::nil()).await.len(), 2);
    for (wrong, arguments) in [
        ("in the future", ["--expires", "2020-01-01T00:00:00Z"]),
        ("no such firm", ["--firm", "00000000-0000-0000-0000-00000000beef"]),
    ] {
        let create = ["tokens", "create", "--role", "auditor", "--name", "a"];
        let (code, text) = terminal(&world, &[&create[..], &arguments].concat()).await;
        assert_eq!(code, 1, "{wrong}: {text}");
    }
}

#[tokio::test]
async fn an_older_builds_token_can_be_revoked() {
    let world = World::new().await;
    let id: Uuid =
        sqlx::query_scalar("select token_id from tokens").fetch_one(world.pool()).await.unwrap();
    tokens::revoke(world.service(), id).await.unwrap();
    assert_eq!(last_entry(&world, Uuid::nil()).await.0, "token_revoked");
    assert_eq!(world.report(&[]).await.status, 401);
}

#[tokio::test]
async fn maintenance_is_recorded_with_its_operator() {
    let world = World::real_time(TestDatabase::new().await).await;
    world.firm().await;
    done(&world, &["--as", "ann", "projections", "rebuild", "hooks"]).await;
    let (action, actor, evidence) = last_entry(&world, Uuid::nil()).await;
    assert_eq!((&*action, &*actor), ("rebuild_ordered", "operator:ann"));
    assert_eq!(evidence["models"], json!(["hooks"]));
    let before = entries(&world, Uuid::nil()).await.len();
    done(&world, &["projections", "verify", "hooks"]).await;
    assert_eq!(entries(&world, Uuid::nil()).await.len(), before, "a comparison changes nothing");
    let prefix = format!("m{}", world.id().simple());
    done(&world, &["--as", "bob", "migrate", "--roles", "--role-prefix", &prefix]).await;
    let (action, actor, evidence) = last_entry(&world, Uuid::nil()).await;
    assert_eq!((&*action, &*actor), ("roles_migration_ordered", "operator:bob"));
    assert_eq!(
        (&evidence["prefix"], &evidence["terminal"]["user"]),
        (&json!(prefix), &json!(account()))
    );
    done(&world, &["audit", "checkpoint"]).await;
    let (code, text) = terminal(&world, &["audit", "verify"]).await;
    assert_eq!(code, 0, "{text}");
}

/// A token with limits.
async fn limited(world: &World, role: HolderRole, scope: TokenScope) -> CreatedToken {
    tokens::create_limited(world.service(), TokenScope { role, ..scope }).await.unwrap()
}

fn scope() -> TokenScope {
    let name = "limited".to_owned();
    TokenScope { name, role: HolderRole::Operator, expires_at: None, firm_ids: None }
}

#[tokio::test]
async fn an_expired_token_is_refused_everywhere() {
    let world = World::new().await;
    let firm = world.firm().await;
    let in_an_hour = world.clock.now().get() + chrono::TimeDelta::hours(1);
    let scope = TokenScope { expires_at: Some(in_an_hour.into()), ..scope() };
    let made = limited(&world, HolderRole::Operator, scope).await;
    let events = || [submitted(&firm, world.id())];
    assert_eq!(world.report_by(&made.token, &events()).await.status, 202);
    world.pass(Duration::from_secs(3_599));
    assert_eq!(world.report_by(&made.token, &events()).await.status, 202);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.report_by(&made.token, &events()).await.status, 401);
    assert_eq!(world.call_internally(&made.token, "GET", "/pauses", Value::Null).await.status, 401);
}

/// A token that does not list the firm gets the answers of a firm that never was.
#[tokio::test]
async fn a_limited_token_sees_no_other_firm() {
    let world = World::new().await;
    let (own, other) = (world.firm().await, world.firm().await);
    let hook = world.subscribe(&other, "http://127.0.0.1:8099/hook").await;
    let scope = TokenScope { firm_ids: Some(vec![own.id]), ..scope() };
    let made = limited(&world, HolderRole::Operator, scope).await;
    let ask = |method, path: String, body| {
        let (world, token) = (&world, &made.token);
        async move { world.call_internally(token, method, &path, body).await }
    };
    let (missing, id) = (world.id(), world.id());
    for (method, path) in [
        ("GET", "/keys".to_owned()),
        ("DELETE", format!("/keys/{}", other.key_id)),
        ("GET", "/webhook-secret".to_owned()),
        ("POST", "/webhook-secret/rotate".to_owned()),
        ("GET", "/audit".to_owned()),
        ("GET", "/audit/export".to_owned()),
        ("GET", "/hooks".to_owned()),
        ("GET", format!("/hooks/{hook}/history")),
        ("GET", "/deliveries".to_owned()),
        ("GET", format!("/deliveries/{id}")),
        ("POST", format!("/deliveries/{id}/reissue")),
    ] {
        let refused = ask(method, format!("/firms/{}{path}", other.id), Value::Null).await;
        assert_eq!(refused.code(), (404, "firm_not_found"), "{method} {path}");
        let absent = ask(method, format!("/firms/{missing}{path}"), Value::Null).await;
        assert_eq!(refused.bytes, absent.bytes, "{method} {path}");
    }
    assert_eq!(ask("GET", format!("/firms/{}/keys", own.id), Value::Null).await.status, 200);
    let nil = ask("GET", format!("/firms/{}/audit", Uuid::nil()), Value::Null).await;
    assert_eq!(
        nil.code(),
        (404, "firm_not_found"),
        "the installation's chain is no firm of its own"
    );

    let pause = |body: Value| ask("POST", "/pauses".to_owned(), body);
    let reason = "a drill";
    let refused = pause(json!({"firm_id": other.id, "reason": reason})).await;
    assert_eq!(refused.code(), (404, "firm_not_found"));
    pause(json!({"hook_id": hook, "reason": reason})).await.refused(404, "not_found");
    for all in
        [json!({"all": true, "reason": reason}), json!({"host": "a.example", "reason": reason})]
    {
        pause(all).await.refused(403, "forbidden");
    }
    let everyones = call_as_operator(&world, json!({"all": true, "reason": reason})).await;
    assert_eq!(pause(json!({"firm_id": own.id, "reason": reason})).await.status, 201);
    let listed = ask("GET", "/pauses".to_owned(), Value::Null).await;
    assert_eq!(listed.body["items"].as_array().unwrap().len(), 1);
    let path = format!("/pauses/{}", everyones.body["id"].as_str().unwrap());
    let resumed = ask("DELETE", path, Value::Null).await;
    assert_eq!(resumed.code(), (404, "pause_not_found"));
    let mine = format!("/pauses/{}", listed.body["items"][0]["id"].as_str().unwrap());
    assert_eq!(ask("DELETE", mine, Value::Null).await.status, 200);

    let replay = json!({"firm_id": other.id, "reason": reason, "dry_run": true});
    let refused = ask("POST", "/replays".to_owned(), replay).await;
    assert_eq!(refused.code(), (404, "firm_not_found"));
    let refused = world.report_by(&made.token, &[submitted(&own, id), submitted(&other, id)]).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let unknown = activity(missing, "form.unpublished", json!({"form_id": other.form}));
    let absent = world.report(&[submitted(&own, id), unknown]).await;
    assert_eq!(refused.bytes, absent.bytes, "as for a firm that was never reported");
    assert_eq!(world.report_by(&made.token, &[submitted(&own, id)]).await.status, 202);
    steps_of_others_are_missing(&world, &made.token, &other).await;
}

async fn call_as_operator(world: &World, pause: Value) -> Answer {
    let all = limited(world, HolderRole::Operator, scope()).await;
    world.call_internally(&all.token, "POST", "/pauses", pause).await
}

async fn steps_of_others_are_missing(world: &World, token: &str, other: &Firm) {
    let response_id = world.submit(other).await;
    let step = json!({
        "firm_id": other.id, "run_id": world.id(), "step_id": world.id(), "method": "POST",
        "url": "http://127.0.0.1:8099/step", "trigger": "form_submitted",
        "response_id": response_id,
    });
    let refused = world.call_internally(token, "POST", "/workflow-steps", step.clone()).await;
    assert_eq!(refused.code(), (404, "firm_not_found"));
    world.call_internally(world.token(), "POST", "/workflow-steps", step.clone()).await.ok();
    let name = |field: &str| step[field].as_str().unwrap().to_owned();
    let path = format!("/workflow-steps/{}/{}", name("run_id"), name("step_id"));
    for (method, path) in [("GET", path.clone()), ("POST", format!("{path}/retry"))] {
        let refused = world.call_internally(token, method, &path, Value::Null).await;
        assert_eq!(refused.code(), (404, "delivery_not_found"), "{method}");
    }
    world.call_internally(world.token(), "GET", &path, Value::Null).await.ok();
}

#[tokio::test]
async fn token_uses_are_written_once_a_minute() {
    let world = World::new().await;
    let firm = world.firm().await;
    let made = limited(&world, HolderRole::Operator, scope()).await;
    let used = async || {
        let listed = tokens::list(world.service()).await.unwrap();
        listed.into_iter().find(|token| token.token_id == made.id).unwrap().last_used_at
    };
    let version = async || -> String {
        let version = "select xmin::text from tokens where token_id = $1";
        sqlx::query_scalar(version).bind(made.id).fetch_one(world.pool()).await.unwrap()
    };
    assert_eq!(used().await, None);
    let first = world.clock.now().get();
    let path = format!("/firms/{}/keys", firm.id);
    let keys = async || world.get_internally(&made.token, &path).await.body;
    assert_eq!(keys().await["items"][0]["last_used_at"], Value::Null);
    assert_eq!(used().await, Some(first));
    let written = version().await;
    world.pass(Duration::from_secs(59));
    keys().await;
    assert_eq!((used().await, version().await), (Some(first), written));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.report_by(&made.token, &[submitted(&firm, world.id())]).await.status, 202);
    assert_eq!(used().await, Some(world.clock.now().get()));
    world.get(&firm, "/me").await.ok();
    let now = world.clock.now().to_string();
    assert_eq!(keys().await["items"][0]["last_used_at"], json!(now));
}
