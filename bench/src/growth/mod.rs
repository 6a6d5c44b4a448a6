//! `growth`: the same burst as the log, the subscriptions of others and the firms become more.
//! Beside each stands the burst on an empty database, in turn with it, so that the machine's mood
//! is in both.
//!
//! The log is filled with deliveries that have ended, by the same appends as those of the service.
//! Firms and subscriptions are made in batches by the same appends that make one.

mod axis;
mod report;

use std::time::Duration;

use clap::Args;
use tests::{Firm, Templates};

use self::axis::Axis;
use self::report::{Report, Row, ThereIs};
use crate::burst::{Burst, Sent};
use crate::peer::Peer;
use crate::population::Population;
use crate::rebuild::log::{self, height};
use crate::running::{Running, roomy_cluster};
use crate::service::described;

/// Firms of the empty database, and subscriptions of each firm that has events.
const FIRMS: usize = 10;
const HOOKS: usize = 10;

/// Subscriptions of a firm without events: as many as a firm may have.
const HOOKS_OF_OTHERS: usize = 100;

/// Events that the projector follows in a second, at least.
const FOLLOWED_PER_SECOND_MIN: u32 = 5_000;

/// The work that follows from many appends takes no longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Options of `growth`.
#[derive(Debug, Args)]
pub(crate) struct Growth {
    /// The quantities that grow, each on a database of its own.
    #[arg(long, value_enum, default_value = "events,subscriptions,firms", value_delimiter = ',')]
    axes: Vec<Axis>,
    /// Numbers of events in the log.
    #[arg(long, default_value = "0,10000,100000,300000,1000000", value_delimiter = ',')]
    events: Vec<usize>,
    /// Numbers of subscriptions.
    #[arg(long, default_value = "100,1000,10000,100000", value_delimiter = ',')]
    subscriptions: Vec<usize>,
    /// Numbers of firms.
    #[arg(long, default_value = "1,10,100,1000,10000", value_delimiter = ',')]
    firms: Vec<usize>,
    /// Events of a burst, each with ten deliveries.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(100..=20_000))]
    burst: u32,
    /// Bursts of each figure; the middle one counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=25))]
    runs: u8,
}

/// Measures, prints, and fails if anything was lost or came twice.
pub(crate) async fn run(command: &Growth) -> anyhow::Result<()> {
    let cluster = roomy_cluster().await;
    let mut bench = Bench { command, cluster, peer: Peer::start().await?, rows: Vec::new() };
    let postgres = bench.postgres().await?;
    Report::head(&postgres);
    for axis in &command.axes {
        bench.axis(*axis).await?;
    }
    Report::new(postgres, bench.rows).print()?;
    Ok(())
}

struct Bench<'a> {
    command: &'a Growth,
    cluster: Templates,
    peer: Peer,
    rows: Vec<Row>,
}

/// A service on a database that grows, and the firms to which something happens.
struct Grown {
    running: Running,
    firms: Vec<Firm>,
    subscriptions: usize,
}

impl Bench<'_> {
    async fn postgres(&mut self) -> anyhow::Result<String> {
        let empty = self.start(FIRMS).await?;
        let postgres = described(&empty.running.world.system).await?;
        empty.running.stop().await?;
        Ok(postgres)
    }

    async fn axis(&mut self, axis: Axis) -> anyhow::Result<()> {
        let firms = if axis == Axis::Firms { 1 } else { FIRMS };
        let mut grown = self.start(firms).await?;
        match axis {
            Axis::Events | Axis::Both => self.events(&mut grown).await?,
            Axis::Subscriptions => {
                for count in self.command.subscriptions.clone() {
                    self.subscribe_others(&mut grown, count).await?;
                    self.measure((axis, count), &grown).await?;
                }
            }
            Axis::Firms => {
                for count in self.command.firms.clone() {
                    self.add_firms(&mut grown, count).await?;
                    self.measure((axis, count), &grown).await?;
                }
            }
        }
        grown.running.stop().await
    }

    async fn events(&mut self, grown: &mut Grown) -> anyhow::Result<()> {
        for count in self.command.events.clone() {
            self.fill(grown, count).await?;
            self.measure((Axis::Events, count), grown).await?;
        }
        let most = self.command.subscriptions.iter().copied().max().unwrap_or_default();
        self.subscribe_others(grown, most).await?;
        let events = self.command.events.iter().copied().max().unwrap_or_default();
        self.measure((Axis::Both, events), grown).await
    }

    /// A service on a new database with so many firms.
    async fn start(&mut self, firms: usize) -> anyhow::Result<Grown> {
        let running = Running::whole(&self.cluster, &[]).await?;
        let target = |number| self.peer.target(number % HOOKS);
        let population = Population { firms, hooks: HOOKS, target: &target };
        let firms = population.make(&running.world).await?;
        Ok(Grown { running, subscriptions: firms.len() * HOOKS, firms })
    }

    /// Appends deliveries until the log has so many events.
    async fn fill(&mut self, grown: &Grown, count: usize) -> anyhow::Result<()> {
        let world = &grown.running.world;
        let mut listed = Vec::new();
        for firm in &grown.firms {
            let hooks = sqlx::query_scalar("select hook_id from hooks where firm_id = $1")
                .bind(firm.id)
                .fetch_all(world.pool())
                .await?;
            listed.push((firm.clone(), hooks));
        }
        log::fill(world, &listed, u64::try_from(count)?).await?;
        let followed = Duration::from_secs_f64(count as f64 / f64::from(FOLLOWED_PER_SECOND_MIN));
        grown.running.settle(PATIENCE + followed).await
    }

    /// Subscribes firms to which nothing happens, until there are so many subscriptions.
    async fn subscribe_others(&mut self, grown: &mut Grown, count: usize) -> anyhow::Result<()> {
        let missing = count.saturating_sub(grown.subscriptions);
        let firms = missing.div_ceil(HOOKS_OF_OTHERS);
        let target = |number| self.peer.target(HOOKS + number);
        let population = Population { firms, hooks: HOOKS_OF_OTHERS, target: &target };
        population.make(&grown.running.world).await?;
        grown.subscriptions += firms * HOOKS_OF_OTHERS;
        grown.running.settle(PATIENCE).await
    }

    async fn add_firms(&mut self, grown: &mut Grown, count: usize) -> anyhow::Result<()> {
        let firms = count.saturating_sub(grown.firms.len());
        let target = |number| self.peer.target(number % HOOKS);
        let population = Population { firms, hooks: HOOKS, target: &target };
        grown.firms.extend(population.make(&grown.running.world).await?);
        grown.subscriptions = grown.firms.len() * HOOKS;
        grown.running.settle(PATIENCE).await
    }

    /// Bursts there and on empty databases, in turn.
    async fn measure(&mut self, point: (Axis, usize), grown: &Grown) -> anyhow::Result<()> {
        let (mut there, mut empty) = (Vec::new(), Vec::new());
        let events = usize::try_from(self.command.burst)?;
        // A first burst is not counted, here or there: connections and plans are new. Also the
        // first change of a page after a checkpoint writes all of the page, which in service is
        // once in minutes.
        grown.burst(events, &mut self.peer).await?;
        let there_is = grown.there_is().await?;
        for _ in 0..self.command.runs {
            let fresh = self.start(FIRMS).await?;
            fresh.burst(events, &mut self.peer).await?;
            empty.push(fresh.burst(events, &mut self.peer).await?);
            fresh.running.stop().await?;
            there.push(grown.burst(events, &mut self.peer).await?);
        }
        let row = Row::new(point, there_is, (Sent::middle(there), Sent::middle(empty)));
        row.print();
        self.rows.push(row);
        Ok(())
    }
}

impl Grown {
    async fn there_is(&self) -> anyhow::Result<ThereIs> {
        let events = height(&self.running.world).await?;
        let size = "select (select sum(pg_total_relation_size(relid))::bigint
                              from pg_partition_tree('events')),
                           pg_database_size(current_database())";
        let (log_bytes, database_bytes): (i64, i64) =
            sqlx::query_as(size).fetch_one(self.running.world.pool()).await?;
        let each = |bytes: i64| bytes as f64 / events.max(1) as f64;
        Ok(ThereIs {
            events,
            log_bytes_each: each(log_bytes),
            database_bytes_each: each(database_bytes),
            subscriptions: self.subscriptions,
            firms: self.firms.len(),
        })
    }

    async fn burst(&self, events: usize, peer: &mut Peer) -> anyhow::Result<Sent> {
        let burst = Burst { firms: &self.firms, hooks: HOOKS, events };
        let sent = burst.run(&self.running, peer).await?;
        sent.check()?;
        Ok(sent)
    }
}
