//! Folders of checkpoints that belong to another installation, and reads that take long.

use std::path::Path;
use std::time::Duration;

use auditor::verify::{self, AuditVerdict, VerifiedWith};
use auditor::{AuditVerifier, CheckpointFolder, KeyFolder, Notary};
use domain::audit::{EndedVerification, VerificationOutcome};
use eventstore::worker::Worker;
use projector::verifications;
use sqlx::postgres::PgPoolOptions;
use tests::World;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::tampering::{VERIFY, tamper};
use super::{audit, daily, read, read_often, said};
use tests::process::{data_dir, firmforms};

const CHECKPOINT: [&str; 2] = ["audit", "checkpoint"];

/// A world that has this id, and a signed checkpoint.
async fn installation(id: &str) -> World {
    let world = World::new().await;
    let firm = world.firm().await;
    read(&world, &firm).await;
    world.project().await;
    let named = format!(
        "insert into installation (installation_id) values ('{id}')
             on conflict (single) do update set installation_id = excluded.installation_id"
    );
    world.change_database(&named).await;
    assert_eq!(audit(&world, &CHECKPOINT).await.0, 0);
    world
}

const OURS: &str = "00000000-0000-0000-0000-00000000000a";
const THEIRS: &str = "00000000-0000-0000-0000-00000000000b";

fn notary_in(folder: &Path) -> Notary {
    Notary {
        keys: KeyFolder::in_folder(folder.join("audit-keys")),
        checkpoints: CheckpointFolder::in_folder(folder.join("checkpoints")),
    }
}

/// The verdict was that the log had changed. Nothing said that the folder was foreign.
#[tokio::test]
async fn a_folder_of_another_installation_is_named() {
    let (world, other) = (installation(OURS).await, installation(THEIRS).await);
    let folder = data_dir(&other.database);
    let says = format!(
        "the folder belongs to another installation: checkpoint 1 in it is of {THEIRS}, and this \
         database is of {OURS}"
    );
    for command in [VERIFY, CHECKPOINT] {
        let mut process = firmforms(&world.database);
        process
            .env("FIRMFORMS_AUDIT_KEYS_DIR", folder.join("audit-keys"))
            .env("FIRMFORMS_CHECKPOINTS_DIR", folder.join("checkpoints"));
        let (code, text) = said(&process.args(command).output().await.unwrap());
        assert!(code == 1 && text.contains(&says), "{command:?}: {text}");
    }
    assert_eq!(audit(&world, &VERIFY).await.0, 0, "with its own folder");
}

#[tokio::test]
async fn a_series_without_ids_stays_without() {
    let world = World::new().await;
    world.firm().await;
    world.project().await;
    tamper(&world, &["delete from installation"]).await;
    assert_eq!(audit(&world, &CHECKPOINT).await.0, 0, "as a build before 0.3.0 signs");
    let statement = "insert into installation (installation_id) values (gen_random_uuid())";
    world.change_database(statement).await;
    assert_eq!(audit(&world, &CHECKPOINT).await.0, 0);
    let files = notary_in(&data_dir(&world.database)).checkpoints.list_after(0, 9).unwrap();
    let ids: Vec<bool> =
        files.iter().map(|file| file.checkpoint.installation_id.is_some()).collect();
    assert_eq!(ids, [false, false], "a 0.2.0 process beside this build reads them");
    let (code, text) = audit(&world, &VERIFY).await;
    assert!(code == 0 && text.contains("2 checkpoints"), "{text}");
}

/// Steps until a verification has ended that began after this call; `None` if none begins.
async fn next_verdict(world: &World, verifier: &mut AuditVerifier) -> Option<EndedVerification> {
    let state = async || {
        let mut connection = world.pool().acquire().await.unwrap();
        verifications::state(&mut connection).await.unwrap()
    };
    let before = state().await.ended;
    for _ in 0..20 {
        verifier.step().await.unwrap();
        let now = state().await;
        if now.running.is_none() && now.ended != before {
            return now.ended;
        }
    }
    None
}

/// A broken verdict stayed for a day, although its cause was gone.
#[tokio::test]
async fn a_broken_verdict_is_repeated_until_whole() {
    let world = installation(OURS).await;
    let notary = notary_in(&data_dir(&world.database));
    let (pool, clock) = (world.pool().clone(), world.clock.clone());
    let mut verifier = AuditVerifier::new(notary, pool, clock, daily(30));
    let event = "update events set recorded_at = recorded_at";
    let broken = format!("{event} + interval '1 microsecond' where position = 1");
    tamper(&world, &[&broken]).await;
    for _ in 0..2 {
        let ended = next_verdict(&world, &mut verifier).await.unwrap();
        assert!(ended.outcome.is_broken(), "{ended:?}");
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(next_verdict(&world, &mut verifier).await, None, "the next one comes in an hour");
    let whole = format!("{event} - interval '1 microsecond' where position = 1");
    tamper(&world, &[&whole]).await;
    world.pass(Duration::from_secs(3_600));
    let ended = next_verdict(&world, &mut verifier).await.unwrap();
    assert_eq!(ended.outcome, VerificationOutcome::Intact);
    world.pass(Duration::from_secs(3_600));
    assert_eq!(next_verdict(&world, &mut verifier).await, None, "the next one comes in a day");
}

/// A verification on a busy machine ended with "idle-in-transaction timeout".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_verification_is_not_cut() {
    let world = World::new().await;
    let firm = world.firm().await;
    read_often(&world, &firm, 20).await;
    world.project().await;
    let folder = tempfile::tempdir().unwrap();
    let notary = notary_in(folder.path());
    notary.take_checkpoint(world.pool(), &vault::SystemEntropy, world.clock.now()).await.unwrap();
    let limits = [
        ("application_name", "slow-reader"),
        ("idle_in_transaction_session_timeout", "2s"),
        ("statement_timeout", "30s"),
    ];
    let options = world.database.main.clone().options(limits);
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    let beside = world.pool().clone();
    // Waits until the session has been idle for longer than its limit, or is gone.
    let wait = || {
        block_in_place(|| Handle::current().block_on(until_idle_or_gone(&beside)));
    };
    let verdict =
        verify::database(&pool, &notary, VerifiedWith::default(), |_, _| wait()).await.unwrap();
    assert!(matches!(verdict, AuditVerdict::Intact(_)), "{verdict:?}");
}

async fn until_idle_or_gone(pool: &sqlx::PgPool) {
    let is_over =
        "select coalesce(bool_and(clock_timestamp() - state_change > interval '2.5 s'), true)
                     from pg_stat_activity
                    where application_name = 'slow-reader' and datname = current_database()";
    while !sqlx::query_scalar::<_, bool>(is_over).fetch_one(pool).await.unwrap() {
        tokio::task::yield_now().await;
    }
}
