//! Temporary clusters leave nothing behind.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cluster::Cluster;

use crate::helper::{Process, assert_ended, eventually, pg_bin, run, servants_of};

#[tokio::test]
async fn a_stopped_temporary_cluster_is_gone() {
    let cluster = Cluster::temporary(pg_bin(), &[("shared_buffers", "16MB")]).await.unwrap();
    let data_dir = cluster.data_dir().to_owned();
    cluster.ensure_database("template").await.unwrap();
    run(&cluster, r#"create database copy template "template""#).await.unwrap();
    cluster.stop().await.unwrap();
    assert!(!data_dir.exists());
    assert_ended(&data_dir);
}

/// Otherwise a cluster that stopped while another thread started a program did not wait, and its
/// data were copied under a running server.
#[tokio::test]
async fn stop_waits_while_a_child_forks() {
    let cluster = Cluster::temporary(pg_bin(), &[("shared_buffers", "16MB")]).await.unwrap();
    let data_dir = cluster.data_dir().to_owned();
    let lifeline = data_dir.join("postgres/lifeline");
    let copy = fs::OpenOptions::new().write(true).open(lifeline).unwrap();
    let (stopped, ()) = tokio::join!(cluster.stop(), async { drop(copy) });
    stopped.unwrap();
    assert!(!data_dir.exists());
}

#[test]
fn a_killed_process_takes_its_cluster_along() {
    let mut process = Process::spawn("temporary");
    let data_dir = process.answer();
    process.kill_9();
    let data_dir = Path::new(&data_dir);
    eventually("the folder goes", || !data_dir.exists() && servants_of(data_dir).is_empty());
}

#[test]
fn half_made_clusters_die_with_their_process() {
    let here = crate::helper::folder();
    // As /tmp is: the account removes its own files.
    fs::set_permissions(here.path(), Permissions::from_mode(0o1777)).unwrap();
    let mut process = Process::spawn_with_temp_dir(here.path());
    let made = || fs::read_dir(here.path()).unwrap().flatten().map(|entry| entry.path()).next();
    eventually("it is being made", || {
        made().is_some_and(|dir| dir.join("postgres/data.new").exists())
    });
    process.kill_9();
    eventually("the folder goes", || made().is_none());
}

#[tokio::test]
async fn a_start_that_fails_leaves_nothing() {
    let refused = Cluster::temporary(pg_bin(), &[("no_such_setting", "1")]).await.unwrap_err();
    let said = refused.to_string();
    let log = said.split("(log: ").nth(1).unwrap().trim_end_matches("/postgres.log)");
    eventually("the folder goes", || !Path::new(log).exists());
}
