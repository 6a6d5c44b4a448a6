//! `scale`: one process that does everything, then one, two and four processes of each role, on one
//! database. Counts deliveries a second, and fails if one is sent twice or lost. Once with
//! receivers that answer at once, where CPU is the limit, and once with receivers that take their
//! time, where the permits of each process are the limit.

mod report;

use anyhow::ensure;
use clap::Args;
use domain::delivery::pressure::HostCaps;
use tests::Templates;

use self::report::{Report, Row};
use crate::burst::{Burst, Sent};
use crate::peer::Peer;
use crate::population::Population;
use crate::running::{Running, roomy_cluster};
use crate::service::described;

/// Subscriptions of each firm, each to a host of its own.
const HOOKS: usize = 10;

/// Events before anything is measured.
const WARM_UP: usize = 200;

/// Options of `scale`.
#[derive(Debug, Args)]
pub(crate) struct Scale {
    /// Numbers of processes of each role; 0 is one process that does everything.
    #[arg(long, default_value = "0,1,2,4", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=8))]
    processes: Vec<u8>,
    /// Receivers answer after so many milliseconds, each measured by itself.
    #[arg(long, default_value = "0,400", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=5_000))]
    answer_after_ms: Vec<u32>,
    /// Firms, each with ten subscriptions.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    firms: u16,
    /// Events of a burst, each with ten deliveries.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(100..=20_000))]
    burst: u32,
    /// Bursts of each figure; the middle one counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=25))]
    runs: u8,
}

/// Measures, prints, and fails if anything was lost, came twice, or was more than may be out.
pub(crate) async fn run(command: &Scale) -> anyhow::Result<()> {
    let cluster = roomy_cluster().await;
    let (mut peer, mut rows, mut postgres) = (Peer::start().await?, Vec::new(), String::new());
    for answer_after_ms in &command.answer_after_ms {
        for processes in &command.processes {
            peer.answer_after(*answer_after_ms).await?;
            let layout = (*processes, *answer_after_ms);
            let (row, on) = command.row(&cluster, layout, &mut peer).await?;
            (postgres, _) = (on, rows.push(row));
        }
    }
    Report::new(postgres, rows).print()?;
    Ok(())
}

impl Scale {
    async fn row(
        &self,
        cluster: &Templates,
        (processes, answer_after_ms): (u8, u32),
        peer: &mut Peer,
    ) -> anyhow::Result<(Row, String)> {
        let running = match processes {
            0 => Running::whole(cluster, &[]).await?,
            each => Running::roles(cluster, each.into()).await?,
        };
        let target = |number| peer.target(number % HOOKS);
        let population = Population { firms: self.firms.into(), hooks: HOOKS, target: &target };
        let firms = population.make(&running.world).await?;
        let burst = |events| Burst { firms: &firms, hooks: HOOKS, events };
        burst(WARM_UP).run(&running, peer).await?.check()?;
        let (mut sent, events) = (Vec::new(), usize::try_from(self.burst)?);
        for _ in 0..self.runs {
            sent.push(burst(events).run(&running, peer).await?);
        }
        for one in &sent {
            one.check()?;
            let (out, most) = (one.host_out_max, HostCaps::default().per_host);
            ensure!(out <= most, "{out} were out to one host: {most} may be");
        }
        let postgres = described(&running.world.system).await?;
        let peak_mib = running.memory()?.peak_mib;
        running.stop().await?;
        Ok((Row { processes, answer_after_ms, sent: Sent::middle(sent), peak_mib }, postgres))
    }
}
