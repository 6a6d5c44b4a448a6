//! `fairness`: how long firms wait, from the moment their event is due to be reported to its
//! arrival at the receiver, first alone, then beside a shape of load: hosts that never answer,
//! answer late or refuse, and hosts with a retry each. Last, all receivers are away for a time and
//! come back.
//!
//! The service is a process, reported to over HTTP. Reporter and receiver are in this process, so
//! there is one clock. An event is reported at its time, whether or not earlier events were
//! answered.

mod hogs;
mod outage;
mod report;
mod shape;

use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum, value_parser};
use tests::{World, cluster_with};
use tokio::time::sleep;

use self::hogs::{HogShape, Hogs};
use self::outage::OutageTimes;
use self::report::{HogFigures, Phase, Report, ShapeFigure};
use self::shape::{Shape, ShapeName};
use crate::audience::Audience;
use crate::pace::{Pace, Reporter};
use crate::service::{SETTINGS, described};
use crate::serving::{Serving, stop};
use crate::statements::{self, Statement};

/// Before anything is measured.
const WARM_UP: Duration = Duration::from_secs(3);

/// Options of `fairness`.
#[derive(Debug, Args)]
pub(crate) struct Fairness {
    /// Only these shapes. Without it, all.
    #[arg(long = "shape", value_enum)]
    shapes: Vec<ShapeName>,
    /// Seconds of each phase.
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u64).range(5..=600))]
    seconds: u64,
    /// Firms that are measured, each with one subscription.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u16).range(1..=100))]
    firms: u16,
    /// Events a second, over all firms that are measured.
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// Events a second while all receivers are away, and after it.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=5_000))]
    outage_rate: u32,
    /// Seconds that all receivers are away.
    #[arg(long, default_value_t = 600, value_parser = value_parser!(u64).range(5..=7_200))]
    down_seconds: u64,
    /// Seconds that are watched after their return.
    #[arg(long, default_value_t = 300, value_parser = value_parser!(u64).range(5..=7_200))]
    after_seconds: u64,
    /// Deliveries that `serve` sends at a time.
    #[arg(long, default_value_t = 256)]
    permits: usize,
    /// Also show the cost of PostgreSQL's statements; this has a price of its own.
    #[arg(long)]
    statements: bool,
}

impl Fairness {
    const fn outage_times(&self) -> OutageTimes {
        OutageTimes {
            down: Duration::from_secs(self.down_seconds),
            after: Duration::from_secs(self.after_seconds),
            per_second: self.outage_rate as f64,
        }
    }
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
        ordinary: Audience::subscribe(&world, command.firms.into()).await?,
        reporter: Reporter::new(&world, serving.internal),
        world,
    };
    let report = bench.shapes().await?;
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
    async fn shapes(self) -> anyhow::Result<Report> {
        let Fairness { rate, seconds, shapes, .. } = self.command;
        self.reporter.steadily(&self.ordinary.firms, self.pace(WARM_UP)).await?;
        self.ordinary.arrived((*rate as usize) * WARM_UP.as_secs() as usize).await;
        self.ordinary.receiver.take_arrivals();
        let mut report = Report::new(*rate, *seconds, self.postgres.clone());
        for name in ShapeName::value_variants() {
            if !shapes.is_empty() && !shapes.contains(name) {
                continue;
            }
            match name.shape() {
                Shape::Hogs(shape) => report.add_shape(self.beside(shape).await?),
                Shape::Outage(shape) => {
                    let times = self.command.outage_times();
                    let figure = outage::measure(&self.world, &self.reporter, shape, times).await?;
                    report.add_outage(figure);
                }
            }
        }
        Ok(report)
    }

    /// The measured firms alone, then beside this shape.
    async fn beside(&self, shape: HogShape) -> anyhow::Result<ShapeFigure> {
        let (alone, _) = self.phase(None).await?;
        let hogs = Hogs::subscribe(&self.world, shape).await?;
        hogs.get_stuck(&self.world).await?;
        let (beside, figures) = self.phase(Some(&hogs)).await?;
        Ok(ShapeFigure::new(shape.name, alone, beside, figures))
    }

    fn pace(&self, time: Duration) -> Pace {
        Pace { per_second: self.command.rate.into(), time }
    }

    /// One phase. The hogs go at its end. Deliveries that waited for them arrive then, and are not
    /// lost.
    async fn phase(&self, hogs: Option<&Hogs>) -> anyhow::Result<(Phase, HogFigures)> {
        if self.command.statements {
            statements::forget(self.world.pool()).await?;
        }
        let time = Duration::from_secs(self.command.seconds);
        let mut phase = Phase::default();
        let steadily = self.reporter.steadily(&self.ordinary.firms, self.pace(time));
        let (reported, figures) = match hogs {
            Some(hogs) => {
                tokio::try_join!(steadily, hogs.go_on(&self.world, &self.reporter, time))?
            }
            None => (steadily.await?, HogFigures::default()),
        };
        sleep(Duration::from_secs(1)).await;
        phase.late = reported.len().saturating_sub(self.ordinary.receiver.arrived());
        phase.statements = self.statements().await?;
        if let Some(hogs) = hogs {
            hogs.leave(&self.world).await?;
        }
        self.ordinary.arrived(reported.len()).await;
        let due = self.ordinary.due(&reported).collect();
        phase.set_arrivals(&due, &self.ordinary.receiver.take_arrivals())?;
        ensure!(!due.is_empty(), "nothing was reported");
        Ok((phase, figures))
    }

    async fn statements(&self) -> Result<Vec<Statement>, sqlx::Error> {
        if self.command.statements {
            statements::costliest(self.world.pool()).await
        } else {
            Ok(Vec::new())
        }
    }
}
