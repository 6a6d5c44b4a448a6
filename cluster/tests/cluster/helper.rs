//! Parts that the tests share: folders, and other processes that use a cluster.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write, stdin};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use cluster::{Cluster, ClusterConfig, ClusterError, Durability};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{ConnectOptions, Executor};
use tempfile::TempDir;

/// The longest wait of a test, far longer than any step takes.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A folder that the server's account can enter.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o711)).tempdir().unwrap()
}

/// The folder of PostgreSQL's programs that the environment names.
pub(crate) fn pg_bin() -> Option<PathBuf> {
    std::env::var_os("FIRMFORMS_PG_BIN").map(PathBuf::from)
}

pub(crate) fn config(data_dir: &Path) -> ClusterConfig {
    ClusterConfig {
        data_dir: data_dir.to_owned(),
        durability: Durability::Durable,
        settings: vec![("shared_buffers".into(), "16MB".into())],
        pg_bin: pg_bin(),
    }
}

pub(crate) async fn open(data_dir: &Path) -> Cluster {
    Cluster::open(&config(data_dir)).await.unwrap()
}

pub(crate) async fn refusal(config: &ClusterConfig) -> String {
    Cluster::open(config).await.unwrap_err().to_string()
}

/// Runs one statement in the database `postgres`.
pub(crate) async fn run(cluster: &Cluster, sql: &str) -> Result<u64, sqlx::Error> {
    let mut connection = cluster.connect_options("postgres").connect().await?;
    Ok(connection.execute(sql).await?.rows_affected())
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The processes of the server of this folder. Their command line or their environment has the
/// path of `postgres` in the folder. Users of the cluster have only the path of the folder.
pub(crate) fn servants_of(data_dir: &Path) -> Vec<i32> {
    let folder = data_dir.join("postgres").into_os_string().into_string().unwrap();
    let mentions = |pid: i32| {
        let read = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let text = [read("cmdline"), read("environ")].concat();
        text.windows(folder.len()).any(|part| part == folder.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| mentions(*pid)).collect()
}

/// Asserts that a stopped server has left at most its shells, which are just being killed.
pub(crate) fn assert_ended(data_dir: &Path) {
    let not_a_shell = |pid: &i32| name(*pid).is_some_and(|name| name != "sh" && name != "sleep");
    assert_eq!(servants_of(data_dir).into_iter().find(not_a_shell), None);
    eventually("its shells end", || servants_of(data_dir).is_empty());
}

/// The name of a living process.
pub(crate) fn name(pid: i32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

pub(crate) fn kill_9(pid: i32) {
    // The process may have ended by itself.
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
}

pub(crate) fn postmaster(data_dir: &Path) -> i32 {
    let text = fs::read_to_string(data_dir.join("postgres/data/postmaster.pid")).unwrap();
    text.lines().next().unwrap().parse().unwrap()
}

/// Another process that uses a cluster; killed at the latest when dropped.
pub(crate) struct Process {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    /// Starts a process with a cluster in this directory; `temporary` for a temporary one.
    pub(crate) fn spawn(data_dir: &str) -> Self {
        Self::start(Command::new(std::env::current_exe().unwrap()), data_dir)
    }

    /// Starts a process as the user `nobody`, from a copy of this program that `nobody` can reach.
    pub(crate) fn spawn_as_nobody(home: &Path, data_dir: &str) -> Self {
        let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
        let copy = home.join("test-program");
        if !copy.exists() {
            // Another program makes the copy. A child that another test forks just now would
            // inherit this process's open file, and a program that is open for writing cannot be
            // run.
            let copied =
                Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status();
            assert!(copied.unwrap().success());
        }
        let mut command = Command::new(copy);
        command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw()).current_dir("/");
        command.env("HOME", home);
        Self::start(command, data_dir)
    }

    /// Starts a process where no programs can be found.
    pub(crate) fn spawn_without_programs(data_dir: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("FIRMFORMS_PG_SEARCH", "none").env_remove("FIRMFORMS_PG_BIN");
        Self::start(command, data_dir)
    }

    /// Starts a process with a temporary cluster under this folder.
    pub(crate) fn spawn_with_temp_dir(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("TMPDIR", folder);
        Self::start(command, "temporary")
    }

    fn start(mut command: Command, data_dir: &str) -> Self {
        command.args(["--exact", "helper::another_process", "--nocapture", "--test-threads=1"]);
        command.env("CLUSTER_TEST_DATA_DIR", data_dir);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, answer)) = line.split_once("> ") {
                    let _ = sender.send(answer.to_owned());
                }
            }
        });
        Self { child, commands, answers }
    }

    /// Waits for its next answer; the first is the data directory, or why it could not be opened.
    pub(crate) fn answer(&self) -> String {
        self.answers.recv_timeout(DEADLINE).unwrap()
    }

    /// Lets it run a statement, or `stop`.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        writeln!(self.commands, "{command}").unwrap();
        self.answer()
    }

    pub(crate) fn kill_9(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_9();
    }
}

/// The program of the other processes, which run this one test of the same binary. Answers each
/// line of its input. In an ordinary run it does nothing.
#[test]
fn another_process() {
    let Some(data_dir) = std::env::var_os("CLUSTER_TEST_DATA_DIR") else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match runtime.block_on(open_anywhere(data_dir.into())) {
        Ok(cluster) => runtime.block_on(obey(cluster)),
        Err(error) => println!("> {error}"),
    }
}

async fn open_anywhere(data_dir: PathBuf) -> Result<Cluster, ClusterError> {
    if data_dir == Path::new("temporary") {
        return Cluster::temporary(pg_bin(), &[]).await;
    }
    Cluster::open(&config(&data_dir)).await
}

async fn obey(cluster: Cluster) {
    println!("> {}", cluster.data_dir().display());
    for command in stdin().lines().map_while(Result::ok) {
        if command == "stop" {
            cluster.stop().await.unwrap();
            println!("> stopped");
            return;
        }
        match run(&cluster, &command).await {
            Ok(rows) => println!("> {rows}"),
            Err(error) => println!("> {error}"),
        }
    }
}
