//! `backup` copies the databases beside the running service, and `restore` brings the copy back.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventstore::connect;
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, Executor};
use tests::{Copies, Receiver, TestDatabase, World, count_rows, submitted, until_settled};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use tests::process::{data_dir, firmforms, report, serve};

/// The binary, which finds PostgreSQL's programs where this run does.
pub(crate) fn command(database: &TestDatabase) -> Command {
    let mut command = firmforms(database);
    if let Some(folder) = std::env::var_os("FIRMFORMS_PG_BIN") {
        command.env("FIRMFORMS_PG_BIN", folder);
    }
    command
}

pub(crate) async fn run(database: &TestDatabase, arguments: &[&str]) -> Output {
    command(database).args(arguments).output().await.unwrap()
}

pub(crate) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Backs a database up into a new folder.
pub(crate) async fn back_up(database: &TestDatabase, folder: &Path) -> Value {
    let output = run(database, &["backup", folder.to_str().unwrap(), "--json"]).await;
    assert!(output.status.success(), "{}", told(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Restores a folder on a machine without databases and without a key to trust.
async fn restore(database: &TestDatabase, folder: &Path) -> Output {
    restore_by(database, folder, &["--even-if-forged"]).await
}

/// Restores a folder with these arguments on a machine without a wrapping key.
pub(crate) async fn restore_by(
    database: &TestDatabase,
    folder: &Path,
    arguments: &[&str],
) -> Output {
    let mut command = command(database);
    command.env_remove("FIRMFORMS_WRAPPING_KEY");
    command.arg("restore").arg(folder).arg("--json").args(arguments).output().await.unwrap()
}

/// The published keys of an installation, in a file of this folder.
pub(crate) async fn published_keys(database: &TestDatabase, folder: &Path) -> String {
    let output = run(database, &["audit", "keys", "publish"]).await;
    assert!(output.status.success(), "{}", told(&output));
    let file = folder.join("published.txt");
    std::fs::write(&file, output.stdout).unwrap();
    file.to_str().unwrap().to_owned()
}

pub(crate) fn restored(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{} {}",
        told(output),
        String::from_utf8_lossy(&output.stdout)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A world with a delivered submission, an audit log and a signed checkpoint, and an empty folder.
pub(crate) async fn world() -> Option<(World, tempfile::TempDir)> {
    Copies::of_this_machine()?;
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    world.settle().await;
    world.project().await;
    for command in [&["firms", "list"][..], &["audit", "checkpoint"]] {
        assert!(run(&world.database, command).await.status.success());
    }
    Some((world, tempfile::tempdir().unwrap()))
}

async fn drop_databases(database: &TestDatabase) {
    let mut connection = database.main.clone().database("postgres").connect().await.unwrap();
    for one in [&database.main, &database.keyring] {
        let drop = format!("drop database {} with (force)", one.get_database().unwrap());
        connection.execute(drop.as_str()).await.unwrap();
    }
    connection.close().await.unwrap();
}

/// Reports submissions one after the other until `stop` is set. Keeps all reports, also those that
/// nobody acknowledged.
struct SubmissionLoad {
    reported: Arc<Mutex<Vec<Value>>>,
    count: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl SubmissionLoad {
    fn begin(world: &World, firm: tests::Firm, door: std::net::SocketAddr) -> Self {
        let load = Self { reported: Arc::default(), count: Arc::default(), stop: Arc::default() };
        let (reported, count, stop) =
            (Arc::clone(&load.reported), Arc::clone(&load.count), Arc::clone(&load.stop));
        let token = world.token().to_owned();
        let responses: Vec<_> = (0..5_000).map(|_| world.id()).collect();
        tokio::spawn(async move {
            for response_id in responses {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let event = submitted(&firm, response_id);
                reported.lock().unwrap().push(event.clone());
                report(door, &token, &json!([event]).to_string()).await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        load
    }

    async fn until_more(&self, more: usize) {
        let until = self.count.load(Ordering::Relaxed) + more;
        let reported = async {
            while self.count.load(Ordering::Relaxed) < until {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reported).await.unwrap();
    }
}

fn delivery_ids(receiver: &Receiver) -> BTreeSet<String> {
    let received = receiver.received();
    received.iter().map(|one| one.header("x-service-delivery").to_owned()).collect()
}

/// The backup is taken while the service works. Both databases are destroyed, the backup is
/// restored, and the product reports everything again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_loses_nothing() {
    if Copies::of_this_machine().is_none() {
        return;
    }
    let world = World::real_time(TestDatabase::new().await).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let mut server = serve(&world.database, &[]).await;
    let load = SubmissionLoad::begin(&world, firm, server.internal);
    load.until_more(30).await;
    assert!(run(&world.database, &["audit", "checkpoint"]).await.status.success());
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup");
    let taken = back_up(&world.database, &backup).await;
    let keys = published_keys(&world.database, folder.path()).await;
    load.until_more(30).await;
    load.stop.store(true, Ordering::Relaxed);
    server.child.kill().await.unwrap();
    let delivered = delivery_ids(&receiver);
    drop_databases(&world.database).await;

    let database = TestDatabase::without_schema().await;
    let output = restore_by(&database, &backup, &["--public-keys", &keys]).await;
    let found = restored(&output);
    assert_eq!((&found["position"], &found["taken_at"]), (&taken["position"], &taken["taken_at"]));
    for (part, word) in
        [("audit_log", "intact"), ("deliveries", "proven"), ("read_models", "equal the log")]
    {
        assert!(found[part].as_str().unwrap().contains(word), "{found}");
    }
    assert!(told(&output).contains("report all activity since"), "{}", told(&output));

    let server = serve(&database, &[]).await;
    let reported = load.reported.lock().unwrap().clone();
    for batch in reported.chunks(20) {
        let status = report(server.internal, world.token(), &json!(batch).to_string()).await;
        assert_eq!(status.unwrap(), 202);
    }
    let pool = connect(database.main.clone(), 1);
    // An attempt that was under way in the backup is sent again when its lease ends.
    until_settled(&pool, Duration::from_secs(300)).await.unwrap();
    let all = delivery_ids(&receiver);
    assert_eq!(all.len(), reported.len(), "one delivery for each submission");
    assert!(delivered.is_subset(&all), "an id has changed");
    for verification in [&["verify", "deliveries"][..], &["audit", "verify"]] {
        let output = run(&database, verification).await;
        assert!(output.status.success(), "{verification:?} {}", told(&output));
    }
}

/// The files of the backup are for their owner alone. A second backup does not replace the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_and_audit_log_name_a_backup() {
    let Some((world, folder)) = world().await else { return };
    let backup = folder.path().join("backup");
    let taken = back_up(&world.database, &backup).await;
    assert_eq!((&taken["keys"], &taken["checkpoint"]), (&json!("inside"), &json!(1)));
    let output = run(&world.database, &["doctor", "--json"]).await;
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let finding = found.iter().find(|one| one["check"] == "backup").unwrap();
    assert!(finding["verdict"] == "fine", "{finding}");
    world.project().await;
    assert_eq!(world.audit_entries_of("backup_ordered").await.len(), 1);

    use std::os::unix::fs::PermissionsExt;
    for (path, mode) in [(backup.clone(), 0o700), (backup.join("wrapping.key"), 0o600)] {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode, "F11: {path:?}");
    }
    let output = run(&world.database, &["backup", "verify", backup.to_str().unwrap()]).await;
    assert!(output.status.success(), "{}", told(&output));
    let again = run(&world.database, &["backup", backup.to_str().unwrap()]).await;
    assert!(!again.status.success() && told(&again).contains("a backup replaces nothing"));
}

/// The wrapping key and the first signed checkpoint come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_continues_the_checkpoint_series() {
    let Some((world, folder)) = world().await else { return };
    let backup = folder.path().join("backup");
    back_up(&world.database, &backup).await;
    let database = TestDatabase::without_schema().await;
    let found = restored(&restore(&database, &backup).await);
    assert!(found["audit_log"].as_str().unwrap().contains("1 checkpoints"), "{found}");
    let data = data_dir(&database);
    assert_eq!(std::fs::read_to_string(data.join("wrapping.key")).unwrap(), "07".repeat(32) + "\n");
    let output = run(&database, &["audit", "checkpoint", "--json"]).await;
    assert!(output.status.success(), "{}", told(&output));
    let signed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(signed["number"], 2, "the series goes on");
}

/// The log has the erasure, and its worker has not come to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h3_a_restore_completes_a_pending_erasure() {
    let Some((world, folder)) = world().await else { return };
    let firm = world.firm().await;
    let response_id = world.submit(&firm).await;
    world.order_erasure(&firm, response_id).await;
    let backup = folder.path().join("backup");
    back_up(&world.database, &backup).await;
    let database = TestDatabase::without_schema().await;
    assert_eq!(restored(&restore(&database, &backup).await)["erasures"], 1);
    let keys = connect(database.keyring.clone(), 1);
    let left = format!("data_keys where subject_id = '{response_id}'");
    assert_eq!(count_rows(&keys, &left).await, 0);
}

/// Runs a command with this standard input.
async fn fed(mut command: Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writing = tokio::spawn(async move { stdin.write_all(&input).await });
    let output = child.wait_with_output().await.unwrap();
    drop(writing.await.unwrap());
    output
}

/// The installation has database roles. The archive has none, since another server lacks them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyless_archive_restores_through_a_pipe() {
    let Some((world, _folder)) = world().await else { return };
    // Roles belong to the whole server, which other tests use too.
    let made = run(&world.database, &["migrate", "--roles", "--role-prefix", "archived"]).await;
    assert!(made.status.success(), "{}", told(&made));
    let taken = run(&world.database, &["backup", "-", "--without-keys"]).await;
    assert!(taken.status.success(), "{}", told(&taken));
    let with_stdin = |database: &TestDatabase, arguments: &[&str]| {
        let mut command = command(database);
        command.args(arguments);
        command
    };
    let verify = with_stdin(&world.database, &["backup", "verify", "-"]);
    let output = fed(verify, &taken.stdout).await;
    assert!(output.status.success(), "{}", told(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("left out"));
    let half = &taken.stdout[..taken.stdout.len() / 2];
    let output = fed(with_stdin(&world.database, &["backup", "verify", "-"]), half).await;
    assert!(!output.status.success());

    let database = TestDatabase::without_schema().await;
    let mut keyless = with_stdin(&database, &["restore", "-", "--even-if-forged"]);
    keyless.env_remove("FIRMFORMS_WRAPPING_KEY");
    let output = fed(keyless, &taken.stdout).await;
    assert!(told(&output).contains("the backup was taken without keys"), "{}", told(&output));
    let output = fed(with_stdin(&database, &["restore", "-", "--json"]), &taken.stdout).await;
    restored(&output);
    assert!(told(&output).contains("migrate --roles"), "{}", told(&output));
    let pool = connect(database.main.clone(), 1);
    assert_eq!(count_rows(&pool, "pg_policies").await, 0);
}

/// Copies a backup, and changes the copy.
pub(crate) fn changed(
    backup: &Path,
    name: &str,
    change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>,
) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let mut copied = std::process::Command::new("cp");
    copied.arg("-a").arg(backup.join(".")).arg(copy.path());
    assert!(copied.status().unwrap().success());
    let path = copy.path().join(name);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    if let Some(bytes) = change(bytes) {
        std::fs::write(&path, bytes).unwrap();
    }
    copy
}

/// The backup is damaged, lacks a file, is of a newer program or of another wrapping key. Or the
/// machine has another checkpoint, or a database that is not empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfit_backup_is_refused_without_change() {
    let Some((world, folder)) = world().await else { return };
    let backup = folder.path().join("backup");
    back_up(&world.database, &backup).await;
    let database = TestDatabase::without_schema().await;
    let flipped = |mut bytes: Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        Some(bytes)
    };
    let newer = |bytes: Vec<u8>| {
        let mut manifest: Value = serde_json::from_slice(&bytes).unwrap();
        manifest["schemas"]["main"] = json!(9_999);
        Some(manifest.to_string().into_bytes())
    };
    for (copy, why) in [
        (changed(&backup, "keyring.dump", flipped), "keyring.dump: it was changed"),
        (
            changed(&backup, "main.dump", |mut b| {
                b.pop();
                Some(b)
            }),
            "main.dump: it has",
        ),
        (changed(&backup, "checkpoints/00000001.json", |_| None), "00000001.json: it is missing"),
        (changed(&backup, "manifest.json", |_| None), "this is no backup"),
        (changed(&backup, "manifest.json", newer), "this program knows"),
    ] {
        let output = restore(&database, copy.path()).await;
        assert!(
            !output.status.success() && told(&output).contains(why),
            "{why}: {}",
            told(&output)
        );
    }
    let mut other = command(&database);
    other.env("FIRMFORMS_WRAPPING_KEY", "08".repeat(32));
    other.arg("restore").arg(&backup).arg("--even-if-forged");
    let output = other.output().await.unwrap();
    assert!(told(&output).contains("with another wrapping key"), "{}", told(&output));
    let checkpoints = data_dir(&database).join("checkpoints");
    std::fs::create_dir_all(&checkpoints).unwrap();
    std::fs::write(checkpoints.join("00000001.json"), "another").unwrap();
    let output = restore(&database, &backup).await;
    assert!(told(&output).contains("it is another file"), "{}", told(&output));
    std::fs::remove_dir_all(&checkpoints).unwrap();
    assert!(!data_dir(&database).join("wrapping.key").exists());
    restored(&restore(&database, &backup).await);
    let output = restore(&database, &backup).await;
    assert!(
        told(&output).contains("is not empty: a restore replaces nothing"),
        "{}",
        told(&output)
    );
}

/// The wrapping key is another one, or the keyring was never used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unrestorable_backup_is_not_begun() {
    let Some((world, folder)) = world().await else { return };
    let backup = folder.path().join("backup");
    let mut strange = command(&world.database);
    strange.env("FIRMFORMS_WRAPPING_KEY", "08".repeat(32));
    let output = strange.arg("backup").arg(&backup).output().await.unwrap();
    assert!(told(&output).contains("with another wrapping key"), "{}", told(&output));
    world.change_keyring("delete from wrapping_check").await;
    let output = run(&world.database, &["backup", backup.to_str().unwrap()]).await;
    assert!(told(&output).contains("the keyring was never used"), "{}", told(&output));
    assert!(!backup.exists());
}

/// A login that may not read everything takes no backup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_backup_names_the_needed_rights() {
    let Some((world, folder)) = world().await else { return };
    assert!(run(&world.database, &["migrate", "--roles"]).await.status.success());
    let role = format!("backup_{}", world.database.main.get_database().unwrap());
    let create = format!("create role {role} login password 'x' in role firmforms_service");
    world.change_database(&create).await;
    let mut command = command(&world.database);
    let login = world.database.main.clone().username(&role).password("x");
    command.env("DATABASE_URL", login.to_url_lossy().as_str());
    let output = command.arg("backup").arg(folder.path().join("no")).output().await.unwrap();
    assert!(told(&output).contains("BYPASSRLS and pg_read_all_data"), "{}", told(&output));
    let allowed = format!("alter role {role} bypassrls; grant pg_read_all_data to {role}");
    world.change_database(&allowed).await;
    let output = command.arg("--json").output().await.unwrap();
    assert!(!output.status.success(), "the folder has the begun backup");
    std::fs::remove_dir_all(folder.path().join("no")).unwrap();
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", told(&output));
}
