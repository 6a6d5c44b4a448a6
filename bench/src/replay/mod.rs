//! `replay`: after an outage one command sends everything again that failed. Deliveries are made to
//! fail, then replayed at a rate against a real `serve`, which is killed (`kill -9`) half-way and
//! started again. Attempts under way at the kill are cut off: the same command once more sends
//! them.
//!
//! Then: is any missing, came any twice that no kill explains, were the bytes the same, and is it
//! in the audit log.

mod receiver;
mod report;

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::{Args, value_parser};
use serde_json::Value;
use tests::{Firm, World, cluster_with, settles, submitted};
use tokio::process::Child;
use tokio::time::sleep;

use self::receiver::Receiver;
use self::report::{Killed, Report, Round};
use crate::service::{SETTINGS, described};
use crate::serving::{Serving, stop};

/// Subscriptions of each firm, so deliveries of each response.
const HOOKS: usize = 5;

/// Responses reported at a time.
const BATCH: usize = 200;

/// The leases of attempts under way at the kill then are 25 s, and not 120. Nothing else here
/// waits.
const TIME_SCALE: &str = "5";

/// As often as this a delivery may be cut off; there is one kill.
const ROUNDS: usize = 3;

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether history knows of every try.
const TOLD: &str = "
select count(*) from checkpoints where name = 'deliveries'
   and position >= (select max(position) from events where aggregate_type = 'Delivery')";

/// When nothing has moved for so long, nothing will; longer than a lease.
const STANDSTILL: Duration = Duration::from_secs(60);

/// How many, and how fast.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Deliveries that fail and are replayed, about.
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u32).range(100..=1_000_000))]
    deliveries: u32,
    /// Deliveries a second, over all firms.
    #[arg(long, default_value_t = 2_000, value_parser = value_parser!(u32).range(10..=10_000))]
    rate: u32,
    /// Firms they belong to: a replay each.
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u32).range(1..=10))]
    firms: u32,
}

/// Runs, prints, and fails if anything that must hold does not.
pub(crate) async fn run(command: &Replay) -> anyhow::Result<()> {
    let cluster = cluster_with(&SETTINGS).await;
    let world = World::real_time(cluster.database().await).await;
    let postgres = described(&world.system).await?;
    let mut bench = Bench::start(world, command).await?;
    let failing = Instant::now();
    let failed = bench.fail(command.deliveries as usize).await?;
    let failed_in = failing.elapsed();
    bench.receiver.recover();
    let mut rounds = Vec::new();
    let (first, killed) = bench.first_round(failed).await?;
    rounds.push(first);
    while bench.failed().await? > 0 && rounds.len() < ROUNDS {
        rounds.push(bench.round().await?);
    }
    stop(&mut bench.process, "service").await?;
    let report = Report::new(&bench.world, &bench.receiver, (rounds, killed)).await?;
    report.print(&postgres, failed_in)?;
    if !report.is_clean() {
        bail!("something that must hold does not");
    }
    Ok(())
}

/// Firms with their subscriptions, a receiver, and the service as a process.
struct Bench {
    world: World,
    firms: Vec<Firm>,
    receiver: Receiver,
    serving: Serving,
    process: Child,
    /// Of each firm.
    rate: u32,
}

impl Bench {
    async fn start(world: World, command: &Replay) -> anyhow::Result<Self> {
        let receiver = Receiver::start().await?;
        let mut firms = Vec::new();
        for _ in 0..command.firms {
            let firm = world.firm().await;
            for hook in 0..HOOKS {
                world.subscribe(&firm, &receiver.target(hook)).await;
            }
            firms.push(firm);
        }
        let serving = Serving::on(&world.database)?;
        let process = serve(&serving)?;
        serving.ready().await?;
        let rate = command.rate.div_ceil(command.firms);
        Ok(Self { world, firms, receiver, serving, process, rate })
    }

    /// Makes so many deliveries that fail at once; how many there are.
    async fn fail(&self, deliveries: usize) -> anyhow::Result<i64> {
        let responses = deliveries.div_ceil(HOOKS * self.firms.len()) * self.firms.len();
        let mut reported = 0;
        let one = |firm: &Firm| submitted(firm, self.world.id());
        while reported < responses {
            let count = BATCH.min(responses - reported);
            let firms = self.firms.iter().cycle().skip(reported % self.firms.len());
            let events: Vec<Value> = firms.take(count).map(one).collect();
            let answer = self.world.report(&events).await;
            ensure!(answer.status == 202, "reporting: {}", answer.body);
            reported += count;
        }
        let expected = i64::try_from(responses * HOOKS)?;
        self.until(expected, async || self.failed().await).await?;
        Ok(expected)
    }

    async fn failed(&self) -> anyhow::Result<i64> {
        let failed = "select count(*) from deliveries where state = 'failed'";
        Ok(sqlx::query_scalar(failed).fetch_one(self.world.pool()).await?)
    }

    /// The round with the kill: when half of it has arrived.
    async fn first_round(&mut self, failed: i64) -> anyhow::Result<(Round, Killed)> {
        let began = Instant::now();
        let selected = self.replay().await?;
        let half = failed / 2;
        self.until(half, async || Ok(i64::try_from(self.receiver.arrived())?)).await?;
        let (at, before) = (Instant::now(), self.receiver.arrived());
        self.process.kill().await?;
        self.process = serve(&self.serving)?;
        self.serving.ready().await?;
        let killed = Killed { at, before, ready: Instant::now() };
        Ok((self.end(began, selected).await?, killed))
    }

    async fn round(&self) -> anyhow::Result<Round> {
        let began = Instant::now();
        let selected = self.replay().await?;
        self.end(began, selected).await
    }

    /// Waits until a round has come to its end.
    async fn end(&self, began: Instant, selected: u64) -> anyhow::Result<Round> {
        let over = "select count(*) from replays where state = 'finished'";
        let all: i64 =
            sqlx::query_scalar("select count(*) from replays").fetch_one(self.world.pool()).await?;
        let finished = async || Ok(sqlx::query_scalar(over).fetch_one(self.world.pool()).await?);
        self.until(all, finished).await?;
        ensure!(settles(self.world.pool(), STANDSTILL).await, "it does not come to rest");
        let told = async || Ok(sqlx::query_scalar(TOLD).fetch_one(self.world.pool()).await?);
        self.until(1, told).await?;
        Ok(Round { selected, took: began.elapsed(), arrived: self.receiver.arrived() })
    }

    /// The command of an operator; how many it will send.
    async fn replay(&self) -> anyhow::Result<u64> {
        let rate = self.rate.to_string();
        let start = ["replay", "start", "--all-firms", "--reason", "an outage", "--json", "--rate"];
        let output = self.serving.firmforms(&start)?.arg(&rate).output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let begun: Vec<Value> = serde_json::from_slice(&output.stdout)?;
        Ok(begun.iter().filter_map(|replay| replay["selected"].as_u64()).sum())
    }

    /// Waits until a count has come so far; fails when it does not move any more.
    async fn until(
        &self,
        expected: i64,
        count: impl AsyncFn() -> anyhow::Result<i64>,
    ) -> anyhow::Result<()> {
        let (mut last, mut moved) = ((-1, 0), Instant::now());
        loop {
            let now = count().await?;
            if now >= expected {
                return Ok(());
            }
            let seen = (now, self.receiver.arrived());
            if seen != last {
                (last, moved) = (seen, Instant::now());
            }
            ensure!(moved.elapsed() < STANDSTILL, "{now} of {expected}, and no more come");
            sleep(LOOK_EVERY).await;
        }
    }
}

fn serve(serving: &Serving) -> anyhow::Result<Child> {
    serving.process(&["--time-scale", TIME_SCALE])
}
