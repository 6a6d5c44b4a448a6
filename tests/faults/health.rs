//! `firmforms health`: the exit code of a process's health, as containers and probes ask for it.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use tests::TestDatabase;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;

use tests::process::{firmforms, serve};

/// The exit code of the command, and its words.
pub(crate) type Health = (Option<i32>, String);

/// The health of the process with this internal door. The command knows no database.
pub(crate) async fn health(door: impl ToString, more: &[&str]) -> Health {
    let mut command = health_command();
    command.args(["--internal-addr", &door.to_string()]).args(more);
    told(command.output().await.unwrap())
}

fn health_command() -> Command {
    let mut command = Command::new(tests::program());
    command.arg("health").env_clear().env("NO_COLOR", "1");
    command
}

fn told(output: Output) -> Health {
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// The address comes from a flag, a variable or a settings file.
#[tokio::test]
async fn health_of_a_ready_process_is_0() {
    let served = serve(&TestDatabase::new().await, &[]).await;
    assert_eq!(health(served.internal, &[]).await, (Some(0), "ready\n".into()));
    assert_eq!(health(served.internal, &["--live"]).await, (Some(0), "alive\n".into()));

    let mut by_variable = health_command();
    by_variable.env("FIRMFORMS_INTERNAL_ADDR", served.internal.to_string());
    assert_eq!(told(by_variable.output().await.unwrap()).0, Some(0));

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("firmforms.toml");
    fs::write(&file, format!("internal-addr = \"{}\"\nrole = \"api\"\n", served.internal)).unwrap();
    let mut by_file = health_command();
    by_file.arg("--config").arg(file);
    assert_eq!(told(by_file.output().await.unwrap()).0, Some(0));
}

/// The process does not answer, speaks no HTTP, or does not listen.
#[tokio::test]
async fn health_without_an_http_answer_is_1() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let door = listener.local_addr().unwrap();
    let (code, said) = health(door, &["--timeout", "1"]).await;
    assert!(code == Some(1) && said.contains("does not answer in 1 s"), "{code:?} {said}");

    let mail_server = async {
        let _silent = listener.accept().await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut asked).await.unwrap(), 0);
        }
        stream.write_all(b"220 mail.example.com ESMTP\r\n").await.unwrap();
    };
    let ((code, said), ()) = tokio::join!(health(door, &["--live"]), mail_server);
    assert!(code == Some(1) && said.contains("not alive: 127.0.0.1:"), "{code:?} {said}");
    assert!(said.contains("no HTTP answer"), "{said}");

    drop(listener);
    let (code, said) = health(door, &[]).await;
    assert!(code == Some(1) && said.contains("refused"), "{code:?} {said}");
}

/// A certificate of its own root and its key, as files of this folder.
fn certificate(folder: &Path) -> [String; 2] {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = ["door.pem", "door.key"].map(|name| folder.join(name));
    fs::write(&files[0], made.cert.pem()).unwrap();
    fs::write(&files[1], made.signing_key.serialize_pem()).unwrap();
    files.map(|file| file.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn health_asks_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = certificate(folder.path());
    let tls = ["--internal-tls-cert", &certificate, "--internal-tls-key", &key];
    let served = serve(&TestDatabase::new().await, &tls).await;
    assert_eq!(health(served.internal, &tls).await, (Some(0), "ready\n".into()));
    let in_clear = health(served.internal, &[]).await;
    assert_eq!(in_clear.0, Some(1), "{in_clear:?}");
}

#[tokio::test]
async fn health_shows_mutual_tls_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = certificate(folder.path());
    let tls = ["--internal-tls-cert", &certificate, "--internal-tls-key", &key];
    let mutual = [&tls[..], &["--internal-tls-client-ca", &certificate]].concat();
    let served = serve(&TestDatabase::new().await, &mutual).await;
    assert_eq!(health(served.internal, &mutual).await, (Some(0), "ready\n".into()));
    let without = health(served.internal, &tls).await;
    assert_eq!(without.0, Some(1), "{without:?}");
    let missing = ["--internal-tls-cert", "/nothing", "--internal-tls-key", &key];
    let missing = [&missing[..], &["--internal-tls-client-ca", &certificate]].concat();
    let (code, said) = health(served.internal, &missing).await;
    assert!(code == Some(1) && said.contains("/nothing"), "{code:?} {said}");
}

#[tokio::test]
async fn health_asks_a_unix_socket() {
    let database = TestDatabase::new().await;
    let folder = tempfile::tempdir().unwrap();
    let door = format!("unix:{}", folder.path().join("door.sock").display());
    let mut command = firmforms(&database);
    command.args(["serve", "--role", "projector", "--internal-addr", &door]);
    let mut child = command.env("NO_COLOR", "1").stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while !lines.next_line().await.unwrap().expect("it starts").ends_with(" INFO ready") {}
    assert_eq!(health(&door, &[]).await, (Some(0), "ready\n".into()));
}
