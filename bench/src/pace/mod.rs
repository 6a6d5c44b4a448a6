//! Reports of submissions, each by a call of its own: at a pace that does not wait for answers, or
//! as fast as they are answered.

mod on_time;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use eventstore::Clock;
use tests::{Firm, World};
use tokio::task::JoinSet;
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

use self::on_time::Free;
use crate::activity::submitted_at;
use crate::connection::Connection;

/// Connections that report as fast as they are answered.
const CONNECTIONS: usize = 32;

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
    /// When it was: a timer was late, a connection was opened, or as many as may be were under way.
    pub(crate) sent: Instant,
}

/// A caller that reports.
#[derive(Clone)]
pub(crate) struct Reporter {
    door: SocketAddr,
    token: String,
    clock: Clock,
    /// Connections that are kept from one report to the next.
    free: Arc<Free>,
}

impl Reporter {
    /// A caller that reports at this door of this world.
    pub(crate) fn new(world: &World, door: SocketAddr) -> Self {
        let (token, clock) = (world.token().to_owned(), world.clock.clone());
        Self { door, token, clock, free: Arc::default() }
    }

    /// Reports responses of these firms in turn.
    pub(crate) async fn steadily(
        &self,
        firms: &[Firm],
        pace: Pace,
    ) -> anyhow::Result<Vec<Reported>> {
        self.steadily_from(Instant::now(), firms, pace).await
    }

    /// Reports responses of these firms in turn, the first of them due then, even if this instant
    /// is over.
    pub(crate) async fn steadily_from(
        &self,
        began: Instant,
        firms: &[Firm],
        Pace { per_second, time }: Pace,
    ) -> anyhow::Result<Vec<Reported>> {
        let count = (per_second * time.as_secs_f64()) as u32;
        let due = move |number| began + Duration::from_secs_f64(f64::from(number) / per_second);
        on_time::report(self, firms, (0..count).map(due)).await
    }

    /// Reports as many as are taken in, for so long: each connection reports when its last report
    /// is answered.
    pub(crate) async fn flat_out(
        &self,
        firms: &[Firm],
        time: Duration,
    ) -> anyhow::Result<Vec<Reported>> {
        let (end, mut tasks, mut reported) = (Instant::now() + time, JoinSet::new(), Vec::new());
        for first in 0..CONNECTIONS {
            let (reporter, firms) = (self.clone(), firms.to_vec());
            tasks.spawn(async move {
                let mut connection = Connection::open(reporter.door).await?;
                let (mut all, mut firms) = (Vec::new(), firms.iter().cycle().skip(first));
                while let Some(firm) = firms.next().filter(|_| Instant::now() < end) {
                    all.push(reporter.report(&mut connection, firm, Instant::now()).await?);
                }
                anyhow::Ok(all)
            });
        }
        while let Some(ended) = tasks.join_next().await {
            reported.extend(ended??);
        }
        Ok(reported)
    }

    /// Reports a response of this firm, which was due then.
    async fn report(
        &self,
        connection: &mut Connection,
        firm: &Firm,
        due: Instant,
    ) -> anyhow::Result<Reported> {
        let (response_id, sent) = (SystemEntropy.new_id(), Instant::now());
        let line = submitted_at(self.clock.now(), firm, response_id).to_string().into_bytes();
        let (answer, body) = connection.report(&self.token, &line).await?;
        ensure!(answer.ok, "a report was refused: {}", String::from_utf8_lossy(&body));
        Ok(Reported { firm_id: firm.id, response_id, due, sent })
    }
}
