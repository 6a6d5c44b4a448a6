//! The real binary as a process of its own, on the databases of a world.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::TestDatabase;
use crate::raw;
pub use crate::raw::{report, try_call};
use axum::http::StatusCode;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::ConnectOptions;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

/// The real binary, told where the data is.
pub fn firmforms(database: &TestDatabase) -> Command {
    let mut command = Command::new(crate::program());
    command
        .env_clear()
        .env("DATABASE_URL", database.main.to_url_lossy().as_str())
        .env("FIRMFORMS_KEYRING_URL", database.keyring.to_url_lossy().as_str())
        .env("FIRMFORMS_WRAPPING_KEY", "07".repeat(32))
        .env("FIRMFORMS_DATA_DIR", data_dir(database))
        .kill_on_drop(true);
    command
}

/// A data directory per pair of databases; it goes with their cluster.
pub fn data_dir(database: &TestDatabase) -> PathBuf {
    let name = database.main.get_database().unwrap();
    // A server that is nowhere has no folder, and nothing is written for it.
    let nowhere = std::env::temp_dir();
    database.main.get_socket().unwrap_or(&nowhere).join(format!("data-of-{name}"))
}

/// A running service.
pub struct Served {
    /// The process.
    pub child: Child,
    /// Where its public door is.
    pub public: SocketAddr,
    /// Where its internal door is.
    pub internal: SocketAddr,
    /// Everything it has logged so far.
    pub log: Arc<Mutex<String>>,
}

impl Served {
    /// Waits until the service has logged this text so many times.
    pub async fn until_logged(&self, text: &str, count: usize) {
        let logged = || self.log.lock().unwrap().matches(text).count() >= count;
        let asked = async {
            while !logged()
                && matches!(raw::get(self.internal, "/livez").await, Some((StatusCode::OK, _)))
            {
            }
        };
        timeout(Duration::from_secs(60), asked).await.unwrap();
        assert!(logged(), "{text}");
    }
}

/// A service on free ports, where loopback targets are open.
pub async fn serve(database: &TestDatabase, arguments: &[&str]) -> Served {
    serve_with(database, arguments, &[]).await
}

/// A service on free ports, with these environment variables.
pub async fn serve_with(
    database: &TestDatabase,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Served {
    Listening::start(database, arguments, environment).await.until_ready().await
}

/// A service whose doors are served; it may not be ready yet.
pub struct Listening {
    child: Child,
    /// The address of its public door.
    pub public: SocketAddr,
    /// The address of its internal door.
    pub internal: SocketAddr,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Listening {
    /// Starts a service with these arguments of `serve` in this environment.
    pub async fn start(
        database: &TestDatabase,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        Self::new(serving(database, arguments, environment)).await
    }

    /// Starts the service with this command.
    pub async fn new(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            let doors = (address(&line, "public="), address(&line, "internal="));
            if let (Some(public), Some(internal)) = doors {
                return Self { child, public, internal, lines };
            }
        }
        panic!("the service does not listen: {:?}", child.wait().await);
    }

    /// Waits for a line of its log with this text.
    pub async fn until_it_logs(&mut self, text: &str) -> String {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            if line.contains(text) {
                return line;
            }
        }
        panic!("the service ended and did not log {text:?}");
    }

    /// Waits until it says so.
    pub async fn until_ready(mut self) -> Served {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            if line.ends_with(" INFO ready") {
                return self.kept();
            }
        }
        panic!("the service did not start: {:?}", self.child.wait().await);
    }

    /// Keeps the lines that it logs from here on.
    fn kept(self) -> Served {
        let Self { child, public, internal, mut lines } = self;
        let log = Arc::<Mutex<String>>::default();
        let kept = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                kept.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Served { child, public, internal, log }
    }

    /// Asks it to stop, and waits until it has.
    pub async fn stopped(mut self) -> ExitStatus {
        signal(&self.child, Signal::SIGTERM);
        self.child.wait().await.unwrap()
    }
}

/// A door's address, in the line that tells it.
pub fn address(line: &str, door: &str) -> Option<SocketAddr> {
    line.split_whitespace().find_map(|word| word.strip_prefix(door))?.parse().ok()
}

/// A question without a key to any path of a door.
pub async fn get(door: SocketAddr, path: &str) -> (StatusCode, String) {
    raw::get(door, path).await.expect("an answer")
}

/// Asks until a door answers with this status.
pub async fn until(door: SocketAddr, path: &str, status: u16) {
    let asked = async { while get(door, path).await.0 != status {} };
    timeout(Duration::from_secs(60), asked).await.unwrap();
}

/// One call on a connection of its own; its status, and all of the answer.
pub async fn call(
    server: SocketAddr,
    request: (&str, &str),
    key: &str,
    body: &str,
) -> (StatusCode, String) {
    try_call(server, request, key, body).await.expect("an answer")
}

/// A role without doors.
pub async fn work(
    database: &TestDatabase,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Child {
    let mut child = serving(database, arguments, environment).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.ends_with(" INFO ready") {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return child;
        }
    }
    panic!("the service did not start: {:?}", child.wait().await);
}

/// The command of a service on free ports.
pub fn serving(
    database: &TestDatabase,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Command {
    let mut command = firmforms(database);
    command
        .args(["serve", "--addr", "127.0.0.1:0", "--internal-addr", "127.0.0.1:0"])
        .args(["--allow-targets", "127.0.0.0/8", "--allow-http-targets"])
        .args(arguments)
        .env("NO_COLOR", "1")
        .envs(environment.iter().copied())
        .stderr(Stdio::piped());
    command
}

/// The command of the service under a limit of the shell, such as `-n 100` or `-S -n 100`.
pub fn limited(command: &Command, limit: &str) -> Command {
    let command = command.as_std();
    let mut limited = Command::new("sh");
    limited
        .args(["-c", &format!(r#"ulimit {limit}; exec "$0" "$@""#)])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    limited
}

/// Sends a signal to a process that runs.
pub fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// Waits until a service, or another command, has killed itself at this crash point.
pub async fn crash(mut command: Command, point: &str) {
    if !eventstore::crash::COMPILED_IN {
        panic!("debug builds alone have crash points");
    }
    command.env("CRASH_AT", point).stdout(Stdio::null()).stderr(Stdio::null());
    let ended = timeout(Duration::from_secs(60), command.status()).await;
    assert_killed(ended.expect("it came to its crash point").unwrap(), point);
}

/// Fails unless the process was killed as by `kill -9`.
pub fn assert_killed(status: ExitStatus, point: &str) {
    assert_eq!(status.signal(), Some(9), "at {point}: {status}");
}
