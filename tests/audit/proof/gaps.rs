//! Gaps of the audit log: an event stands at a position that the follower has passed already. No
//! checkpoint signs a gap, and an operator mends it under a statement that says why.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use auditor::{AuditVerifier, CheckpointFolder, Checkpointer, KeyFolder, Notary};
use domain::audit::VerificationOutcome;
use eventstore::worker::Worker;
use projector::verifications;
use serde_json::Value;
use tests::{Firm, World};
use vault::SystemEntropy;

use super::tampering::{VERIFY, follow};
use super::{audit, daily, read, read_often, said};
use tests::process::{data_dir, firmforms};

const CHECKPOINT: [&str; 2] = ["audit", "checkpoint"];

/// The follower passes the position of an event without reading it, as after a crash of one process
/// of PostgreSQL under a build before this one. Returns the position of the missed event, after
/// which others follow.
async fn miss(world: &World, firm: &Firm) -> i64 {
    world.project().await;
    read(world, firm).await;
    let pass = "update checkpoints set position = (select max(position) from events)
                 where name = 'audit_log' returning position";
    let missed = world.ask_number(pass).await;
    read(world, firm).await;
    world.project().await;
    missed
}

/// A firm's log with a signed checkpoint and a gap after it.
async fn gap() -> (World, Firm, i64) {
    let world = World::new().await;
    let firm = world.firm().await;
    read(&world, &firm).await;
    world.project().await;
    // Signed by the world's clock, as the hourly worker signs.
    notary(&world).take_checkpoint(world.pool(), &SystemEntropy, world.clock.now()).await.unwrap();
    let missed = miss(&world, &firm).await;
    (world, firm, missed)
}

async fn mend(world: &World, firm: &Firm, more: &[&str]) -> (i32, String) {
    let firm = firm.id.to_string();
    let asked = ["--as", "ann", "audit", "mend", "--firm", &firm, "--reason", "a backend died"];
    audit(world, &[&asked, more].concat()).await
}

fn notary(world: &World) -> Notary {
    let folder = data_dir(&world.database);
    Notary {
        keys: KeyFolder::in_folder(folder.join("audit-keys")),
        checkpoints: CheckpointFolder::in_folder(folder.join("checkpoints")),
    }
}

/// A checkpoint proved that the follower had read something, not that it had read everything.
#[tokio::test]
async fn no_checkpoint_signs_a_gap() {
    let (world, firm, missed) = gap().await;
    let (code, text) = audit(&world, &CHECKPOINT).await;
    let says = format!(
        "event at position {missed}: the audit log lacks its entry, audit_read of firm {}. Nothing \
         is signed",
        firm.id
    );
    assert!(code == 1 && text.contains(&says), "{text}");
    let files = fs::read_dir(data_dir(&world.database).join("checkpoints")).unwrap();
    let is_checkpoint = |name: &str| name.ends_with(".json");
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| is_checkpoint(name)).count(), 1);
    assert_eq!(audit(&world, &VERIFY).await.0, 1);
}

/// The verification found the gap up to a day later, and checkpoints signed it meanwhile.
#[tokio::test]
async fn a_gap_is_the_verdict_at_once() {
    let (world, firm, missed) = gap().await;
    let (pool, clock) = (world.pool().clone(), world.clock.clone());
    let mut hourly = Checkpointer::new(notary(&world), pool, clock, Arc::new(SystemEntropy));
    world.pass(Duration::from_secs(3_600));
    hourly.step().await.unwrap();
    let state = async || {
        let mut connection = world.pool().acquire().await.unwrap();
        verifications::state(&mut connection).await.unwrap().ended.unwrap()
    };
    let ended = state().await;
    let VerificationOutcome::Broken(flaw) = &ended.outcome else { panic!("{ended:?}") };
    let says = format!("event at position {missed}: the audit log lacks its entry, audit_read");
    assert!(flaw.starts_with(&says) && flaw.contains(&firm.id.to_string()), "{flaw}");
    let doctor = firmforms(&world.database).args(["doctor"]).output().await.unwrap();
    let doctor = said(&doctor).1;
    assert!(doctor.contains("BROKEN, found") && doctor.contains(&says), "{doctor}");

    world.pass(Duration::from_secs(61));
    hourly.step().await.unwrap();
    assert_eq!(state().await.at, ended.at, "the first verdict tells the age of the flaw");
    assert_eq!(mend(&world, &firm, &["--yes"]).await.0, 0);
    world.project().await;
    world.pass(Duration::from_secs(61));
    hourly.step().await.unwrap();
    assert_eq!(notary(&world).checkpoints.numbered_files().unwrap().len(), 2, "it is signed");
}

#[tokio::test]
async fn a_mended_log_verifies_and_rebuilds_equal() {
    let (world, firm, missed) = gap().await;
    let (code, text) = mend(&world, &firm, &["--dry-run"]).await;
    let line = format!("{missed}\t");
    assert!(code == 0 && text.contains(&line) && text.contains("missing"), "{text}");
    let (code, text) = mend(&world, &firm, &[]).await;
    assert!(code == 2 && text.contains("1 missing entries") && text.contains("--yes"), "{text}");
    let stated = world.count("events where aggregate_type = 'LateEntry'").await;
    assert_eq!(stated, 0, "nothing was stated");

    let (code, text) = mend(&world, &firm, &["--yes"]).await;
    assert!(code == 0 && text.contains("added"), "{text}");
    let (code, text) = mend(&world, &firm, &["--yes"]).await;
    let whole = "the audit log has the entry of each event of this firm";
    assert!(code == 0 && text.contains(whole), "a second mend finds nothing: {text}");
    // Signed while the statement waits for the follower: the signature covers a chain with the gap.
    assert_eq!(audit(&world, &CHECKPOINT).await.0, 0);
    let waits = audit(&world, &VERIFY).await;
    assert!(waits.0 == 0 && waits.1.contains("lacks 2 entries"), "{}", waits.1);
    world.project().await;
    assert_eq!(audit(&world, &CHECKPOINT).await.0, 0);

    let (code, text) = audit(&world, &VERIFY).await;
    assert!(code == 0 && text.contains("3 checkpoints"), "{text}");
    assert!(text.contains("1 entries were added late:"), "{text}");
    let late = format!("audit_read of 2026-11-01T12:00:00.000Z, position {missed}; operator ann");
    assert!(text.contains(&late) && text.contains(": a backend died"), "{text}");
    let entries = world.audit_entries(firm.id).await;
    let [.., stated, late] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((late.action.as_str(), late.position), ("audit_read", missed));
    assert_eq!(stated.action, "late_entry_added");

    for command in ["verify", "rebuild"] {
        let (code, text) = audit(&world, &["projections", command, "audit_log"]).await;
        assert_eq!(code, 0, "{command}: {text}");
    }
    world.project().await;
    let (code, text) = audit(&world, &VERIFY).await;
    assert!(code == 0 && text.contains("1 entries were added late:"), "{text}");
    let output = firmforms(&world.database).args(["audit", "verify", "--json"]).output().await;
    let told: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!((&told["late_entries"], &told["late"][0]["position"]), (&1.into(), &missed.into()));
}

#[tokio::test]
async fn a_bundle_with_a_late_entry_verifies() {
    let (world, firm, _) = gap().await;
    assert_eq!(mend(&world, &firm, &["--yes"]).await.0, 0);
    world.project().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("late.bundle");
    let file = file.to_str().unwrap();
    let export = ["audit", "export", "--firm", &firm.id.to_string(), "--out", file];
    let (code, text) = audit(&world, &export).await;
    assert_eq!(code, 0, "{text}");
    let (code, text) = audit(&world, &["audit", "verify", "--bundle", file]).await;
    assert!(code == 0 && text.contains("intact"), "{text}");
}

/// The missed event may itself be a statement: a second crash, after the first was mended.
#[tokio::test]
async fn a_mend_adds_a_missed_statement_too() {
    let (world, firm, missed) = gap().await;
    assert_eq!(mend(&world, &firm, &["--yes"]).await.0, 0);
    let pass = "update checkpoints set position = (select max(position) from events)
                 where name = 'audit_log'";
    world.change_database(pass).await;
    read(&world, &firm).await;
    world.project().await;
    assert_eq!(audit(&world, &VERIFY).await.0, 1, "the statement is missing");
    let (code, text) = mend(&world, &firm, &["--yes"]).await;
    assert!(code == 0 && text.contains("late_entry_added"), "{text}");
    world.project().await;
    assert_eq!(audit(&world, &CHECKPOINT).await.0, 0);
    let (code, text) = audit(&world, &VERIFY).await;
    assert!(code == 0 && text.contains("2 entries were added late:"), "{text}");
    assert!(text.contains(&format!("position {missed};")), "{text}");
    let (code, text) = audit(&world, &["projections", "verify", "audit_log"]).await;
    assert_eq!(code, 0, "{text}");
}

#[tokio::test]
async fn a_resumed_verification_knows_late_entries() {
    let (world, firm, _) = gap().await;
    for _ in 0..3 {
        read_often(&world, &firm, 3_000).await;
    }
    assert_eq!(mend(&world, &firm, &["--yes"]).await.0, 0);
    follow(&world).await;
    assert_eq!(audit(&world, &CHECKPOINT).await.0, 0);
    let verifier = || {
        let (pool, clock) = (world.pool().clone(), world.clock.clone());
        AuditVerifier::new(notary(&world), pool, clock, daily(30))
    };
    let mut first = verifier();
    first.step().await.unwrap();
    first.step().await.unwrap();
    drop(first);
    world.pass(Duration::from_secs(61));
    let mut second = verifier();
    let ended = loop {
        // The place of the first is free once its session has ended.
        second.step().await.unwrap();
        world.pass(Duration::from_secs(61));
        let mut connection = world.pool().acquire().await.unwrap();
        if let Some(ended) = verifications::state(&mut connection).await.unwrap().ended {
            break ended;
        }
    };
    assert_eq!(ended.outcome, VerificationOutcome::Intact);
}

/// A statement about an entry that is not missing must not stop the audit log for all firms. The
/// verification finds the statement.
#[tokio::test]
async fn a_wrong_statement_stops_no_follower() {
    use domain::event::Actor;
    use domain::operations::{LateEntryEvent, LateEntryReason};
    use eventstore::NewEvent;
    use uuid::Uuid;

    let world = World::new().await;
    let firm = world.firm().await;
    read(&world, &firm).await;
    world.project().await;
    let entry = "select position, convert_from(entry, 'utf8')::json ->> 'event_id' from audit_log
                  where action = 'audit_read'";
    let (position, event_id): (i64, String) =
        sqlx::query_as(entry).fetch_one(world.pool()).await.unwrap();
    let context = world.service().context(firm.id, Actor::Operator(Uuid::nil()));
    let of = LateEntryReason { position, reason: "none".into() };
    let event = LateEntryEvent::LateEntryAdded(of);
    let events = NewEvent::number_after(0, &event_id, &context, [event]);
    world.service().store.append(events).await.unwrap();
    read(&world, &firm).await;
    world.project().await;
    let followed = world.ask_number("select max(position) from audit_log").await;
    assert_eq!(followed, world.last_position().await);
    let (code, text) = audit(&world, &VERIFY).await;
    assert!(code == 1 && text.contains("BROKEN: entry"), "{text}");
}
