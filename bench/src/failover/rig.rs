//! Two PostgreSQL servers under Patroni, with etcd, and HAProxy in front of the primary. All of
//! them listen on the loopback, keep their data in one temporary folder, and end with this program.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use axum::http::StatusCode;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection, Executor};
use tests::TestDatabase;
use tests::raw::get;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use vault::{Entropy, SystemEntropy};

use super::mode::ReplicationMode;
use crate::serving::free_address;

/// The packages that the rig needs, and the program of each.
const PROGRAMS: [(&str, &str); 4] = [
    ("patroni", "patroni"),
    ("etcd-server", "etcd"),
    ("haproxy", "haproxy"),
    ("util-linux", "setpriv"),
];

/// How long a part of the rig may take to get ready.
const READY_WITHIN: Duration = Duration::from_secs(180);

/// The wait for a synchronous standby after which the supervisor of the primary is started anew.
/// Patroni before 3.1 keeps an outdated revision of its key after it was stopped for a while, and
/// then never names a standby (Patroni's pull request 2783).
const SUPERVISOR_WAIT: Duration = Duration::from_secs(60);

/// The lines of a supervisor's log that are shown after a failure.
const LAST_LINES: usize = 40;

/// From one look to the next.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How a primary ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    /// The server crashes, and its supervisor sees it.
    Crash,
    /// The whole machine is gone.
    MachineLost,
    /// The machine hears and says nothing for a while, and then goes on as before.
    CutOff,
}

impl Outage {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::MachineLost => "machine lost",
            Self::CutOff => "cut off",
        }
    }
}

/// The running rig.
pub(super) struct Rig {
    nodes: [Node; 2],
    haproxy: SocketAddr,
    password: String,
    _etcd: Child,
    _proxy: Child,
    folder: tempfile::TempDir,
}

/// A server and its supervisor.
struct Node {
    name: &'static str,
    folder: PathBuf,
    postgres: SocketAddr,
    rest: SocketAddr,
    account: Account,
    patroni: Child,
}

/// Where a server and its supervisor listen.
struct NodeAddresses {
    postgres: SocketAddr,
    rest: SocketAddr,
}

/// The user that runs PostgreSQL, which refuses to run as root.
#[derive(Debug, Clone)]
struct Account {
    name: Option<String>,
}

impl Rig {
    pub(super) async fn start(mode: ReplicationMode) -> anyhow::Result<Self> {
        require_programs()?;
        let account = Account::of_postgres()?;
        let folder = tempfile::Builder::new().prefix("firmforms-failover-").tempdir()?;
        account.own(folder.path())?;
        let password = hex::encode(&SystemEntropy.new_secret()[..16]);
        let etcd_at = free_address()?;
        let etcd = etcd(&account, folder.path(), etcd_at)?;
        until("etcd", async || is_well(etcd_at, "/health").await).await?;
        let cluster = ClusterPlan { mode, etcd: etcd_at, password: password.clone() };
        let first = Node::start("a", folder.path(), &account, &cluster)?;
        until("the first server", async || first.answers("/primary").await).await?;
        let second = Node::start("b", folder.path(), &account, &cluster)?;
        let haproxy = free_address()?;
        let proxy = proxy(&account, folder.path(), haproxy, &[&first, &second])?;
        let nodes = [first, second];
        let mut rig = Self { nodes, haproxy, password, _etcd: etcd, _proxy: proxy, folder };
        rig.until_replicated(mode).await?;
        Ok(rig)
    }

    /// The folder of a process that is no server of the rig.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("service")
    }

    /// Makes both databases, on the primary behind the proxy.
    pub(super) async fn databases(&self) -> anyhow::Result<TestDatabase> {
        let postgres = self.through_proxy("postgres");
        until("the proxy", async || postgres.connect().await.is_ok()).await?;
        let mut connection = postgres.connect().await?;
        for name in ["firmforms", "firmforms_keyring"] {
            connection.execute(format!("create database {name}").as_str()).await?;
        }
        connection.close().await?;
        Ok(TestDatabase::from_main(
            self.through_proxy("firmforms"),
            self.through_proxy("firmforms_keyring"),
        ))
    }

    fn through_proxy(&self, database: &str) -> PgConnectOptions {
        self.options(self.haproxy.port(), database)
    }

    fn options(&self, port: u16, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(port)
            .username("firmforms")
            .password(&self.password)
            .database(database)
            .ssl_mode(PgSslMode::Disable)
    }

    /// Waits until one server is the primary and the other its standby, in step with it.
    pub(super) async fn until_replicated(&mut self, mode: ReplicationMode) -> anyhow::Result<()> {
        if timeout(SUPERVISOR_WAIT, self.replicated(mode)).await.is_ok() {
            return Ok(());
        }
        let place = self.primary().await.with_context(|| self.last_lines())?;
        eprintln!("Patroni names no standby: the supervisor of the primary is started anew");
        let node = &mut self.nodes[place];
        node.patroni.kill().await?;
        node.patroni = node.supervise()?;
        let replicated = timeout(READY_WITHIN, self.replicated(mode)).await;
        replicated.context("the standby is not ready").with_context(|| self.last_lines())
    }

    async fn replicated(&self, mode: ReplicationMode) {
        let standby = match mode {
            ReplicationMode::Synchronous => "/sync",
            ReplicationMode::Asynchronous => "/replica?lag=64kB",
        };
        let [first, second] = &self.nodes;
        while !(first.answers("/primary").await && second.answers(standby).await
            || second.answers("/primary").await && first.answers(standby).await)
        {
            sleep(LOOK_EVERY).await;
        }
    }

    /// The last lines of both supervisors' logs.
    fn last_lines(&self) -> String {
        let of = |node: &Node| {
            let log = fs::read_to_string(node.folder.join("patroni.log")).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            format!("{}:\n{}\n", node.name, last.join("\n"))
        };
        self.nodes.iter().map(of).collect()
    }

    /// The place of the primary.
    async fn primary(&self) -> anyhow::Result<usize> {
        for (place, node) in self.nodes.iter().enumerate() {
            if node.answers("/primary").await {
                return Ok(place);
            }
        }
        bail!("no server is the primary")
    }

    /// Stops the replication: the standby gets nothing of the primary's next writes.
    pub(super) async fn hold_replication(&self) -> anyhow::Result<()> {
        let primary = &self.nodes[self.primary().await?];
        let mut connection = self.options(primary.postgres.port(), "postgres").connect().await?;
        let senders: Vec<i32> = sqlx::query_scalar("select pid from pg_stat_replication")
            .fetch_all(&mut connection)
            .await?;
        connection.close().await?;
        ensure!(!senders.is_empty(), "nothing is replicated");
        senders.into_iter().for_each(|pid| signal(pid, Signal::SIGSTOP));
        Ok(())
    }

    /// Ends the primary, and returns its place.
    pub(super) async fn end_primary(&self, outage: Outage) -> anyhow::Result<usize> {
        let place = self.primary().await?;
        let node = &self.nodes[place];
        let signals = match outage {
            Outage::Crash => {
                node.server_processes().into_iter().for_each(|pid| signal(pid, Signal::SIGKILL));
                None
            }
            Outage::MachineLost => Some(Signal::SIGKILL),
            Outage::CutOff => Some(Signal::SIGSTOP),
        };
        if let Some(to_all) = signals {
            node.all_processes()?.into_iter().for_each(|pid| signal(pid, to_all));
        }
        Ok(place)
    }

    /// Waits until the other server is out of recovery.
    pub(super) async fn until_promoted(&self, ended: usize) -> anyhow::Result<()> {
        let options = self.options(self.nodes[1 - ended].postgres.port(), "postgres");
        until("the promotion", async || {
            let Ok(mut connection) = options.connect().await else { return false };
            let recovers = sqlx::query_scalar("select pg_is_in_recovery()");
            matches!(recovers.fetch_one(&mut connection).await, Ok(false))
        })
        .await
    }

    /// Brings the ended server back, as a standby.
    pub(super) async fn bring_back(&mut self, ended: usize, outage: Outage) -> anyhow::Result<()> {
        let node = &mut self.nodes[ended];
        match outage {
            Outage::Crash => {}
            Outage::CutOff => {
                node.all_processes()?.into_iter().for_each(|pid| signal(pid, Signal::SIGCONT));
            }
            Outage::MachineLost => {
                node.patroni.wait().await?;
                node.patroni = node.supervise()?;
            }
        }
        Ok(())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for node in &self.nodes {
            for pid in node.all_processes().unwrap_or_default() {
                signal(pid, Signal::SIGKILL);
            }
        }
    }
}

/// The settings that both servers share.
struct ClusterPlan {
    mode: ReplicationMode,
    etcd: SocketAddr,
    password: String,
}

impl Node {
    fn start(
        name: &'static str,
        rig: &Path,
        account: &Account,
        cluster: &ClusterPlan,
    ) -> anyhow::Result<Self> {
        let folder = rig.join(name);
        fs::create_dir(&folder)?;
        let postgres = free_address()?;
        let rest = free_address()?;
        let settings = folder.join("patroni.yml");
        fs::write(
            &settings,
            patroni_settings(name, &folder, NodeAddresses { postgres, rest }, cluster)?,
        )?;
        fs::set_permissions(&settings, fs::Permissions::from_mode(0o600))?;
        account.own(&folder)?;
        account.own(&settings)?;
        let patroni = supervise(account, &folder)?;
        Ok(Self { name, folder, postgres, rest, account: account.clone(), patroni })
    }

    fn supervise(&self) -> anyhow::Result<Child> {
        supervise(&self.account, &self.folder)
    }

    async fn answers(&self, path: &str) -> bool {
        is_well(self.rest, path).await
    }

    /// The server and its children.
    fn server_processes(&self) -> Vec<i32> {
        let pid = fs::read_to_string(self.folder.join("data/postmaster.pid"))
            .ok()
            .and_then(|text| text.lines().next()?.parse().ok());
        let Some(postmaster) = pid else { return Vec::new() };
        [vec![postmaster], children(postmaster)].concat()
    }

    /// The server, its children and its supervisor.
    fn all_processes(&self) -> anyhow::Result<Vec<i32>> {
        let patroni = self.patroni.id().context("the supervisor ended")?;
        let patroni = i32::try_from(patroni)?;
        Ok([vec![patroni], children(patroni), self.server_processes()].concat())
    }
}

impl Account {
    fn of_postgres() -> anyhow::Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self { name: None });
        }
        let user = User::from_name("postgres")?.context("no user named postgres")?;
        Ok(Self { name: Some(user.name) })
    }

    fn own(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(name) = &self.name {
            let user = User::from_name(name)?.context("the user is gone")?;
            chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        Ok(())
    }

    /// A program that runs as this user, logs into a file, and ends with this process.
    fn command(&self, program: &str, log: &Path) -> anyhow::Result<Command> {
        let log = fs::File::create(log)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(name) = &self.name {
            command.args(["--reuid", name, "--regid", name, "--clear-groups"]);
        }
        command.arg(program).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.kill_on_drop(true);
        Ok(command)
    }
}

fn supervise(account: &Account, folder: &Path) -> anyhow::Result<Child> {
    let mut command = account.command("patroni", &folder.join("patroni.log"))?;
    command.arg(folder.join("patroni.yml")).current_dir(folder);
    command.spawn().context("starting Patroni")
}

fn etcd(account: &Account, folder: &Path, at: SocketAddr) -> anyhow::Result<Child> {
    let clients = format!("http://{at}");
    let peers = format!("http://{}", free_address()?);
    let mut command = account.command("etcd", &folder.join("etcd.log"))?;
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .args(["--initial-cluster", &format!("default={peers}")]);
    command.spawn().context("starting etcd")
}

fn proxy(
    account: &Account,
    folder: &Path,
    at: SocketAddr,
    nodes: &[&Node],
) -> anyhow::Result<Child> {
    let servers: String = nodes
        .iter()
        .map(|node| {
            format!("    server {} {} check port {}\n", node.name, node.postgres, node.rest.port())
        })
        .collect();
    let settings = format!(
        "defaults\n    mode tcp\n    timeout connect 1s\n    timeout client 1h\n    \
         timeout server 1h\n    timeout check 1s\n\
         listen primary\n    bind {at}\n    option httpchk OPTIONS /primary\n    \
         http-check expect status 200\n    \
         default-server inter 500ms fall 1 rise 1 on-marked-down shutdown-sessions\n{servers}"
    );
    let file = folder.join("haproxy.cfg");
    fs::write(&file, settings)?;
    let mut command = account.command("haproxy", &folder.join("haproxy.log"))?;
    command.arg("-db").arg("-f").arg(file);
    command.spawn().context("starting HAProxy")
}

fn patroni_settings(
    name: &str,
    folder: &Path,
    NodeAddresses { postgres, rest }: NodeAddresses,
    ClusterPlan { mode, etcd, password }: &ClusterPlan,
) -> anyhow::Result<String> {
    let programs = cluster::find_programs(None)?.folder;
    let synchronous = *mode == ReplicationMode::Synchronous;
    let settings = serde_json::json!({
        "scope": "firmforms",
        "name": name,
        "restapi": {"listen": rest, "connect_address": rest},
        "etcd3": {"host": etcd},
        "bootstrap": {
            "dcs": {
                "ttl": 20, "loop_wait": 1, "retry_timeout": 3,
                "maximum_lag_on_failover": 1_u64 << 32,
                "master_start_timeout": 0,
                "synchronous_mode": synchronous,
                "postgresql": {
                    "use_pg_rewind": true,
                    "parameters": {
                        "wal_log_hints": "on", "max_connections": 200, "shared_buffers": "256MB",
                        "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
                    },
                },
            },
            "initdb": [{"encoding": "UTF8"}, "data-checksums"],
            "pg_hba": [
                "local all all peer",
                "host all all 127.0.0.1/32 scram-sha-256",
                "host replication all 127.0.0.1/32 scram-sha-256",
            ],
        },
        "postgresql": {
            "listen": postgres,
            "connect_address": postgres,
            "data_dir": folder.join("data"),
            "bin_dir": programs,
            "pgpass": folder.join("pgpass"),
            "remove_data_directory_on_diverged_timelines": true,
            "remove_data_directory_on_rewind_failure": true,
            "authentication": {
                "superuser": {"username": "firmforms", "password": password},
                "replication": {"username": "replicator", "password": password},
            },
            "parameters": {"unix_socket_directories": folder},
        },
    });
    // JSON is YAML.
    Ok(settings.to_string())
}

fn require_programs() -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(_, program)| !is_there(program))
        .map(|(package, _)| *package)
        .collect();
    ensure!(missing.is_empty(), "install the Debian packages {}", missing.join(" "));
    Ok(())
}

/// The children of a process.
fn children(parent: i32) -> Vec<i32> {
    let tasks = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    tasks.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// A process that is gone needs no signal.
fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Whether a part of the rig answers with 200, in time.
async fn is_well(at: SocketAddr, path: &str) -> bool {
    let asked = timeout(Duration::from_secs(2), get(at, path)).await;
    matches!(asked, Ok(Some((StatusCode::OK, _))))
}

async fn until(what: &str, mut is_ready: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
    let ready = async {
        while !is_ready().await {
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(READY_WITHIN, ready).await.with_context(|| format!("{what} is not ready"))
}
