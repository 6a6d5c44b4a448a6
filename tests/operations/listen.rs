//! `firmforms listen`: the receiver in the binary, against the real service.

use std::process::Stdio;

use api::commands::secrets;
use domain::event::Actor;
use tests::{TestDatabase, World};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A receiver that runs.
struct Listener {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    url: String,
}

fn listen(arguments: &[&str]) -> Command {
    let mut command = Command::new(tests::program());
    command.env_clear().arg("listen").args(arguments).kill_on_drop(true);
    command
}

impl Listener {
    async fn start(arguments: &[&str]) -> Self {
        let mut child =
            listen(arguments).args(["--at", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next_line().await.unwrap().unwrap();
        let url = first.strip_prefix("listening at ").unwrap();
        let url = url.strip_suffix(": any path takes deliveries").unwrap().to_owned();
        Self { _child: child, lines, url }
    }

    async fn line(&mut self) -> String {
        self.lines.next_line().await.unwrap().unwrap()
    }
}

/// The receiver checks the signature, answers by its script and prints the body.
#[tokio::test]
async fn listen_tells_each_answers_next_step() {
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    let revealed = secrets::reveal(world.service(), firm.id, Actor::Member(firm.owner)).await;
    let revealed = revealed.unwrap();
    let secret = revealed.secret.as_str();
    let mut listener =
        Listener::start(&["--webhook-secret", secret, "--answers", "200,503,410,410", "--bodies"])
            .await;
    world.subscribe(&firm, &format!("{}/hooks/7", listener.url)).await;
    for expected in [
        "signature good -> 200: delivered",
        "signature good -> 503: attempt 2 of 8 in 1 minute",
        "signature good -> 410: failed; another 410 in a row removes the subscription",
        "signature good -> 410: failed; the second 410 in a row removes the subscription",
    ] {
        world.submit(&firm).await;
        world.deliver().await;
        let line = listener.line().await;
        assert!(
            line.contains(" POST /hooks/7 form_submitted ") && line.contains(expected),
            "{line}"
        );
        assert!(listener.line().await.starts_with("{\"event\":\"form_submitted\""));
    }
}

#[tokio::test]
async fn a_bad_signature_gets_401() {
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    let other = format!("whsec_{}", "A".repeat(43));
    let mut listener = Listener::start(&["--webhook-secret", &other, "--answers", "200"]).await;
    world.subscribe(&firm, &listener.url).await;
    world.submit(&firm).await;
    world.deliver().await;
    let line = listener.line().await;
    let expected = "signature bad: of another secret or body -> 401: failed, and not sent again";
    assert!(line.contains(expected), "{line}");
}

#[tokio::test]
async fn malformed_scripts_and_secrets_are_refused() {
    for bad in [["--answers", "ok"], ["--answers", "slow"], ["--webhook-secret", "abc"]] {
        let output = listen(&bad).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
    }
}
