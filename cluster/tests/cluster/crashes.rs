//! Kills, each followed by a start that finds the committed data.

use std::fs;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use crate::helper::{
    Process, assert_ended, eventually, folder, kill_9, name, open, postmaster, refusal, run,
    servants_of,
};

#[tokio::test]
async fn killed_owners_leave_no_server_or_lock() {
    let folder = folder();
    let mut owner = Process::spawn(folder.path().to_str().unwrap());
    owner.answer();
    assert_eq!(owner.ask("create table t as select 1"), "1");

    owner.kill_9();
    let killed = Instant::now();
    eventually("the server ends", || servants_of(folder.path()).is_empty());
    println!("the server ended {:?} after its owner", killed.elapsed());
    let log = fs::read_to_string(folder.path().join("postgres.log")).unwrap();
    assert!(log.contains("database system is shut down"), "{log}");

    let again = open(folder.path()).await;
    assert_eq!(run(&again, "select * from t").await.unwrap(), 1);
    again.stop().await.unwrap();
}

#[tokio::test]
async fn after_killing_everything_the_cluster_starts_again() {
    let folder = folder();
    let mut owner = Process::spawn(folder.path().to_str().unwrap());
    owner.answer();
    assert_eq!(owner.ask("create table t as select 1"), "1");

    let postmaster = postmaster(folder.path());
    for pid in servants_of(folder.path()) {
        kill_9(pid);
    }
    kill_9(postmaster);
    owner.kill_9();

    let again = open(folder.path()).await;
    assert_eq!(run(&again, "select * from t").await.unwrap(), 1);
    again.stop().await.unwrap();
}

/// PostgreSQL dies, as it does when its disk is full. Its user lives on, and nobody else starts it.
#[tokio::test]
async fn a_user_restarts_its_dead_server() {
    let folder = folder();
    let mut cluster = open(folder.path()).await;
    run(&cluster, "create table t as select 1").await.unwrap();
    assert!(cluster.is_answering());
    let dead = postmaster(folder.path());
    kill_9(dead);
    eventually("nobody answers", || !cluster.is_answering());
    cluster.start_again().await.unwrap();
    assert_ne!(postmaster(folder.path()), dead);
    assert_eq!(run(&cluster, "select * from t").await.unwrap(), 1);
    cluster.start_again().await.unwrap();
    assert!(cluster.is_answering(), "a server that runs is left alone");
    cluster.stop().await.unwrap();
    assert_ended(folder.path());
}

#[tokio::test]
async fn an_unguarded_server_is_replaced() {
    let folder = folder();
    let mut owner = Process::spawn(folder.path().to_str().unwrap());
    owner.answer();
    let postmaster = postmaster(folder.path());
    let is_shell = |pid: &i32| name(*pid).is_some_and(|name| name == "sh");
    servants_of(folder.path()).into_iter().filter(is_shell).for_each(kill_9);
    owner.kill_9();
    assert!(servants_of(folder.path()).contains(&postmaster), "the server is still there");

    let again = open(folder.path()).await;
    run(&again, "select 1").await.unwrap();
    again.stop().await.unwrap();
    assert_ended(folder.path());
}

#[tokio::test]
async fn the_next_user_restarts_a_dead_server() {
    let folder = folder();
    let former_user = open(folder.path()).await;
    kill_9(postmaster(folder.path()));
    let socket = folder.path().join("postgres/.s.PGSQL.5432");
    eventually("it is dead", || UnixStream::connect(&socket).is_err());

    let next = open(folder.path()).await;
    run(&next, "select 1").await.unwrap();
    run(&former_user, "select 1").await.unwrap();
    next.stop().await.unwrap();
    former_user.stop().await.unwrap();
    eventually("the server ends", || servants_of(folder.path()).is_empty());
}

/// In a container the process ids begin anew. So the pid that a crashed server left in its files
/// may be the pid of another process.
#[tokio::test]
async fn a_former_servers_pid_may_be_reused() {
    let folder = folder();
    let cluster = open(folder.path()).await;
    let pid_file = folder.path().join("postgres/data/postmaster.pid");
    let text = fs::read_to_string(&pid_file).unwrap();
    cluster.stop().await.unwrap();
    let me = std::process::id().to_string();
    let stale = text.replacen(text.lines().next().unwrap(), &me, 1);
    fs::write(&pid_file, &stale).unwrap();
    fs::write(folder.path().join("postgres/.s.PGSQL.5432.lock"), &stale).unwrap();

    let again = open(folder.path()).await;
    run(&again, "select 1").await.unwrap();
    again.stop().await.unwrap();
}

#[tokio::test]
async fn a_start_that_fails_says_why() {
    let folder = folder();
    let mut config = crate::helper::config(folder.path());
    config.settings.push(("no_such_setting".into(), "1".into()));
    let refusal = refusal(&config).await;
    assert!(
        refusal.contains(r#"unrecognized configuration parameter "no_such_setting""#),
        "{refusal}"
    );
    assert_ended(folder.path());
}
