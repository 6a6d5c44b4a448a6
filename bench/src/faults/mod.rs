//! The long fault run: real processes on one PostgreSQL, with faults that a seed draws, while
//! responses come in, keys and subscriptions come and go, and receivers answer as receivers do.
//! Then all comes to rest, and the invariants are asked (docs/reference/cases.md, I1–I9).
//!
//! Waits pass faster than they should; the lease is the shortest there is.

mod causing;
pub(crate) mod load;
mod primaries;
pub(crate) mod receivers;
pub(crate) mod report;
pub(crate) mod service;
mod times;

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::Args;
use tests::invariants::Run;
use tests::{
    DrawnFault, FaultKind, World, draw_faults, lasting_cluster, place_witness, until_settled,
};
use tokio_util::sync::CancellationToken;
use vault::{Entropy, SystemEntropy};

use self::causing::FaultScene;
use self::load::{Load, Pace};
use self::receivers::Receivers;
use self::report::{Report, print_caused, print_drawn};
use self::service::Services;
use self::times::REST;

pub(crate) use self::times::LEASE;

/// Commands that must end well after a run.
const PROOFS: [&[&str]; 4] = [
    &["verify", "deliveries"],
    &["projections", "verify", "--all"],
    &["audit", "checkpoint"],
    &["audit", "verify"],
];

/// Which faults, how many, and under which load.
#[derive(Debug, Args)]
pub(crate) struct Faults {
    /// The number of faults, some three seconds apart.
    #[arg(long, default_value_t = 400)]
    faults: usize,
    /// Kinds of faults to draw from, with commas between them; all by default.
    #[arg(long, value_delimiter = ',', value_parser = parse_kind)]
    kinds: Vec<FaultKind>,
    /// Instead of other faults, promotes a standby so many times while its old primary lives.
    #[arg(long, conflicts_with_all = ["faults", "kinds"])]
    promotions: Option<usize>,
    /// Responses a second; each is delivered to ten subscriptions.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rate: u32,
    /// Draws the faults; by default a new number, which is printed.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs, prints, and fails if anything that must hold does not.
pub(crate) async fn run(command: &Faults) -> anyhow::Result<()> {
    let seed = command.seed.unwrap_or_else(|| u64::from_le_bytes(first_eight()));
    println!("seed {seed}");
    if let Some(promotions) = command.promotions {
        return primaries::run(promotions, command.rate, seed).await;
    }
    let kinds =
        if command.kinds.is_empty() { &FaultKind::ALL[..] } else { command.kinds.as_slice() };
    let faults = draw_faults(seed, kinds, command.faults);
    print_drawn(&faults);
    let violations = violations_after(&faults, command.rate).await?;
    for violation in &violations {
        println!("VIOLATED {violation}");
    }
    ensure!(violations.is_empty(), "seed {seed}: something that must hold does not");
    Ok(())
}

/// Causes the faults under load. Returns the invariants that do not hold afterwards.
async fn violations_after(faults: &[DrawnFault], rate: u32) -> anyhow::Result<Vec<String>> {
    let mut cluster = lasting_cluster().await;
    let world = World::real_time(cluster.database().await).await;
    place_witness(world.pool()).await;
    let work: Duration = faults.iter().map(|fault| fault.work + fault.lasts).sum();
    let receivers = Receivers::start(Instant::now() + work / 2).await?;
    let load = Load::prepare(&world, &receivers).await;
    let data_dir = tempfile::tempdir()?;
    let services =
        Services::start_behind_proxies(&cluster, &world.database, data_dir.path()).await?;
    services.ready().await?;
    let pace = Pace { responses_per_second: rate, stop: CancellationToken::new() };
    let mut scene = FaultScene {
        cluster: &mut cluster,
        database: &world.database,
        services: &services,
        load: &load,
    };
    let causing = async {
        let caused = scene.cause_all(faults).await;
        pace.stop.cancel();
        caused
    };
    let (acknowledged, caused) = tokio::try_join!(load.run(&pace, &world, &services), causing)?;
    let ended = Instant::now();
    print_caused(&caused);
    let mut violations = Vec::new();
    if let Err(left) = until_settled(world.pool(), REST).await {
        violations.push(left);
    }
    let rested = ended.elapsed();
    for proof in PROOFS {
        if let Err(error) = services.command(proof).await {
            violations.push(format!("{error:#}"));
        }
    }
    services.stop().await?;
    let requests = receivers.requests();
    let run =
        Run { pool: world.pool(), requests: &requests, acknowledged: &acknowledged, lease: LEASE };
    violations.extend(run.violations().await);
    let report = Report::new(&run, &receivers).await?;
    report.print_states(rested);
    if !report.is_clean() {
        violations
            .push("deliveries are lost, doubled without a reason, or sent too often".to_owned());
    }
    Ok(violations)
}

fn parse_kind(name: &str) -> anyhow::Result<FaultKind> {
    let Some(kind) = FaultKind::named(name) else {
        let names = FaultKind::ALL.map(FaultKind::name);
        bail!("the kinds are {}", names.join(", "));
    };
    Ok(kind)
}

fn first_eight() -> [u8; 8] {
    let secret = SystemEntropy.new_secret();
    std::array::from_fn(|place| secret[place])
}
