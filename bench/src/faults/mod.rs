//! The long fault run: real processes on one database, killed at random again and again, while
//! responses come in, subscriptions come and go, and receivers answer as receivers do. Then all
//! comes to rest, and the invariants are asked (docs/reference/cases.md, I1–I9).
//!
//! Waits pass faster than they should; the lease is the shortest there is.

mod killer;
pub(crate) mod load;
mod random;
pub(crate) mod receivers;
pub(crate) mod report;
pub(crate) mod service;

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::Args;
use tests::invariants::Run;
use tests::{World, own_cluster, place_witness, settles};
use tokio_util::sync::CancellationToken;
use vault::{Entropy, SystemEntropy};

use self::load::{Load, Pace};
use self::random::Random;
use self::receivers::{KINDS, Receivers};
use self::report::Report;
use self::service::Services;

/// How much faster waits pass: the schedule's 123 minutes in about one.
const TIME_SCALE: &str = "120";

/// The lease at that speed.
pub(crate) const LEASE: Duration = Duration::from_secs(25);

/// Longer than the schedule, with a lease at each try.
const REST: Duration = Duration::from_secs(600);

/// How long, how much, and which.
#[derive(Debug, Args)]
pub(crate) struct Faults {
    /// How long processes are killed.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=720))]
    minutes: u64,
    /// How many deliveries are made in that time, about.
    #[arg(long, default_value_t = 50_000)]
    deliveries: usize,
    /// Another number, other kills; by default a new one, which is printed.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs, prints, and fails if anything that must hold does not.
pub(crate) async fn run(command: &Faults) -> anyhow::Result<()> {
    let seed = command.seed.unwrap_or_else(|| u64::from_le_bytes(first_eight()));
    println!("seed {seed}: {} minutes, {} deliveries", command.minutes, command.deliveries);
    let cluster = own_cluster().await;
    let world = World::real_time(cluster.database().await).await;
    place_witness(world.pool()).await;
    let until = Instant::now() + Duration::from_secs(command.minutes * 60);
    let receivers = Receivers::start(until - Duration::from_secs(command.minutes * 30)).await?;
    let load = Load::prepare(&world, &receivers).await;
    let services = Services::start(&world.database).await?;
    let responses = u32::try_from(command.deliveries / KINDS.len())?;
    let seconds = u32::try_from(command.minutes * 60)?;
    let responses_per_second = responses.div_ceil(seconds).max(1);
    let pace = Pace { responses_per_second, stop: CancellationToken::new() };
    let killing = async {
        let kills = killer::until(until, &services, Random::new(seed)).await;
        pace.stop.cancel();
        kills
    };
    let (acknowledged, kills) = tokio::try_join!(load.run(&pace, &world, &services), killing)?;
    let killed_for = Instant::now();
    ensure!(settles(world.pool(), REST).await, "seed {seed}: it did not come to rest");
    let rested = killed_for.elapsed();
    services.stop().await?;
    let requests = receivers.requests();
    let run =
        Run { pool: world.pool(), requests: &requests, acknowledged: &acknowledged, lease: LEASE };
    let violations = run.violations().await;
    let report = Report::of(&run, &receivers, kills).await?;
    report.print(seed, rested);
    for violation in &violations {
        println!("VIOLATED {violation}");
    }
    if violations.is_empty() && report.is_clean() {
        return Ok(());
    }
    bail!("seed {seed}: something that must hold does not")
}

fn first_eight() -> [u8; 8] {
    let secret = SystemEntropy.secret();
    std::array::from_fn(|place| secret[place])
}
