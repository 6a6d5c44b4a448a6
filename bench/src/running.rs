//! The service as it runs in production: processes of its own on databases of its own, and the cost
//! of all of them. Reporter and receiver are in this process, and not in the figures.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sqlx::{Executor, PgPool};
use tests::{Templates, World, cluster_with};
use tokio::process::Child;
use tokio::time::sleep;

use crate::pace::Reporter;
use crate::service::{AT_REST, SETTINGS};
use crate::serving::{Serving, stop};
use crate::usage::{Cpu, Memory, forget_peak_of, spent};

/// Whether the audit log has followed everything.
const PROVED: &str = "
select coalesce((select position from checkpoints where name = 'audit_log'), 0)
       >= coalesce((select max(position) from events), 0)";

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Connections for many processes.
const ROOM: (&str, &str) = ("max_connections", "800");

/// The service, and the world it is prepared from.
pub(crate) struct Running {
    pub(crate) world: World,
    /// Internal doors, one of each process that has doors.
    pub(crate) doors: Vec<SocketAddr>,
    pub(crate) public: SocketAddr,
    postmaster: u32,
    processes: Vec<Child>,
}

/// A cluster for several processes at once; else as all of these.
pub(crate) async fn roomy_cluster() -> Templates {
    let settings: Vec<_> = SETTINGS.into_iter().chain([ROOM]).collect();
    cluster_with(&settings).await
}

impl Running {
    /// One process that does everything, with these arguments.
    pub(crate) async fn whole(cluster: &Templates, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut running = Self::prepare(cluster).await?;
        running.add_with_doors(arguments).await?;
        Ok(running)
    }

    async fn prepare(cluster: &Templates) -> anyhow::Result<Self> {
        let world = World::real_time(cluster.database().await).await;
        let postmaster = postmaster_of(world.pool()).await?;
        // The cluster was made without care; none of that is to be paid for in the run.
        nix::unistd::sync();
        let (doors, public) = (Vec::new(), ([127, 0, 0, 1], 0).into());
        Ok(Self { world, doors, public, postmaster, processes: Vec::new() })
    }

    async fn add_with_doors(&mut self, arguments: &[&str]) -> anyhow::Result<()> {
        let serving = Serving::on(&self.world.database)?;
        self.processes.push(serving.process(arguments)?);
        serving.ready().await?;
        self.doors.push(serving.internal);
        self.public = serving.public;
        Ok(())
    }

    /// A caller that reports at the first door.
    pub(crate) fn reporter(&self) -> Reporter {
        Reporter::new(&self.world, self.doors[0])
    }

    fn pids(&self) -> anyhow::Result<Vec<u32>> {
        self.processes.iter().map(|child| child.id().context("a process ended")).collect()
    }

    /// CPU so far: of all its processes, of PostgreSQL, and of this process.
    pub(crate) fn spent(&self) -> anyhow::Result<Cpu> {
        spent(&self.pids()?, self.postmaster)
    }

    /// Memory of all its processes.
    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        let mut all = Memory { now_mib: 0.0, peak_mib: 0.0 };
        for pid in self.pids()? {
            let one = Memory::new(pid)?;
            all.now_mib += one.now_mib;
            // The kernel brings its peak up to date only now and then.
            all.peak_mib += one.peak_mib.max(one.now_mib);
        }
        Ok(all)
    }

    pub(crate) fn forget_peak(&self) -> anyhow::Result<()> {
        Ok(self.pids()?.into_iter().try_for_each(forget_peak_of)?)
    }

    /// The bytes of the server's write-ahead log so far.
    pub(crate) async fn wal_bytes(&self) -> anyhow::Result<i64> {
        let lsn = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        Ok(sqlx::query_scalar(lsn).fetch_one(self.world.pool()).await?)
    }

    /// Waits until nothing is left to do; fails after so long.
    pub(crate) async fn at_rest(&self, within: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        while !sqlx::query_scalar::<_, bool>(AT_REST).fetch_one(self.world.pool()).await? {
            ensure!(began.elapsed() < within, "the service does not come to rest");
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until nothing is left to do and everything is proved. Then vacuums and makes a
    /// checkpoint, as the server would have done long ago.
    pub(crate) async fn settle(&self, within: Duration) -> anyhow::Result<()> {
        self.at_rest(within).await?;
        let began = Instant::now();
        while !sqlx::query_scalar::<_, bool>(PROVED).fetch_one(self.world.pool()).await? {
            ensure!(began.elapsed() < within, "the audit log does not come to its end");
            sleep(LOOK_EVERY).await;
        }
        self.world.pool().execute("vacuum (analyze)").await?;
        self.world.pool().execute("checkpoint").await?;
        Ok(())
    }

    /// Stops it as an operator would.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        for process in &mut self.processes {
            stop(process, "service").await?;
        }
        Ok(())
    }
}

/// The process that all of this server's are children of.
async fn postmaster_of(pool: &PgPool) -> anyhow::Result<u32> {
    let setting = "select current_setting('data_directory')";
    let folder: String = sqlx::query_scalar(setting).fetch_one(pool).await?;
    let file = std::fs::read_to_string(Path::new(&folder).join("postmaster.pid"))?;
    Ok(file.lines().next().context("no pid")?.parse()?)
}
