//! `latency`: events at a given rate, each by a call of its own on kept connections, whether or not
//! earlier calls were answered. Latency goes from the instant an event was due to its arrival at
//! the receiver.
//!
//! The service is a process. Reporter and receiver are in this process, so there is one clock.

mod report;

use std::time::Duration;

use clap::Args;
use tests::cluster_with;

use self::report::{Report, Row};
use crate::audience::Audience;
use crate::latency::{Latency, Ledger};
use crate::pace::{Pace, Reported};
use crate::running::Running;
use crate::service::{SETTINGS, described};

/// Before anything is measured.
const WARM_UP: Duration = Duration::from_secs(3);

/// The work that is left after the last event takes no longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Options of `latency`.
#[derive(Debug, Args)]
pub(crate) struct OpenLoop {
    /// Events a second; each has one delivery.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rate: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Runs; the middle one counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=25))]
    runs: u8,
    /// Firms, each with one subscription.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=100))]
    firms: u8,
}

/// Measures, prints, and fails if anything was lost or came twice.
pub(crate) async fn run(command: &OpenLoop) -> anyhow::Result<()> {
    let cluster = cluster_with(&SETTINGS).await;
    let running = Running::whole(&cluster, &[]).await?;
    let postgres = described(&running.world.system).await?;
    let audience = Audience::subscribe(&running.world, command.firms.into()).await?;
    let bench = Bench { command, running, audience };
    bench.row(WARM_UP).await?;
    let mut rows = Vec::new();
    for _ in 0..command.runs {
        rows.push(bench.row(Duration::from_secs(command.seconds)).await?);
    }
    bench.running.stop().await?;
    let report = Report::new((command.rate, command.firms), postgres, rows);
    report.print()?;
    report.check()
}

struct Bench<'a> {
    command: &'a OpenLoop,
    running: Running,
    audience: Audience,
}

impl Bench<'_> {
    async fn row(&self, time: Duration) -> anyhow::Result<Row> {
        let pace = Pace { per_second: self.command.rate.into(), time };
        self.running.forget_peak()?;
        let before = self.running.spent()?;
        let reported = self.running.reporter().steadily(&self.audience.firms, pace).await?;
        self.audience.arrived(reported.len()).await;
        self.running.at_rest(PATIENCE).await?;
        let cpu = self.running.spent()?.since(before).each(reported.len());
        let mut ledger = Ledger::default();
        ledger.expect(self.audience.due(&reported));
        let took = ledger.arrived(self.audience.receiver.take_arrivals());
        Ok(Row {
            events: reported.len(),
            latency: Latency::new(took),
            reported_late: late(&reported),
            lost: ledger.missing(),
            twice: ledger.twice(),
            cpu,
            peak_mib: self.running.memory()?.peak_mib,
        })
    }
}

/// From due to reported: the part of the latency before the service could know.
pub(crate) fn late(reported: &[Reported]) -> Latency {
    let us = |of: &Reported| of.sent.saturating_duration_since(of.due).as_micros();
    Latency::new(reported.iter().map(|of| u64::try_from(us(of)).unwrap_or(u64::MAX)).collect())
}
