//! The service as it runs in production: a process for the doors, one for the read models, two that
//! deliver. Each is this program, started again as the service.

use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::ConnectOptions;
use tests::TestDatabase;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use super::TIME_SCALE;

const ROLES: [(&str, &str); 4] = [
    ("api", "api"),
    ("projector", "projector"),
    ("deliverer 1", "deliverer"),
    ("deliverer 2", "deliverer"),
];

/// The running processes.
pub(super) struct Services {
    pub(super) public: SocketAddr,
    pub(super) internal: SocketAddr,
    environment: [(&'static str, String); 3],
    children: Mutex<Vec<Child>>,
}

impl Services {
    pub(super) async fn start(database: &TestDatabase) -> anyhow::Result<Self> {
        let environment = [
            ("DATABASE_URL", database.main.to_url_lossy().to_string()),
            ("FIRMFORMS_KEYRING_URL", database.keyring.to_url_lossy().to_string()),
            ("FIRMFORMS_WRAPPING_KEY", "07".repeat(32)),
        ];
        let (public, internal) = (free_address()?, free_address()?);
        let services = Self { public, internal, environment, children: Mutex::default() };
        for (_, role) in ROLES {
            let child = services.process(role)?;
            services.children.lock().await.push(child);
        }
        Ok(services)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        ROLES.iter().map(|(name, _)| *name)
    }

    /// `kill -9`, and the same again.
    pub(super) async fn kill_and_start_again(&self, place: usize) -> anyhow::Result<()> {
        let mut children = self.children.lock().await;
        let (name, role) = ROLES[place];
        ensure!(children[place].try_wait()?.is_none(), "the {name} ended by itself");
        children[place].kill().await?;
        children[place] = self.process(role)?;
        Ok(())
    }

    /// Stops all as an operator would.
    pub(super) async fn stop(&self) -> anyhow::Result<()> {
        let mut children = self.children.lock().await;
        for (child, (name, _)) in children.iter_mut().zip(ROLES) {
            let pid = child.id().with_context(|| format!("the {name} ended by itself"))?;
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
            ensure!(child.wait().await?.success(), "the {name} did not end well");
        }
        Ok(())
    }

    fn process(&self, role: &str) -> anyhow::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .args(["service", "serve", "--role", role, "--time-scale", TIME_SCALE])
            .args(["--addr", &self.public.to_string()])
            .args(["--internal-addr", &self.internal.to_string()])
            .args(["--allow-targets", "127.0.0.0/8", "--allow-http-targets"])
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command.spawn().context("starting the service")
    }
}

/// An address that the doors get back after each kill.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
