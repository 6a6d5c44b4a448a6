//! The service under load: a new cluster, the doors' commands and the workers in this process, one
//! firm with its subscriptions, and the clock from the first report to the last delivery recorded.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::service::ingest;
use ::service::start_workers;
use ::service::{Databases, ProcessRole, System, SystemSetup};
use anyhow::{Context, bail};
use clap::ValueEnum;
use cluster::Cluster;
use domain::subscription::{AllowedTargets, Trigger};
use projector::deliveries;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use vault::{Entropy, SystemEntropy, WrappingKey};

use crate::activity::Founding;
use crate::child::Child;
use crate::intake::product::{Job, Order};
use crate::peer::Peer;
use crate::reads::doors;
use crate::receiver::Tally;
use crate::statements::{self, Statement};
use crate::subscribing::{make_key, make_token, subscribe};
use crate::taking_in::take_in_all;
use crate::usage::{Cpu, Memory, Processes, forget_peak};

/// PostgreSQL as it comes, but for its buffers. A temporary cluster is careless unless told.
pub(crate) const SETTINGS: [(&str, &str); 5] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("max_connections", "100"),
    ("shared_buffers", "1GB"),
];

/// The main database.
pub(crate) const MAIN: &str = "firmforms";

/// Whether nothing is left to be sent, and history knows of everything.
pub(crate) const AT_REST: &str = "
select not exists (select from outbox) and not exists (select from unspread)
   and coalesce((select position from checkpoints where name = 'deliveries'), 0)
       >= coalesce((select max(position) from events), 0)";

/// Connections that report an event a call.
const CALLERS: usize = 32;

/// How often to look whether all is recorded.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// When nothing has arrived or been recorded for so long, missing deliveries are lost.
const STANDSTILL: Duration = Duration::from_secs(10);

/// How long the workers may take to end.
const DRAIN: Duration = Duration::from_secs(15);

/// The submissions to report, and the number of subscriptions that they go to.
pub(crate) struct Load {
    /// Of one firm.
    pub(crate) founding: Founding,
    pub(crate) batches: Arc<[Vec<u8>]>,
    pub(crate) events: usize,
    pub(crate) feed: Feed,
    pub(crate) subscriptions: usize,
    pub(crate) pg_bin: Option<PathBuf>,
    /// Ask PostgreSQL for the cost of its statements.
    pub(crate) statements: bool,
}

/// How events are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Feed {
    Batches,
    Calls,
}

/// The figures of a run.
#[derive(Debug, Clone)]
pub(crate) struct Delivered {
    pub(crate) took: Duration,
    pub(crate) taken_in_after: Duration,
    pub(crate) cpu: Cpu,
    pub(crate) arrived: Tally,
    pub(crate) recorded: u64,
    pub(crate) resident_before_mib: f64,
    pub(crate) peak_mib: f64,
    pub(crate) postgres: String,
    pub(crate) statements: Vec<Statement>,
}

impl Load {
    pub(crate) const fn deliveries(&self) -> usize {
        self.events * self.subscriptions
    }

    /// Runs on a cluster of its own, which goes with the run, even with one that is killed.
    pub(crate) async fn run(
        &self,
        peer: &mut Peer,
        deadline: tokio::time::Instant,
    ) -> anyhow::Result<Delivered> {
        let cluster = cluster(self.pg_bin.clone(), self.statements).await?;
        let measured = tokio::time::timeout_at(deadline, self.on(&cluster, peer)).await;
        cluster.stop().await?;
        measured.context("the run took too long")?
    }

    async fn on(&self, cluster: &Cluster, peer: &mut Peer) -> anyhow::Result<Delivered> {
        let processes = Processes { postmaster: Some(postmaster(cluster)?), peer: peer.pid };
        let system = start(cluster).await?;
        if self.statements {
            statements::install(system.main_pool()).await?;
        }
        self.subscribe(&system, peer).await?;
        // The cluster was made without care; none of that is to be paid for in the run.
        nix::unistd::sync();
        let stop = CancellationToken::new();
        let mut workers = start_workers(&system, ProcessRole::All, &stop);
        let calls = match self.feed {
            Feed::Batches => None,
            Feed::Calls => {
                let door = api::internal::router(system.service.clone());
                let door = doors::open(door, &mut workers, &stop).await?;
                Some(Calls::prepare(&system, door, (cluster.data_dir(), &self.batches)).await?)
            }
        };
        let measured = self.measure((&system, calls), peer, processes).await;
        end(system, workers, &stop).await?;
        measured
    }

    async fn subscribe(&self, system: &System, peer: &Peer) -> anyhow::Result<()> {
        let service = &system.service;
        ingest::take_in_lines(service, self.founding.lines.as_slice()).await?;
        let firm = self.founding.firms().next().context("a firm")?;
        let key = make_key(service, firm, "Bench").await?;
        let door = api::public::router(service.clone());
        for number in 0..self.subscriptions {
            subscribe(&door, &key, (Trigger::FormSubmitted, peer.target(number))).await?;
        }
        Ok(())
    }

    async fn measure(
        &self,
        (system, calls): (&System, Option<Calls>),
        peer: &mut Peer,
        processes: Processes,
    ) -> anyhow::Result<Delivered> {
        peer.reset().await?;
        if self.statements {
            statements::forget(system.main_pool()).await?;
        }
        forget_peak()?;
        let (before, memory) = (processes.look()?, Memory::look()?);
        let started = Instant::now();
        let reported = async {
            match calls {
                None => take_in_all(&system.service, &self.batches).await?,
                Some(calls) => calls.report().await?,
            }
            anyhow::Ok(started.elapsed())
        };
        let (taken_in_after, recorded) = tokio::try_join!(reported, self.recorded(system, peer))?;
        let (took, cpu) = (started.elapsed(), processes.look()?.since(before));
        Ok(Delivered {
            took,
            taken_in_after,
            cpu,
            arrived: peer.tally().await?,
            recorded,
            resident_before_mib: memory.now_mib,
            peak_mib: Memory::look()?.peak_mib,
            postgres: described(system).await?,
            statements: if self.statements {
                statements::costliest(system.main_pool()).await?
            } else {
                Vec::new()
            },
        })
    }

    /// Waits until everything is recorded or nothing moves; answers how many deliveries are at
    /// their end. They are counted once all has arrived and history has followed: counting costs
    /// too.
    async fn recorded(&self, system: &System, peer: &mut Peer) -> anyhow::Result<u64> {
        let expected = u64::try_from(self.deliveries())?;
        let (mut last, mut moved) = ((0, 0), Instant::now());
        loop {
            let arrived = peer.tally().await?.deliveries;
            let stands = moved.elapsed() > STANDSTILL;
            let ended = if stands || arrived >= expected && is_at_rest(system).await? {
                let (all, pending) = deliveries::count(system.main_pool()).await?;
                u64::try_from(all - pending)?
            } else {
                0
            };
            if (arrived, ended) != last {
                (last, moved) = ((arrived, ended), Instant::now());
            }
            if ended >= expected || moved.elapsed() > STANDSTILL + LOOK_EVERY * 2 {
                return Ok(ended);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

async fn is_at_rest(system: &System) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(AT_REST).fetch_one(system.main_pool()).await
}

/// The product, which is about to report every event by a call of its own.
struct Calls(Child);

impl Calls {
    async fn prepare(
        system: &System,
        address: SocketAddr,
        (folder, batches): (&Path, &[Vec<u8>]),
    ) -> anyhow::Result<Self> {
        let file = folder.join("activity.ndjson");
        std::fs::write(&file, batches.concat())?;
        let token = make_token(system).await?;
        let job = Job { address, token, file, connections: CALLERS, per_batch: 1 };
        let mut product = Child::start("product")?;
        product.ask(&serde_json::to_string(&Order::Report(job))?).await?;
        Ok(Self(product))
    }

    async fn report(mut self) -> anyhow::Result<()> {
        self.0.ask("report").await.map(drop)
    }
}

/// A cluster for one run. On request it has the library that counts the cost of statements.
pub(crate) async fn cluster(pg_bin: Option<PathBuf>, statements: bool) -> anyhow::Result<Cluster> {
    let counted = [
        ("shared_preload_libraries", "pg_stat_statements"),
        ("pg_stat_statements.track_planning", "on"),
    ];
    let counted = counted.into_iter().filter(|_| statements);
    let settings: Vec<_> = SETTINGS.into_iter().chain(counted).collect();
    Ok(Cluster::temporary(pg_bin, &settings).await?)
}

/// The process that all of PostgreSQL's are children of.
pub(crate) fn postmaster(cluster: &Cluster) -> anyhow::Result<u32> {
    let file = cluster.data_dir().join("postgres/data/postmaster.pid");
    Ok(std::fs::read_to_string(file)?.lines().next().context("no pid")?.parse()?)
}

/// Ends the tasks, then the system.
pub(crate) async fn end(
    system: System,
    mut tasks: JoinSet<()>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    stop.cancel();
    let ended = async { while tasks.join_next().await.is_some() {} };
    tokio::time::timeout(DRAIN, ended).await.context("a worker does not end")?;
    system.stop().await
}

/// The system as `serve` starts it, on databases of this cluster.
pub(crate) async fn start(cluster: &Cluster) -> anyhow::Result<System> {
    let keyring = "firmforms_keyring";
    cluster.ensure_database(MAIN).await?;
    cluster.ensure_database(keyring).await?;
    let setup = SystemSetup {
        allowed: loopback()?,
        ..SystemSetup::for_commands("http://127.0.0.1/api/v1")?
    };
    let databases =
        Databases::from_options(cluster.connect_options(MAIN), cluster.connect_options(keyring));
    System::start(databases, WrappingKey::new(&SystemEntropy.new_secret()), setup).await
}

/// Loopback targets, for the service and for the ceiling.
pub(crate) fn loopback() -> anyhow::Result<AllowedTargets> {
    let network = "127.0.0.0/8".parse().context("the loopback network")?;
    Ok(AllowedTargets::new(vec![network]).with_http())
}

/// The server as it ran; refused unless it ran durably.
pub(crate) async fn described(system: &System) -> anyhow::Result<String> {
    let setting = "select current_setting('server_version'), current_setting('fsync'),
                          current_setting('synchronous_commit'), current_setting('full_page_writes'),
                          current_setting('shared_buffers')";
    let (version, fsync, commit, pages, buffers): (String, String, String, String, String) =
        sqlx::query_as(setting).fetch_one(system.main_pool()).await?;
    if [&fsync, &commit, &pages].iter().any(|value| *value != "on") {
        bail!("PostgreSQL did not run durably");
    }
    Ok(format!("{version}, fsync {fsync}, synchronous_commit {commit}, shared_buffers {buffers}"))
}
