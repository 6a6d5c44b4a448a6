//! The output of each command in a pipe, on a terminal and as JSON. The file
//! `tests/snapshots/outputs.txt` has the output, so a change of the output shows as a change of the
//! file. `UPDATE=1` writes the file again. Ids, times and secrets are masked, and keep their width.
//! Words in capitals stand for ids of the world.

use std::fmt::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use sqlx::Executor;
use tests::{Receiver, Reply, TestDatabase, World, activity, later};
use tokio::process::Command;
use uuid::Uuid;

use tests::process::{data_dir, firmforms};

/// The end of a bar of progress, which a slow machine shows: the line is cleared.
const BAR_IS_TAKEN_AWAY: &str = "\u{1b}[2K";

/// How a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pipe,
    Terminal,
    Json,
    Quiet,
}

const TEXT: &[Mode] = &[Mode::Pipe, Mode::Terminal];
const REPORT: &[Mode] = &[Mode::Pipe, Mode::Terminal, Mode::Json];
const EACH: &[Mode] = &[Mode::Pipe, Mode::Terminal, Mode::Json, Mode::Quiet];
const PIPE: &[Mode] = &[Mode::Pipe];
const UNTIMED: &[Mode] = &[Mode::Pipe, Mode::Json];

/// The commands in the order in which they are given, and how.
const COMMANDS: &[(&str, &[Mode])] = &[
    ("firms list", EACH),
    ("keys list --firm NAME", EACH),
    ("tokens list", EACH),
    ("deliveries list --firm FIRM", EACH),
    ("deliveries list --firm NAME --state pending", EACH),
    ("deliveries show --firm NAME DELIVERY", REPORT),
    ("deliveries paused", EACH),
    ("hooks list --firm NAME", EACH),
    ("hooks list --firm NAME --removed", TEXT),
    ("hooks why HOOK", REPORT),
    ("members list --firm NAME", EACH),
    ("forms list --firm NAME", EACH),
    ("receivers", EACH),
    ("find HOOK", EACH),
    ("find 127.0.0.1", TEXT),
    ("find nothing", TEXT),
    ("access --firm NAME", EACH),
    ("keys why KEY", REPORT),
    ("deliveries why DELIVERY", REPORT),
    ("events show 2", REPORT),
    ("events of HOOK", EACH),
    ("people show ann@example.com --firm NAME --reason a", EACH),
    ("deliveries export --firm NAME", PIPE),
    ("deliveries export --firm NAME --format ndjson", PIPE),
    ("deliveries show --firm NAME DELIVERY --body --answer --reason a", REPORT),
    ("hooks test HOOK --reason a", UNTIMED),
    ("replay list", EACH),
    ("lanes list --firm NAME", EACH),
    ("workflows list --firm NAME", EACH),
    ("replay start --firm NAME --reason a --dry-run", EACH),
    ("replay show 00000000", PIPE),
    ("audit list --firm NAME --action hook_created", TEXT),
    ("audit keys list", REPORT),
    ("projections status deliveries", PIPE),
    ("projections verify firms", REPORT),
    ("projections rebuild firms", PIPE),
    ("verify deliveries", REPORT),
    ("migrate", REPORT),
    ("config show --role api", TEXT),
    ("serve --check --role projector", TEXT),
    ("keys list --firm Nobody", TEXT),
    ("keys list", TEXT),
    ("hooks why xyz", PIPE),
    ("deliveries list --firm NAME --since soon", PIPE),
    ("deliveries show --firm NAME HOOK", PIPE),
    ("reissue --firm NAME HOOK --reason a", PIPE),
    ("ingest /no/such", PIPE),
    ("keyring rewrap --new-key-file /no/such", PIPE),
    ("secrets rotate --firm NAME", TEXT),
    ("secrets rotate --firm NAME --yes", EACH),
    ("secrets reveal --firm NAME", EACH),
    ("deliveries pause --host example.com --reason a", REPORT),
    ("deliveries paused", EACH),
    ("deliveries resume --host example.com", REPORT),
    ("keys create --firm NAME --member OWNER --name n", EACH),
    ("keys revoke --firm NAME KEY", TEXT),
    ("keys revoke --firm NAME KEY --yes", REPORT),
    ("tokens create --role auditor --name n", EACH),
    ("tokens revoke 00000000", PIPE),
    ("replay start --firm NAME --reason a", PIPE),
    ("replay show REPLAY", UNTIMED),
    ("replay pause REPLAY", UNTIMED),
    ("replay resume REPLAY", UNTIMED),
    ("replay stop REPLAY", UNTIMED),
    ("audit checkpoint", REPORT),
    ("audit keys list", REPORT),
    ("audit keys publish", TEXT),
    ("audit keys rotate", REPORT),
    ("audit verify", REPORT),
];

/// A world in which most lists have a row, with times of days ago.
struct ToldWorld {
    world: World,
    /// The words that stand for values of this world.
    words: Vec<(&'static str, String)>,
}

impl ToldWorld {
    async fn new() -> Self {
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
                        select make_history_range('deliveries', now() - interval '75 hours');
                        update deliveries set created_at = now() - interval '75 hours';
                        update forms set created_at = now() - interval '75 hours';
                        update receivers set attempted_at = now() - interval '75 hours',
                                             failing_since = now() - interval '75 hours';
                        update tokens set created_at = now() - interval '75 hours',
                                          last_used_at = now() - interval '75 hours'";
        world.pool().execute(days_ago).await.unwrap();
        let delivery: Uuid = sqlx::query_scalar("select delivery_id from deliveries")
            .fetch_one(world.pool())
            .await
            .unwrap();
        let words = vec![
            ("NAME", "harrow lane".to_owned()),
            ("FIRM", firm.id.to_string()[..8].to_owned()),
            ("OWNER", firm.owner.to_string()),
            ("KEY", firm.key_id.to_string()),
            ("HOOK", hook.to_string()[..13].to_owned()),
            ("DELIVERY", delivery.to_string()[..13].to_owned()),
        ];
        Self { world, words }
    }

    /// The words of a command, with the values of this world.
    async fn arguments(&self, command: &str) -> Vec<String> {
        let mut arguments = Vec::new();
        for word in command.split(' ') {
            let known = self.words.iter().find(|(name, _)| *name == word);
            arguments.push(match known {
                Some((_, value)) => value.clone(),
                None if word == "REPLAY" => self.replay().await.to_string(),
                None => word.to_owned(),
            });
        }
        arguments
    }

    async fn replay(&self) -> Uuid {
        let newest = "select replay_id from replays order by requested_at desc limit 1";
        sqlx::query_scalar(newest).fetch_one(self.world.pool()).await.unwrap()
    }

    /// Standard output of a command; beside it standard error, but on a terminal both are one.
    async fn output(&self, command: &str, mode: Mode) -> String {
        let mut arguments = self.arguments(command).await;
        arguments.extend(match mode {
            Mode::Pipe | Mode::Terminal => None,
            Mode::Json => Some("--json".to_owned()),
            Mode::Quiet => Some("--quiet".to_owned()),
        });
        let mut plain = firmforms(&self.world.database);
        plain.env("FIRMFORMS_AS", "ann");
        let mut command = match mode {
            Mode::Terminal => on_a_terminal(&plain, &arguments),
            Mode::Pipe | Mode::Json | Mode::Quiet => {
                plain.args(arguments);
                plain
            }
        };
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\r', "");
        let told = text(&output.stderr);
        // A slow machine tells the progress.
        let told = told
            .lines()
            .filter(|line| !line.starts_with("{\"progress\""))
            .fold(String::new(), |told, line| told + line + "\n");
        let told = if told.is_empty() { told } else { format!("stderr: {told}") };
        let folder = data_dir(&self.world.database).display().to_string();
        masked(&format!("{}{told}", text(&output.stdout)).replace(&folder, "DATA_DIR"))
    }
}

/// The command on a terminal of its own, made by `script`.
fn on_a_terminal(plain: &Command, arguments: &[String]) -> Command {
    let program = plain.as_std().get_program().to_str().unwrap().to_owned();
    let quoted = arguments.iter().map(|one| format!(" '{one}'")).collect::<String>();
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{program}{quoted}"), "/dev/null"]).env_clear();
    let set = plain.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(set).env("TERM", "xterm").env("PATH", std::env::var_os("PATH").unwrap());
    command.kill_on_drop(true);
    command
}

/// Letters and digits of ids, times and secrets become `0`; the width stays. A count of
/// milliseconds and a short age become one `0`.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    let is_recent = [" s ago", " min ago"].iter().any(|age| text.contains(age));
    for line in text.lines() {
        let line = line.rsplit(BAR_IS_TAKEN_AWAY).next().unwrap_or_default();
        let line = without_port(&line.replace('\u{1b}', "␛"));
        let line = without_durations(&line);
        let line = if is_recent { without_seconds(&line) } else { line };
        let words = line.split_inclusive(|c: char| !(c.is_alphanumeric() || "-:._".contains(c)));
        for word in words {
            // A key may contain the signs of base64url.
            let is_key = ["ffk_", "fft_", "whsec_"].iter().any(|begin| word.starts_with(begin));
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

/// The line with `0` for the digits before ` ms`, and for those of a field of milliseconds or
/// seconds.
fn without_durations(line: &str) -> String {
    for (field, digits) in [("_ms\": ", "0123456789"), ("\"seconds\": ", "0123456789.e-")] {
        if let Some((before, after)) = line.split_once(field) {
            let rest = after.trim_start_matches(|c| digits.contains(c));
            return format!("{before}{field}0{rest}");
        }
    }
    let mut parts = line.split(" ms").peekable();
    let mut written = String::new();
    while let Some(part) = parts.next() {
        if parts.peek().is_some() {
            let kept = part.trim_end_matches(|c: char| c.is_ascii_digit());
            let _ = write!(written, "{kept}0 ms");
        } else {
            written.push_str(part);
        }
    }
    written
}

/// The line with `0` for an age in seconds or minutes, and two spaces for more. On a slow
/// machine ages are longer, and columns wider.
fn without_seconds(line: &str) -> String {
    let columns: Vec<&str> = line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    let line = columns.join("  ");
    let Some((before, after)) = line.split_once(" s ago").or_else(|| line.split_once(" min ago"))
    else {
        return line;
    };
    format!("{}0 s ago{after}", before.trim_end_matches(|c: char| c.is_ascii_digit()))
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
    // The kind of an object stands before its id.
    let word = word.split_once(':').map_or(word, |(_, id)| id);
    word.len() >= 13 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

fn is_time(word: &str) -> bool {
    word.len() >= 20 && word.starts_with("20") && word.as_bytes()[10] == b'T'
}

#[tokio::test]
async fn command_output_equals_the_snapshot() {
    let told = ToldWorld::new().await;
    let mut now = String::new();
    for (command, modes) in COMMANDS {
        for mode in *modes {
            let said = told.output(command, *mode).await;
            let _ = write!(now, "$ firmforms {command}   # {mode:?}\n{said}\n");
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

/// The directory is mistyped, or the program is newer than the database. Only `serve` and `migrate`
/// begin an installation or change a schema.
#[tokio::test]
async fn a_reading_command_begins_and_migrates_nothing() {
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
