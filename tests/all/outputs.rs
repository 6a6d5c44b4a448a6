//! The output of each command in a pipe, on a terminal and as JSON, held as a file: a change of the
//! output is seen as a change of `tests/snapshots/outputs.txt`. `UPDATE=1` writes it again. Ids,
//! times and ages are masked, and keep their width.

use std::fmt::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use sqlx::Executor;
use tests::{Receiver, Reply, TestDatabase, World, activity, later};
use tokio::process::Command;

use crate::process::firmforms;

/// How a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pipe,
    Terminal,
    Json,
    Quiet,
}

/// A world in which each list has a row, with times of days ago.
async fn told() -> (World, String, String) {
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    receiver.reply([Reply::status(404)]);
    let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    world.deliver().await;
    world.project().await;
    let held = later(activity(firm.id, "form.unpublished", json!({"form_id": firm.form})), 1);
    assert_eq!(world.report(&[held]).await.status, 202);
    let days_ago = "update key_auth set created_at = now() - interval '75 hours';
                    update key_calls set calls = array[now() - interval '75 hours'];
                    update hooks set created_at = now() - interval '75 hours';
                    update deliveries set created_at = now() - interval '75 hours';
                    update tokens set created_at = now() - interval '75 hours',
                                      last_used_at = now() - interval '75 hours'";
    world.pool().execute(days_ago).await.unwrap();
    (world, firm.id.to_string(), hook.to_string())
}

/// Standard output of a command; beside it standard error, but on a terminal both are one.
async fn output(world: &World, arguments: &[&str], mode: Mode) -> String {
    let plain = firmforms(&world.database);
    let mut command = match mode {
        Mode::Terminal => on_a_terminal(&plain, arguments),
        Mode::Pipe | Mode::Json | Mode::Quiet => plain,
    };
    match mode {
        Mode::Pipe => _ = command.args(arguments),
        Mode::Json => _ = command.args(arguments).arg("--json"),
        Mode::Quiet => _ = command.args(arguments).arg("--quiet"),
        Mode::Terminal => {}
    }
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\r', "");
    let told = text(&output.stderr);
    let told = if told.is_empty() { told } else { format!("stderr: {told}") };
    masked(&format!("{}{told}", text(&output.stdout)))
}

/// The command on a terminal of its own, made by `script`.
fn on_a_terminal(plain: &Command, arguments: &[&str]) -> Command {
    let program = plain.as_std().get_program().to_str().unwrap().to_owned();
    let quoted = arguments.iter().map(|one| format!(" '{one}'")).collect::<String>();
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{program}{quoted}"), "/dev/null"]).env_clear();
    let set = plain.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(set).env("TERM", "xterm").env("PATH", std::env::var_os("PATH").unwrap());
    command.kill_on_drop(true);
    command
}

/// Digits of ids, times, counts of milliseconds and ports become `0`; the width stays.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for line in text.lines() {
        let line = without_port(&line.replace('\u{1b}', "␛"));
        let words = line.split_inclusive(|c: char| !(c.is_alphanumeric() || "-:._".contains(c)));
        for word in words {
            // A key may contain the signs of base64url.
            let is_key = word.starts_with("ffk_");
            let is_masked = is_id(word) || is_time(word) || is_key;
            let is_letter = |c: char| c.is_alphanumeric() || is_key && "-_".contains(c);
            let mask = |c: char| if is_letter(c) { '0' } else { c };
            let written: String =
                if is_masked { word.chars().map(mask).collect() } else { word.to_owned() };
            masked.push_str(&written);
        }
        masked.push('\n');
    }
    masked
}

/// The line without the port that the system chose for the receiver.
fn without_port(line: &str) -> String {
    const HOST: &str = "127.0.0.1:";
    let mut parts = line.split(HOST);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let _ = write!(written, "{HOST}PORT{rest}");
    }
    written
}

fn is_id(word: &str) -> bool {
    let word = word.trim_end_matches(|c: char| !c.is_alphanumeric());
    word.len() >= 16 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

fn is_time(word: &str) -> bool {
    word.len() >= 20 && word.starts_with("20") && word.as_bytes()[10] == b'T'
}

#[tokio::test]
async fn the_output_of_commands_is_the_one_that_was_agreed_on() {
    let (world, firm, hook) = told().await;
    let by_name = "harrow lane";
    let commands: &[(&[&str], &[Mode])] = &[
        (&["firms", "list"], &[Mode::Pipe, Mode::Terminal, Mode::Json, Mode::Quiet]),
        (&["keys", "list", "--firm", by_name], &[Mode::Pipe, Mode::Terminal, Mode::Quiet]),
        (&["tokens", "list"], &[Mode::Pipe, Mode::Terminal]),
        (&["deliveries", "list", "--firm", &firm[..8]], &[Mode::Pipe, Mode::Terminal, Mode::Json]),
        (&["deliveries", "paused"], &[Mode::Pipe, Mode::Terminal, Mode::Json, Mode::Quiet]),
        (&["hooks", "list", "--firm", by_name], &[Mode::Pipe, Mode::Terminal]),
        (&["hooks", "list", "--firm", by_name, "--removed"], &[Mode::Pipe, Mode::Terminal]),
        (&["hooks", "why", &hook[..13]], &[Mode::Pipe]),
        (&["lanes", "list", "--firm", by_name], &[Mode::Pipe, Mode::Json]),
        (&["workflows", "list", "--firm", by_name], &[Mode::Pipe, Mode::Json]),
        (&["replay", "start", "--firm", by_name, "--reason", "a", "--dry-run"], &[Mode::Terminal]),
        (&["keys", "list", "--firm", "Nobody"], &[Mode::Pipe, Mode::Terminal]),
        (&["hooks", "why", "xyz"], &[Mode::Pipe]),
        (&["deliveries", "list", "--firm", by_name, "--since", "soon"], &[Mode::Pipe]),
        (&["secrets", "rotate", "--firm", by_name], &[Mode::Pipe]),
        (&["migrate"], &[Mode::Pipe, Mode::Json]),
        (&["audit", "keys", "list"], &[Mode::Pipe, Mode::Json]),
    ];
    let mut now = String::new();
    for (arguments, modes) in commands {
        for mode in *modes {
            let said = output(&world, arguments, *mode).await;
            let arguments = masked(&arguments.join(" ")).trim_end().replace(&firm[..8], "FIRM");
            let arguments = arguments.replace(&hook[..13], "HOOK");
            let _ = write!(now, "$ firmforms {arguments}   # {mode:?}\n{said}\n");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/outputs.txt");
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &now).unwrap();
    }
    let agreed = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (new, old)) in now.lines().zip(agreed.lines()).enumerate() {
        assert_eq!(new, old, "line {}; if that is meant, run with UPDATE=1", number + 1);
    }
    assert_eq!(now.lines().count(), agreed.lines().count(), "one is longer: run with UPDATE=1");
}

/// First-use 3.5: a mistyped directory, and a program that is newer than the database.
#[tokio::test]
async fn only_serve_and_migrate_begin_an_installation_or_change_a_schema() {
    let folder = tempfile::tempdir().unwrap();
    let mistyped = folder.path().join("mistyped");
    let world = World::new().await;
    let mut command = firmforms(&world.database);
    command.env_remove("DATABASE_URL").env("FIRMFORMS_DATA_DIR", &mistyped);
    let output = command.args(["firms", "list"]).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("there is no installation in ") && !mistyped.exists(), "{said}");

    let older =
        "delete from _sqlx_migrations where version = (select max(version) from _sqlx_migrations)";
    world.pool().execute(older).await.unwrap();
    let output = firmforms(&world.database).args(["firms", "list"]).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(
        said.contains("the schema of the main database is ")
            && said.contains("`firmforms migrate`")
    );
}
