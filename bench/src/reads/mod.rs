//! `reads`: calls with a key that change nothing, each kind by itself: as many as go over some kept
//! connections, then some at a steady rate for their latency; beside them the same calls of a bare
//! handler behind a door of the same kind, in the same run.
//!
//! The service is in this process: its doors, its pools and its workers as `serve` starts them. The
//! caller is a process of its own. The rate limit counts every call, and the run fails unless it
//! did.

mod args;
pub(crate) mod caller;
pub(crate) mod doors;
mod job;
mod measure;
mod population;
mod report;
mod rings;

use std::time::Duration;

use ::service::ProcessRole;
use ::service::start_workers;
use anyhow::Context;
use axum::Router;
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

pub(crate) use self::args::Reads;

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
}
