//! The tools of fault runs: the draw of a seed, and the proxy that loses answers to COMMITs.

use sqlx::{ConnectOptions, Connection, Executor};
use tests::{DatabaseProxy, Fault, FaultKind, ServerMessages, TestDatabase, draw_faults};

#[test]
fn a_seed_draws_its_faults_again() {
    let drawn = draw_faults(44, &FaultKind::ALL, 60);
    assert_eq!(drawn, draw_faults(44, &FaultKind::ALL, 60));
    assert_eq!(drawn[..30], draw_faults(44, &FaultKind::ALL, 30)[..], "a shorter run is its start");
    assert_ne!(drawn, draw_faults(45, &FaultKind::ALL, 60));
}

#[test]
fn every_kind_is_drawn_before_any_again() {
    let drawn = draw_faults(7, &FaultKind::ALL, FaultKind::ALL.len() * 3);
    for round in drawn.chunks(FaultKind::ALL.len()) {
        for kind in FaultKind::ALL {
            assert!(round.iter().any(|fault| fault.kind == kind), "{kind:?}");
        }
    }
}

#[test]
fn each_kind_of_fault_has_its_name() {
    for kind in FaultKind::ALL {
        assert_eq!(FaultKind::named(kind.name()), Some(kind));
    }
    assert_eq!(FaultKind::named("flood"), None);
}

/// An answer to a COMMIT between other messages, one of which has its text as a value.
#[test]
fn a_commit_answer_is_found_in_pieces() {
    let row = b"D\0\0\0\x16\0\x01\0\0\0\x0cC\0\0\0\x0bCOMMIT\0".as_slice();
    let complete = b"C\0\0\0\x0dSELECT 1\0".as_slice();
    let rolled_back = b"C\0\0\0\x0dROLLBACK\0".as_slice();
    let committed = b"C\0\0\0\x0bCOMMIT\0".as_slice();
    let ready = b"Z\0\0\0\x05I".as_slice();
    let before = [row, complete, ready, rolled_back, ready].concat();
    let all = [&before, committed, ready, rolled_back].concat();
    for length in 1..=all.len() {
        let mut messages = ServerMessages::default();
        let mut found = Vec::new();
        for (index, piece) in all.chunks(length).enumerate() {
            found.extend(messages.find_commit(piece).map(|offset| index * length + offset));
        }
        // Of an answer in pieces, the first pieces have passed.
        let end = before.len() + committed.len();
        assert_eq!(found.len(), 1, "in pieces of {length}");
        assert!((before.len()..end).contains(&found[0]), "in pieces of {length}: {found:?}");
    }
}

#[tokio::test]
async fn an_unanswered_commit_is_carried_out() {
    let database = TestDatabase::new().await;
    let proxy = DatabaseProxy::before(&database.main).await;
    let mut direct = database.main.connect().await.unwrap();
    direct.execute("create table marks (mark integer)").await.unwrap();
    let through: sqlx::postgres::PgConnectOptions = proxy.url(&database.main).parse().unwrap();
    let mut connection = through.connect().await.unwrap();
    proxy.set(Fault::ResetAfterCommit);
    let mut rolled_back = connection.begin().await.unwrap();
    rolled_back.execute("insert into marks values (1)").await.unwrap();
    rolled_back.rollback().await.unwrap();
    let mut committed = connection.begin().await.unwrap();
    committed.execute("insert into marks values (2)").await.unwrap();
    committed.commit().await.unwrap_err();
    assert_eq!(proxy.lost_commits(), 1);
    let marks: Vec<i32> =
        sqlx::query_scalar("select mark from marks").fetch_all(&mut direct).await.unwrap();
    assert_eq!(marks, [2]);
    direct.close().await.unwrap();
}
