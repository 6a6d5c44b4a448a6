//! The log lines are JSON, and no secret is in logs, metrics or traces (case B15).

use std::net::SocketAddr;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};
use tests::{Firm, Receiver, Reply, TestDatabase, World, activity, raw};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::collected::{AT_ONCE, collected};
use tests::process::{call, firmforms, serving};
use tests::scrape::Scrape;

/// Parses a log line, and fails unless the line has the promised fields.
fn line(text: &str) -> Value {
    let line: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let object = line.as_object().unwrap_or_else(|| panic!("{text}"));
    for name in object.keys() {
        let known = ["time", "level", "target", "message", "fields", "trace_id", "request_id"];
        assert!(known.contains(&name.as_str()), "{name} in {text}");
    }
    for name in ["time", "level", "target", "message"] {
        assert!(object[name].is_string(), "{name} in {text}");
    }
    assert!(object["fields"].is_object(), "{text}");
    chrono::DateTime::parse_from_rfc3339(object["time"].as_str().unwrap()).unwrap();
    line
}

/// The lines of a command that ends by itself.
async fn said(mut command: Command) -> (Option<i32>, Vec<Value>) {
    let ended = command.output().await.unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    (ended.status.code(), said.lines().map(line).collect())
}

#[tokio::test]
async fn h4_a_failed_start_logs_json_too() {
    let database = TestDatabase::new().await;
    let serve = ["serve", "--addr", "127.0.0.1:0", "--internal-addr", "127.0.0.1:0"];
    let wrong = TestDatabase::from_main(
        database.main.clone().database("nowhere"),
        database.keyring.clone(),
    );
    for (of, more, code, words) in [
        (&wrong, &["--log-json"][..], 1, "the main database"),
        (&database, &["--log-json", "--permits", "many"], 2, "invalid value"),
        (&database, &["--log-json", "--otlp-endpoint", "canary:1"], 2, "http://"),
        (&database, &["--log-json", "--tls-cert", "a", "--tls-key", "b"], 1, "firmforms: "),
    ] {
        let mut command = firmforms(of);
        command.args(serve).args(more);
        let (ended, lines) = said(command).await;
        let last = lines.last().unwrap();
        assert_eq!((ended, &last["level"]), (Some(code), &json!("ERROR")), "{lines:?}");
        assert!(last["message"].as_str().unwrap().contains(words), "{lines:?}");
    }
    let mut command = firmforms(&database);
    command.args(["serve", "--permits", "many"]).env("FIRMFORMS_LOG_JSON", "1");
    assert_eq!(said(command).await.1.len(), 1);
}

/// A value of the environment is not repeated, whatever is wrong with the value.
#[tokio::test]
async fn b15_a_refused_argument_shows_no_value() {
    let database = TestDatabase::new().await;
    for (name, value, argument) in [
        ("FIRMFORMS_SMTP_URL", "smtp://canary:canary@mail:587:1", "--smtp-url"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://canary:canary@collector", "--otlp-endpoint"),
    ] {
        for json in ["false", "true"] {
            let mut command = firmforms(&database);
            command.args(["serve", "--mail-from", "forms@example.com"]);
            command.env(name, value).env("FIRMFORMS_LOG_JSON", json);
            let ended = command.output().await.unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(2), "{said}");
            assert!(said.contains(argument) && !said.contains("canary"), "{said}");
            assert_eq!(said.starts_with('{'), json == "true", "{said}");
        }
        let mut help = firmforms(&database);
        let shown = help.args(["serve", "--help"]).env(name, value).output().await.unwrap();
        assert!(!String::from_utf8(shown.stdout).unwrap().contains("canary"), "{name}");
    }
}

/// A service that logs and traces all it can, and its log lines.
struct Talking {
    child: Child,
    public: SocketAddr,
    internal: SocketAddr,
    told: JoinHandle<Vec<String>>,
}

impl Talking {
    async fn start(world: &World, collector: &Receiver) -> Self {
        let endpoint = collector.url("");
        let environment =
            [AT_ONCE, ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("RUST_LOG", OURS)];
        let mails = world.mails.path().to_str().unwrap();
        let arguments = ["--log-json", "--mail-dir", mails];
        let mut command = serving(&world.database, &arguments, &environment);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut told = Vec::new();
        let mut doors = None;
        loop {
            told.push(stderr.next_line().await.unwrap().expect("it is ready"));
            let last = line(told.last().unwrap());
            if last["message"] == "listening" {
                let of = |door: &str| last["fields"][door].as_str().unwrap().parse().unwrap();
                doors = Some((of("public"), of("internal")));
            } else if last["message"] == "ready" {
                break;
            }
        }
        let (public, internal) = doors.unwrap();
        // A full pipe would hold up the process.
        let told = tokio::spawn(async move {
            while let Some(line) = stderr.next_line().await.unwrap() {
                told.push(line);
            }
            told
        });
        Self { child, public, internal, told }
    }

    /// Stops the service. Returns all its log lines.
    async fn stop(mut self) -> Vec<String> {
        kill(Pid::from_raw(self.child.id().unwrap().cast_signed()), Signal::SIGTERM).unwrap();
        assert!(self.child.wait().await.unwrap().success());
        self.told.await.unwrap()
    }
}

/// All our crates log everything.
const OURS: &str = "info,firmforms=trace,api=trace,deliverer=trace,eventstore=trace,projector=trace,\
                    inviter=trace,mailer=trace,vault=trace,door=trace,auditor=trace,telemetry=trace";

/// Calls of an integrator, and of a caller without a key.
async fn calls(talking: &Talking, firm: &Firm, receiver: &Receiver) {
    let (public, key) = (talking.public, firm.key.as_str());
    for target in [receiver.url("/in?token=canary"), "https://canary.invalid/x?canary".into()] {
        let body = json!({"trigger": "form_submitted", "target_url": target}).to_string();
        assert_eq!(call(public, ("POST", "/hooks"), key, &body).await.0, 201);
    }
    let invite = json!({"email": "canary@example.com", "name": "canary", "message": "canary"});
    let send = format!("/forms/{}/send", firm.form);
    assert_eq!(call(public, ("POST", &send), key, &invite.to_string()).await.0, 202);
    let canary = format!("ffk_{}", "canary-".repeat(7).get(..43).unwrap());
    for (method, path, key) in [
        ("GET", "/me?key=canary", canary.as_str()),
        ("GET", "/canary", key),
        ("CANARY", "/me", key),
        ("POST", "/hooks", key),
    ] {
        call(public, (method, path), key, r#"{"target_url": "canary"}"#).await;
    }
}

/// Activity about people, valid and invalid.
async fn activities(talking: &Talking, world: &World, firm: &Firm) {
    let submitted = || {
        json!({
            "response_id": world.id(), "form_id": firm.form,
            "submitted_at": "2026-11-01T11:00:00Z",
            "respondent": {"name": "canary", "email": "canary@example.com", "phone": "canary"},
            "answers": [{"id": "q", "question": "canary?", "type": "short_text",
                         "answer": "canary"}],
        })
    };
    for (data, status) in [(submitted(), 202), (submitted(), 202), (json!({"canary": "x"}), 400)] {
        let batch = json!([activity(firm.id, "response.submitted", data)]).to_string();
        let answered = raw::report(talking.internal, world.token(), &batch).await;
        assert_eq!(answered.unwrap(), status);
    }
}

/// A workflow step whose URL holds an answer.
async fn step(talking: &Talking, world: &World, firm: &Firm, receiver: &Receiver) {
    let response_id = world.submit(firm).await;
    let order = json!({
        "firm_id": firm.id, "run_id": world.id(), "step_id": world.id(), "method": "POST",
        "url": receiver.url("/canary?email=canary%40example.com"), "headers": {"X-A": "canary"},
        "trigger": "form_submitted", "response_id": response_id,
    })
    .to_string();
    let request = format!(
        "POST /internal/v1/workflow-steps HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{order}",
        world.token(),
        order.len()
    );
    assert_eq!(raw::exchange(talking.internal, &request).await.unwrap().0, 202);
}

/// The story has every secret. The log, the metrics and the traces are searched for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b15_telemetry_holds_no_secret() {
    let world = World::real_time(TestDatabase::new().await).await;
    let (firm, receiver, collector) =
        (world.firm().await, Receiver::start().await, Receiver::start().await);
    receiver.reply([Reply::status(500).body(b"canary answer"), Reply::status(410).body(b"canary")]);
    let held = "insert into pauses (pause_id, kind, host, reason, actor, paused_at)
                values (gen_random_uuid(), 'host', 'canary.example', 'canary', 'system', now())";
    world.change_database(held).await;
    let talking = Talking::start(&world, &collector).await;
    calls(&talking, &firm, &receiver).await;
    activities(&talking, &world, &firm).await;
    step(&talking, &world, &firm, &receiver).await;
    let received = receiver.wait_for(3).await;
    collected(&collector, |spans| named(spans, "attempt") >= 4 && named(spans, "GET unknown") >= 1)
        .await;
    let figures = Scrape::new(talking.internal).await;
    let told = talking.stop().await;
    for message in ["ready", "deliveries are paused"] {
        assert!(told.iter().any(|told| line(told)["message"] == message), "{message}: {told:?}");
    }

    let sent: Vec<u8> = collector.received().iter().flat_map(|sent| sent.body.to_vec()).collect();
    let sent = String::from_utf8_lossy(&sent).into_owned();
    assert!(sent.contains("/api/v1/forms/{id}/send"), "what is looked through is there");
    assert!(!sent.contains(&receiver.address().port().to_string()), "no target is in a trace");
    let (_, signature) = received[0].header("x-service-signature").split_once("v1=").unwrap();
    let secrets = ["canary", "ffk_", "whsec_", "Bearer", world.token(), &firm.key, signature];
    for (place, text) in [("lines", told.join("\n")), ("figures", figures.text), ("traces", sent)] {
        for secret in secrets {
            assert!(
                !text.to_lowercase().contains(&secret.to_lowercase()),
                "{secret} in {place}: {text}"
            );
        }
    }
}

fn named(spans: &[Span], name: &str) -> usize {
    spans.iter().filter(|span| span.name == name).count()
}

/// The log line of a 500 had nothing that its caller knew. The span has the id, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_calls_log_their_request_id() {
    let world = World::real_time(TestDatabase::new().await).await;
    let (firm, collector) = (world.firm().await, Receiver::start().await);
    let talking = Talking::start(&world, &collector).await;
    world.change_database("alter table forms rename to forms_of_before").await;
    let request = format!(
        "GET /api/v1/forms HTTP/1.1\r\nHost: test\r\nX-API-Key: {}\r\nX-Request-Id: caller:1\r\n\
         Connection: close\r\n\r\n",
        firm.key
    );
    let (status, answer) = raw::exchange(talking.public, &request).await.unwrap();
    assert_eq!(status, 500, "{answer}");
    assert!(answer.contains("x-request-id: caller:1"), "{answer}");
    assert!(answer.contains("(request caller:1)"), "{answer}");
    collected(&collector, |spans| named(spans, "GET /api/v1/forms") == 1).await;
    let told = talking.stop().await;
    let failed = told.iter().map(|told| line(told)).find(|line| line["message"] == "a call failed");
    assert_eq!(failed.unwrap()["request_id"], "caller:1", "{told:?}");
    let sent: Vec<u8> = collector.received().iter().flat_map(|sent| sent.body.to_vec()).collect();
    let sent = String::from_utf8_lossy(&sent).into_owned();
    assert!(sent.contains("request_id") && sent.contains("caller:1"), "{sent}");
}
