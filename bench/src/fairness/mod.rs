//! `fairness`: how long firms wait, from the moment their event is due to be reported to its arrival at
//! the receiver, first alone, then beside one more receiver that accepts and never answers, then beside
//! firms with 100 of those, 10,000 deliveries stuck before the first look and more coming.
//!
//! The service is a process, reported to over HTTP. Who reports and who receives is in this one, so
//! there is one clock. An event is reported at its time whether or not those before it were answered.

mod hogs;
mod report;

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use tests::{World, cluster_with};
use tokio::time::sleep;

use self::hogs::{Hogs, Kind};
use self::report::{Phase, Report};
use crate::audience::Audience;
use crate::pace::{Pace, Reporter};
use crate::service::{SETTINGS, described};
use crate::serving::{Serving, stop};
use crate::statements::{self, Statement};

/// Firms that are measured, each with one subscription.
const FIRMS: usize = 10;

/// Before anything is measured.
const WARM_UP: Duration = Duration::from_secs(3);

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Fairness {
    /// Seconds of each phase.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: u64,
    /// Events a second, over all firms that are measured.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// Deliveries that `serve` sends at a time.
    #[arg(long, default_value_t = 256)]
    permits: usize,
    /// Also show what PostgreSQL's statements cost; this has a price of its own.
    #[arg(long)]
    statements: bool,
}

/// Measures, prints, and fails if anything was lost.
pub(crate) async fn run(command: &Fairness) -> anyhow::Result<()> {
    let preload = ("shared_preload_libraries", "pg_stat_statements");
    let settings: Vec<_> =
        SETTINGS.into_iter().chain(command.statements.then_some(preload)).collect();
    let cluster = cluster_with(&settings).await;
    let world = World::real_time(cluster.database().await).await;
    if command.statements {
        statements::install(world.pool()).await?;
    }
    // The cluster was made without care; none of that is to be paid for in the run.
    nix::unistd::sync();
    let serving = Serving::on(&world.database)?;
    let mut service = serving.process(&["--permits", &command.permits.to_string()])?;
    serving.ready().await?;
    let bench = Bench {
        command,
        postgres: described(&world.system).await?,
        ordinary: Audience::subscribe(&world, FIRMS).await?,
        reporter: Reporter::of(&world, serving.internal),
        world,
    };
    let report = bench.phases().await?;
    stop(&mut service, "service").await?;
    report.print()?;
    report.check()
}

struct Bench<'a> {
    command: &'a Fairness,
    postgres: String,
    ordinary: Audience,
    reporter: Reporter,
    world: World,
}

impl Bench<'_> {
    async fn phases(self) -> anyhow::Result<Report> {
        self.reporter.steadily(&self.ordinary.firms, self.pace(WARM_UP)).await?;
        self.ordinary.arrived((self.command.rate as usize) * WARM_UP.as_secs() as usize).await;
        self.ordinary.receiver.take_arrivals();
        let mut phases = vec![self.phase("alone", None).await?];
        for kind in [Kind::ONE_HOOK, Kind::ONE_FIRM, Kind::TEN_FIRMS] {
            let hogs = Hogs::subscribe(&self.world, kind).await?;
            hogs.get_stuck(&self.world, &self.reporter).await?;
            phases.push(self.phase(kind.name, Some(&hogs)).await?);
        }
        Ok(Report::new(self.command.rate, self.command.seconds, self.postgres, phases))
    }

    fn pace(&self, time: Duration) -> Pace {
        Pace { per_second: self.command.rate.into(), time }
    }

    /// One phase. The hogs go at its end, so what they held up arrives then, and is not lost.
    async fn phase(&self, name: &'static str, hogs: Option<&Hogs>) -> anyhow::Result<Phase> {
        if self.command.statements {
            statements::forget(self.world.pool()).await?;
        }
        let time = Duration::from_secs(self.command.seconds);
        let mut phase = Phase::named(name);
        let steadily = self.reporter.steadily(&self.ordinary.firms, self.pace(time));
        let reported = if let Some(hogs) = hogs {
            let go_on = hogs.go_on(&self.reporter, time);
            let (reported, out) = tokio::try_join!(steadily, go_on)?;
            phase.set_out(out);
            phase.hog_waiting = hogs.waiting(&self.world).await?;
            reported
        } else {
            steadily.await?
        };
        sleep(Duration::from_secs(1)).await;
        phase.late = reported.len().saturating_sub(self.ordinary.receiver.arrived());
        phase.statements = self.statements().await?;
        if let Some(hogs) = hogs {
            hogs.close(&self.world).await?;
        }
        self.ordinary.arrived(reported.len()).await;
        let due = self.ordinary.due(&reported).collect();
        phase.set_arrivals(&due, &self.ordinary.receiver.take_arrivals())?;
        ensure!(!due.is_empty(), "nothing was reported");
        Ok(phase)
    }

    async fn statements(&self) -> Result<Vec<Statement>, sqlx::Error> {
        if self.command.statements {
            statements::costliest(self.world.pool()).await
        } else {
            Ok(Vec::new())
        }
    }
}
