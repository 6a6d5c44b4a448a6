//! `queues`: the cost of a claim, a record and a cancellation when a queue has a past, a length or
//! many lanes: beside a held snapshot, with a long queue to cancel, with the due lanes of a full or
//! a paused host, and beside many hosts with one retry each. Each figure stands beside the figure
//! of a queue without. Last, a key is revoked whose subscription has a long queue that is not
//! spread yet.

mod args;
mod cancelling;
mod held;
mod many_lanes;
mod revoked;
mod scene;

use clap::ValueEnum;
use serde::Serialize;
use tests::cluster_with;

use self::args::QueuePart;
use self::revoked::RevokedFigure;
use self::scene::{Row, Scene};
use crate::service::{SETTINGS, described};

pub(crate) use self::args::Queues;

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
