//! The output of commands at a terminal, in a file and in a pipe, and the files they read.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::process::Stdio;

use domain::values::is_unprintable;
use serde_json::Value;
use sqlx::ConnectOptions;
use tests::World;
use tests::smtp_server::{Setup, SmtpServer};
use tokio::process::Command;

use tests::process::{call, firmforms, serve_with};

const HOSTILE: &str = "k\u{1b}]0;owned\u{7}\u{1b}[2J\nintact: 1104 events\u{9b}31m\u{202e}\u{2066}";

async fn said(command: &mut Command) -> (i32, String, String) {
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A world whose names and reasons came from a build that checked none.
async fn hostile_world() -> (World, String) {
    let world = World::new().await;
    let firm = world.firm().await;
    for update in [
        "update firms set name = $1",
        "update key_auth set name = $1",
        "update tokens set name = $1",
        "insert into pauses (pause_id, kind, reason, actor, paused_at)
             values (gen_random_uuid(), 'all', $1, 'operator:ann', now())",
    ] {
        sqlx::query(update).bind(HOSTILE).execute(world.pool()).await.unwrap();
    }
    (world, firm.id.to_string())
}

#[tokio::test]
async fn commands_escape_foreign_text() {
    let (world, firm) = hostile_world().await;
    for (arguments, lines) in [
        (&["firms", "list"][..], 1),
        (&["keys", "list", "--firm", &firm], 1),
        (&["tokens", "list"], 1),
        (&["deliveries", "paused"], 1),
        (&["doctor"], 0),
    ] {
        let (code, text, _) = said(firmforms(&world.database).args(arguments)).await;
        assert!(code == 0 || arguments == ["doctor"], "{arguments:?}");
        assert!(text.contains("\\u{1b}[2J\\nintact"), "{arguments:?}: {text}");
        assert!(
            !text.contains(|c| is_unprintable(c) && !"\n\t".contains(c)),
            "{arguments:?}: {text:?}"
        );
        assert!(!text.lines().any(|line| line.starts_with("intact")), "{arguments:?}: {text}");
        assert!(lines == 0 || text.lines().count() == lines, "{arguments:?}: {text}");
        let (_, json, _) = said(firmforms(&world.database).args(arguments).arg("--json")).await;
        assert!(!json.contains(|c| is_unprintable(c) && c != '\n'), "{arguments:?}: {json:?}");
        assert!(json.contains("\\u009b31m\\u202e\\u2066"), "{arguments:?}: {json}");
        let read: Value = serde_json::from_str(&json).unwrap();
        assert!(read.to_string().contains(&serde_json::to_string(HOSTILE).unwrap()[1..9]));
    }
    let (code, _, told) = said(firmforms(&world.database).args(["ingest", "/no\u{1b}[2J"])).await;
    assert!(code == 1 && told.contains("/no\\u{1b}[2J"), "{told:?}");
    assert!(!told.trim_end().contains(is_unprintable), "{told:?}");
}

/// The reader of the pipe, such as `head`, has seen enough.
#[tokio::test]
async fn a_closed_pipe_ends_a_command_silently() {
    let world = World::new().await;
    let firm = world.firm().await.id.to_string();
    world.project().await;
    for arguments in [
        &["openapi"][..],
        &["generate", "--responses", "2000"],
        &["audit", "export", "--firm", &firm, "--format", "csv"],
        &["keys", "list", "--firm", &firm],
        &["firms", "list", "--json"],
    ] {
        let mut command = firmforms(&world.database);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().await.unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &*told), (Some(0), ""), "{arguments:?}");
    }
}

/// The file of an export is for its owner alone.
#[tokio::test]
async fn exports_are_private_and_follow_no_link() {
    let world = World::new().await;
    let firm = world.firm().await.id.to_string();
    world.project().await;
    let folder = tempfile::tempdir().unwrap();
    let export = async |file: &str| {
        let out = folder.path().join(file);
        let mut command = firmforms(&world.database);
        command.args(["audit", "export", "--firm", &firm, "--format", "csv", "--out"]).arg(&out);
        (said(&mut command).await, out)
    };
    let (_, new) = export("new.csv").await;
    assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&new).unwrap().starts_with("sequence,at,"));
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, folder.path().join("link.csv")).unwrap();
    let ((code, _, told), _) = export("link.csv").await;
    assert!(code == 1 && told.contains("link.csv"), "{told}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

/// Root is refused, too. The test needs root, and is skipped without.
#[tokio::test]
async fn another_users_data_directory_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let data_dir = folder.path().join("data");
    fs::create_dir(&data_dir).unwrap();
    symlink(&precious, data_dir.join("wrapping.key")).unwrap();
    chown(&data_dir, Some(65_534), Some(65_534)).unwrap();
    for arguments in [&["firms", "list"][..], &["audit", "checkpoint"]] {
        let mut command = firmforms(&world.database);
        command.args(arguments).env("FIRMFORMS_DATA_DIR", &data_dir);
        command.env_remove("FIRMFORMS_WRAPPING_KEY");
        let (code, _, told) = said(&mut command).await;
        assert!(code != 0 && told.contains("belongs to user id 65534: run as that user"), "{told}");
    }
    assert_eq!(fs::read_dir(&data_dir).unwrap().count(), 1);
    assert_eq!(fs::metadata(&precious).unwrap().uid(), 0);
}

#[tokio::test]
async fn secrets_are_read_from_files() {
    let world = World::new().await;
    let firm = world.firm().await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("{content}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let main = file("main", world.database.main.to_url_lossy().as_str());
    let keyring = file("keyring", world.database.keyring.to_url_lossy().as_str());
    let key = file("key", &"07".repeat(32));
    let mut command = firmforms(&world.database);
    for variable in ["DATABASE_URL", "FIRMFORMS_KEYRING_URL", "FIRMFORMS_WRAPPING_KEY"] {
        command.env_remove(variable);
    }
    command.env("DATABASE_URL_FILE", &main).env("FIRMFORMS_KEYRING_URL_FILE", &keyring);
    command.env("FIRMFORMS_WRAPPING_KEY_FILE", &key);
    let reveal = ["secrets", "reveal", "--quiet", "--firm", &firm.id.to_string()];
    let (code, text, told) = said(command.args(reveal)).await;
    assert!(code == 0 && text.starts_with("whsec_"), "{told}");
    let mut both = firmforms(&world.database);
    both.args(["firms", "list"]).env("DATABASE_URL_FILE", &main);
    let (code, _, told) = said(&mut both).await;
    assert!(code == 2 && told.contains("cannot be used with"), "{told}");
    assert!(!told.contains("postgres"), "no value is repeated: {told}");

    let server = SmtpServer::start(Setup::default()).await;
    let smtp = file("smtp", &format!("smtp://{}?tls=none", server.at));
    let environment =
        [("FIRMFORMS_SMTP_URL_FILE", &*smtp), ("FIRMFORMS_MAIL_FROM", "forms@firmforms.example")];
    let service = serve_with(&world.database, &[], &environment).await;
    let path = format!("/forms/{}/send", firm.form);
    let to_ann = r#"{"email":"ann@example.com"}"#;
    let (status, body) = call(service.public, ("POST", &path), &firm.key, to_ann).await;
    assert_eq!((status.as_u16(), server.mails().len()), (202, 1), "{body}");
}
