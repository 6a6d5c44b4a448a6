//! The verification that a projector runs by itself: in steps, resumed by another process, beside a
//! log that grows.

use std::sync::Arc;
use std::time::Duration;

use auditor::{AuditVerifier, CheckpointFolder, KeyFolder, Notary};
use domain::audit::{EndedVerification, VerificationOutcome, VerificationState};
use eventstore::worker::Worker;
use projector::verifications;
use tempfile::TempDir;
use tests::{Firm, TestDatabase, World};
use vault::SystemEntropy;

use super::tampering::tamper;
use super::{DAY, audit, daily, read_often, said};
use tests::process::{Listening, firmforms};
use tests::scrape::Scrape;

/// A log of several pages, followed, sealed and signed.
pub(super) struct LongLog {
    pub(super) world: World,
    pub(super) firm: Firm,
    folder: TempDir,
}

impl LongLog {
    pub(super) async fn new() -> Self {
        Self::with_batches(3).await
    }

    /// A log of so many batches of 3,000 events.
    pub(super) async fn with_batches(batches: usize) -> Self {
        let world = World::new().await;
        let firm = world.firm().await;
        for _ in 0..batches {
            read_often(&world, &firm, 3_000).await;
        }
        let log = Self { world, firm, folder: tempfile::tempdir().unwrap() };
        log.follow().await;
        log.sign().await;
        log
    }

    fn notary(&self) -> Notary {
        Notary {
            keys: KeyFolder::in_folder(self.folder.path().join("keys")),
            checkpoints: CheckpointFolder::in_folder(self.folder.path().join("checkpoints")),
        }
    }

    pub(super) async fn follow(&self) {
        self.world.project().await;
        self.world.seal().await;
    }

    pub(super) async fn sign(&self) {
        let at = self.world.clock.now();
        self.notary().take_checkpoint(self.world.pool(), &SystemEntropy, at).await.unwrap();
    }

    fn verifier(&self) -> AuditVerifier {
        self.rereading_within(30)
    }

    pub(super) fn rereading_within(&self, days: u32) -> AuditVerifier {
        let (pool, clock) = (self.world.pool().clone(), self.world.clock.clone());
        AuditVerifier::new(self.notary(), pool, clock, daily(days))
    }

    pub(super) async fn state(&self) -> VerificationState {
        verifications::state(&mut self.world.pool().acquire().await.unwrap()).await.unwrap()
    }

    pub(super) async fn walked_to(&self) -> i64 {
        self.state().await.running.map_or(0, |running| running.position)
    }

    /// Steps until a verification has ended.
    pub(super) async fn ended(&self, verifier: &mut AuditVerifier) -> EndedVerification {
        let before = self.state().await.ended;
        // The session of the verification before may still hold the place.
        for _ in 0..3 {
            for _ in 0..100 {
                verifier.step().await.unwrap();
                let state = self.state().await;
                if state.running.is_none() && state.ended != before {
                    return state.ended.unwrap();
                }
            }
            self.world.pass(Duration::from_secs(61));
        }
        panic!("the verification does not end");
    }
}

pub(super) fn flaw(ended: &EndedVerification) -> &str {
    match &ended.outcome {
        VerificationOutcome::Broken(flaw) => flaw,
        other => panic!("{other:?}"),
    }
}

/// The log is verified once a day, in steps, by one process at a time.
#[tokio::test]
async fn another_process_resumes_the_daily_verification() {
    let log = LongLog::new().await;
    let mut first = log.verifier();
    first.step().await.unwrap();
    first.step().await.unwrap();
    let reached = log.walked_to().await;
    assert!((4_000..5_000).contains(&reached), "{reached}: one page a step");
    let mut second = log.verifier();
    second.step().await.unwrap();
    second.step().await.unwrap();
    assert_eq!(log.walked_to().await, reached, "one process verifies");

    drop(first);
    log.world.pass(Duration::from_secs(61));
    let place = "pg_locks where locktype = 'advisory' and classid = 44
                   and database = (select oid from pg_database where datname = current_database())";
    while log.world.count(place).await > 0 {
        tokio::task::yield_now().await;
    }
    second.step().await.unwrap();
    assert_eq!(log.walked_to().await, reached, "it goes on where the first was");
    let ended = log.ended(&mut second).await;
    assert_eq!(ended.outcome, VerificationOutcome::Intact);
    assert!(ended.position > 9_000, "{ended:?}");

    log.world.pass(DAY / 2);
    second.step().await.unwrap();
    assert_eq!(log.state().await.running, None, "it is not due");
    log.world.pass(DAY / 2);
    second.step().await.unwrap();
    assert!(log.state().await.running.is_some(), "it is due");
}

/// Events, entries, seals and checkpoints come between the steps of the verification.
#[tokio::test]
async fn a_growing_log_is_no_flaw() {
    let log = LongLog::new().await;
    let mut verifier = log.verifier();
    let mut rounds = 0;
    while log.state().await.ended.is_none() {
        verifier.step().await.unwrap();
        read_often(&log.world, &log.firm, 1_500).await;
        rounds += 1;
        match rounds % 3 {
            0 => log.world.seal().await,
            1 => log.world.project().await,
            _ => log.follow().await,
        }
        log.sign().await;
    }
    let ended = log.state().await.ended.unwrap();
    assert_eq!(ended.outcome, VerificationOutcome::Intact);
    assert!(rounds >= 4 && ended.position > 10_000, "{rounds} {ended:?}");
    let (code, text) = audit(&log.world, &["audit", "verify"]).await;
    assert!(code == 2 && text.contains("there is no checkpoint"), "this folder has none: {text}");
}

#[tokio::test]
async fn a_resumed_verification_finds_earlier_changes() {
    let log = LongLog::new().await;
    let mut first = log.verifier();
    first.step().await.unwrap();
    first.step().await.unwrap();
    assert!(log.walked_to().await > 4_000);
    drop(first);
    tamper(&log.world, &["update audit_log set hash = sha256(hash) where sequence = 5"]).await;
    log.world.pass(Duration::from_secs(61));
    let ended = log.ended(&mut log.verifier()).await;
    let checkpoint = flaw(&ended).starts_with("checkpoint 1: the audit log");
    assert!(checkpoint, "{ended:?}");
}

#[tokio::test]
async fn verification_in_steps_finds_each_forgery() {
    let forged = [
        (
            "update events set payload = replace(payload::text, 'Harrow', 'Harrov')::json
              where position = 1",
            "event at position 1: its digest",
        ),
        ("delete from audit_log where position = 2500", "(position 2500): it is missing"),
        (
            "update seals set root = sha256(root) where number = 2",
            "seal 2: the events in its block",
        ),
        ("update audit_heads set hash = sha256(hash)", "head of firm"),
        (
            "insert into audit_log
             select firm_id, 1000000, 1000000, at, action, actor_kind, actor_id, subject_kind,
                    subject_id, reason, evidence, entry, previous_hash, hash
               from audit_log where sequence = 9",
            "no event in the log has led to it",
        ),
        ("delete from events where position > 2900", "the log reached position"),
    ];
    for (statement, expected) in forged {
        let log = LongLog::with_batches(1).await;
        tamper(&log.world, &[statement]).await;
        let ended = log.ended(&mut log.verifier()).await;
        assert!(flaw(&ended).contains(expected), "{statement}: {ended:?}");
    }
}

#[tokio::test]
async fn no_process_verifies_without_the_checkpoints() {
    let log = LongLog::new().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let notary = Notary {
        keys: KeyFolder::in_folder(elsewhere.path().join("keys")),
        checkpoints: CheckpointFolder::in_folder(elsewhere.path().join("checkpoints")),
    };
    let (pool, clock) = (log.world.pool().clone(), log.world.clock.clone());
    let mut without = AuditVerifier::new(notary, pool, clock, daily(30));
    without.step().await.unwrap();
    assert_eq!(log.state().await, VerificationState::default());
    let ended = log.ended(&mut log.verifier()).await;
    assert_eq!(ended.outcome, VerificationOutcome::Intact);
}

/// A forged row stayed unknown until an operator ran `audit verify`. The log of the process, the
/// metrics and `doctor` show the row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_reports_a_forged_row() {
    let world = Arc::new(World::real_time(TestDatabase::new().await).await);
    let firm = world.firm().await;
    read_often(&world, &firm, 100).await;
    world.project().await;
    let (code, text) = audit(&world, &["audit", "checkpoint"]).await;
    assert_eq!(code, 0, "{text}");
    let doctor = async || {
        let output = firmforms(&world.database).args(["doctor"]).output().await.unwrap();
        said(&output).1
    };
    assert!(doctor().await.contains("the log was never verified"));
    tamper(
        &world,
        &["update events set recorded_at = recorded_at + interval '1 microsecond'
            where position = 9"],
    )
    .await;
    let mut serving = Listening::start(&world.database, &[], &[]).await;
    // The line may come before the one that says ready.
    let line = serving.until_it_logs("THE LOG IS BROKEN").await;
    let told =
        Scrape::until(serving.internal, |told| told.value("firmforms_verification_broken") == 1.0)
            .await;
    assert!(told.value("firmforms_signed_checkpoint_age_seconds") > 0.0, "{}", told.text);
    assert!(line.contains("ERROR") && line.contains("event at position 9"), "{line}");
    let text = doctor().await;
    assert!(text.contains("BROKEN, found") && text.contains("event at position 9"), "{text}");
}
