//! The product: one thread in a process of its own, so that its CPU and its memory are not the
//! service's. Each line of its standard input is an [`Order`]. An order to write is answered with
//! [`Written`]. A [`Job`] is prepared, the next line lets it report, and the answer is
//! [`Reported`]. The process ends with its standard input.
//!
//! [`Written`]: super::feed::Written

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::feed::Feed;
use crate::connection::Connection;
use crate::receiver::say;

/// An order to the product.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Write the next so many activities to a file.
    Write { activities: usize, file: PathBuf },
    /// Report them.
    Report(Job),
}

/// A file to report, and the way to report it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) file: PathBuf,
    pub(crate) connections: usize,
    pub(crate) per_batch: usize,
}

/// The sum of the service's answers.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Reported {
    pub(super) accepted: usize,
    /// Duplicates and stale reports.
    pub(super) unchanged: usize,
    /// The time of the batch that took longest.
    pub(super) slowest: Duration,
}

/// The answer to one batch.
#[derive(Debug, Deserialize)]
struct Taken {
    accepted: usize,
    duplicates: usize,
    stale: usize,
}

/// Reports until standard input ends.
pub(crate) fn run() -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let (mut feed, mut lines) = (Feed::new()?, std::io::stdin().lock().lines());
    while let Some(line) = lines.next() {
        let done = match serde_json::from_str(&line?)? {
            Order::Write { activities, file } => {
                serde_json::to_string(&feed.write(activities, &file)?)?
            }
            Order::Report(job) => {
                let connections = runtime.block_on(open(&job))?;
                let batches = batches(&job)?;
                say("ready")?;
                lines.next().context("standard input ended before the report")??;
                let reported = runtime.block_on(report(connections, job.token, batches))?;
                serde_json::to_string(&reported)?
            }
        };
        say(&done)?;
    }
    Ok(())
}

async fn open(job: &Job) -> anyhow::Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(job.connections);
    for _ in 0..job.connections {
        connections.push(Connection::open(job.address).await?);
    }
    Ok(connections)
}

fn batches(job: &Job) -> anyhow::Result<Vec<Vec<u8>>> {
    let lines = std::fs::read(&job.file)?;
    let lines: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    Ok(lines.chunks(job.per_batch).map(<[&[u8]]>::concat).collect())
}

/// Each connection takes the next batch when its last one is answered.
async fn report(
    connections: Vec<Connection>,
    token: String,
    batches: Vec<Vec<u8>>,
) -> anyhow::Result<Reported> {
    let (next, token, batches) = (Arc::new(AtomicUsize::new(0)), token, Arc::new(batches));
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        let (next, token, batches) = (Arc::clone(&next), token.clone(), Arc::clone(&batches));
        tasks.spawn(async move {
            let mut reported = Reported::default();
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                reported.add(one(&mut connection, &token, batch).await?);
            }
            anyhow::Ok(reported)
        });
    }
    let mut all = Reported::default();
    while let Some(ended) = tasks.join_next().await {
        all.add(ended??);
    }
    Ok(all)
}

async fn one(connection: &mut Connection, token: &str, batch: &[u8]) -> anyhow::Result<Reported> {
    let began = Instant::now();
    let (answer, body) = connection.report(token, batch).await?;
    ensure!(answer.ok, "a batch was refused: {}", String::from_utf8_lossy(&body));
    let Taken { accepted, duplicates, stale } = serde_json::from_slice(&body)?;
    Ok(Reported { accepted, unchanged: duplicates + stale, slowest: began.elapsed() })
}

impl Reported {
    fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.unchanged += other.unchanged;
        self.slowest = self.slowest.max(other.slowest);
    }
}
