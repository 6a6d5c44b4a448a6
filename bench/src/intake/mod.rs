//! `intake`: product activity taken in from a file as `firmforms ingest` does it, stretch by
//! stretch as the log grows; then, on the log as it is by then, a sample each from a file and over
//! HTTP by `POST /internal/v1/activity`.
//!
//! Fan-out and the history of deliveries follow the log meanwhile, as in `serve`; nothing is sent.
//! The service is in this process. The reporter over HTTP is a process of its own. The run fails
//! unless every occurrence and every delivery that must follow is there.

mod caught_up;
mod feed;
mod file;
mod measure;
mod measured;
mod population;
pub(crate) mod product;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use ::service::start_workers;
use ::service::{ProcessRole, System};
use anyhow::Context;
use clap::Args;
use cluster::Cluster;
use deliverer::send::SpreadWorker;
use eventstore::worker::run_on;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::child::Child;
use crate::intake::measure::Bench;
use crate::intake::measured::Way;
use crate::intake::population::populate;
use crate::intake::report::{Figure, Report, Row};
use crate::reads::doors;
use crate::service::{cluster, described, end, postmaster, start};
use crate::statements;
use crate::subscribing::make_token;
use crate::usage::Processes;

/// Stretches end where the log has so many activities.
const ENDS: [u32; 8] = [10_000, 20_000, 50_000, 100_000, 200_000, 400_000, 700_000, 1_000_000];

/// Options of `intake`.
#[derive(Debug, Args)]
pub(crate) struct Intake {
    /// Activities that are taken in from a file as the log grows.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(10_000..=1_000_000))]
    activities: u32,
    /// Numbers of subscriptions to each occurrence, each measured by itself.
    #[arg(long, default_value = "1,10", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=11))]
    subscriptions: Vec<u8>,
    /// Activities of each sample after that; none leaves the samples out.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    sample: u32,
    /// Activities of a batch over HTTP.
    #[arg(long, default_value = "100,1000", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1_000))]
    batches: Vec<u16>,
    /// Connections that report over HTTP, one batch at a time on each.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    connections: u8,
    /// The run gives up after so many seconds.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    within: u64,
    /// Also show the cost of PostgreSQL's statements; this has a price of its own.
    #[arg(long)]
    statements: bool,
    /// The folder of PostgreSQL's programs, if they are not where they usually are.
    #[arg(long, env = "FIRMFORMS_PG_BIN")]
    pg_bin: Option<PathBuf>,
}

/// Measures, each number of subscriptions on a cluster of its own, and prints; fails if anything
/// was lost.
pub(crate) async fn run(command: &Intake) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(command.within);
    let mut figures = Vec::new();
    for subscriptions in &command.subscriptions {
        let cluster = cluster(command.pg_bin.clone(), command.statements).await?;
        let on = command.on(&cluster, usize::from(*subscriptions));
        let measured = tokio::time::timeout_at(deadline, on).await;
        cluster.stop().await?;
        figures.push(measured.context("the run took too long")??);
    }
    let report = Report::new(figures);
    report.print()?;
    report.check()
}

impl Intake {
    async fn on(&self, cluster: &Cluster, subscriptions: usize) -> anyhow::Result<Figure> {
        let system = start(cluster).await?;
        if self.statements {
            statements::install(system.main_pool()).await?;
        }
        populate(&system.service, subscriptions).await?;
        let stop = CancellationToken::new();
        let mut tasks = workers(&system, &stop);
        let door = api::internal::router(system.service.clone());
        let door = doors::open(door, &mut tasks, &stop).await?;
        let product = Child::start("product")?;
        let mut bench = Bench {
            processes: Processes { postmaster: Some(postmaster(cluster)?), peer: product.pid },
            token: make_token(&system).await?,
            file: cluster.data_dir().join("activity.ndjson"),
            statements: self.statements,
            activities: 0,
            occurrences: 0,
            system: &system,
            subscriptions,
            product,
            door,
        };
        let rows = self.measure(&mut bench).await;
        let postgres = described(&system).await;
        end(system, tasks, &stop).await?;
        Ok(Figure { subscriptions, postgres: postgres?, rows: rows? })
    }

    /// The stretches, then the samples.
    async fn measure(&self, bench: &mut Bench<'_>) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        let activities = self.activities as usize;
        for end in ENDS.map(|end| activities.min(end as usize)) {
            if end > bench.activities {
                rows.push(bench.take_in(end - bench.activities, Way::File).await?);
            }
        }
        let connections = self.connections.into();
        let over_http = |per_batch: &u16| Way::Http { connections, per_batch: (*per_batch).into() };
        let samples = std::iter::once(Way::File).chain(self.batches.iter().map(over_http));
        for way in samples.filter(|_| self.sample > 0) {
            rows.push(bench.take_in(self.sample as usize, way).await?);
        }
        Ok(rows)
    }
}

/// As `serve` starts them, but for the workers that send.
fn workers(system: &System, stop: &CancellationToken) -> JoinSet<()> {
    // The cluster was made without care; none of that is to be paid for in the run.
    nix::unistd::sync();
    let mut tasks = start_workers(system, ProcessRole::Projector, stop);
    let spread = SpreadWorker::new(system.deliverer.clone());
    tasks.spawn(run_on(spread, system.deliverer.store.nudge(), stop.clone()));
    tasks
}
