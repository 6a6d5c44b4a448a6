//! Signers: which process may sign the next checkpoint, and how the loss of keys or checkpoints is
//! met.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use auditor::{AuditError, CheckpointFolder, Checkpointer, KeyFolder, Notary};
use domain::audit::SigningRefusal;
use eventstore::worker::Worker;
use sqlx::{Connection, Executor, PgConnection};
use tempfile::TempDir;
use tests::World;
use vault::SystemEntropy;

use super::{audit, read_often, said};
use tests::process::{data_dir, firmforms};

/// A machine with a data directory of its own, in an installation with one folder of checkpoints.
struct Machine {
    data: TempDir,
    checkpoints: PathBuf,
}

impl Machine {
    fn with(checkpoints: &Path) -> Self {
        Self { data: tempfile::tempdir().unwrap(), checkpoints: checkpoints.to_owned() }
    }

    fn notary(&self) -> Notary {
        Notary {
            keys: KeyFolder::in_folder(self.keys()),
            checkpoints: CheckpointFolder::in_folder(self.checkpoints.clone()),
        }
    }

    fn keys(&self) -> PathBuf {
        self.data.path().join("audit-keys")
    }

    fn hourly(&self, world: &World) -> Checkpointer {
        let (pool, clock) = (world.pool().clone(), world.clock.clone());
        Checkpointer::new(self.notary(), pool, clock, Arc::new(SystemEntropy))
    }

    async fn run(&self, world: &World, arguments: &[&str]) -> (i32, String) {
        let mut command = firmforms(&world.database);
        command
            .env("FIRMFORMS_DATA_DIR", self.data.path())
            .env("FIRMFORMS_CHECKPOINTS_DIR", &self.checkpoints)
            .args(arguments);
        said(&command.output().await.unwrap())
    }
}

const CHECKPOINT: [&str; 2] = ["audit", "checkpoint"];
const VERIFY: [&str; 2] = ["audit", "verify"];

async fn followed() -> World {
    let world = World::new().await;
    world.firm().await;
    world.project().await;
    world
}

fn files(folder: &Path, extension: &str) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let has = |path: PathBuf| path.extension().is_some_and(|found| found == extension);
    entries.filter(|entry| has(entry.as_ref().unwrap().path())).count()
}

/// Two projectors with one folder of checkpoints signed with two keys.
#[tokio::test]
async fn two_projectors_sign_with_one_key() {
    let world = followed().await;
    let shared = tempfile::tempdir().unwrap();
    let machines = [Machine::with(shared.path()), Machine::with(shared.path())];
    let mut hourly = machines.each_ref().map(|machine| machine.hourly(&world));
    for _ in 0..6 {
        let [first, second] = &mut hourly;
        let (first, second) = tokio::join!(first.step(), second.step());
        first.and(second).unwrap();
        world.pass(Duration::from_secs(30 * 60));
    }
    let keys: usize = machines.iter().map(|machine| files(&machine.keys(), "key")).sum();
    assert_eq!((files(shared.path(), "json"), files(shared.path(), "pub"), keys), (3, 1, 1));
    for machine in &machines {
        let (code, text) = machine.run(&world, &VERIFY).await;
        assert!(code == 0 && text.contains("3 checkpoints"), "{text}");
    }
    let refused = machines.iter().find(|machine| files(&machine.keys(), "key") == 0).unwrap();
    let (code, text) = refused.run(&world, &CHECKPOINT).await;
    assert!(code == 1 && text.contains("is not in the folder of keys"), "{text}");
    assert!(text.contains("--audit-keys-dir"), "{text}");
    assert_eq!(files(&refused.keys(), "key"), 0, "no key is made silently");
}

/// `--audit-keys-dir` names their folder.
#[tokio::test]
async fn a_process_signs_with_the_named_keys() {
    let world = followed().await;
    let shared = tempfile::tempdir().unwrap();
    let (first, second) = (Machine::with(shared.path()), Machine::with(shared.path()));
    assert_eq!(first.run(&world, &CHECKPOINT).await.0, 0);
    let keys = first.keys();
    let named = ["audit", "checkpoint", "--audit-keys-dir", keys.to_str().unwrap()];
    let (code, text) = second.run(&world, &named).await;
    assert!(code == 0 && text.starts_with("number: 2\n"), "{text}");
}

#[tokio::test]
async fn a_refused_checkpoint_names_the_other_signer() {
    let world = followed().await;
    let mut other = PgConnection::connect_with(&world.database.main).await.unwrap();
    other.execute("select pg_advisory_lock(43, 1)").await.unwrap();
    let (code, text) = audit(&world, &CHECKPOINT).await;
    assert!(code == 1 && text.contains("another process signs a checkpoint now"), "{text}");
    assert!(text.contains("(login ") && text.contains("pid "), "{text}");
    other.close().await.unwrap();
    assert_eq!(audit(&world, &CHECKPOINT).await.0, 0);
}

/// A laptop without keys was told that the log is broken. It trusts the public keys beside the
/// checkpoints, or the ones that it is given.
#[tokio::test]
async fn verify_without_public_keys_is_incomplete() {
    let world = followed().await;
    let shared = tempfile::tempdir().unwrap();
    let signer = Machine::with(shared.path());
    assert_eq!(signer.run(&world, &CHECKPOINT).await.0, 0);
    let laptop = Machine::with(shared.path());
    let (code, text) = laptop.run(&world, &VERIFY).await;
    assert!(code == 0 && text.contains("beside the checkpoints"), "{text}");

    // Checkpoints of a build that put no keys beside them.
    let published = laptop.notary().checkpoints.public_keys().unwrap();
    let public = shared.path().join(format!("{}.pub", published[0].id()));
    let trusted = laptop.data.path().join("trusted");
    fs::rename(&public, &trusted).unwrap();
    let (code, text) = laptop.run(&world, &VERIFY).await;
    assert!(code == 2 && text.starts_with("INCOMPLETE: no public key is known"), "{text}");
    assert!(text.contains("--public-keys"), "{text}");
    let pinned = ["audit", "verify", "--public-keys", trusted.to_str().unwrap()];
    assert_eq!(laptop.run(&world, &pinned).await.0, 0);
}

/// The second key signed, and only a verification found it. A rotation is no second key.
#[tokio::test]
async fn a_second_key_cannot_sign_the_series() {
    let world = followed().await;
    let shared = tempfile::tempdir().unwrap();
    let (signer, other) = (Machine::with(shared.path()), Machine::with(shared.path()));
    assert_eq!(signer.run(&world, &CHECKPOINT).await.0, 0);
    let (code, text) = signer.run(&world, &["audit", "keys", "rotate"]).await;
    assert_eq!(code, 0, "{text}");
    let (code, text) = signer.run(&world, &CHECKPOINT).await;
    assert!(code == 0 && text.starts_with("number: 2\n"), "a rotation goes on: {text}");
    assert_eq!(files(shared.path(), "pub"), 2);

    let (code, text) = other.run(&world, &["audit", "keys", "rotate"]).await;
    assert!(code == 1 && text.contains("no key signs here"), "{text}");
    other.notary().keys.rotate(&SystemEntropy).unwrap();
    let (code, text) = other.run(&world, &CHECKPOINT).await;
    assert!(code == 1 && text.contains("and the folder of keys has the key"), "{text}");
    assert_eq!(files(shared.path(), "json"), 2, "nothing was signed");
    assert_eq!(signer.run(&world, &VERIFY).await.0, 0);
}

/// With an emptied folder of keys or of checkpoints, a signer began anew without a word.
#[tokio::test]
async fn an_emptied_folder_stops_the_signer() {
    let world = followed().await;
    let shared = tempfile::tempdir().unwrap();
    let signer = Machine::with(&shared.path().join("checkpoints"));
    assert_eq!(signer.run(&world, &CHECKPOINT).await.0, 0);
    let away = |folder: &Path| {
        let kept = shared.path().join("kept");
        fs::rename(folder, &kept).unwrap();
        let folder = folder.to_owned();
        move || fs::rename(&kept, &folder).unwrap()
    };
    let expected = [
        (signer.keys(), "is not in the folder of keys"),
        (signer.checkpoints.clone(), "checkpoint 1 was signed, and is not in the folder"),
    ];
    for (folder, why) in &expected {
        let put_back = away(folder);
        let (code, text) = signer.run(&world, &CHECKPOINT).await;
        assert!(code == 1 && text.contains(why) && text.contains("--new-series"), "{text}");
        assert!(!folder.exists(), "nothing is made in its place");
        let (_, text) = signer.run(&world, &["doctor"]).await;
        assert!(text.contains(why), "{text}");
        put_back();
    }
    assert_eq!(signer.run(&world, &CHECKPOINT).await.0, 0, "both are back");
}

#[tokio::test]
async fn no_signer_continues_a_foreign_series() {
    let (world, stranger) = (followed().await, followed().await);
    let folders = tempfile::tempdir().unwrap();
    let signer = Machine::with(&folders.path().join("ours"));
    let foreign = Machine::with(&folders.path().join("theirs"));
    assert_eq!(signer.run(&world, &CHECKPOINT).await.0, 0);
    assert_eq!(foreign.run(&stranger, &CHECKPOINT).await.0, 0);
    fs::copy(foreign.checkpoints.join("00000001.json"), signer.checkpoints.join("00000001.json"))
        .unwrap();
    let taken =
        signer.notary().take_checkpoint(world.pool(), &SystemEntropy, world.clock.now()).await;
    assert!(matches!(taken, Err(AuditError::Refused(SigningRefusal::OtherInstallation(_)))));
}

/// An operator orders the series with a reason.
#[tokio::test]
async fn a_new_series_enters_the_audit_log() {
    let world = followed().await;
    let shared = tempfile::tempdir().unwrap();
    let signer = Machine::with(&shared.path().join("checkpoints"));
    assert_eq!(signer.run(&world, &CHECKPOINT).await.0, 0);
    let begin = ["audit", "checkpoint", "--new-series", "--reason", "the disk died"];
    let (code, text) = signer.run(&world, &begin).await;
    assert!(code == 1 && text.contains("the folder has checkpoint 1: move"), "{text}");
    assert_eq!(signer.run(&world, &begin[..3]).await.0, 2, "it wants a reason");

    fs::rename(&signer.checkpoints, shared.path().join("kept")).unwrap();
    fs::remove_dir_all(signer.keys()).unwrap();
    let (code, text) = signer.run(&world, &begin).await;
    assert!(code == 0 && text.starts_with("number: 1\n"), "{text}");
    world.project().await;
    assert_eq!(signer.run(&world, &CHECKPOINT).await.0, 0, "and it goes on");
    let (code, text) = signer.run(&world, &VERIFY).await;
    assert!(code == 0 && text.contains("2 checkpoints"), "{text}");
    let begun = world.audit_entries_of("checkpoint_series_begun").await.remove(0);
    assert_eq!(begun.reason.as_deref(), Some("the disk died"));
    assert_eq!(begun.evidence["ended"]["number"], 1);
    assert_eq!(world.ask_number("select series::bigint from last_signature").await, 2);
}

/// The order of two exports and a signer: each has its turn.
#[tokio::test]
async fn racing_signatures_have_numbers_without_gaps() {
    let world = followed().await;
    let firm = world.firm().await;
    read_often(&world, &firm, 5).await;
    world.project().await;
    let id = firm.id.to_string();
    let out = tempfile::tempdir().unwrap();
    let path = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    let (one, two) = (path("one"), path("two"));
    let export = |out: &str| ["audit", "export", "--firm", &id, "--out", out].map(str::to_owned);
    let (one, two) = (export(&one), export(&two));
    let run = async |arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        audit(&world, &arguments).await
    };
    let answers = tokio::join!(run(&one), run(&two), audit(&world, &CHECKPOINT));
    for (code, text) in [answers.0, answers.1, answers.2] {
        assert_eq!(code, 0, "{text}");
    }
    assert_eq!(files(&data_dir(&world.database).join("checkpoints"), "json"), 3);
    let (code, text) = audit(&world, &VERIFY).await;
    assert!(code == 0 && text.contains("3 checkpoints"), "{text}");
}
