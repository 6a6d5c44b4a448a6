//! The real binary's roles, each as a login of its own, over a story with all workers.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use sqlx::PgPool;
use tests::raw::exchange;
use tests::{Firm, Receiver, TestDatabase, World, activity, submitted};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use uuid::Uuid;

use super::{Scene, said};
use tests::process::{Served, address, call, data_dir, firmforms, report, serve_with, serving};
use tests::scrape::Scrape;

/// One series of each question that a scrape asks the database.
const EVERY_QUESTION: [&str; 6] = [
    r#"firmforms_backlog_deliveries{state="due"}"#,
    r#"firmforms_lanes{state="due"}"#,
    r#"firmforms_follower_lag_positions{follower="deliveries"}"#,
    r#"firmforms_replays{state="running"}"#,
    "firmforms_open_invites",
    "firmforms_verified_position",
];

/// A role without doors as a login of its own, and all it has logged.
async fn work(scene: &Scene, role: &str) -> (Child, Arc<Mutex<String>>) {
    let mut command =
        serving(&scene.as_login(role), &["--role", role, "--time-scale", "3600"], &[]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let log = Arc::<Mutex<String>>::default();
    let kept = Arc::clone(&log);
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            kept.lock().unwrap().push_str(&(line + "\n"));
        }
    });
    (child, log)
}

/// A call of the internal door.
async fn internal(
    door: SocketAddr,
    (method, path): (&str, &str),
    token: &str,
    body: &Value,
) -> (StatusCode, String) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = format!(
        "{method} /internal/v1{path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    exchange(door, &request).await.expect("an answer")
}

/// Waits until all four deliveries have come to their end, and history knows.
async fn at_rest(pool: &PgPool) {
    let rest = "select not exists (select from outbox) and 4 = (
                  select count(*) from deliveries where state <> 'pending')";
    until(pool, rest).await;
}

async fn until(pool: &PgPool, question: &str) {
    let asked = async {
        while !sqlx::query_scalar::<_, bool>(question).fetch_one(pool).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(30), asked).await;
    assert!(in_time.is_ok(), "never: {question}");
}

fn made(answer: &(StatusCode, String), field: &str) -> String {
    let body = answer.1.split("\r\n\r\n").nth(1).unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{}", answer.1));
    body[field].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// All roles at work, and a firm they work for.
struct Running {
    scene: Scene,
    served: Served,
    workers: [(Child, Arc<Mutex<String>>); 2],
    receiver: Receiver,
    firm: Firm,
    /// A token of an operator, made by the service's own login.
    operator: String,
}

impl Running {
    async fn start() -> Self {
        let scene = Scene::on(World::real_time(TestDatabase::new().await).await).await;
        let mails = scene.world.mails.path().to_str().unwrap();
        let fast = ["--role", "api", "--time-scale", "3600", "--mail-dir", mails];
        let served = serve_with(&scene.as_login("api"), &fast, &[]).await;
        let workers = [work(&scene, "projector").await, work(&scene, "deliverer").await];
        let (receiver, firm) = (Receiver::start().await, scene.world.firm().await);
        let make = ["tokens", "create", "--role", "operator", "--name", "o", "--json"];
        let (_, text) = scene.command("service", &make).await;
        let token: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        let operator = token["token"].as_str().unwrap().to_owned();
        Self { scene, served, workers, receiver, firm, operator }
    }

    async fn call(&self, request: (&str, &str), body: &Value) -> (StatusCode, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        call(self.served.public, request, &self.firm.key, &body).await
    }

    async fn subscribe(&self, trigger: &str) -> String {
        let body =
            json!({"target_url": self.receiver.url(&format!("/{trigger}")), "trigger": trigger});
        made(&self.call(("POST", "/hooks"), &body).await, "id")
    }

    async fn report(&self, events: Value) {
        let (door, token) = (self.served.internal, self.scene.world.token());
        let accepted = report(door, token, &events.to_string()).await;
        assert_eq!(accepted, Some(StatusCode::ACCEPTED), "{}", self.logs());
    }

    /// A call of the internal door by an operator, or the product.
    async fn internal(&self, request: (&str, &str), token: &str, body: &Value) {
        let answer = internal(self.served.internal, request, token, body).await;
        assert!(answer.0.is_success(), "{request:?}: {} {}", answer.1, self.logs());
    }

    /// The address at which each process shows its metrics.
    async fn doors(&self) -> [SocketAddr; 3] {
        let mut doors = [self.served.internal; 3];
        for (door, (_, log)) in doors.iter_mut().skip(1).zip(&self.workers) {
            let told = async {
                loop {
                    let told =
                        log.lock().unwrap().lines().find_map(|line| address(line, "internal="));
                    match told {
                        Some(told) => return told,
                        None => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
            };
            *door = tokio::time::timeout(Duration::from_secs(30), told).await.unwrap();
        }
        doors
    }

    fn logs(&self) -> String {
        let served = self.served.log.lock().unwrap().clone();
        let of_workers = self.workers.iter().map(|(_, log)| log.lock().unwrap().clone());
        served + &of_workers.collect::<String>()
    }

    async fn every_call_of_the_public_door(&self) {
        let form = format!("/forms/{}", self.firm.form);
        let reads = ["/me", "/triggers", "/triggers/form_submitted/sample", "/forms", "/hooks"];
        for path in reads.into_iter().chain([form.as_str()]) {
            let answer = self.call(("GET", path), &Value::Null).await;
            assert_eq!(answer.0, 200, "{path}: {}", answer.1);
        }
        let link = self.call(("POST", &format!("{form}/links")), &json!({})).await;
        assert_eq!(link.0, 201, "{}", link.1);
        let mail = json!({"email": "ann@example.com"});
        let sent = self.call(("POST", &format!("{form}/send")), &mail).await;
        assert_eq!(sent.0, 202, "{}", sent.1);
        let unknown = format!("ffk_{}", "A".repeat(43));
        assert_eq!(call(self.served.public, ("GET", "/me"), &unknown, "").await.0, 401);
    }

    /// Two responses, one that is not finished, and a workflow's step; of two firms in one batch.
    async fn activity(&self) -> [Uuid; 2] {
        let (world, firm) = (&self.scene.world, &self.firm);
        let (one, two) = (world.id(), world.id());
        let saved = json!({
            "response_id": world.id(), "form_id": firm.form, "saved_at": "2026-11-01T12:00:00Z",
            "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "A"}],
        });
        let opened = json!({"name": "Other", "plan": {"leads_in_full": true}});
        self.report(json!([
            activity(world.id(), "firm.opened", opened),
            submitted(firm, one),
            submitted(firm, two),
            activity(firm.id, "response.saved", saved),
            activity(firm.id, "address.unsubscribed", json!({"email": "bob@example.com"})),
        ]))
        .await;
        let step = json!({
            "firm_id": firm.id, "run_id": world.id(), "step_id": world.id(), "method": "POST",
            "url": self.receiver.url("/step"), "headers": {"X-One": "two"},
            "trigger": "form_submitted", "response_id": one, "test": false,
        });
        self.internal(("POST", "/workflow-steps"), world.token(), &step).await;
        [one, two]
    }

    async fn commands(&self, hook: &str, live: &str) {
        let id = self.firm.id.to_string();
        for arguments in [
            &["firms", "list"][..],
            &["keys", "list", "--firm", &id],
            &["hooks", "list", "--firm", &id, "--removed"],
            &["hooks", "why", hook],
            &[
                "hooks",
                "test",
                live,
                "--reason",
                "a drill",
                "--allow-targets",
                "127.0.0.0/8",
                "--allow-http-targets",
            ],
            &["keys", "why", &self.firm.key_id.to_string()],
            &["access", "--firm", &id],
            &["members", "list", "--firm", &id],
            &["forms", "list", "--firm", &id],
            &["receivers"],
            &["find", &id],
            &["find", "127.0.0.1"],
            &["events", "show", "1"],
            &["events", "of", &id],
            &["people", "show", "bob@example.com", "--firm", &id, "--reason", "a drill"],
            &["replay", "list"],
            &["stats"],
            &["deliveries", "export", "--firm", &id],
            &["deliveries", "list", "--firm", &id],
            &["secrets", "reveal", "--firm", &id],
            &["audit", "list", "--firm", &id],
            &["audit", "export", "--firm", &id],
            &["audit", "checkpoint"],
            &["verify", "deliveries"],
        ] {
            let (done, text) = self.scene.command("service", arguments).await;
            assert!(done, "{arguments:?}: {text}");
        }
        let (done, text) = self.scene.command("projector", &["audit", "checkpoint"]).await;
        assert!(done, "{text}");
        for arguments in [&["audit", "verify"][..], &["verify", "deliveries"]] {
            let (done, text) = self.scene.command("auditor", arguments).await;
            assert!(done, "{arguments:?}: {text}");
        }
        let files = std::fs::read_dir(data_dir(&self.scene.world.database).join("checkpoints"));
        let files = files.unwrap().count();
        let (done, text) = self.scene.command("auditor", &["audit", "checkpoint"]).await;
        assert!(!done && text.contains("this login may not sign"), "{text}");
        let after = std::fs::read_dir(data_dir(&self.scene.world.database).join("checkpoints"));
        assert_eq!(after.unwrap().count(), files, "nothing is signed that cannot be noted");
        let (done, text) = self.scene.command("auditor", &["keys", "list", "--firm", &id]).await;
        assert!(!done && text.contains("permission denied"), "{text}");
        assert!(text.contains("docs/how-to/audit-with-a-token.md"), "{text}");
        self.an_auditor_without_a_keyring_is_sent_to_a_token(hook).await;
    }

    /// The auditor was told to set the URL of the keyring, and then was refused by the keyring.
    async fn an_auditor_without_a_keyring_is_sent_to_a_token(&self, hook: &str) {
        let mut command = firmforms(&self.scene.as_login("auditor"));
        command.env_remove("FIRMFORMS_KEYRING_URL").args(["hooks", "why", hook]);
        let (done, text) = said(&command.output().await.unwrap());
        assert!(!done && text.contains("FIRMFORMS_KEYRING_URL"), "{text}");
        assert!(text.contains("docs/how-to/audit-with-a-token.md"), "{text}");
    }
}

#[tokio::test]
async fn b16_each_role_works_with_its_grants() {
    let running = Running::start().await;
    let (pool, id) = (running.scene.world.pool(), running.firm.id);
    let hook = running.subscribe("form_submitted").await;
    let live = running.subscribe("partial_submission").await;
    running.every_call_of_the_public_door().await;
    let [_, gone] = running.activity().await;
    at_rest(pool).await;

    running.report(json!([activity(id, "response.erased", json!({"response_id": gone}))])).await;
    let order = json!({"firm_id": id, "reason": "a drill", "force": true, "state": "delivered",
                       "hook_id": hook});
    running.internal(("POST", "/replays"), &running.operator, &order).await;
    until(pool, "select state = 'finished' from replays").await;
    at_rest(pool).await;
    assert!(running.receiver.received().len() >= 5, "one was sent again");
    let rotate = format!("/firms/{id}/webhook-secret/rotate");
    running.internal(("POST", &rotate), &running.operator, &Value::Null).await;
    let removed = running.call(("DELETE", &format!("/hooks/{hook}")), &Value::Null).await;
    assert_eq!(removed.0, 200, "{}", removed.1);
    running.commands(&hook, &live).await;

    for door in running.doors().await {
        let whole = |told: &Scrape| told.series.contains_key(EVERY_QUESTION[4]);
        let told = Scrape::until(door, whole).await;
        for series in EVERY_QUESTION {
            assert!(told.series.contains_key(series), "{series} in\n{}", told.text);
        }
        assert_eq!(told.value("firmforms_database_up"), 1.0, "{}", told.text);
    }

    let log = running.logs();
    let denied = log.lines().find(|line| line.contains("denied") || line.contains("row-level"));
    assert_eq!(denied, None, "{log}");
}
