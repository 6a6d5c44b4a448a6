//! `reads`: calls with a key that change nothing, each kind by itself: as many as go over some kept
//! connections, then some at a steady rate for their latency; beside them the same calls of a bare
//! handler behind a door of the same kind, in the same run.
//!
//! The service is in this process: its doors, its pools and its workers as `serve` starts them. The
//! caller is a process of its own. The rate limit counts every call, and the run fails unless it
//! did.

pub(crate) mod caller;
pub(crate) mod doors;
mod job;
mod measure;
mod population;
mod report;
mod rings;

use std::path::PathBuf;
use std::time::Duration;

use ::service::ProcessRole;
use ::service::start_workers;
use anyhow::Context;
use axum::Router;
use clap::Args;
use cluster::Cluster;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::child::Child;
use crate::reads::measure::{Asked, Bench, Endpoint};
use crate::reads::population::{Population, populate};
use crate::reads::report::{Figure, Report};
use crate::service::{cluster, described, end, postmaster, start};
use crate::statements;
use crate::usage::Processes;

/// The most calls a second that there are keys for where a firm has one key to call with. A run
/// that is faster ends when the keys have no more calls.
const CALLS_PER_SECOND: u32 = 10_000;

/// Options of `reads`.
#[derive(Debug, Args)]
pub(crate) struct Reads {
    /// How long the service is called, once as fast as it answers and once at the rate.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=20))]
    seconds: u32,
    /// Connections that are kept, with one call at a time on each.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    connections: u16,
    /// Calls a second when the latency is measured.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// The run gives up after so many seconds.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=600))]
    within: u64,
    /// Also show the cost of PostgreSQL's statements; this has a price of its own.
    #[arg(long)]
    statements: bool,
    /// The folder of PostgreSQL's programs, if they are not where they usually are.
    #[arg(long, env = "FIRMFORMS_PG_BIN")]
    pg_bin: Option<PathBuf>,
}

/// Measures on a cluster of its own and prints; fails if a call was refused or not counted.
pub(crate) async fn run(command: &Reads) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(command.within);
    let caller = Child::start("caller")?;
    let cluster = cluster(command.pg_bin.clone(), command.statements).await?;
    let measured = tokio::time::timeout_at(deadline, command.on(&cluster, caller)).await;
    cluster.stop().await?;
    let report = measured.context("the run took too long")??;
    report.print()?;
    report.check()
}

impl Reads {
    async fn on(&self, cluster: &Cluster, caller: Child) -> anyhow::Result<Report> {
        let system = start(cluster).await?;
        if self.statements {
            statements::install(system.main_pool()).await?;
        }
        let door = doors::public(&system.service);
        let population = populate(&system.service, &door, self.firms()).await?;
        // The cluster was made without care; none of that is to be paid for in the run.
        nix::unistd::sync();
        let stop = CancellationToken::new();
        let mut tasks = start_workers(&system, ProcessRole::All, &stop);
        let processes = Processes { postmaster: Some(postmaster(cluster)?), peer: caller.pid };
        let bench = Bench { options: self, pool: system.main_pool(), caller, processes };
        let measured = self.measure(bench, population, (door, &mut tasks, &stop)).await;
        let postgres = described(&system).await;
        end(system, tasks, &stop).await?;
        Ok(Report::new(self, postgres?, measured?))
    }

    async fn measure(
        &self,
        mut bench: Bench<'_>,
        population: Population,
        (door, tasks, stop): (Router, &mut JoinSet<()>, &CancellationToken),
    ) -> anyhow::Result<Vec<Figure>> {
        let service = doors::open(door.clone(), tasks, stop).await?;
        let mut figures = Vec::new();
        let few = Some(population::FEW_HOOKS);
        for (path, keys, items) in [
            ("/me", &population.keys, None),
            ("/forms", &population.keys, Some(population::FORMS)),
            ("/hooks", &population.with_hooks, Some(population::HOOKS)),
            ("/hooks", &population.with_few_hooks, few),
        ] {
            if items == few {
                population::spread(bench.pool).await?;
            }
            let mut endpoint = Endpoint::new(&Asked { path, keys, items }, service);
            let body = endpoint.body(&door).await?;
            let bare = doors::open(doors::bare(body), tasks, stop).await?;
            figures.push(bench.figure(&mut endpoint, bare).await?);
        }
        Ok(figures)
    }

    /// So many that the firms' first keys are enough for a measurement at the highest speed.
    fn firms(&self) -> u32 {
        let seconds = self.seconds + measure::WARM_UP_SECONDS;
        let calls = seconds * CALLS_PER_SECOND + self.seconds * self.rate;
        calls.div_ceil(rings::CALLS as u32)
    }
}
