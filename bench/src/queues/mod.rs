//! `queues`: the cost of a claim, a record and a cancellation when a queue has a past, a length or
//! many lanes: beside a held snapshot, with a long queue to cancel, with the due lanes of a full or
//! a paused host, and beside many hosts with one retry each. Each figure stands beside the figure
//! of a queue without. Last, a key is revoked whose subscription has a long queue that is not
//! spread yet.

mod cancelling;
mod held;
mod many_lanes;
mod revoked;

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, value_parser};
use serde::Serialize;
use tests::{Connections, Firm, Templates, World, cluster_with};
use uuid::Uuid;

use self::revoked::RevokedFigure;
use crate::service::{SETTINGS, described};

/// Where nobody listens: nothing is sent here.
const TARGET: &str = "http://127.0.0.1:7777/hook";

/// How much, and how often.
#[derive(Debug, Args)]
pub(crate) struct Queues {
    /// Deliveries of one lane that end while a snapshot is held.
    #[arg(long, default_value_t = 200_000, value_parser = value_parser!(i32).range(1_000..=2_000_000))]
    finished: i32,
    /// Deliveries of a removed subscription; and of fifty together.
    #[arg(long, default_value_t = 400_000, value_parser = value_parser!(i32).range(50_000..=4_000_000))]
    left: i32,
    /// Only these measurements. Without it, all.
    #[arg(long = "part", value_enum)]
    parts: Vec<QueuePart>,
    /// Hosts with one retry each.
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(i32).range(1_000..=1_000_000))]
    hosts: i32,
    /// Due lanes of a full host, and of a paused one.
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(i32).range(1_000..=1_000_000))]
    lanes: i32,
    /// Unspread occurrences of a subscription whose key is revoked.
    #[arg(long, default_value_t = 500_000, value_parser = value_parser!(i32).range(1_000..=4_000_000))]
    unspread: i32,
    /// Events a second of another firm meanwhile.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u16).range(1..=1_000))]
    rate: u16,
    /// Times of each measurement.
    #[arg(long, default_value_t = 40, value_parser = value_parser!(u32).range(5..=1_000))]
    rounds: u32,
}

/// A measurement of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum QueuePart {
    /// Beside a held snapshot.
    Held,
    /// Long queues of removed subscriptions.
    Cancelling,
    /// Many lanes that cannot be claimed.
    Lanes,
    /// A key is revoked whose subscription has many unspread occurrences.
    Revoked,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    postgres: String,
    finished: i32,
    left: i32,
    lanes: i32,
    hosts: i32,
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<RevokedFigure>,
}

/// A median time without the burden and with it, in milliseconds.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    without_ms: f64,
    with_ms: f64,
    ratio: f64,
}

impl Row {
    fn new(name: &str, without: Vec<Duration>, with: Vec<Duration>) -> Self {
        let without_ms = median_ms(without);
        let with_ms = median_ms(with);
        Self { name: name.to_owned(), without_ms, with_ms, ratio: with_ms / without_ms }
    }
}

/// Measures and prints.
pub(crate) async fn run(command: &Queues) -> anyhow::Result<()> {
    let cluster = cluster_with(&SETTINGS).await;
    let mut rows = Vec::new();
    let mut revoked = None;
    for part in QueuePart::value_variants() {
        if !command.parts.is_empty() && !command.parts.contains(part) {
            continue;
        }
        match part {
            QueuePart::Held => rows.extend(held::measure(&cluster, command).await?),
            QueuePart::Cancelling => rows.extend(cancelling::measure(&cluster, command).await?),
            QueuePart::Lanes => rows.extend(many_lanes::measure(&cluster, command).await?),
            QueuePart::Revoked => revoked = Some(revoked::measure(&cluster, command).await?),
        }
    }
    let Queues { finished, left, lanes, hosts, .. } = *command;
    let scene = Scene::on(&cluster).await;
    let postgres = described(&scene.world.system).await?;
    println!("PostgreSQL {postgres}");
    println!(
        "{:<58} {:>10} {:>10} {:>7}",
        "median of a transaction, in ms", "without", "with", "ratio"
    );
    for Row { name, without_ms, with_ms, ratio } in &rows {
        println!("{name:<58} {without_ms:>10.2} {with_ms:>10.2} {ratio:>7.2}");
    }
    revoked.iter().for_each(RevokedFigure::print);
    let report = Report { bench: "queues", postgres, finished, left, lanes, hosts, rows, revoked };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// A service on databases of its own, and a firm with a subscription.
struct Scene {
    world: World,
    firm: Firm,
    hook_id: Uuid,
}

impl Scene {
    async fn on(cluster: &Templates) -> Self {
        let world = World::connected(cluster.database().await, Connections::Apart).await;
        let firm = world.firm().await;
        let hook_id = world.subscribe(&firm, TARGET).await;
        Self { world, firm, hook_id }
    }
}

/// How long something takes.
async fn timed<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<(T, Duration), E> {
    let began = Instant::now();
    let done = work.await?;
    Ok((done, began.elapsed()))
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e3
}
