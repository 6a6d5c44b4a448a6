//! A burst: events reported over HTTP in batches, until every delivery of them has arrived and is
//! recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use eventstore::Clock;
use serde::Serialize;
use tests::Firm;
use tokio::task::JoinSet;
use tokio::time::sleep;
use vault::{Entropy, SystemEntropy};

use crate::activity::submitted_at;
use crate::connection::Connection;
use crate::peer::Peer;
use crate::running::Running;
use crate::usage::CpuEach;

/// Events of a batch, and batches under way at a time: as in `deliveries`.
const BATCH: usize = 100;
const CONNECTIONS: usize = 4;

/// How often to look for arrivals.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// When nothing has arrived for so long, missing deliveries are lost.
const STANDSTILL: Duration = Duration::from_secs(20);

/// The events to report, and the number of subscriptions that each goes to.
#[derive(Clone, Copy)]
pub(crate) struct Burst<'a> {
    pub(crate) firms: &'a [Firm],
    pub(crate) hooks: usize,
    pub(crate) events: usize,
}

/// The figures of a burst.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Sent {
    pub(crate) deliveries: usize,
    /// Until all is recorded.
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    #[serde(flatten)]
    pub(crate) cpu: CpuEach,
    /// Bytes of the write-ahead log for each delivery.
    pub(crate) wal_bytes: f64,
    pub(crate) lost: u64,
    pub(crate) twice: u64,
}

impl Burst<'_> {
    pub(crate) async fn run(self, running: &Running, peer: &mut Peer) -> anyhow::Result<Sent> {
        let deliveries = self.events * self.hooks;
        let batches = self.batches(&running.world.clock);
        peer.reset().await?;
        let wal_before = running.wal_bytes().await?;
        let (before, began) = (running.spent()?, Instant::now());
        report(running, batches).await?;
        arrived(peer, deliveries as u64).await?;
        running.at_rest(STANDSTILL).await?;
        let seconds = began.elapsed().as_secs_f64();
        let cpu = running.spent()?.since(before).each(deliveries);
        let wal_bytes = running.wal_bytes().await? - wal_before;
        let tally = peer.tally().await?;
        Ok(Sent {
            deliveries,
            seconds,
            per_second: deliveries as f64 / seconds,
            cpu,
            wal_bytes: wal_bytes as f64 / deliveries.max(1) as f64,
            lost: (deliveries as u64).saturating_sub(tally.deliveries),
            twice: tally.requests - tally.deliveries,
        })
    }

    /// Of the firms in turn; of so many that not all have one, of some from all over.
    fn batches(self, clock: &Clock) -> Vec<Vec<u8>> {
        let stride = (self.firms.len() / self.events).max(1);
        let line = |number: usize| {
            let firm = &self.firms[number * stride % self.firms.len()];
            format!("{}\n", submitted_at(clock.now(), firm, SystemEntropy.new_id())).into_bytes()
        };
        let lines: Vec<_> = (0..self.events).map(line).collect();
        lines.chunks(BATCH).map(<[Vec<u8>]>::concat).collect()
    }
}

impl Sent {
    /// Whether everything arrived once.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Self { lost, twice, .. } = self;
        ensure!(*lost == 0 && *twice == 0, "{lost} were lost, {twice} came twice");
        Ok(())
    }

    /// The middle one by its rate.
    pub(crate) fn middle(mut all: Vec<Self>) -> Self {
        all.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
        all.get(all.len() / 2).copied().unwrap_or_default()
    }
}

/// Each connection takes the next batch when its last one is answered; doors take turns.
async fn report(running: &Running, batches: Vec<Vec<u8>>) -> anyhow::Result<()> {
    let (next, batches) = (Arc::new(AtomicUsize::new(0)), Arc::new(batches));
    let mut tasks = JoinSet::new();
    for number in 0..CONNECTIONS.max(running.doors.len()) {
        let mut connection = Connection::open(running.doors[number % running.doors.len()]).await?;
        let (next, batches) = (Arc::clone(&next), Arc::clone(&batches));
        let token = running.world.token().to_owned();
        tasks.spawn(async move {
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (answer, body) = connection.report(&token, batch).await?;
                ensure!(answer.ok, "a batch was refused: {}", String::from_utf8_lossy(&body));
            }
            Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Waits until all came, or none comes any more.
async fn arrived(peer: &mut Peer, expected: u64) -> anyhow::Result<()> {
    let (mut last, mut moved) = (0, Instant::now());
    while last < expected && moved.elapsed() < STANDSTILL {
        sleep(LOOK_EVERY).await;
        let now = peer.tally().await?.deliveries;
        if now != last {
            (last, moved) = (now, Instant::now());
        }
    }
    Ok(())
}
