//! Each question has one command, and its `--json` is the answer of the internal API.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tests::{Receiver, Reply, activity, later};
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use super::Desk;
use tests::process::firmforms;

/// A firm with a subscription and a delivery that failed.
struct Story {
    desk: Desk,
    receiver: Receiver,
    hook: Uuid,
    delivery: Uuid,
}

impl Story {
    async fn new() -> Self {
        let desk = Desk::new().await;
        let receiver = Receiver::start().await;
        let hook = desk.world.subscribe(&desk.firm, &receiver.url("/in?token=secret")).await;
        receiver.reply([Reply::status(404).body(b"gone away")]);
        desk.world.submit(&desk.firm).await;
        desk.world.deliver().await;
        desk.world.project().await;
        let delivery = desk.world.first_delivery_id().await;
        Self { desk, receiver, hook, delivery }
    }

    /// The JSON output of a command.
    async fn json(&self, words: &[&str]) -> Value {
        let (code, out, err) = self.desk.run(&[words, &["--json"]].concat()).await;
        assert_eq!(code, 0, "{words:?}: {err}");
        serde_json::from_str(&out).unwrap()
    }

    async fn text(&self, words: &[&str]) -> String {
        let (code, out, err) = self.desk.run(words).await;
        assert_eq!(code, 0, "{words:?}: {err}");
        out
    }

    /// The one line by which a command is refused.
    async fn refused(&self, words: &[&str]) -> String {
        let (code, out, err) = self.desk.run(words).await;
        assert!(code != 0 && out.is_empty(), "{words:?}: {out}{err}");
        assert_eq!(err.lines().count(), 1, "{words:?}: {err}");
        err
    }
}

#[tokio::test]
async fn commands_and_calls_give_one_answer() {
    let story = Story::new().await;
    let Story { desk, hook, delivery, .. } = &story;
    let (hook, delivery) = (hook.to_string(), delivery.to_string());
    let (firm, key) = (desk.firm.id.to_string(), desk.firm.key_id.to_string());
    let of_firm = |path: &str| format!("/firms/{firm}{path}");
    let asked: [(&[&str], String); 10] = [
        (
            &["access", "--firm", "harrow lane", "--as-of", "2026-11-01T12:00:00Z"],
            of_firm("/access?as_of=2026-11-01T12:00:00Z"),
        ),
        (&["hooks", "why", &hook[..13]], of_firm(&format!("/hooks/{hook}/history"))),
        (&["keys", "why", &desk.firm.key[..12]], of_firm(&format!("/keys/{key}/history"))),
        (&["keys", "why", &key[..13]], of_firm(&format!("/keys/{key}/history"))),
        (
            &["deliveries", "why", &delivery[..13]],
            of_firm(&format!("/deliveries/{delivery}/history")),
        ),
        (&["events", "show", "2"], "/events/2".to_owned()),
        (&["events", "of", &hook[..13]], format!("/events?stream={hook}")),
        (&["events", "of", "Harrow Lane", "--kind", "firm"], format!("/events?stream={firm}")),
        (&["find", &hook], format!("/find?q={hook}")),
        (&["find", "127.0.0.1"], "/find?q=127.0.0.1".to_owned()),
    ];
    for (words, path) in asked {
        let told = story.json(words).await;
        let mut answer = desk.ask(&path).await;
        if told.is_array() {
            answer = answer["items"].take();
        }
        // A reading at the terminal and a reading by a token make different audit entries.
        assert_eq!(without_entries(told), without_entries(answer), "{words:?}");
    }
}

/// The answer without tokens and operators, whose last uses differ between the two readings.
fn without_entries(mut answer: Value) -> Value {
    for list in ["tokens", "operators"] {
        if let Some(field) = answer.get_mut(list) {
            field.take();
        }
    }
    answer
}

#[tokio::test]
async fn lists_at_the_terminal_match_the_api() {
    let story = Story::new().await;
    let desk = &story.desk;
    let gone = desk.world.id();
    let joined = json!({"member_id": gone, "role": "member"});
    let joined = activity(desk.firm.id, "member.joined", joined);
    let left = later(activity(desk.firm.id, "member.left", json!({"member_id": gone})), 1);
    desk.world.report(&[joined, left]).await.ok();
    let order = json!({"firm_id": desk.firm.id, "reason": "a drill"});
    assert_eq!(desk.call("POST", &desk.operator, "/replays", order).await.status, 202);
    for (words, path) in [
        (&["members", "list", "--firm", "Harrow Lane"][..], "members"),
        (&["forms", "list", "--firm", "Harrow Lane"], "forms"),
        (&["replay", "list"], ""),
        (&["replay", "list", "--firm", "Harrow Lane"], ""),
    ] {
        let told = story.json(words).await;
        let answer = match path {
            "" => desk.ask("/replays").await,
            _ => desk.ask_firm(&format!("/{path}")).await,
        };
        let (told, answer) = (told.as_array().unwrap(), answer["items"].as_array().unwrap());
        assert!(!told.is_empty());
        assert_eq!(told.len(), answer.len());
        for (told, answer) in told.iter().zip(answer) {
            for (name, value) in answer.as_object().unwrap() {
                assert_eq!(&told[name], value, "{words:?}: {name}");
            }
        }
    }
    let members = story.text(&["members", "list", "--firm", "Harrow Lane"]).await;
    assert!(members.contains("\tactive\towner\t1") && members.contains("\tleft\t\t0"), "{members}");
    let ids = story.text(&["members", "list", "--firm", "Harrow Lane", "--quiet"]).await;
    let made = ["keys", "create", "--firm", "Harrow Lane", "--name", "n", "--member"];
    let owner = ids.lines().next().unwrap();
    story.text(&[&made[..], &[&owner[..13]]].concat()).await;
    let told = story.refused(&[&made[..], &["abcd"]].concat()).await;
    assert!(told.contains("`firmforms members list --firm FIRM`"), "{told}");
    let first = story.json(&["replay", "list", "--limit", "1"]).await;
    let rest = story.text(&["replay", "list", "--after", first[0]["id"].as_str().unwrap()]).await;
    assert_eq!(rest, "");
}

#[tokio::test]
async fn a_replay_is_watched_to_its_end() {
    let story = Story::new().await;
    let start = ["replay", "start", "--firm", "Harrow Lane", "--reason", "mended"];
    let id = story.json(&start).await[0]["id"].as_str().unwrap().to_owned();
    let mut command = firmforms(&story.desk.world.database);
    command.args(["replay", "show", &id[..13], "--watch", "--json"]).stdout(Stdio::piped());
    let watching = command.spawn().unwrap();
    for _ in 0..5 {
        story.desk.world.replay().await;
        story.desk.world.deliver().await;
        story.desk.world.pass(Duration::from_secs(1));
    }
    let output = watching.wait_with_output().await.unwrap();
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&shown["state"], &shown["selected"]), (&json!("finished"), &json!(1)));
    assert_eq!(shown["outcomes"]["waiting"], Value::Null, "{shown}");
    let told = story.refused(&["replay", "show", "0000", "--watch"]).await;
    assert!(told.contains("no replay is called"), "{told}");
}

#[tokio::test]
async fn why_commands_show_the_chain_of_causes() {
    let story = Story::new().await;
    let Story { desk, hook, delivery, .. } = &story;
    let left = json!({"member_id": desk.firm.owner});
    desk.world.report_one(later(activity(desk.firm.id, "member.left", left), 1)).await;
    desk.world.project().await;
    let owner = desk.firm.owner;
    for words in
        [&["hooks", "why", &hook.to_string()][..], &["keys", "why", &desk.firm.key_id.to_string()]]
    {
        let told = story.text(words).await;
        let place = |part: &str| told.find(part).unwrap_or_else(|| panic!("{part}: {told}"));
        let chain = [
            place(&format!("member {owner} left the firm, by the product with the token")),
            place("was revoked, because its member may not make keys any more"),
            place(&format!("subscription {hook} was removed, because its key was revoked")),
        ];
        assert!(chain.is_sorted(), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
    let told = story.text(&["deliveries", "why", &delivery.to_string()]).await;
    assert!(told.contains("state: failed") && told.contains("answered 404: failed"), "{told}");
    let missing = Uuid::from_u128(7).to_string();
    let told = story.refused(&["deliveries", "why", &missing]).await;
    assert!(told.contains("with --firm"), "{told}");
    story.refused(&["deliveries", "why", &missing, "--firm", "Harrow Lane"]).await;
    story.refused(&["keys", "why", &missing]).await;
    let told = story.refused(&["keys", "why", "ffk_none"]).await;
    assert!(told.contains("no key is called"), "{told}");
}

/// Without a reason the terminal shows neither a body nor an answer.
#[tokio::test]
async fn a_reason_reveals_a_body_and_answers() {
    let story = Story::new().await;
    let (firm, delivery) = (story.desk.firm.id.to_string(), story.delivery.to_string());
    let show = ["deliveries", "show", "--firm", &firm, &delivery];
    let plain = story.json(&show).await;
    assert_eq!(plain["body"], json!({"state": "withheld", "text": null}));
    assert_eq!(plain["attempts"][0]["answer_state"], "withheld");
    let reason = ["--body", "--answer", "--reason", "ticket 4711"];
    let shown = story.text(&[&show[..], &reason].concat()).await;
    assert!(shown.contains("answer to try 1: gone away"), "{shown}");
    let body = shown.lines().find_map(|line| line.strip_prefix("body: ")).unwrap();
    let sent = story.receiver.received();
    assert_eq!(body.as_bytes(), &sent[0].body[..]);
    let (code, _, told) = story.desk.run(&[&show[..], &["--body"]].concat()).await;
    assert!(code == 2 && told.contains("--reason"), "{told}");
    let (code, _, told) = story.desk.run(&[&show[..], &["--body", "--reason", " "]].concat()).await;
    assert!(code == 2 && told.contains("write 1 to 200 characters"), "{told}");
    let (action, reason, _) = story.desk.last_entry().await;
    assert_eq!((action.as_str(), reason.as_deref()), ("answer_read", Some("ticket 4711")));
}

/// The terminal once refused `--reason`, so that the audit log had no reason for a revocation.
#[tokio::test]
async fn a_terminal_revocation_keeps_its_reason() {
    let story = Story::new().await;
    let key = &story.desk.firm.key[..12];
    let revoke = ["keys", "revoke", "--firm", "Harrow Lane", key, "--yes", "--reason"];
    let (code, _, told) = story.desk.run(&[&revoke[..], &[" "]].concat()).await;
    assert!(code == 2 && told.contains("write 1 to 200 characters"), "{told}");
    let told = story.json(&[&revoke[..], &["found in a mail"]].concat()).await;
    assert_eq!(told["subscriptions_removed"], 1);
    story.desk.world.project().await;
    let listed = story.desk.ask_firm("/audit?limit=20").await;
    let entries = listed["items"].as_array().unwrap();
    let why = entries.iter().find(|entry| entry["reason"] == "found in a mail").unwrap();
    assert_eq!(why["evidence"]["key_id"], story.desk.firm.key_id.to_string());
}

/// The beginning of a firm's name was once enough for `find` alone. A beginning that two firms
/// share is refused.
#[tokio::test]
async fn a_unique_name_start_selects_a_firm() {
    let story = Story::new().await;
    let list = ["keys", "list", "--firm", "Harr"];
    let keys = story.json(&list).await;
    assert_eq!(keys[0]["id"], story.desk.firm.key_id.to_string());
    story.desk.world.firm().await;
    let told = story.refused(&list).await;
    assert!(told.contains("may be each of these") && told.contains("firm Harrow"), "{told}");
}

/// `deliveries show` once refused a command of the auditor's page, because it wanted `--firm`.
#[tokio::test]
async fn showing_a_delivery_needs_no_firm() {
    let story = Story::new().await;
    let delivery = story.delivery.to_string();
    let shown = story.json(&["deliveries", "show", &delivery[..13]]).await;
    assert_eq!(shown["id"], delivery);
    let missing = Uuid::from_u128(7).to_string();
    let told = story.refused(&["deliveries", "show", &missing]).await;
    assert!(told.contains("with --firm"), "{told}");
}

/// Each command in the table of the auditor's page runs. Values replace its words in capitals.
#[tokio::test]
async fn every_command_of_the_auditors_page_works() {
    let story = Story::new().await;
    let page = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/how-to/answer-why-a-hook-was-removed.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.lines().filter(|line| line.starts_with("| ")).collect::<Vec<_>>().join("\n");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("march.csv").display().to_string();
    let mut run = 0;
    for command in table.split('`').skip(1).step_by(2) {
        let words: Vec<String> = command
            .split(' ')
            .map(|word| match word {
                "FIRM" => "Harrow Lane".to_owned(),
                "KEY" => story.desk.firm.key_id.to_string(),
                "DELIVERY" => story.delivery.to_string(),
                "ADDRESS" => "ann@example.com".to_owned(),
                "TEXT" => "audit".to_owned(),
                "2026-03-14" => "2026-11-01".to_owned(),
                "march.csv" => file.clone(),
                other => other.to_owned(),
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (code, _, told) = story.desk.run(&words).await;
        assert_eq!(code, 0, "{command}: {told}");
        run += 1;
    }
    assert_eq!(run, 7);
}

/// An export never overwrites a file.
#[tokio::test]
async fn exports_go_to_stdout_or_new_files() {
    let story = Story::new().await;
    let (delivery, hook) = (story.delivery.to_string(), story.hook.to_string());
    let export = ["deliveries", "export", "--firm", "Harrow Lane"];
    for (more, rows) in [
        (&["--hook", &hook[..13]][..], 1),
        (&["--host", "127.0.0.1"], 1),
        (&["--host", "other.example"], 0),
        (&["--until", "2026-11-01"], 0),
    ] {
        let csv = story.text(&[&export, more].concat()).await;
        assert_eq!(csv.lines().count(), 1 + rows, "{more:?}: {csv}");
        let ndjson = story.text(&[&export, more, &["--format", "ndjson"]].concat()).await;
        assert_eq!(ndjson.lines().count(), rows, "{more:?}: {ndjson}");
        for line in ndjson.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&row["delivery_id"], &row["status"]), (&json!(delivery), &json!("404")));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("march.csv");
    let out = [&export[..], &["--out", file.to_str().unwrap()]].concat();
    assert_eq!(story.json(&out).await["rows"], 1);
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.starts_with("delivery_id,") && written.contains(&delivery), "{written}");
    let told = story.refused(&out).await;
    assert!(told.contains("is not overwritten"), "{told}");
    let (action, _, evidence) = story.desk.last_entry().await;
    assert_eq!((action.as_str(), &evidence["how"]), ("audit_exported", &json!("csv")));
    let told = story.refused(&[&export[..], &["--host", "a/b"]].concat()).await;
    assert!(told.contains("the name of a host"), "{told}");
}

/// The address may be an argument, or come by standard input.
#[tokio::test]
async fn a_piped_address_finds_a_person() {
    let story = Story::new().await;
    let about = ["--firm", "Harrow Lane", "--reason", "asked for access"];
    let known = story.json(&[&["people", "show", "ann@example.com"][..], &about].concat()).await;
    let path = format!("/firms/{}/people", story.desk.firm.id);
    let body = json!({"address": "ann@example.com", "reason": "asked for access"});
    let answer = story.desk.call("POST", &story.desk.auditor, &path, body).await.body;
    assert_eq!(known, answer);
    let mut command = firmforms(&story.desk.world.database);
    command.args(["people", "show", "-", "--quiet"]).args(about);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"ann@example.com\n").await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let ids = String::from_utf8(output.stdout).unwrap();
    assert_eq!(ids.lines().next(), known["person_id"].as_str(), "{ids}");
    let (action, reason, evidence) = story.desk.last_entry().await;
    assert_eq!((action.as_str(), reason.as_deref()), ("person_read", Some("asked for access")));
    assert_eq!(evidence["person_id"], known["person_id"]);
    let told = story.refused(&["people", "show", "a@b.example", "--firm", "x", "--reason", "r"]);
    assert!(told.await.contains("no firm is called"));
}

#[tokio::test]
async fn receivers_show_states_and_stats_show_sums() {
    let story = Story::new().await;
    let listed = story.json(&["receivers"]).await;
    let answer = story.desk.ask("/receivers").await["items"][0].take();
    // The command has the real clock, which is long past the attempt.
    for name in ["host", "subscriptions", "last_attempt_at", "last_status", "failures", "paused"] {
        assert_eq!(listed[0][name], answer[name], "{name}");
    }
    let text = story.text(&["receivers", "--host", "127.0.0.1"]).await;
    assert!(text.starts_with("127.0.0.1\tfailed\t1\t"), "{text}");
    let pause = ["deliveries", "pause", "--host", "127.0.0.1", "--reason", "a drill"];
    story.text(&pause).await;
    let text = story.text(&["receivers"]).await;
    assert!(text.starts_with("127.0.0.1\tpaused\t") && text.contains("a drill"), "{text}");
    let told = story.refused(&["receivers", "--limit", "0"]).await;
    assert!(told.contains("limit"), "{told}");
    let told = story.refused(&["receivers", "--host", "a/b"]).await;
    assert!(told.contains("the name of a host"), "{told}");

    let sizes = story.json(&["stats"]).await;
    assert_eq!(sizes["main"]["growth"], Value::Null);
    let text = story.text(&["stats"]).await;
    let all = |name: &str| text.lines().any(|line| line.starts_with(&format!("{name}\t(all)\t")));
    assert!(all("main") && all("keyring") && text.contains("main\tevents\t"), "{text}");
}

#[tokio::test]
async fn a_terminal_sample_shows_its_answer() {
    let story = Story::new().await;
    let hook = story.hook.to_string();
    let test = ["hooks", "test", &hook[..13], "--reason", "mended"];
    let open = ["--allow-targets", "127.0.0.0/8", "--allow-http-targets"];
    story.receiver.reply([Reply::status(202).body(b"thanks")]);
    let sent = story.text(&[&test[..], &open].concat()).await;
    for part in ["status: 202", "answer: thanks", "request to 127.0.0.1", "127.0.0.1:"] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    assert!(!sent.contains("secret"), "{sent}");
    let received = story.receiver.received();
    assert_eq!(received.last().unwrap().header("x-service-test"), "1");
    let entry = story.desk.last_entry().await;
    assert_eq!((entry.0.as_str(), entry.1.as_deref()), ("hook_tested", Some("mended")));
    let (code, refused, _) = story.desk.run(&[&test[..], &["--json"]].concat()).await;
    assert!(code == 1 && refused.contains("\"target_refused\""), "{code}: {refused}");
    story.receiver.reply([Reply::status(503)]);
    let (code, busy, _) = story.desk.run(&[&test[..], &open].concat()).await;
    assert!(code == 1 && busy.contains("status: 503"), "a refusal ended like a success: {busy}");
    let received = story.receiver.received();
    story.desk.run(&test).await;
    assert_eq!(story.receiver.received().len(), received.len());
    let missing = Uuid::from_u128(7).to_string();
    let told = story.refused(&["hooks", "test", &missing, "--reason", "mended"]).await;
    assert!(told.contains("no subscription"), "{told}");
    let (code, _, told) = story.desk.run(&["hooks", "test", &hook]).await;
    assert!(code == 2 && told.contains("--reason"), "{told}");
}

#[tokio::test]
async fn unknown_names_are_refused_in_one_line() {
    let story = Story::new().await;
    for (words, part) in [
        (&["access", "--firm", "Nobody"][..], "no firm is called"),
        (&["access", "--firm", "Harrow Lane", "--as-of", "2099-01-01"], "in the future"),
        (&["members", "list", "--firm", "Nobody"], "no firm is called"),
        (&["forms", "list", "--firm", "Nobody"], "no firm is called"),
        (&["events", "show", "here"], "a position of the log, or a whole id"),
        (&["events", "show", "900000"], "there is no such thing here"),
        (&["events", "of", "here"], "`firmforms find TEXT` shows them"),
        (&["events", "of", "00000000-0000-0000-0000-000000000007"], "no such thing"),
        (&["find", " "], "there is nothing to look for"),
        (&["replay", "list", "--after", "00000000-0000-0000-0000-000000000007"], "is no replay"),
    ] {
        let told = story.refused(words).await;
        assert!(told.contains(part), "{words:?}: {told}");
    }
    for (words, part) in [
        (&["events", "of", "x", "--kind", "Thing"][..], "one of Firm, "),
        (&["access", "--firm", "Harrow Lane", "--as-of", "soon"], "neither a day"),
        (&["people", "show", "a@b.example", "--firm", "x"], "--reason"),
    ] {
        let (code, _, told) = story.desk.run(words).await;
        assert!(code == 2 && told.contains(part), "{words:?}: {told}");
    }
    let (code, out, told) = story.desk.run(&["find", "nothing-like-this"]).await;
    assert_eq!((code, out.as_str(), told.trim_end()), (0, "", "nothing was found"));
}
