//! A primary and its standby behind one proxy, for tests of a failover. The tail of the log is lost
//! on purpose: the standby stops receiving before the events that are to be lost are written.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cluster::find_programs;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, chown};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::database::{Templates, TestDatabase, own_cluster};
use crate::proxy::{DatabaseProxy, Fault};

/// From one look to the next.
const AGAIN: Duration = Duration::from_millis(20);

/// A primary, its asynchronous standby, and the proxy to the one that is the primary now.
pub struct ReplicatedServer {
    primary: Templates,
    standby: PgConnectOptions,
    standby_process: Child,
    folder: tempfile::TempDir,
    proxy: DatabaseProxy,
}

impl ReplicatedServer {
    /// Both servers, with the standby in step.
    pub async fn start() -> (Self, TestDatabase) {
        let primary = own_cluster().await;
        let database = primary.database().await;
        let proxy = DatabaseProxy::before(&database.main).await;
        let (folder, standby_process) = replicate(&primary, &database.main).await;
        let standby = database.main.clone().socket(folder.path().join("sockets"));
        let server = Self { primary, standby, standby_process, folder, proxy };
        server.until_in_step().await;
        let through = |name: &PgConnectOptions| server.proxy.url(name).parse().unwrap();
        let through = TestDatabase::from_main(through(&database.main), through(&database.keyring));
        // The databases are not dropped: the primary is killed.
        std::mem::forget(database);
        (server, through)
    }

    /// A database on both hosts as a URL with two of them, the standby first.
    #[must_use]
    pub fn url(&self, database: &PgConnectOptions) -> String {
        self.url_of(database, &[self.standby_host(), as_host(&self.primary_folder())])
    }

    /// A database on both hosts as a URL, with the proxy before the primary.
    #[must_use]
    pub fn url_through_proxy(&self, database: &PgConnectOptions) -> String {
        self.url_of(database, &[self.standby_host(), self.proxy.at().to_string()])
    }

    /// A database on the standby alone.
    #[must_use]
    pub fn standby_url(&self, database: &PgConnectOptions) -> String {
        self.url_of(database, &[self.standby_host()])
    }

    fn url_of(&self, database: &PgConnectOptions, hosts: &[String]) -> String {
        let login = self.standby.to_url_lossy();
        let password = login.password().unwrap();
        let name = database.get_database().unwrap();
        format!(
            "postgres://{}:{password}@{}/{name}?sslmode=disable&target_session_attrs=read-write",
            login.username(),
            hosts.join(",")
        )
    }

    /// A database on the server that was the primary at the start.
    #[must_use]
    pub fn on_first(&self, database: &PgConnectOptions) -> PgConnectOptions {
        self.primary.maintenance().database(database.get_database().unwrap())
    }

    /// A database on the server that was the standby at the start.
    #[must_use]
    pub fn on_second(&self, database: &PgConnectOptions) -> PgConnectOptions {
        self.standby.clone().database(database.get_database().unwrap())
    }

    fn standby_host(&self) -> String {
        as_host(&self.standby_folder())
    }

    fn primary_folder(&self) -> PathBuf {
        self.primary.maintenance().get_socket().unwrap().clone()
    }

    fn standby_folder(&self) -> PathBuf {
        self.standby.get_socket().unwrap().clone()
    }

    /// From now on a commit waits for the standby, so that no failover loses it.
    pub async fn wait_for_standby_at_commits(&self) {
        let mut primary = self.primary.maintenance().connect().await.unwrap();
        run(&mut primary, "alter system set synchronous_standby_names = '*'").await;
        run(&mut primary, "select pg_reload_conf()").await;
        let is_waited_for =
            "select exists (select from pg_stat_replication where sync_state = 'sync')";
        while !sqlx::query_scalar::<_, bool>(is_waited_for).fetch_one(&mut primary).await.unwrap() {
            sleep(AGAIN).await;
        }
        primary.close().await.unwrap();
    }

    /// The proxy leads to the standby before its promotion.
    pub fn mislead(&self) {
        self.proxy.leads_to(&self.standby);
        self.proxy.cut();
    }

    /// The proxy leads to the primary again.
    pub fn lead_back(&self) {
        self.proxy.leads_to(&self.primary.maintenance());
        self.proxy.cut();
    }

    /// From now on the standby receives nothing.
    pub async fn fall_behind(&self) {
        self.until_in_step().await;
        let mut standby = self.standby.connect().await.unwrap();
        run(&mut standby, "alter system set primary_conninfo = ''").await;
        run(&mut standby, "select pg_reload_conf()").await;
        let receives = "select exists (select from pg_stat_wal_receiver)";
        while sqlx::query_scalar(receives).fetch_one(&mut standby).await.unwrap() {
            sleep(AGAIN).await;
        }
        standby.close().await.unwrap();
    }

    /// Kills the primary and promotes the standby, which has the proxy's connections from now on.
    pub async fn fail_over(&self) {
        self.primary.kill();
        self.promote().await;
        self.proxy.leads_to(&self.standby);
    }

    /// Nothing passes the proxy any more, and the standby is promoted. The old primary lives on.
    pub async fn cut_primary_off(&self) {
        self.proxy.set(Fault::BlackHole);
        self.promote().await;
    }

    /// Promotes the standby. The old primary lives on, and both take writes.
    pub async fn promote(&self) {
        let mut standby = self.standby.connect().await.unwrap();
        run(&mut standby, "select pg_promote(true)").await;
        standby.close().await.unwrap();
    }

    /// Waits until the standby has replayed all that the primary has written.
    pub async fn until_in_step(&self) {
        let mut primary = self.primary.maintenance().connect().await.unwrap();
        let mut standby = self.standby.connect().await.unwrap();
        let written: String = sqlx::query_scalar("select pg_current_wal_lsn()::text")
            .fetch_one(&mut primary)
            .await
            .unwrap();
        let in_step = "select pg_last_wal_replay_lsn() >= $1::pg_lsn";
        while !sqlx::query_scalar::<_, bool>(in_step)
            .bind(&written)
            .fetch_one(&mut standby)
            .await
            .unwrap()
        {
            sleep(AGAIN).await;
        }
        primary.close().await.unwrap();
        standby.close().await.unwrap();
    }
}

impl Drop for ReplicatedServer {
    fn drop(&mut self) {
        let _ = self.standby_process.start_kill();
        let _ = &self.folder;
    }
}

/// A folder of sockets as the host of a URL.
fn as_host(folder: &Path) -> String {
    folder.display().to_string().replace('/', "%2F")
}

async fn run(connection: &mut PgConnection, statement: &str) {
    sqlx::query(statement).execute(connection).await.unwrap();
}

/// Copies the primary into a folder of its own, and starts a standby there.
async fn replicate(primary: &Templates, database: &PgConnectOptions) -> (tempfile::TempDir, Child) {
    let folder = tempfile::tempdir().unwrap();
    let programs =
        find_programs(std::env::var_os("FIRMFORMS_PG_BIN").map(PathBuf::from).as_deref());
    let programs = programs.unwrap().folder;
    let account = primary.data().metadata().unwrap();
    let (uid, gid) = (account.uid(), account.gid());
    let own = |path: &Path| {
        chown(path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).unwrap();
    };
    let (data, sockets) = (folder.path().join("data"), folder.path().join("sockets"));
    std::fs::create_dir(&sockets).unwrap();
    for path in [folder.path(), &sockets] {
        own(path);
    }
    let password = database.to_url_lossy().password().unwrap().to_owned();
    let copied = Command::new(programs.join("pg_basebackup"))
        .args(["--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"])
        .arg("--pgdata")
        .arg(&data)
        .arg("--host")
        .arg(database.get_socket().unwrap())
        .args(["--username", database.get_username()])
        .env("PGPASSWORD", password)
        .uid(uid)
        .gid(gid)
        .output()
        .await
        .unwrap();
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let process = Command::new(programs.join("postgres"))
        .arg("-D")
        .arg(&data)
        .arg("-k")
        .arg(&sockets)
        .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=300"])
        .args(["-c", "hot_standby=on", "-c", "hot_standby_feedback=off"])
        .uid(uid)
        .gid(gid)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let standby = database.clone().socket(sockets);
    while standby.connect().await.is_err() {
        sleep(AGAIN).await;
    }
    (folder, process)
}

/// Kills the server of this data folder at once, with all its children.
pub(crate) fn kill_server(data: &Path) {
    let pid = std::fs::read_to_string(data.join("postmaster.pid")).unwrap();
    let pid: i32 = pid.lines().next().unwrap().parse().unwrap();
    // SIGQUIT: PostgreSQL's immediate shutdown, which writes nothing and ends all sessions.
    kill(Pid::from_raw(pid), Signal::SIGQUIT).unwrap();
    while kill(Pid::from_raw(pid), None).is_ok() {
        std::thread::yield_now();
    }
}
