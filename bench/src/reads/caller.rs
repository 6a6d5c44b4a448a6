//! The caller: one thread in a process of its own, so that its CPU is not the service's. The caller
//! makes the calls of each [`Job`] on its standard input, says the [`Calls`], and ends with its
//! standard input.
//!
//! Calls at a rate are due by a thread that does nothing else: the runtime's timer counts in whole
//! milliseconds, which is more than a call takes.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::job::{Calls, Job};
use crate::connection::Connection;
use crate::latency::Latency;
use crate::receiver::say;

/// Makes calls until standard input ends.
pub(crate) fn run() -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    for line in std::io::stdin().lock().lines() {
        let calls = runtime.block_on(make(serde_json::from_str(&line?)?))?;
        say(&serde_json::to_string(&calls)?)?;
    }
    Ok(())
}

/// Opens the connections, and makes the calls on them.
async fn make(job: Job) -> anyhow::Result<Calls> {
    let mut connections = Vec::with_capacity(job.connections);
    for _ in 0..job.connections {
        connections.push(Connection::open(job.address).await?);
    }
    let turns = Arc::new(Turns::new(job));
    if let Some(rate) = turns.job.rate {
        let turns = Arc::clone(&turns);
        std::thread::spawn(move || turns.fall_due(rate));
    }
    let mut tasks = JoinSet::new();
    for connection in connections {
        tasks.spawn(take_turns(connection, Arc::clone(&turns)));
    }
    let (mut calls, mut latencies) = (Calls::default(), Vec::new());
    while let Some(ended) = tasks.join_next().await {
        let (made, took) = ended??;
        calls.calls += made.calls;
        calls.refused += made.refused;
        calls.body_bytes += made.body_bytes;
        latencies.extend(took);
    }
    Ok(Calls { took: turns.began.elapsed(), latency: Latency::new(latencies), ..calls })
}

/// Makes calls on one connection as long as there are any.
async fn take_turns(
    mut connection: Connection,
    turns: Arc<Turns>,
) -> anyhow::Result<(Calls, Vec<u64>)> {
    let (mut calls, mut latencies) = (Calls::default(), Vec::new());
    let Job { path, keys, .. } = &turns.job;
    while let Some((number, due)) = turns.next().await {
        let answer = connection.get(path, &keys[number % keys.len()]).await?;
        latencies.push(u64::try_from(due.elapsed().as_micros())?);
        calls.calls += 1;
        calls.refused += usize::from(!answer.ok);
        calls.body_bytes += u64::try_from(answer.body_bytes)?;
    }
    Ok((calls, latencies))
}

/// Whose turn it is.
struct Turns {
    job: Job,
    began: Instant,
    next: AtomicUsize,
    /// Of a job with a rate: calls that are due, and not begun.
    due: Semaphore,
}

impl Turns {
    fn new(job: Job) -> Self {
        Self { job, began: Instant::now(), next: AtomicUsize::new(0), due: Semaphore::new(0) }
    }

    /// The next call, and since when it is due.
    async fn next(&self) -> Option<(usize, Instant)> {
        if self.job.rate.is_some() {
            self.due.acquire().await.ok()?.forget();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let due = self.job.rate.map_or_else(Instant::now, |rate| self.due_at(rate, number));
        (number < self.job.calls_max && due < self.end()).then_some((number, due))
    }

    /// Lets the calls of a job fall due, each at its time; then lets every connection find the end.
    fn fall_due(&self, rate: u32) {
        for number in 0..self.job.calls_max {
            let due = self.due_at(rate, number);
            if due >= self.end() {
                break;
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.due.add_permits(1);
        }
        self.due.add_permits(self.job.connections);
    }

    fn due_at(&self, rate: u32, number: usize) -> Instant {
        self.began + Duration::from_secs_f64(number as f64 / f64::from(rate))
    }

    fn end(&self) -> Instant {
        self.began + Duration::from_secs(self.job.seconds.into())
    }
}
