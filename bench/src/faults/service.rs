//! The service as it runs in production: a process for the doors, one for the read models, two that
//! deliver. Each is this program, started again as the service.

use std::net::SocketAddr;

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
pub(super) struct Services {
    pub(super) public: SocketAddr,
    pub(super) internal: SocketAddr,
    serving: Serving,
    children: Mutex<Vec<Child>>,
}

impl Services {
    pub(super) async fn start(database: &TestDatabase) -> anyhow::Result<Self> {
        let serving = Serving::on(database)?;
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

    /// Stops all as an operator would.
    pub(super) async fn stop(&self) -> anyhow::Result<()> {
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
