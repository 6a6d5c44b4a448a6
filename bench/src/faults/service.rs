//! The service as it runs in production: a process for the doors, one for the read models, two that
//! deliver. Each is this program, started again as the service.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::ensure;
use tests::TestDatabase;
use tokio::process::Child;
use tokio::sync::Mutex;

use super::TIME_SCALE;
use crate::serving::{Serving, stop};

const ROLES: [(&str, &str); 4] = [
    ("api", "api"),
    ("projector", "projector"),
    ("deliverer 1", "deliverer"),
    ("deliverer 2", "deliverer"),
];

/// The running processes.
pub(crate) struct Services {
    pub(crate) public: SocketAddr,
    pub(crate) internal: SocketAddr,
    serving: Serving,
    children: Mutex<Vec<Child>>,
}

impl Services {
    pub(super) async fn start(database: &TestDatabase) -> anyhow::Result<Self> {
        Self::start_on(Serving::on(database)?).await
    }

    /// Starts services whose keys, checkpoints and mails are in this folder.
    pub(crate) async fn start_in(database: &TestDatabase, data_dir: &Path) -> anyhow::Result<Self> {
        Self::start_on(Serving::on(database)?.with_data_in(data_dir)).await
    }

    async fn start_on(serving: Serving) -> anyhow::Result<Self> {
        let (public, internal) = (serving.public, serving.internal);
        let services = Self { public, internal, serving, children: Mutex::default() };
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

    /// Waits until the doors serve.
    pub(crate) async fn ready(&self) -> anyhow::Result<()> {
        self.serving.ready().await
    }

    /// Acknowledges a lost end of the log, as an operator does.
    pub(crate) async fn acknowledge_lost_tails(&self) -> anyhow::Result<()> {
        self.serving.firmforms(&["doctor", "--acknowledge"])?.output().await?;
        Ok(())
    }

    /// Runs a command of an operator, which must end well.
    pub(crate) async fn command(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let ended = self.serving.firmforms(arguments)?.output().await?;
        let said = String::from_utf8_lossy(&ended.stdout);
        ensure!(ended.status.success(), "{}: {said}", arguments.join(" "));
        Ok(())
    }

    /// Stops all as an operator would.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        let mut children = self.children.lock().await;
        for (child, (name, _)) in children.iter_mut().zip(ROLES) {
            stop(child, name).await?;
        }
        Ok(())
    }

    fn process(&self, role: &str) -> anyhow::Result<Child> {
        let arguments = ["--role", role, "--time-scale", TIME_SCALE];
        if role == "api" {
            self.serving.process(&arguments)
        } else {
            self.serving.worker(&arguments)
        }
    }
}
