//! The service in processes of its own: this program, started again as `firmforms serve`.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tests::TestDatabase;
use tests::raw::get;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// How long it may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Where its databases are.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseUrls {
    pub(crate) main: String,
    pub(crate) keyring: String,
}

impl DatabaseUrls {
    pub(crate) fn new(database: &TestDatabase) -> Self {
        let url = |options: &PgConnectOptions| options.to_url_lossy().to_string();
        Self { main: url(&database.main), keyring: url(&database.keyring) }
    }
}

/// Where it is served: its databases, and the doors that it gets back each time it is started.
#[derive(Debug, Clone)]
pub(crate) struct Serving {
    pub(crate) public: SocketAddr,
    pub(crate) internal: SocketAddr,
    urls: DatabaseUrls,
    environment: Vec<(&'static str, String)>,
}

impl Serving {
    pub(crate) fn on(database: &TestDatabase) -> anyhow::Result<Self> {
        Self::at(DatabaseUrls::new(database))
    }

    /// Serves from the databases at these URLs.
    pub(crate) fn at(urls: DatabaseUrls) -> anyhow::Result<Self> {
        let environment = vec![("FIRMFORMS_WRAPPING_KEY", "07".repeat(32))];
        let public = free_address()?;
        let internal = free_address()?;
        Ok(Self { public, internal, urls, environment })
    }

    /// This service with other ways to its databases.
    pub(crate) fn with_urls(&self, urls: DatabaseUrls) -> Self {
        Self { urls, ..self.clone() }
    }

    /// Puts the service's keys, checkpoints and mails into this folder.
    pub(crate) fn with_data_in(mut self, folder: &Path) -> Self {
        self.environment.push(("FIRMFORMS_DATA_DIR", folder.display().to_string()));
        self
    }

    /// A process with the doors and these arguments.
    pub(crate) fn process(&self, arguments: &[&str]) -> anyhow::Result<Child> {
        let (public, internal) = (self.public.to_string(), self.internal.to_string());
        self.worker(&[&["--addr", &public, "--internal-addr", &internal], arguments].concat())
    }

    /// A process with these arguments.
    pub(crate) fn worker(&self, arguments: &[&str]) -> anyhow::Result<Child> {
        let mut command = self.firmforms(&["serve"])?;
        command
            .args(["--allow-targets", "127.0.0.0/8", "--allow-http-targets"])
            .args(arguments)
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command.spawn().context("starting the service")
    }

    /// A command of `firmforms` on its databases.
    pub(crate) fn firmforms(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .env_clear()
            .env("DATABASE_URL", &self.urls.main)
            .env("FIRMFORMS_KEYRING_URL", &self.urls.keyring)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .arg("service")
            .args(arguments);
        Ok(command)
    }

    /// Waits until it says that it is ready.
    pub(crate) async fn ready(&self) -> anyhow::Result<()> {
        let ready = async {
            while get(self.internal, "/readyz").await.is_none_or(|(status, _)| status != 200) {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(READY_WITHIN, ready).await.context("the service is not ready")
    }
}

/// Stops a process as an operator would.
pub(crate) async fn stop(child: &mut Child, name: &str) -> anyhow::Result<()> {
    let pid = child.id().with_context(|| format!("the {name} ended by itself"))?;
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
    ensure!(child.wait().await?.success(), "the {name} did not end well");
    Ok(())
}

/// An address of the loopback that nobody listens on.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
