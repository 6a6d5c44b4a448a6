//! The service as it runs in production: a process for the doors, one for the read models, two that
//! deliver. Each is this program, started again as the service. Each may have a proxy of its own
//! before the database.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use sqlx::postgres::PgConnectOptions;
use tests::{DatabaseProxy, Fault, Templates, TestDatabase};
use tokio::process::Child;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::times::TIME_SCALE;
use crate::serving::{DatabaseUrls, Serving, stop};

const ROLES: [(&str, &str); 4] = [
    ("api", "api"),
    ("projector", "projector"),
    ("deliverer 1", "deliverer"),
    ("deliverer 2", "deliverer"),
];

/// A machine is killed this long after its connections fell silent, so that no end of one is heard.
const VANISHED_AFTER: Duration = Duration::from_millis(100);

/// The running processes.
pub(crate) struct Services {
    pub(crate) public: SocketAddr,
    pub(crate) internal: SocketAddr,
    serving: Serving,
    /// The databases behind the proxies, if there are any.
    proxied: Option<Databases>,
    processes: Mutex<Vec<ServiceProcess>>,
}

struct Databases {
    main: PgConnectOptions,
    keyring: PgConnectOptions,
}

struct ServiceProcess {
    child: Child,
    proxy: Option<DatabaseProxy>,
}

impl Services {
    /// Starts services whose keys, checkpoints and mails are in this folder.
    pub(crate) async fn start_in(database: &TestDatabase, data_dir: &Path) -> anyhow::Result<Self> {
        Self::start(Serving::on(database)?.with_data_in(data_dir), None).await
    }

    /// Starts the services, each behind a proxy of its own to a server that listens on the
    /// loopback.
    pub(super) async fn start_behind_proxies(
        cluster: &Templates,
        database: &TestDatabase,
        data_dir: &Path,
    ) -> anyhow::Result<Self> {
        let databases = Databases {
            main: cluster.over_tcp(&database.main),
            keyring: cluster.over_tcp(&database.keyring),
        };
        Self::start(Serving::on(database)?.with_data_in(data_dir), Some(databases)).await
    }

    /// Starts the services on databases at these URLs.
    pub(super) async fn start_at(urls: DatabaseUrls, data_dir: &Path) -> anyhow::Result<Self> {
        Self::start(Serving::at(urls)?.with_data_in(data_dir), None).await
    }

    async fn start(serving: Serving, proxied: Option<Databases>) -> anyhow::Result<Self> {
        let (public, internal) = (serving.public, serving.internal);
        let services = Self { public, internal, serving, proxied, processes: Mutex::default() };
        for (_, role) in ROLES {
            let process = services.process(role).await?;
            services.processes.lock().await.push(process);
        }
        Ok(services)
    }

    /// Kills a process with `kill -9`, and starts the same again.
    pub(super) async fn kill_and_start_again(&self, choice: u64) -> anyhow::Result<()> {
        let place = place_of(choice)?;
        let mut processes = self.processes.lock().await;
        let (name, role) = ROLES[place];
        let process = &mut processes[place];
        ensure!(process.child.try_wait()?.is_none(), "the {name} ended by itself");
        process.child.kill().await?;
        *process = self.process(role).await?;
        Ok(())
    }

    /// Does this to the connections of a process for so long. Returns the number of answers to
    /// COMMITs that were lost.
    pub(super) async fn disturb(
        &self,
        choice: u64,
        fault: Fault,
        lasts: Duration,
    ) -> anyhow::Result<usize> {
        let processes = self.processes.lock().await;
        let proxy = processes[place_of(choice)?].proxy()?;
        let lost_before = proxy.lost_commits();
        proxy.set(fault);
        sleep(lasts).await;
        proxy.set(Fault::None);
        Ok(proxy.lost_commits() - lost_before)
    }

    /// Cuts all connections of a process.
    pub(super) async fn cut(&self, choice: u64) -> anyhow::Result<()> {
        self.processes.lock().await[place_of(choice)?].proxy()?.cut();
        Ok(())
    }

    /// A process is gone with its machine: the server does not learn of it until its keepalives do.
    /// Another one takes its place.
    pub(super) async fn lose_machine(&self, choice: u64) -> anyhow::Result<()> {
        let place = place_of(choice)?;
        let mut processes = self.processes.lock().await;
        let (_, role) = ROLES[place];
        processes[place].proxy()?.vanish();
        sleep(VANISHED_AFTER).await;
        processes[place].child.kill().await?;
        processes[place] = self.process(role).await?;
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
        let failure = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "{}: {said}{failure}", arguments.join(" "));
        Ok(())
    }

    /// Stops all as an operator would.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        let mut processes = self.processes.lock().await;
        for (process, (name, _)) in processes.iter_mut().zip(ROLES) {
            stop(&mut process.child, name).await?;
        }
        Ok(())
    }

    async fn process(&self, role: &str) -> anyhow::Result<ServiceProcess> {
        let arguments = ["--role", role, "--time-scale", TIME_SCALE];
        let (proxy, serving) = match &self.proxied {
            None => (None, self.serving.clone()),
            Some(Databases { main, keyring }) => {
                let proxy = DatabaseProxy::before(main).await;
                let urls = DatabaseUrls { main: proxy.url(main), keyring: proxy.url(keyring) };
                (Some(proxy), self.serving.with_urls(urls))
            }
        };
        let child = match role {
            "api" => serving.process(&arguments)?,
            _ => serving.worker(&arguments)?,
        };
        Ok(ServiceProcess { child, proxy })
    }
}

impl ServiceProcess {
    fn proxy(&self) -> anyhow::Result<&DatabaseProxy> {
        self.proxy.as_ref().context("the process has no proxy")
    }
}

/// The place of the process that a drawn number chooses.
fn place_of(choice: u64) -> anyhow::Result<usize> {
    Ok(usize::try_from(choice % ROLES.len() as u64)?)
}
