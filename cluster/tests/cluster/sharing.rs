//! Several users of one cluster: it starts with the first and ends with the last.

use std::os::unix::fs::PermissionsExt;

use crate::helper::{Process, assert_ended, eventually, folder, open, run, servants_of};

#[tokio::test]
async fn a_cluster_ends_with_its_last_user() {
    let folder = folder();
    let first = open(folder.path()).await;
    let second = open(folder.path()).await;
    run(&first, "create table t as select 1").await.unwrap();

    first.stop().await.unwrap();
    assert_eq!(run(&second, "insert into t values (2)").await.unwrap(), 1);

    second.stop().await.unwrap();
    assert_ended(folder.path());

    let again = open(folder.path()).await;
    assert_eq!(run(&again, "select * from t").await.unwrap(), 2);
    again.stop().await.unwrap();
}

#[tokio::test]
async fn a_database_is_created_once() {
    let folder = folder();
    let cluster = open(folder.path()).await;
    let name = r#"odd "name""#;
    let (one, other) = tokio::join!(cluster.ensure_database(name), cluster.ensure_database(name));
    one.unwrap();
    other.unwrap();
    cluster.ensure_database(name).await.unwrap();
    cluster.stop().await.unwrap();
}

#[test]
fn concurrent_processes_share_one_server() {
    let folder = folder();
    let mut all = [(); 3].map(|()| Process::spawn(folder.path().to_str().unwrap()));
    for process in &all {
        assert_eq!(process.answer(), folder.path().to_str().unwrap());
    }
    assert_eq!(all[0].ask("create table t as select 1"), "1");
    assert_eq!(all[1].ask("insert into t values (2)"), "1");
    assert_eq!(all[2].ask("select * from t"), "2");
    for mut process in all {
        assert_eq!(process.ask("stop"), "stopped");
    }
    assert_ended(folder.path());
}

/// The user that started the server is killed.
#[test]
fn a_joined_user_keeps_the_server() {
    let folder = folder();
    let mut first = Process::spawn(folder.path().to_str().unwrap());
    first.answer();
    let mut second = Process::spawn(folder.path().to_str().unwrap());
    second.answer();

    first.kill_9();
    assert_eq!(second.ask("create table t as select 1"), "1");
    let mut third = Process::spawn(folder.path().to_str().unwrap());
    third.answer();
    assert_eq!(third.ask("select * from t"), "1");

    second.kill_9();
    assert_eq!(third.ask("select * from t"), "1");
    third.kill_9();
    eventually("the server ends with its last user", || servants_of(folder.path()).is_empty());
}

/// The server may be stopping for the last user while the next user joins.
#[tokio::test]
async fn a_user_never_joins_a_dying_server() {
    let folder = folder();
    let mut last = open(folder.path()).await;
    for _ in 0..8 {
        drop(last);
        last = open(folder.path()).await;
        run(&last, "select 1").await.unwrap();
    }
    last.stop().await.unwrap();
    assert_ended(folder.path());
}

#[tokio::test]
async fn nobody_else_can_enter() {
    let folder = folder();
    let cluster = open(folder.path()).await;
    let mode = |name| folder.path().join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("postgres"), 0o700);
    assert_eq!(mode("postgres.password"), 0o600);
    assert_eq!(mode("postgres.log"), 0o600);
    let stranger = cluster.connect_options("postgres").password("guess");
    let refused = sqlx::ConnectOptions::connect(&stranger).await.unwrap_err();
    assert!(refused.to_string().contains("password authentication failed"), "{refused}");
    cluster.stop().await.unwrap();
}
