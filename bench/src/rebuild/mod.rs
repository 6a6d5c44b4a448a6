//! `rebuild`: a log of many events; then each read model is made anew from it, one after the other
//! and all at once, while responses come in and are delivered at a steady rate; at last twice when
//! all is quiet, and both must come to the same.
//!
//! The service is a process. Reporter and receiver are in this process, with the rebuild: there is
//! one clock, from the moment an event is due to be reported to its arrival at the receiver.

pub(crate) mod log;
mod report;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use projector::rebuild::{ReadModel, RebuildAct, RebuildOrder, TRIES_MAX, rebuild_models as make};
use tests::{Firm, World, cluster_with};
use tokio::time::sleep;
use uuid::Uuid;

use self::report::{Row, Summary, Traffic};
use crate::audience::delivery;
use crate::hosts::{Hosts, Manner};
use crate::pace::{Pace, Reported, Reporter};
use crate::service::{SETTINGS, described};
use crate::serving::{Serving, stop};

/// Firms, each with one subscription.
const FIRMS: usize = 10;

/// Traffic before anything is measured.
const WARM_UP: Duration = Duration::from_secs(2);

/// Traffic is reported in pieces of this length, until a rebuild is done.
const PIECE: Duration = Duration::from_secs(1);

/// When nothing has arrived for so long, missing deliveries are lost.
const STANDSTILL: Duration = Duration::from_secs(20);

/// Options of `rebuild`.
#[derive(Debug, Args)]
pub(crate) struct Rebuild {
    /// Events in the log.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    events: u64,
    /// Responses that are reported each second meanwhile.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// Seconds of traffic before the first rebuild.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
}

/// Measures, prints, and fails if a read model differed from the log, or anything was lost.
pub(crate) async fn run(command: &Rebuild) -> anyhow::Result<()> {
    let cluster = cluster_with(&SETTINGS).await;
    let world = World::real_time(cluster.database().await).await;
    let receiver = Hosts::start(1, 1, Manner::Well).await?;
    let mut firms = Vec::new();
    for _ in 0..FIRMS {
        let firm = world.firm().await;
        let hook = world.subscribe(&firm, &receiver.target(0)).await;
        firms.push((firm, hook));
    }
    let listed: Vec<_> = firms.iter().map(|(firm, hook)| (firm.clone(), vec![*hook])).collect();
    let filled = log::fill(&world, &listed, command.events).await?;
    let followed = log::follow(&world).await?;
    // The cluster was made without care; none of that is to be paid for in the run.
    nix::unistd::sync();
    let serving = Serving::on(&world.database)?;
    let mut service = serving.process(&[])?;
    serving.ready().await?;
    let reporter = Reporter::new(&world, serving.internal);
    let bench = Bench { command, firms, receiver, reporter, world };
    let summary = bench.measure(filled, followed).await?;
    stop(&mut service, "service").await?;
    summary.print()?;
    summary.check()
}

struct Bench<'a> {
    command: &'a Rebuild,
    firms: Vec<(Firm, Uuid)>,
    receiver: Hosts,
    reporter: Reporter,
    world: World,
}

impl Bench<'_> {
    async fn measure(&self, filled: Duration, followed: Duration) -> anyhow::Result<Summary> {
        self.steadily(WARM_UP).await?;
        let before = self.traffic("before", self.steadily(self.time()).await?).await?;
        let (mut rows, mut traffic) = (Vec::new(), vec![before]);
        for model in ReadModel::ALL {
            let (row, reported) = self.beside_traffic(&[model]).await?;
            rows.extend(row);
            traffic.push(self.traffic(model.name(), reported).await?);
        }
        let began = Instant::now();
        let (all, reported) = self.beside_traffic(&ReadModel::ALL).await?;
        let all_took = began.elapsed();
        traffic.push(self.traffic("all", reported).await?);
        rows.extend(all);
        let quiet = self.quiet().await?;
        Ok(Summary {
            bench: "rebuild",
            events: log::height(&self.world).await?,
            rate: self.command.rate,
            postgres: described(&self.world.system).await?,
            filled_seconds: filled.as_secs_f64(),
            followed_seconds: followed.as_secs_f64(),
            rows,
            all_seconds: all_took.as_secs_f64(),
            traffic,
            quiet,
        })
    }

    const fn time(&self) -> Duration {
        Duration::from_secs(self.command.seconds)
    }

    async fn make(&self, models: &[ReadModel]) -> anyhow::Result<Vec<Row>> {
        let now = self.world.clock.now().get();
        let order = RebuildOrder {
            models: models.to_vec(),
            act: RebuildAct::Replace,
            now,
            tries: TRIES_MAX,
        };
        let began = Instant::now();
        let reports = make(self.world.pool(), &order, &|_, _| {}).await?;
        // Alone, a read model's time is that of reading the log, too.
        let alone = (models.len() == 1).then(|| began.elapsed().as_secs_f64());
        Ok(reports.iter().map(|report| Row::new(report, alone, models.len())).collect())
    }

    /// Rebuilds while responses are reported, and says which.
    async fn beside_traffic(
        &self,
        models: &[ReadModel],
    ) -> anyhow::Result<(Vec<Row>, Vec<Reported>)> {
        let done = AtomicBool::new(false);
        let traffic = async {
            let (mut reported, mut due) = (Vec::new(), Instant::now());
            while !done.load(Ordering::Relaxed) {
                reported.extend(self.steadily_from(due, PIECE).await?);
                due += PIECE;
            }
            anyhow::Ok(reported)
        };
        let made = async {
            let made = self.make(models).await;
            done.store(true, Ordering::Relaxed);
            made
        };
        tokio::try_join!(made, traffic)
    }

    /// Rebuilds twice when nothing happens, and compares the digests. Times the first rebuild.
    async fn quiet(&self) -> anyhow::Result<report::Quiet> {
        let began = Instant::now();
        let first = self.make(&ReadModel::ALL).await?;
        let seconds = began.elapsed().as_secs_f64();
        let second = self.make(&ReadModel::ALL).await?;
        let same = first.iter().zip(&second).all(|(one, other)| one.digest == other.digest);
        ensure!(first.len() == second.len(), "a read model is missing");
        Ok(report::Quiet { seconds, same_digests: same })
    }

    async fn steadily(&self, time: Duration) -> anyhow::Result<Vec<Reported>> {
        self.steadily_from(Instant::now(), time).await
    }

    async fn steadily_from(&self, began: Instant, time: Duration) -> anyhow::Result<Vec<Reported>> {
        let firms: Vec<Firm> = self.firms.iter().map(|(firm, _)| firm.clone()).collect();
        let pace = Pace { per_second: self.command.rate.into(), time };
        self.reporter.steadily_from(began, &firms, pace).await
    }

    /// From when each was due to its arrival.
    async fn traffic(
        &self,
        name: &'static str,
        reported: Vec<Reported>,
    ) -> anyhow::Result<Traffic> {
        let hooks: HashMap<Uuid, Uuid> =
            self.firms.iter().map(|(firm, hook)| (firm.id, *hook)).collect();
        let due: HashMap<Uuid, Instant> =
            reported.iter().map(|one| (delivery(one, hooks[&one.firm_id]), one.due)).collect();
        let mut arrived = HashMap::new();
        let (mut twice, mut moved) = (0, Instant::now());
        while arrived.len() < due.len() && moved.elapsed() < STANDSTILL {
            for (delivery, at) in self.receiver.take_arrivals() {
                let Some(due) = due.get(&delivery) else { continue };
                let us = u64::try_from(at.saturating_duration_since(*due).as_micros())?;
                twice += u64::from(arrived.insert(delivery, us).is_some());
                moved = Instant::now();
            }
            sleep(Duration::from_millis(10)).await;
        }
        let lost = due.len() - arrived.len();
        Ok(Traffic::new(name, arrived.into_values().collect(), (lost, twice)))
    }
}
