//! Reports at a pace that does not wait for answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::ensure;
use eventstore::Clock;
use tests::{Firm, World};
use tokio::task::{JoinSet, spawn_blocking};
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

use crate::activity::submitted_at;
use crate::connection::Connection;

/// Connections that take turns, at most: that many reports may be under way.
const CONNECTIONS: usize = 32;

/// By how much a timer of the runtime is late, at most.
const TIMERS_ARE_LATE: Duration = Duration::from_millis(2);

/// How many reports, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    pub(crate) time: Duration,
}

/// An event that was reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) firm_id: Uuid,
    pub(crate) response_id: Uuid,
    /// When it should have been.
    pub(crate) due: Instant,
    /// When it was: a timer that was late, or a connection that was not free.
    pub(crate) sent: Instant,
}

/// Who reports.
#[derive(Clone)]
pub(crate) struct Reporter {
    door: SocketAddr,
    token: String,
    clock: Clock,
}

/// What is to be reported, by whichever connection is free.
struct Plan {
    clock: Clock,
    firms: Vec<Firm>,
    began: Instant,
    per_second: f64,
    last: Last,
    next: AtomicUsize,
}

/// Where a plan ends.
enum Last {
    Number(usize),
    Time(Instant),
}

impl Reporter {
    /// Who reports at that door of this world.
    pub(crate) fn of(world: &World, door: SocketAddr) -> Self {
        Self { door, token: world.token().to_owned(), clock: world.clock.clone() }
    }

    /// Reports responses of these firms in turn.
    pub(crate) async fn steadily(
        &self,
        firms: &[Firm],
        pace: Pace,
    ) -> anyhow::Result<Vec<Reported>> {
        self.steadily_from(Instant::now(), firms, pace).await
    }

    /// The same, the first of them due then, even if that is over.
    pub(crate) async fn steadily_from(
        &self,
        began: Instant,
        firms: &[Firm],
        Pace { per_second, time }: Pace,
    ) -> anyhow::Result<Vec<Reported>> {
        let (clock, firms, next) = (self.clock.clone(), firms.to_vec(), AtomicUsize::new(0));
        let last = Last::Number((per_second * time.as_secs_f64()) as usize);
        let plan = Plan { clock, firms, began, per_second, last, next };
        // Each has something to say within a second: the door waits 10 s for that.
        self.all(plan, CONNECTIONS.min(per_second.ceil() as usize)).await
    }

    /// As many as are taken in, for so long: each connection reports when its last report is answered.
    pub(crate) async fn flat_out(
        &self,
        firms: &[Firm],
        time: Duration,
    ) -> anyhow::Result<Vec<Reported>> {
        let (clock, firms) = (self.clock.clone(), firms.to_vec());
        let (began, next) = (Instant::now(), AtomicUsize::new(0));
        let last = Last::Time(began + time);
        let plan = Plan { clock, firms, began, per_second: f64::INFINITY, last, next };
        self.all(plan, CONNECTIONS).await
    }

    async fn all(&self, plan: Plan, connections: usize) -> anyhow::Result<Vec<Reported>> {
        let (plan, mut tasks, mut reported) = (Arc::new(plan), JoinSet::new(), Vec::new());
        for _ in 0..connections {
            tasks.spawn(self.clone().one_by_one(Arc::clone(&plan)));
        }
        while let Some(ended) = tasks.join_next().await {
            reported.extend(ended??);
        }
        Ok(reported)
    }

    async fn one_by_one(self, plan: Arc<Plan>) -> anyhow::Result<Vec<Reported>> {
        let (mut connection, mut all) = (Connection::open(self.door).await?, Vec::new());
        while let Some((mut reported, line)) = plan.take() {
            wait_until(reported.due).await?;
            reported.sent = Instant::now();
            let (answer, body) = connection.report(&self.token, &line).await?;
            ensure!(answer.ok, "a report was refused: {}", String::from_utf8_lossy(&body));
            all.push(reported);
        }
        Ok(all)
    }
}

/// The runtime's timers go by whole milliseconds, and are late by one or two: the last of it is waited for by a
/// thread, whose timer is the kernel's.
async fn wait_until(due: Instant) -> anyhow::Result<()> {
    if let Some(early) = due.checked_sub(TIMERS_ARE_LATE).filter(|early| *early > Instant::now()) {
        tokio::time::sleep_until(early.into()).await;
    }
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        spawn_blocking(move || sleep(left)).await?;
    }
    Ok(())
}

impl Plan {
    fn take(&self) -> Option<(Reported, Vec<u8>)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let more = match self.last {
            Last::Number(count) => number < count,
            Last::Time(end) => Instant::now() < end,
        };
        more.then(|| {
            let firm = &self.firms[number % self.firms.len()];
            let response_id = SystemEntropy.id();
            let due = self.began + Duration::from_secs_f64(number as f64 / self.per_second);
            let line = submitted_at(self.clock.now(), firm, response_id).to_string().into_bytes();
            (Reported { firm_id: firm.id, response_id, due, sent: due }, line)
        })
    }
}
