//! Places of the cluster, its users, and the refusals.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use crate::helper::{
    Process, config, eventually, folder, is_root, open, postmaster, refusal, run, servants_of,
};

#[tokio::test]
async fn roots_server_runs_as_another_user() {
    if !is_root() {
        return;
    }
    let folder = folder();
    let cluster = open(folder.path()).await;
    let process = format!("/proc/{}", postmaster(folder.path()));
    assert_ne!(fs::metadata(process).unwrap().uid(), 0);
    cluster.stop().await.unwrap();
}

/// In another user's folder any file may be a link to a file of root. The user has a cluster too.
#[tokio::test]
async fn root_leaves_another_users_cluster_alone() {
    if !is_root() {
        return;
    }
    let home = folder();
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    chown(home.path(), Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
    let data_dir = home.path().join("data");
    let mut user = Process::spawn_as_nobody(home.path(), data_dir.to_str().unwrap());
    assert_eq!(user.answer(), data_dir.to_str().unwrap());
    assert_eq!(user.ask("create table t as select 1"), "1");

    let refused =
        format!("{} belongs to user id {}: run as that user", data_dir.display(), nobody.uid);
    assert_eq!(refusal(&config(&data_dir)).await, refused);
    assert_eq!(user.ask("select * from t"), "1");
    user.kill_9();
    eventually("the server ends", || servants_of(&data_dir).is_empty());
    let precious = home.path().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::remove_dir_all(data_dir.join("postgres")).unwrap();
    std::os::unix::fs::symlink(&precious, data_dir.join("postgres")).unwrap();
    assert_eq!(refusal(&config(&data_dir)).await, refused);
    assert_eq!(fs::metadata(&precious).unwrap().uid(), 0, "it was given to nobody");
}

#[tokio::test]
async fn a_cluster_of_another_user_is_refused() {
    let home = folder();
    let theirs = home.path().join("postgres");
    fs::create_dir(&theirs).unwrap();
    if !is_root() {
        return;
    }
    chown(&theirs, Some(1), Some(1)).unwrap();
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    chown(home.path(), Some(nobody.uid.as_raw()), None).unwrap();
    let user = Process::spawn_as_nobody(home.path(), home.path().to_str().unwrap());
    let said = user.answer();
    assert_eq!(said, format!("{} belongs to user id 1: run as that user", theirs.display()));
}

/// Anybody may have laid a link into such a folder.
#[tokio::test]
async fn a_folder_writable_by_all_is_refused() {
    let home = folder();
    fs::set_permissions(home.path(), Permissions::from_mode(0o1777)).unwrap();
    let said = refusal(&config(home.path())).await;
    assert!(said.starts_with("every user may write to"), "{said}");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_long_path_gets_a_short_socket() {
    let folder = folder();
    let data_dir = folder.path().join("long".repeat(30));
    let cluster = open(&data_dir).await;
    let joined = open(&data_dir).await;
    run(&joined, "select 1").await.unwrap();
    let short = cluster.connect_options("postgres").get_socket().cloned().unwrap();
    assert!(short.to_string_lossy().starts_with("/tmp/firmforms-"), "{short:?}");
    joined.stop().await.unwrap();
    cluster.stop().await.unwrap();
    assert!(!short.exists());
}

/// The account of the server cannot enter such a folder.
#[tokio::test]
async fn a_shut_folder_is_named() {
    if !is_root() {
        return;
    }
    let folder = folder();
    let shut = folder.path().join("shut");
    fs::create_dir(&shut).unwrap();
    fs::set_permissions(&shut, Permissions::from_mode(0o700)).unwrap();
    let said = refusal(&config(&shut.join("data"))).await;
    assert!(said.contains(&format!("cannot enter {}: allow it", shut.display())), "{said}");
}

#[tokio::test]
async fn a_folder_without_programs_is_named() {
    let folder = folder();
    let mut config = config(&folder.path().join("data"));
    config.pg_bin = Some(folder.path().into());
    let said = refusal(&config).await;
    assert!(
        said.starts_with(&format!("FIRMFORMS_PG_BIN is {}", folder.path().display())),
        "{said}"
    );
}

#[tokio::test]
async fn data_of_another_version_are_refused() {
    let folder = folder();
    open(folder.path()).await.stop().await.unwrap();
    fs::write(folder.path().join("postgres/data/PG_VERSION"), "14\n").unwrap();
    let said = refusal(&config(folder.path())).await;
    assert!(said.starts_with("the data was made by PostgreSQL 14, and only "), "{said}");
}

#[tokio::test]
async fn a_lost_password_is_not_replaced() {
    let folder = folder();
    open(folder.path()).await.stop().await.unwrap();
    let password = folder.path().join("postgres.password");
    fs::remove_file(&password).unwrap();
    let said = refusal(&config(folder.path())).await;
    assert!(said.starts_with(&format!("{} is missing", password.display())), "{said}");
    assert!(!password.exists());
}

#[test]
fn missing_programs_are_named_in_one_line() {
    let folder = folder();
    let user = Process::spawn_without_programs(folder.path().to_str().unwrap());
    assert_eq!(
        user.answer(),
        "PostgreSQL's programs (initdb and postgres, version 14 or newer) were not found: install \
         the package `postgresql` (apt) or `postgresql-server` (dnf), or set FIRMFORMS_PG_BIN to \
         the folder that holds them"
    );
}
