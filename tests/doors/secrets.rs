//! B15: no line of the service's log holds a secret or personal data, at any log level.

use serde_json::json;
use tests::smtp_server::{Setup, SmtpServer};
use tests::{Receiver, Reply, TestDatabase, World, activity};

use tests::process::{Served, call, serve_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b15_secrets_and_personal_data_stay_unlogged() {
    let world = World::real_time(TestDatabase::new().await).await;
    let (mail, receiver) = (SmtpServer::start(Setup::default()).await, Receiver::start().await);
    let smtp = format!("smtp://{}?tls=none", mail.at);
    let level = "trace,sqlx=debug,mio=warn,polling=warn";
    let arguments = ["--smtp-url", &smtp, "--mail-from", "forms@firmforms.example"];
    let served = serve_with(&world.database, &arguments, &[("RUST_LOG", level)]).await;
    let firm = world.firm().await;
    let wrong = format!("ffk_{}", "CANARY".repeat(8).get(..43).unwrap());
    let target = receiver.url("/hook?token=canary-query");
    let hook = json!({"target_url": target, "trigger": "form_submitted"}).to_string();
    let invite = r#"{"email":"canary@example.com","name":"Canary Person","message":"canary note"}"#;
    let send = format!("/forms/{}/send", firm.form);
    for (key, request, body) in [
        (&firm.key, ("POST", "/hooks"), hook.as_str()),
        (&firm.key, ("POST", "/hooks"), r#"{"canary":"#),
        (&firm.key, ("POST", send.as_str()), invite),
        (&firm.key, ("GET", "/me?api_key=canary"), ""),
        (&wrong, ("GET", "/me"), ""),
    ] {
        call(served.public, request, key, body).await;
    }
    receiver.reply([Reply::status(500).body(b"canary answer"), Reply::status(200)]);
    let data = json!({
        "response_id": world.id(), "form_id": firm.form, "submitted_at": "2026-11-01T12:00:00Z",
        "respondent": {"email": "canary@example.com"},
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "canary answer"}],
    });
    world.report(&[activity(firm.id, "response.submitted", data)]).await;
    let received = receiver.wait_for(1).await;
    let signature =
        received[0].header("x-service-signature").rsplit_once('=').unwrap().1.to_owned();
    let log = ended(served).await;
    assert!(log.lines().count() > 100, "it did log: {log}");
    for secret in ["canary", "CANARY", "ffk_", "whsec_", &firm.key, &signature, "Canary"] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}

/// Stops the service, and returns its whole log.
async fn ended(mut served: Served) -> String {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let pid = i32::try_from(served.child.id().unwrap()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    assert!(served.child.wait().await.unwrap().success());
    served.log.lock().unwrap().clone()
}
