//! The wrapping key of a new installation: made once and on purpose, and found where systemd puts
//! it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use sqlx::ConnectOptions;
use tests::{TestDatabase, World};
use tokio::process::Command;

use tests::process::firmforms;

/// Exit code, standard output and standard error.
async fn said(command: &mut Command) -> (i32, String, String) {
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// The real binary with its data directory in this folder, and without a wrapping key.
fn without_key(database: &TestDatabase, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = firmforms(database);
    command.env_remove("FIRMFORMS_WRAPPING_KEY").env("FIRMFORMS_DATA_DIR", folder);
    command.args(arguments);
    command
}

/// On named databases, each process once made a key of its own, then died of the keys of the
/// others.
#[tokio::test]
async fn no_process_makes_a_wrapping_key_unasked() {
    let database = TestDatabase::without_schema().await;
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--addr", "127.0.0.1:0", "--internal-addr", "127.0.0.1:0"];
    for arguments in [&["migrate"][..], &serve, &["firms", "list"], &["doctor"]] {
        let (code, _, told) = said(&mut without_key(&database, folder.path(), arguments)).await;
        assert!(code != 0 && told.contains("`firmforms keyring init`"), "{arguments:?}: {told}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{arguments:?}");
    }
}

#[tokio::test]
async fn only_an_empty_keyring_gets_a_key() {
    let database = TestDatabase::without_schema().await;
    let folder = tempfile::tempdir().unwrap();
    let init = ["keyring", "init"];
    let key = folder.path().join("wrapping.key");
    let (code, text, told) = said(&mut without_key(&database, folder.path(), &init)).await;
    assert_eq!((code, text.trim()), (0, format!("file: {}", key.display()).as_str()), "{told}");
    assert!(told.contains("every process of the installation needs this key"), "{told}");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let made = fs::read_to_string(&key).unwrap();
    assert_eq!(made.trim().len(), 64);
    let (code, _, told) = said(&mut without_key(&database, folder.path(), &init)).await;
    assert!(code == 1 && told.contains("is not overwritten"), "{told}");
    assert_eq!(fs::read_to_string(&key).unwrap(), made);
    let (code, _, told) = said(&mut without_key(&database, folder.path(), &["migrate"])).await;
    assert_eq!(code, 0, "{told}");

    let elsewhere = tempfile::tempdir().unwrap();
    let (code, _, told) = said(&mut without_key(&database, elsewhere.path(), &init)).await;
    assert!(code == 1 && told.contains("has a wrapping key already"), "{told}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    let (code, _, told) = said(firmforms(&database).args(init)).await;
    assert!(code == 1 && told.contains("FIRMFORMS_WRAPPING_KEY has the wrapping key"), "{told}");
}

#[tokio::test]
async fn init_without_databases_writes_the_named_file() {
    let database = TestDatabase::without_schema().await;
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("etc/firmforms.key").display().to_string();
    let arguments = ["keyring", "init", "--wrapping-key-file", &key, "--json"];
    let mut command = without_key(&database, folder.path(), &arguments);
    command.env_remove("DATABASE_URL").env_remove("FIRMFORMS_KEYRING_URL");
    let (code, text, told) = said(&mut command).await;
    assert_eq!(code, 0, "{told}");
    let made: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(made["file"], key.as_str());
    assert_eq!(fs::read_to_string(&key).unwrap().trim().len(), 64);
}

#[tokio::test]
async fn secrets_are_found_among_systemd_credentials() {
    let world = World::new().await;
    let firm = world.firm().await;
    let folder = tempfile::tempdir().unwrap();
    let url = |options: &sqlx::postgres::PgConnectOptions| options.to_url_lossy().to_string();
    for (name, secret) in [
        ("database-url", url(&world.database.main)),
        ("keyring-url", url(&world.database.keyring)),
        ("wrapping-key", "07".repeat(32)),
    ] {
        fs::write(folder.path().join(name), secret + "\n").unwrap();
    }
    let by_credentials = |arguments: &[&str]| {
        let mut command = without_key(&world.database, folder.path(), arguments);
        command.env_remove("DATABASE_URL").env_remove("FIRMFORMS_KEYRING_URL");
        command.env("CREDENTIALS_DIRECTORY", folder.path());
        command
    };
    let (code, text, told) = said(&mut by_credentials(&["firms", "list", "--quiet"])).await;
    assert_eq!((code, text.trim()), (0, firm.id.to_string().as_str()), "{told}");
    let (code, text, told) = said(&mut by_credentials(&["config", "show", "--json"])).await;
    assert_eq!(code, 0, "{told}");
    let settings: Value = serde_json::from_str(&text).unwrap();
    let settings = settings.as_array().unwrap();
    let source = |name: &str| &settings.iter().find(|one| one["name"] == name).unwrap()["source"];
    assert_eq!(source("wrapping-key-file"), "credential");
    assert_eq!(source("smtp-url-file"), "default");
    let mut wrong = by_credentials(&["firms", "list"]);
    let (code, _, told) = said(wrong.env("FIRMFORMS_WRAPPING_KEY", "08".repeat(32))).await;
    assert!(code == 1 && told.contains("another wrapping key"), "a variable comes first: {told}");
}
