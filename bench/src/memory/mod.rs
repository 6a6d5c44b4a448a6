//! `memory`: the memory of the service, in a process of its own. The most at a burst to ten
//! subscriptions, and the part of each receiver that accepts and never answers.

mod report;

use clap::Args;
use tests::{Templates, World, cluster_with};

use self::report::{Burst, Hanging, Report};
use crate::burst;
use crate::endless::{at_rest_mib, figure};
use crate::hosts::Manner;
use crate::peer::Peer;
use crate::population::Population;
use crate::running::Running;
use crate::service::{SETTINGS, described};

/// Subscriptions of the firm of the burst.
const HOOKS: usize = 10;

/// Options of `memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryUse {
    /// Events of the burst, each to ten subscriptions.
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    events: u32,
    /// Numbers of receivers that hang at once, each measured by itself.
    #[arg(long, default_value = "256,1000", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=4_000))]
    hanging: Vec<u16>,
}

/// Measures, prints, and fails if anything was lost.
pub(crate) async fn run(command: &MemoryUse) -> anyhow::Result<()> {
    let cluster = cluster_with(&SETTINGS).await;
    let (burst, postgres) = command.burst(&cluster).await?;
    let rest_mib = at_rest_mib(world(&cluster).await).await?;
    let mut hanging = Vec::new();
    for receivers in &command.hanging {
        let receivers = usize::from(*receivers);
        // With as many permits as receivers the last quarter would be kept for firms that have
        // none.
        let permits = receivers * 2;
        let figure = figure(world(&cluster).await, Manner::Silent, (receivers, permits)).await?;
        hanging.push(Hanging::new(receivers, rest_mib, &figure));
    }
    let report = Report::new(postgres, burst, rest_mib, hanging);
    report.print()?;
    burst.sent.check()
}

async fn world(cluster: &Templates) -> World {
    World::real_time(cluster.database().await).await
}

impl MemoryUse {
    async fn burst(&self, cluster: &Templates) -> anyhow::Result<(Burst, String)> {
        let mut peer = Peer::start().await?;
        let running = Running::whole(cluster, &[]).await?;
        let target = |number| peer.target(number);
        let population = Population { firms: 1, hooks: HOOKS, target: &target };
        let firms = population.make(&running.world).await?;
        let ready_mib = running.memory()?.now_mib;
        let burst =
            burst::Burst { firms: &firms, hooks: HOOKS, events: usize::try_from(self.events)? };
        let sent = burst.run(&running, &mut peer).await?;
        let peak_mib = running.memory()?.peak_mib;
        let postgres = described(&running.world.system).await?;
        running.stop().await?;
        Ok((Burst { ready_mib, peak_mib, sent }, postgres))
    }
}
