//! `endless`: memory while many receivers at once begin an answer and never end it, or never begin.
//!
//! The service is a process, a new one on a new database for each manner. So the memory that one
//! manner left is not counted to the next. The service has delivered as much to the same receivers
//! before: the figure at rest includes connections, pools and code.

pub(crate) mod report;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use domain::delivery::pressure::HostCaps;
use domain::values::Timestamp;
use serde_json::Value;
use sqlx::PgPool;
use tests::{ATTEMPTS, Firm, World, cluster_with, submitted};
use tokio::time::sleep;

use self::report::{Figure, Outcome, Report};
use crate::hosts::{Hosts, Manner};
use crate::service::{SETTINGS, described};
use crate::serving::{Serving, stop};
use crate::usage::{Memory, forget_peak_of};

/// The manners to measure, one after the other.
const MANNERS: [Manner; 4] = [Manner::Drip, Manner::Flood, Manner::Head, Manner::Silent];

/// Rounds of deliveries that are answered at once, before anything is measured.
const WARM_UP: usize = 4;

/// Longer than a connection is kept that nobody uses.
const REST: Duration = Duration::from_secs(6);

/// Answers with a body begin when all are out, or after this.
const TOGETHER_WITHIN: Duration = Duration::from_secs(5);

/// Nothing lasts longer: not a try, and not the warm-up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Options of `endless`.
#[derive(Debug, Args)]
pub(crate) struct Endless {
    /// Receivers that hang at once, and deliveries that `serve` sends at a time.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    receivers: u16,
}

/// Measures, and prints.
pub(crate) async fn run(command: &Endless) -> anyhow::Result<()> {
    let cluster = cluster_with(&SETTINGS).await;
    let (mut figures, mut postgres) = (Vec::new(), String::new());
    for manner in MANNERS {
        let world = World::real_time(cluster.database().await).await;
        postgres = described(&world.system).await?;
        let receivers = command.receivers.into();
        figures.push(figure(world, manner, (receivers, receivers)).await?);
    }
    Report::new(command.receivers, postgres, figures).print()?;
    Ok(())
}

/// So many receivers of this manner, and a service with so many permits.
pub(crate) async fn figure(
    world: World,
    manner: Manner,
    (receivers, permits): (usize, usize),
) -> anyhow::Result<Figure> {
    let serving = Serving::on(&world.database)?;
    let mut service = serving.process(&["--permits", &permits.to_string()])?;
    serving.ready().await?;
    let pid = service.id().context("the service ended")?;
    let bench = Bench::subscribe(world, receivers, pid).await?;
    let rest_mib = bench.rest().await?;
    let figure = bench.hang(manner, rest_mib).await?;
    stop(&mut service, "service").await?;
    Ok(figure)
}

/// Memory at rest of a service that has delivered to one receiver.
pub(crate) async fn at_rest_mib(world: World) -> anyhow::Result<f64> {
    let serving = Serving::on(&world.database)?;
    let mut service = serving.process(&[])?;
    serving.ready().await?;
    let pid = service.id().context("the service ended")?;
    let rest_mib = Bench::subscribe(world, 1, pid).await?.rest().await?;
    stop(&mut service, "service").await?;
    Ok(rest_mib)
}

/// Firms with as many subscriptions as a firm may have host slots at one host, each firm to a host
/// of its own.
struct Bench {
    world: World,
    hosts: Hosts,
    firms: Vec<Firm>,
    receivers: usize,
    pid: u32,
}

impl Bench {
    async fn subscribe(world: World, receivers: usize, pid: u32) -> anyhow::Result<Self> {
        let per_firm = HostCaps::default().per_firm_and_host;
        let hosts = u8::try_from(receivers.div_ceil(per_firm))?;
        let hosts = Hosts::start(4, hosts, Manner::Well).await?;
        let mut firms = Vec::new();
        for number in 0..receivers {
            if number % per_firm == 0 {
                firms.push(world.firm().await);
            }
            let firm = firms.last().context("a firm")?;
            world.subscribe(firm, &hosts.target(number / per_firm)).await;
        }
        Ok(Self { world, hosts, firms, receivers, pid })
    }

    /// Delivers to all receivers, then rests. Returns the memory in use then.
    async fn rest(&self) -> anyhow::Result<f64> {
        for round in 1..=WARM_UP {
            self.report().await?;
            self.tried(round).await?;
        }
        sleep(REST).await;
        self.hosts.take_arrivals();
        forget_peak_of(self.pid)?;
        Ok(Memory::new(self.pid)?.now_mib)
    }

    async fn hang(&self, manner: Manner, rest_mib: f64) -> anyhow::Result<Figure> {
        let since = self.world.clock.now();
        self.hosts.behave(manner);
        self.report().await?;
        let (out, out_mib) = self.look().await?;
        self.tried(WARM_UP + 1).await?;
        Ok(Figure {
            manner,
            out,
            rest_mib,
            out_mib,
            // The kernel brings its peak up to date only now and then.
            peak_mib: Memory::new(self.pid)?.peak_mib.max(out_mib),
            outcomes: outcomes(self.world.pool(), since).await?,
        })
    }

    /// A response to each firm, so a delivery to each receiver.
    async fn report(&self) -> anyhow::Result<()> {
        let one = |firm: &Firm| submitted(firm, self.world.id());
        let events: Vec<Value> = self.firms.iter().map(one).collect();
        let answer = self.world.report(&events).await;
        ensure!(answer.status == 202, "reporting: {}", answer.body);
        Ok(())
    }

    /// Looks until all came and none is out any more; the most that were out, and the memory then.
    async fn look(&self) -> anyhow::Result<(usize, f64)> {
        let (began, mut most, mut most_mib) = (Instant::now(), 0, 0.0_f64);
        loop {
            let out = self.hosts.out();
            let now_mib = Memory::new(self.pid)?.now_mib;
            if out > most {
                (most, most_mib) = (out, now_mib);
            } else if out == most {
                most_mib = most_mib.max(now_mib);
            }
            if out >= self.receivers || began.elapsed() > TOGETHER_WITHIN {
                self.hosts.begin();
            }
            if self.hosts.arrived() >= self.receivers && out == 0 {
                return Ok((most, most_mib));
            }
            ensure!(began.elapsed() < PATIENCE, "{out} receivers hang for too long");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the tries of so many rounds are in their histories.
    async fn tried(&self, rounds: usize) -> anyhow::Result<()> {
        let (began, tries) = (Instant::now(), i64::try_from(self.receivers * rounds)?);
        while recorded(self.world.pool()).await? < tries {
            ensure!(began.elapsed() < PATIENCE, "tries are not recorded");
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

async fn recorded(pool: &PgPool) -> Result<i64, sqlx::Error> {
    let tries = "select count(*) from events where event_type = 'DeliveryAttempted'";
    sqlx::query_scalar(tries).fetch_one(pool).await
}

/// The outcomes of the tries since then.
async fn outcomes(pool: &PgPool, since: Timestamp) -> Result<Vec<Outcome>, sqlx::Error> {
    let outcomes = format!(
        "select outcome, coalesce(error, status::text) as answer, count(*) as tries,
                max(extract(epoch from finished_at - started_at))::float8 as longest_seconds
           from {ATTEMPTS} where started_at >= $1
          group by 1, 2 order by 3 desc"
    );
    sqlx::query_as(&outcomes).bind(since.get()).fetch_all(pool).await
}
