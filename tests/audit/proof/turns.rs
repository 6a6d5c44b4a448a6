//! The daily verification reads new events, the links of all seals, and older events in turn.

use std::time::Duration;

use domain::audit::VerificationOutcome;
use eventstore::worker::Worker;

use super::tampering::tamper;
use super::verifier::{LongLog, flaw};
use super::{DAY, read_often};

const HOUR: Duration = Duration::from_secs(3_600);

/// An old event is found in its turn. The verdict stays until the event is whole again.
#[tokio::test]
async fn old_events_are_read_in_turn() {
    let log = LongLog::new().await;
    let mut verifier = log.rereading_within(5);
    let ended = log.ended(&mut verifier).await;
    assert_eq!(ended.outcome, VerificationOutcome::Intact);
    // Far behind the rotation, which goes back to the end of a block.
    let next = log.state().await.intact.unwrap().reread_to;
    let position = if next > 2_000 { next - 1_500 } else { 7_500 };
    let event = "update events set recorded_at = recorded_at";
    let broken = format!("{event} + interval '1 microsecond' where position = {position}");
    tamper(&log.world, &[&broken]).await;
    let mut days = 0;
    let ended = loop {
        log.world.pass(DAY);
        read_often(&log.world, &log.firm, 200).await;
        log.follow().await;
        log.sign().await;
        days += 1;
        let ended = log.ended(&mut verifier).await;
        if ended.outcome != VerificationOutcome::Intact {
            break ended;
        }
    };
    assert!((2..=5).contains(&days), "{days}");
    let expected = format!("event at position {position}: its digest");
    assert!(flaw(&ended).starts_with(&expected), "{ended:?}");

    for wait in [Duration::from_secs(1), HOUR, DAY, DAY * 9] {
        log.world.pass(wait);
        let ended = log.ended(&mut log.rereading_within(5)).await;
        assert!(flaw(&ended).starts_with(&expected), "after {wait:?}: {ended:?}");
    }
    let whole = format!("{event} - interval '1 microsecond' where position = {position}");
    tamper(&log.world, &[&whole]).await;
    log.world.pass(HOUR);
    let ended = log.ended(&mut verifier).await;
    assert_eq!(ended.outcome, VerificationOutcome::Intact);
}

#[tokio::test]
async fn seals_and_new_events_are_verified_daily() {
    let forged = [
        ("update seals set hash = sha256(hash) where number = 1", "seal 1: "),
        ("delete from seals where number = 1", "seal 1: it is missing"),
        (
            "update events set recorded_at = recorded_at + interval '1 microsecond'
              where position = 4000",
            "event at position 4000: its digest",
        ),
        ("delete from audit_log where position = 4000", "(position 4000): it is missing"),
        ("delete from events where position > 2900", "the log reached position"),
    ];
    for (statement, expected) in forged {
        let log = LongLog::with_batches(1).await;
        let mut verifier = log.rereading_within(30);
        assert_eq!(log.ended(&mut verifier).await.outcome, VerificationOutcome::Intact);
        read_often(&log.world, &log.firm, 1_500).await;
        log.follow().await;
        log.sign().await;
        log.world.pass(DAY);
        tamper(&log.world, &[statement]).await;
        let ended = log.ended(&mut verifier).await;
        assert!(flaw(&ended).contains(expected), "{statement}: {ended:?}");
    }
}

/// A signer refuses a flaw after the last signature, although a verification has passed it. The
/// verdicts would alternate if the next verification began later.
#[tokio::test]
async fn unsigned_events_are_read_again_daily() {
    let log = LongLog::with_batches(1).await;
    read_often(&log.world, &log.firm, 3_500).await;
    log.follow().await;
    let mut verifier = log.rereading_within(30);
    let ended = log.ended(&mut verifier).await;
    assert_eq!(ended.outcome, VerificationOutcome::Intact);
    assert!(ended.position > 6_400, "{ended:?}");
    tamper(&log.world, &["update audit_log set entry = entry || ' ' where position = 4500"]).await;
    log.world.pass(DAY);
    let ended = log.ended(&mut verifier).await;
    assert!(flaw(&ended).contains("(position 4500): its bytes"), "{ended:?}");
}

#[tokio::test]
async fn another_process_resumes_an_older_stretch() {
    let log = LongLog::new().await;
    let mut first = log.rereading_within(4);
    assert_eq!(log.ended(&mut first).await.outcome, VerificationOutcome::Intact);
    let before = log.state().await.intact.unwrap();
    log.world.pass(DAY);
    first.step().await.unwrap();
    while log.walked_to().await <= before.reread_to {
        first.step().await.unwrap();
    }
    let running = log.state().await.running.unwrap();
    drop(first);
    log.world.pass(Duration::from_secs(61));
    let mut second = log.rereading_within(4);
    while log.state().await.running.is_none_or(|now| now.position == running.position) {
        second.step().await.unwrap();
        log.world.pass(Duration::from_secs(61));
    }
    assert_eq!(log.state().await.running.unwrap().began_at, running.began_at);
    assert_eq!(log.ended(&mut second).await.outcome, VerificationOutcome::Intact);
    let after = log.state().await.intact.unwrap();
    assert_eq!((after.at, after.position), (running.began_at, before.position));
    assert_ne!(after.reread_to, before.reread_to);
}
