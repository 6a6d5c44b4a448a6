//! Nothing of a backup that somebody has changed reaches a database.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use eventstore::connect;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sqlx::Executor;
use tests::{Copies, TestDatabase, World, count_rows};

use crate::backup::{
    back_up, changed, command, published_keys, restore_by, restored, run, told, world,
};

/// A backup, the keys that its signer has published, and the file that a forgery would make.
struct Scene {
    world: World,
    folder: tempfile::TempDir,
    keys: String,
}

impl Scene {
    async fn new() -> Option<Self> {
        let (world, folder) = world().await?;
        // The server's account is another one, and its command makes a file here.
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everybody).unwrap();
        back_up(&world.database, &folder.path().join("backup")).await;
        let keys = published_keys(&world.database, folder.path()).await;
        Some(Self { world, folder, keys })
    }

    fn backup(&self) -> std::path::PathBuf {
        self.folder.path().join("backup")
    }

    /// The file that a command of the forgery makes.
    fn mark(&self) -> std::path::PathBuf {
        self.folder.path().join("ran")
    }

    /// The backup with its main database changed by these statements. Its manifest has the digest
    /// of the new dump.
    async fn forged(&self, statements: &[&str], arguments: &[&str]) -> tempfile::TempDir {
        let programs = Copies::of_this_machine().unwrap();
        let elsewhere = TestDatabase::without_schema().await;
        programs.unarchive(&self.backup().join("main.dump"), &elsewhere.main).await;
        let pool = connect(elsewhere.main.clone(), 1);
        for statement in statements {
            pool.execute(*statement).await.unwrap();
        }
        pool.close().await;
        let dump = programs.archive(&elsewhere.main, arguments).await;
        let (bytes, sha256) = (dump.len(), hex::encode(Sha256::digest(&dump)));
        let forged = changed(&self.backup(), "main.dump", |_| Some(dump));
        let forged = changed(forged.path(), "manifest.json", |text| {
            let mut manifest: Value = serde_json::from_slice(&text).unwrap();
            for member in manifest["members"].as_array_mut().unwrap() {
                if member["name"] == "main.dump" {
                    member["bytes"] = json!(bytes);
                    member["sha256"] = json!(sha256);
                }
            }
            Some(serde_json::to_vec(&manifest).unwrap())
        });
        let _ = std::fs::remove_file(self.mark());
        forged
    }

    /// A dump whose objects run a command of the server's account, in each way that rows can.
    async fn with_command(&self) -> tempfile::TempDir {
        let function = format!(
            "create function evil() returns int language plpgsql as $$ begin
                 copy (select 1) to program 'cat > {}'; return 1; end $$",
            self.mark().display()
        );
        let statements = [
            function.as_str(),
            "create function evil_trigger() returns trigger language plpgsql as
                 $$ begin perform evil(); return new; end $$",
            "create trigger evil before insert on firms for each row
                 execute function evil_trigger()",
            "create materialized view evil_view as select evil() as one",
            "alter table hooks add constraint evil_check check (evil() = 1)",
            "alter table forms alter column title set default evil()::text",
            "create table evil_rows (one int default evil())",
            "insert into evil_rows values (1)",
        ];
        self.forged(&statements, &[]).await
    }
}

const RELATIONS: &str = "pg_class where relnamespace = 'public'::regnamespace";

/// A dump that somebody had changed ran commands as the server's account. The restore said that all
/// was intact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_changed_after_signing_is_refused() {
    let Some(scene) = Scene::new().await else { return };
    let forged = scene.with_command().await;
    let database = TestDatabase::without_schema().await;
    let by_keys = ["--public-keys", scene.keys.as_str()];
    let output = restore_by(&database, forged.path(), &by_keys).await;
    assert!(!output.status.success());
    assert!(told(&output).contains("changed after it was signed"), "{}", told(&output));
    // Without the signature the backup is anybody's.
    let unsigned = changed(forged.path(), "manifest.origin.json", |_| None);
    let output = restore_by(&database, unsigned.path(), &by_keys).await;
    assert!(told(&output).contains("nothing proves the origin"), "{}", told(&output));
    // Keys inside of a backup prove nothing.
    let output = restore_by(&database, &scene.backup(), &[]).await;
    assert!(told(&output).contains("no key here can prove"), "{}", told(&output));
    let pool = connect(database.main.clone(), 1);
    assert_eq!(count_rows(&pool, RELATIONS).await, 0, "nothing was begun");
    assert!(!scene.mark().exists());
    let verify = ["backup", "verify", forged.path().to_str().unwrap()];
    let output = run(&scene.world.database, &verify).await;
    assert!(told(&output).contains("changed after it was signed"), "{}", told(&output));
    let found = restored(&restore_by(&database, &scene.backup(), &by_keys).await);
    assert!(found["audit_log"].as_str().unwrap().contains("intact"), "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_of_a_dump_is_executed() {
    let Some(scene) = Scene::new().await else { return };
    let forged = scene.with_command().await;
    let database = TestDatabase::without_schema().await;
    let output = restore_by(&database, forged.path(), &["--even-if-forged"]).await;
    let found = restored(&output);
    assert!(found["audit_log"].as_str().unwrap().contains("intact"), "{found}");
    assert!(told(&output).contains("public.evil_rows"), "{}", told(&output));
    assert!(!scene.mark().exists(), "a command of the dump ran");
    let pool = connect(database.main.clone(), 1);
    for foreign in [
        "pg_proc where proname like 'evil%'",
        "pg_class where relname like 'evil%'",
        "pg_trigger where tgname like 'evil%'",
        "pg_constraint where conname like 'evil%'",
    ] {
        assert_eq!(count_rows(&pool, foreign).await, 0, "{foreign}");
    }
    pool.execute("update firms set name = name").await.unwrap();
    assert!(!scene.mark().exists());
}

/// Indexes are dropped for the load, and the schema is that of an older program first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_schema_equals_a_migrated_one() {
    let Some(scene) = Scene::new().await else { return };
    let database = TestDatabase::without_schema().await;
    restored(&restore_by(&database, &scene.backup(), &["--public-keys", &scene.keys]).await);
    let programs = Copies::of_this_machine().unwrap();
    for (restored, migrated) in [
        (&database.main, &scene.world.database.main),
        (&database.keyring, &scene.world.database.keyring),
    ] {
        let (restored, migrated) =
            (programs.schema(restored).await, programs.schema(migrated).await);
        assert!(restored == migrated, "{}", difference(&restored, &migrated));
    }
    let original = scene.world.pool();
    let pool = connect(database.main.clone(), 1);
    for rows in ["hooks", "deliveries", "answers", "audit_log", "firms", "lanes"] {
        assert_eq!(count_rows(&pool, rows).await, count_rows(original, rows).await, "{rows}");
    }
}

fn difference(one: &str, other: &str) -> String {
    let lines: Vec<&str> = other.lines().collect();
    one.lines().filter(|line| !lines.contains(line)).collect::<Vec<_>>().join("\n")
}

/// The dump lacks a table, or has a row that the schema refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_restore_can_be_repeated() {
    let Some(scene) = Scene::new().await else { return };
    let database = TestDatabase::without_schema().await;
    let column = "alter table firms add column evil int default 1";
    for (statements, arguments, why) in [
        (&[][..], &["--exclude-table-data=hooks"][..], "the dump lacks the table public.hooks"),
        (&[column], &[], "columns that it does not have"),
    ] {
        let forged = scene.forged(statements, arguments).await;
        let output = restore_by(&database, forged.path(), &["--even-if-forged"]).await;
        assert!(!output.status.success() && told(&output).contains(why), "{}", told(&output));
    }
    restored(&restore_by(&database, &scene.backup(), &["--public-keys", &scene.keys]).await);
}

/// A backup without keys lies where a stranger may write. The wrapping key proves it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wrapping_key_proves_a_backup() {
    let Some((world, folder)) = world().await else { return };
    let backup = folder.path().join("backup");
    let arguments = ["backup", backup.to_str().unwrap(), "--without-keys", "--json"];
    assert!(run(&world.database, &arguments).await.status.success());
    let database = TestDatabase::without_schema().await;
    // The machine has the wrapping key, and none that signs.
    let with_key = |place: &Path| {
        let mut command = command(&database);
        command.arg("restore").arg(place).arg("--json");
        command
    };
    let manifest = changed(&backup, "manifest.json", |mut text| {
        text.push(b'\n');
        Some(text)
    });
    let output = with_key(manifest.path()).output().await.unwrap();
    assert!(told(&output).contains("nothing proves the origin"), "{}", told(&output));
    restored(&with_key(&backup).output().await.unwrap());
}
